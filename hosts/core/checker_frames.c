// SPDX-License-Identifier: Apache-2.0
// Frames at the NIC's two ports: which packet a report or a delivery belongs to.
#include <stdlib.h>
#include <string.h>

#include "checker_internal.h"
#include "wire.h"

enum {
  // What follows Ethernet, IPv4 and UDP starts here.
  BTH_AT = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES,
  RETH_AT = BTH_AT + BTH_BYTES,
  DELIVERY_AT = RETH_AT + RETH_BYTES,
  TRIMMED_IP_BYTES = IPV4_BYTES + UDP_BYTES + BTH_BYTES + RETH_BYTES,
};

static inline uint64_t word_at(const uint8_t *data) {
  uint64_t word;
  memcpy(&word, data, sizeof word);
  return word;
}

// From EtherType to total length, without ECN.
static inline uint64_t ip_at(const uint8_t *data) {
  static const uint8_t mask[8] = {0xff, 0xff, 0xff, 0xfc, 0xff, 0xff, 0, 0};
  return word_at(data + 12) & word_at(mask);
}

// Destination port and length.
static inline uint32_t udp_at(const uint8_t *data) {
  uint32_t word;
  memcpy(&word, data + 36, sizeof word);
  return word;
}

// --- the ring

static bool is_before(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }

// Makes room for one more at `full`. False: no memory.
static bool __attribute__((noinline)) make_room(checker_t *c) {
  while (is_before(c->delivered, c->reported) && !(c->ring[c->delivered & c->ring_mask].state & ARRIVAL_AWAITED))
    c->delivered++;
  uint32_t head = is_before(c->delivered, c->reported) ? c->delivered : c->reported;
  uint32_t size = c->ring_mask + 1;
  if (c->tail - head == size) {
    arrival_t *ring = calloc(2 * (size_t)size, sizeof *ring);
    if (ring == NULL) return false;
    for (uint32_t i = head; i != c->tail; i++) ring[i & (2 * size - 1)] = c->ring[i & c->ring_mask];
    free(c->ring);
    c->ring = ring;
    size *= 2;
    c->ring_mask = size - 1;
  }
  c->full = head + size;
  return true;
}

bool checker_push(checker_t *c, const arrival_t *a) {
  if (c->tail == c->full && !make_room(c)) return false;
  c->ring[c->tail++ & c->ring_mask] = *a;
  c->undecided++;
  return true;
}

void checker_pass(checker_t *c, uint64_t now, uint32_t to) {
  for (; c->delivered != to; c->delivered++) {
    arrival_t *a = &c->ring[c->delivered & c->ring_mask];
    if (a->state & ARRIVAL_AWAITED) {
      // An acknowledged range of which the host has nothing was not forgiven.
      if (a->kind == ARRIVAL_TRIMMED)
        checker_violate(c, now, CHECKER_ACKNOWLEDGED_HOLE, a, from_network(a->delivery), 0);
      else
        checker_name_delivery(c, now, a, UINT32_MAX, from_network(a->delivery), 0);
    }
    a->state |= ARRIVAL_PASSED;
  }
}

enum admission {
  ADMIT_NOT,   // the rules drop the packet
  ADMIT_ONLY,  // answered without a flow: docs/dataplane.md, unknown flow
  ADMIT_FLOW,
};

// What becomes of a packet, and its flow, which it may begin.
static enum admission admit(checker_t *c, uint64_t now, const arrival_t *a, checked_flow_t **of) {
  uint32_t start = arrival_start(a), length = arrival_length(a);
  uint64_t end = (uint64_t)start + length;
  if (start % BLOCK_BYTES != 0 || length == 0 || length > MAX_RANGE_BLOCKS * BLOCK_BYTES ||
      (length % BLOCK_BYTES != 0 && !a->solicited) || end > (UINT64_C(1) << 32) - BLOCK_BYTES)
    return ADMIT_NOT;
  uint32_t qp = arrival_qp(a);
  checked_flow_t *flow = *of = &c->flows[qp & (FLOW_SLOTS - 1)];
  step_slot_t *slot = &c->slots[qp >> (OWNER_WIDTH + FLOW_SLOT_WIDTH)];
  if (flow->qp != qp) {
    uint32_t age = ((qp >> FLOW_SLOT_WIDTH) - (flow->qp >> FLOW_SLOT_WIDTH)) % OWNERS;
    if (flow->qp != NO_FLOW && age >= OWNERS / 2) return ADMIT_NOT;
    if (flow->qp != NO_FLOW && age == 0) {
      // The same flow under another step slot.
      checker_violate(c, now, CHECKER_UNKNOWN_FLOW, a, flow->qp, qp);
      flow->length = 0;
      return ADMIT_FLOW;
    }
    if (a->kind == ARRIVAL_TRIMMED && slot->present && !slot->entry.trimmed_starts_flow) return ADMIT_ONLY;
    checker_is_settled(c, now, flow);
    checker_drop_maps(c, flow);
    bool expected = flow->next_qp == qp;
    uint32_t message = expected ? flow->next_length : checker_past_length(c, qp);
    bool gradient = a->tos >> 2 == c->config.gradient_dscp || a->tos >> 2 == c->config.gradient_trimmed_dscp;
    *flow = (checked_flow_t){
        .qp = qp,
        .forgotten = !expected || flow->next_forgotten,
        .length = message,
        .blocks = message / BLOCK_BYTES + (message % BLOCK_BYTES != 0),
        .next_qp = expected ? NO_FLOW : flow->next_qp,
        .next_length = expected ? 0 : flow->next_length,
        .next_forgotten = !expected && flow->next_forgotten,
        .slot = slot,
        .plain.id = UINT64_MAX,
        .eligible = gradient && slot->present && slot->entry.p_ppm > 0 && slot->entry.eligible,
    };
    if (message != 0)
      c->stats.messages++;
    else
      checker_violate(c, now, CHECKER_UNKNOWN_FLOW, a, flow->next_qp, qp);
  }
  if (flow->tag == 0 && slot->present) flow->tag = slot->entry.step_tag;
  uint32_t last = (uint32_t)((end - 1) / BLOCK_BYTES);
  return last / WORD_BLOCKS < flow->rcv_nxt / WORD_BLOCKS + WINDOW_WORDS ? ADMIT_FLOW : ADMIT_NOT;
}

arrival_t *checker_next(checker_t *c, uint64_t now, checked_flow_t **flow) {
  for (; c->reported != c->tail; c->reported++) {
    arrival_t *a = &c->ring[c->reported & c->ring_mask];
    checked_flow_t *found = NULL;
    if (a->state & ARRIVAL_EAGER) return a;
    if (a->kind == ARRIVAL_CONTROL) {
      checker_apply(c, now, a->change);
    } else {
      enum admission admission = admit(c, now, a, &found);
      if (admission != ADMIT_NOT) {
        if (flow != NULL) *flow = admission == ADMIT_FLOW ? found : NULL;
        return a;
      }
      c->stats.dropped_packets++;
      if (a->delivery != 0) checker_name_delivery(c, now, a, UINT32_MAX, 0, from_network(a->delivery));
    }
    a->state |= ARRIVAL_JUDGED;
    c->undecided--;
  }
  return NULL;
}

// --- frames

enum { REPORT_BYTES = RETH_AT + AETH_BYTES + FEEDBACK_BYTES, DELIVERED_BYTES = DELIVERY_AT + DELIVERY_BYTES };

// Data or a trimmed header from the wire.
static int __attribute__((noinline)) arrive(checker_t *c, uint64_t now, const uint8_t *data, uint32_t wire_bytes) {
  arrival_t a = {
      .id = word_at(data + BTH_AT + BTH_CONGESTION),
      .range = word_at(data + RETH_AT),
      .source = word_at(data + RETH_AT + 8),
      .wire_bytes = wire_bytes,
      .udp = udp_at(data),
      .ip = ip_at(data),
      .tos = data[15],
      .solicited = data[BTH_AT + BTH_FLAGS] & BTH_SOLICITED,
  };
  uint64_t payload = arrival_length(&a);
  if (c->trimmed_dscps >> (a.tos >> 2) & 1) {
    a.kind = ARRIVAL_TRIMMED;
    payload = 0;
  }
  // docs/dataplane.md, malformed: besides the lengths, the high parts are 0.
  if (get16(data + 16) != wire_bytes - ETHERNET_BYTES ||
      get16(data + 38) != wire_bytes - ETHERNET_BYTES - IPV4_BYTES || DELIVERY_AT + payload != wire_bytes || from_network(a.range) >> 32 != 0 ||
      from_network(a.source) >> 56 != 0) {
    c->stats.malformed++;
    return 0;
  }
  if (checker_push(c, &a)) return 0;
  checker_violate(c, now, CHECKER_INCOMPLETE, &a, 0, 0);
  return 1;
}

// The common case, judged at once, with the same outcome as by checker_judge: the
// whole packet after the last one, not the end of its message, of a flow without
// holes, under a step that is there or in none, and nothing before it undecided.
// False: it is another; nothing has changed then.
static inline bool is_plain_arrival(checker_t *c, const uint8_t *data, uint32_t wire_bytes) {
  uint64_t id = get64(data + BTH_AT + BTH_CONGESTION);
  checked_flow_t *flow = &c->flows[(id >> 32) & (FLOW_SLOTS - 1)];
  plain_t *plain = &flow->plain;
  uint64_t start = get64(data + RETH_AT);
  if (id != plain->id || start != plain->start || start >= plain->end || get64(data + RETH_AT + 8) != plain->source ||
      wire_bytes != plain->wire_bytes || ip_at(data) != plain->ip || udp_at(data) != plain->udp ||
      !frame_is_whole_udp(data) || data[BTH_AT] != OPCODE_WRITE_ONLY || data[BTH_AT + BTH_FLAGS] >= BTH_SOLICITED ||
      c->undecided != 0 || c->tail == c->full || flow->tag != flow->slot->live_tag)
    return false;
  uint32_t length = (uint32_t)plain->source;
  step_slot_t *slot = flow->slot;
  uint32_t bits = (data[15] & 3) == ECN_CE ? slot->echo : 0;
  if (flow->eligible) {
    checker_step_stats_t *books = &slot->books;
    books->received_bytes += length;
    books->reports++;
    if (__builtin_expect((int64_t)(books->forgiven_bytes + books->outstanding_bytes) > slot->allowance, 0)) {
      bits |= slot->exhausted_flags;
      books->exhausted_reports += (slot->exhausted_flags & BTH_EXHAUSTED) != 0;
    } else {
      bits |= slot->flags;
    }
  }
  c->stats.received_bytes += length;
  flow->rcv_nxt += plain->blocks;
  plain->start = start + length;
  plain->id = id + 1;
  arrival_t *a = &c->ring[c->tail++ & c->ring_mask];
  a->id = word_at(data + BTH_AT + BTH_CONGESTION);
  a->range = word_at(data + RETH_AT);
  a->source = word_at(data + RETH_AT + 8);
  a->delivery = plain->delivery;
  a->due = plain->due++ | (uint64_t)bits << 56;
  a->wire_bytes = wire_bytes;
  a->kind = ARRIVAL_DATA;
  a->state = ARRIVAL_EAGER | ARRIVAL_JUDGED | ARRIVAL_AWAITED;
  return true;
}

static bool is_answer_to(const arrival_t *a, uint64_t id) {
  return (id & UINT64_C(0x00ffffff00ffffff)) == arrival_answer(a);
}

// What the report on an eager packet must be.
static report_t due_of(const arrival_t *a) {
  uint64_t start = arrival_start(a), length = arrival_length(a);
  return (report_t){
      .id = a->due,
      .answer = (uint64_t)SYNDROME_ACK << 56 | (start + length),
      .range = start << 32 | length,
  };
}

static bool is_as_due(const report_t *due, const report_t *seen) {
  return ((due->id ^ seen->id) & CHECKER_REPORT_MASK) == 0 && due->answer == seen->answer && due->range == seen->range;
}

// Takes the packet `a` from the reports' queue.
static void reported(checker_t *c, arrival_t *a) {
  if (!(a->state & ARRIVAL_EAGER)) c->undecided--;
  a->state |= ARRIVAL_JUDGED;
  c->reported++;
}

static int __attribute__((noinline)) report(checker_t *c, uint64_t now, const uint8_t *data, uint32_t wire_bytes) {
  uint64_t before = c->stats.violations;
  report_t seen = {
      .id = get64(data + BTH_AT + BTH_CONGESTION),
      .answer = get64(data + RETH_AT),
      .range = get64(data + RETH_AT + 8),
  };
  checked_flow_t *flow = NULL;
  arrival_t *a = checker_next(c, now, &flow);
  while (a != NULL && !is_answer_to(a, seen.id)) {
    uint32_t later = c->reported + 1;
    while (later != c->tail && (c->ring[later & c->ring_mask].kind == ARRIVAL_CONTROL ||
                                !is_answer_to(&c->ring[later & c->ring_mask], seen.id)))
      later++;
    if (later == c->tail) {
      a = NULL;
      break;
    }
    // Answers come in order, so this packet's will not come any more.
    checker_violate(c, now, CHECKER_UNANSWERED, a, 0, 0);
    reported(c, a);
    a = checker_next(c, now, &flow);
  }
  if (a == NULL) {
    arrival_t nothing = {
        .id = to_network(seen.id), .range = to_network(seen.range >> 32), .source = to_network(seen.range & UINT32_MAX)};
    checker_violate(c, now, CHECKER_STRAY_REPORT, &nothing, 0, seen.answer);
    return 1;
  }
  c->stats.reports++;
  if (wire_bytes != REPORT_BYTES) checker_violate(c, now, CHECKER_REPORT_FIELD, a, REPORT_BYTES, wire_bytes);
  if (a->state & ARRIVAL_EAGER) {
    report_t due = due_of(a);
    if (!is_as_due(&due, &seen)) checker_name_report(c, now, a, &due, &seen);
  } else if (flow == NULL) {
    checker_judge_unknown(c, now, a, &seen);
  } else if (flow->length != 0) {
    checker_judge(c, now, a, flow, &seen);
  }
  reported(c, a);
  // A step that changed behind this packet has changed now.
  if (c->undecided > 0) checker_next(c, now, NULL);
  return c->stats.violations != before;
}

static int __attribute__((noinline)) deliver(checker_t *c, uint64_t now, const uint8_t *data, uint32_t wire_bytes) {
  arrival_t seen = {
      .id = word_at(data + BTH_AT + BTH_CONGESTION),
      .range = word_at(data + RETH_AT),
      .source = word_at(data + RETH_AT + 8),
      .delivery = word_at(data + DELIVERY_AT),
  };
  uint64_t before = c->stats.violations;
  uint32_t at = c->delivered;
  arrival_t *a = NULL;
  for (; at != c->tail; at++) {
    a = &c->ring[at & c->ring_mask];
    if (a->id == seen.id && a->range == seen.range && a->source == seen.source && a->kind != ARRIVAL_CONTROL &&
        (!(a->state & ARRIVAL_JUDGED) || a->state & ARRIVAL_AWAITED))
      break;
  }
  if (at == c->tail) {
    // Perhaps one that was delivered before, or not to be, or whose blocks were.
    const checked_flow_t *flow = &c->flows[arrival_qp(&seen) & (FLOW_SLOTS - 1)];
    bool settled = flow->qp == arrival_qp(&seen) && arrival_start(&seen) / BLOCK_BYTES < flow->rcv_nxt;
    for (uint32_t i = 0; i <= c->ring_mask && !settled; i++)
      settled = c->ring[i].id == seen.id && c->ring[i].range == seen.range && c->ring[i].source == seen.source;
    checker_violate(c, now, settled ? CHECKER_DOUBLE_DELIVERY : CHECKER_STRAY_DELIVERY, &seen, 0,
                    from_network(seen.delivery));
    return 1;
  }
  checker_pass(c, now, at);
  c->delivered++;
  c->stats.deliveries++;
  // A trimmed header has no payload, and neither has what is told of it.
  if (wire_bytes != a->wire_bytes + DELIVERY_BYTES)
    checker_violate(c, now, CHECKER_WRONG_DELIVERY, a, a->wire_bytes + DELIVERY_BYTES, wire_bytes);
  if (a->state & ARRIVAL_AWAITED && a->delivery != seen.delivery) {
    uint64_t due = from_network(a->delivery);
    checker_name_delivery(c, now, a, (uint32_t)due, due, from_network(seen.delivery));
  }
  a->delivery = seen.delivery;
  a->state = (uint8_t)((a->state & ~ARRIVAL_AWAITED) | ARRIVAL_DELIVERED);
  return c->stats.violations != before;
}

// The headers of a frame that matters are not all here.
static int __attribute__((noinline)) not_captured(checker_t *c, uint64_t now, uint32_t needed, uint32_t bytes, uint32_t wire_bytes) {
  if (wire_bytes < needed) {
    c->stats.malformed++;
    return 0;
  }
  checker_violate(c, now, CHECKER_INCOMPLETE, NULL, needed, bytes);
  return 1;
}

static int __attribute__((noinline)) wire_out(checker_t *c, uint64_t now, const uint8_t *data, uint32_t bytes,
                                              uint32_t wire_bytes) {
  uint8_t opcode = data[BTH_AT];
  if (!frame_is_roce(data)) return 0;
  c->stats.notifications += opcode == OPCODE_CNP;
  if (opcode != OPCODE_ACKNOWLEDGE) return 0;
  return bytes < REPORT_BYTES ? not_captured(c, now, REPORT_BYTES, bytes, wire_bytes)
                              : report(c, now, data, wire_bytes);
}

// The common case of wire_out: the report on the oldest packet, as it is due.
static int __attribute__((noinline)) plain_out(checker_t *c, uint64_t now, const uint8_t *data, uint32_t bytes,
                                               uint32_t wire_bytes) {
  if (data[BTH_AT] == OPCODE_WRITE_ONLY) return 0;  // the host's own
  const arrival_t *a = &c->ring[c->reported & c->ring_mask];
  if (bytes < REPORT_BYTES || wire_bytes != REPORT_BYTES || c->reported == c->tail || !(a->state & ARRIVAL_EAGER))
    return wire_out(c, now, data, bytes, wire_bytes);
  uint64_t left = a->due ^ get64(data + BTH_AT + BTH_CONGESTION);
  if ((left & CHECKER_REPORT_MASK) != 0) return wire_out(c, now, data, bytes, wire_bytes);
  uint64_t start = arrival_start(a), length = arrival_length(a);
  if (get64(data + RETH_AT + 8) != (start << 32 | length)) return wire_out(c, now, data, bytes, wire_bytes);
  if (get64(data + RETH_AT) != ((uint64_t)SYNDROME_ACK << 56 | (start + length)))
    return wire_out(c, now, data, bytes, wire_bytes);
  c->reported++;
  c->stats.reports++;
  return 0;
}

static int __attribute__((noinline)) wire_in(checker_t *c, uint64_t now, const uint8_t *data, uint32_t bytes,
                                             uint32_t wire_bytes) {
  if (bytes >= DELIVERY_AT && is_plain_arrival(c, data, wire_bytes)) return 0;
  if (data[BTH_AT] != OPCODE_WRITE_ONLY || !frame_is_roce(data)) return 0;
  return bytes < DELIVERY_AT ? not_captured(c, now, DELIVERY_AT, bytes, wire_bytes) : arrive(c, now, data, wire_bytes);
}

int checker_wire(void *context, uint64_t now, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes) {
  if (bytes < RETH_AT) return 0;
  return outgoing ? plain_out(context, now, data, bytes, wire_bytes) : wire_in(context, now, data, bytes, wire_bytes);
}

int checker_host(void *context, uint64_t now, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes) {
  checker_t *c = context;
  if (!outgoing || bytes < RETH_AT || data[BTH_AT] != OPCODE_WRITE_ONLY) return 0;
  if (bytes >= DELIVERED_BYTES && c->delivered != c->tail) {
    // The common case of `deliver`: the oldest packet, as it is due.
    arrival_t *a = &c->ring[c->delivered & c->ring_mask];
    if (a->id == word_at(data + BTH_AT + BTH_CONGESTION) && a->range == word_at(data + RETH_AT) &&
        a->source == word_at(data + RETH_AT + 8) && a->delivery == word_at(data + DELIVERY_AT) &&
        a->wire_bytes + DELIVERY_BYTES == wire_bytes && a->state == (ARRIVAL_EAGER | ARRIVAL_JUDGED | ARRIVAL_AWAITED)) {
      a->state = ARRIVAL_EAGER | ARRIVAL_JUDGED | ARRIVAL_DELIVERED;
      c->delivered++;
      c->stats.deliveries++;
      return 0;
    }
  }
  if (!frame_is_roce(data)) return 0;
  return bytes < DELIVERED_BYTES ? not_captured(c, now, DELIVERED_BYTES, bytes, wire_bytes)
                                 : deliver(c, now, data, wire_bytes);
}
