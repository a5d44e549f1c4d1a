// SPDX-License-Identifier: Apache-2.0
// The sending half of a message: segmentation, selective repeat, pacing, the
// retransmission timeout.
#include <stdlib.h>
#include <string.h>

#include "bitmap.h"
#include "internal.h"

static uint64_t tick_ceiling(uint64_t tick) { return (tick + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT; }

static uint32_t block_ceiling(uint32_t bytes) { return bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0); }

// Bytes of `count` blocks, of which the message's last is one or is not.
static uint32_t block_bytes(const send_flow_t *flow, uint32_t count, bool with_last) {
  uint64_t bytes = (uint64_t)count * BLOCK_BYTES;
  if (with_last) bytes -= (uint64_t)flow->blocks * BLOCK_BYTES - flow->length;
  return (uint32_t)bytes;
}

// Cuts happen late, when somebody looks; this counts them.
static uint64_t flow_rate(transport_t *t, send_flow_t *flow, uint64_t now) {
  uint64_t cuts = flow->dcqcn.cuts;
  uint64_t rate = dcqcn_rate(&flow->dcqcn, &t->dcqcn, now);
  t->stats.rate_cuts += flow->dcqcn.cuts - cuts;
  return rate;
}

static bool window_open(transport_t *t, send_flow_t *flow, uint64_t now) {
  uint32_t payload = t->config.payload_bytes;
  uint32_t left = flow->length - flow->snd_nxt;
  uint32_t next = left < payload ? left : payload;
  if ((uint64_t)flow->snd_nxt + next > (uint64_t)flow->rcv_nxt + t->config.span_bytes) return false;
  if (flow->window == UINT64_MAX) return true;
  uint64_t window = flow->window;
  if (t->config.scale_window) {
    uint64_t rate = flow_rate(t, flow, now);
    if (rate != flow->window_rate) {
      __extension__ typedef unsigned __int128 wide_t;
      flow->window_rate = rate;
      flow->scaled_window = (uint64_t)((wide_t)window * rate / t->config.line_rate_bps);
      if (flow->scaled_window == 0) flow->scaled_window = 1;
    }
    window = flow->scaled_window;
  }
  uint32_t used = flow->snd_nxt - flow->rcv_nxt;
  if (t->config.window_basis == TRANSPORT_WINDOW_UNSETTLED) used -= flow->settled_above;
  return used < window;
}

static bool sendable(transport_t *t, send_flow_t *flow, uint64_t now) {
  return flow->repair_blocks > 0 || (flow->snd_nxt < flow->length && window_open(t, flow, now));
}

static void make_ready(transport_t *t, send_flow_t *flow) {
  flow->state = FLOW_READY;
  flow->next_ready = NO_SLOT;
  if (t->ready_head == NO_SLOT)
    t->ready_head = flow->slot;
  else
    t->sends[t->ready_tail]->next_ready = flow->slot;
  t->ready_tail = flow->slot;
}

static void remove_ready(transport_t *t, send_flow_t *flow) {
  uint16_t before = NO_SLOT;
  for (uint16_t at = t->ready_head; at != flow->slot; at = t->sends[at]->next_ready) before = at;
  if (before == NO_SLOT)
    t->ready_head = flow->next_ready;
  else
    t->sends[before]->next_ready = flow->next_ready;
  if (t->ready_tail == flow->slot) t->ready_tail = before;
}

// A blocked flow that may send again takes its turn, without credit for the
// time it was blocked.
static void wake(transport_t *t, send_flow_t *flow, uint64_t now) {
  if (flow->state != FLOW_BLOCKED || flow->done || !sendable(t, flow, now)) return;
  uint64_t tick = now << TICK_SHIFT;
  if (flow->next_tick <= tick) {
    flow->next_tick = tick;
    make_ready(t, flow);
  } else {
    flow->state = FLOW_TIMED;
    heap_set(&t->timed, flow->slot, flow->next_tick);
  }
}

static void unschedule(transport_t *t, send_flow_t *flow) {
  if (flow->state == FLOW_READY) remove_ready(t, flow);
  if (flow->state == FLOW_TIMED) heap_remove(&t->timed, flow->slot);
  flow->state = FLOW_BLOCKED;
  heap_remove(&t->expiry, flow->slot);
}

// Marks what of [start, end) is sent and not settled, or all that is sent, to be
// sent again.
static void request(send_flow_t *flow, uint32_t start, uint32_t end, bool all) {
  if (start < flow->rcv_nxt) start = flow->rcv_nxt;
  if (end > flow->snd_nxt) end = flow->snd_nxt;
  if (start >= end) return;
  uint32_t from = start / BLOCK_BYTES, to = block_ceiling(end);
  for (uint32_t w = from / 64; w <= (to - 1) / 64; w++) {
    uint64_t fresh = bitmap_mask(w, from, to) & ~flow->repair[w];
    if (!all) fresh &= ~flow->settled[w];
    flow->repair[w] |= fresh;
    flow->repair_blocks += (uint32_t)__builtin_popcountll(fresh);
  }
  if (from < flow->repair_hint) flow->repair_hint = from;
}

// Both return the bytes that were not settled before.
static uint32_t settle_below(send_flow_t *flow, uint32_t rcv_nxt) {
  if (rcv_nxt <= flow->rcv_nxt) return 0;
  uint32_t from = flow->rcv_nxt / BLOCK_BYTES, to = block_ceiling(rcv_nxt);
  uint32_t already = 0;
  if (flow->settled_above > 0) {
    already = block_bytes(flow, bitmap_count(flow->settled, from, to),
                          to == flow->blocks && bitmap_test(flow->settled, to - 1));
    flow->settled_above -= already;
  }
  if (flow->repair_blocks > 0) flow->repair_blocks -= bitmap_clear(flow->repair, from, to);
  uint32_t fresh = rcv_nxt - flow->rcv_nxt - already;
  flow->rcv_nxt = rcv_nxt;
  return fresh;
}

static uint32_t settle_range(send_flow_t *flow, uint32_t start, uint32_t end) {
  if (start < flow->rcv_nxt) start = flow->rcv_nxt;
  if (start >= end) return 0;
  uint32_t from = start / BLOCK_BYTES, to = block_ceiling(end);
  bool last = to == flow->blocks && !bitmap_test(flow->settled, to - 1);
  uint32_t fresh = block_bytes(flow, bitmap_set(flow->settled, from, to), last);
  flow->settled_above += fresh;
  if (flow->repair_blocks > 0) flow->repair_blocks -= bitmap_clear(flow->repair, from, to);
  return fresh;
}

// Counts the time since the latest report for the mode that it set.
static void count_mode(transport_t *t, send_flow_t *flow, uint64_t now) {
  uint64_t spent = now - flow->report_ns;
  flow->report_ns = now;
  if (flow->report == BTH_ELIGIBLE) {
    flow->stats.exempt_ns += spent;
    t->stats.exempt_ns += spent;
  } else if (flow->was_exempt) {
    flow->stats.obeying_again_ns += spent;
    t->stats.obeying_again_ns += spent;
  }
}

// The flags have changed. Nothing here depends on them.
static void observe(transport_t *t, send_flow_t *flow, uint64_t now, uint8_t report) {
  count_mode(t, flow, now);
  uint32_t changed = ((report ^ flow->report) & BTH_EXHAUSTED) != 0;
  flow->stats.flag_changes += changed;
  t->stats.flag_changes += changed;
  if (report == BTH_ELIGIBLE && !flow->was_exempt) {
    flow->was_exempt = true;
    flow->stats.first_exempt_ns = now;
    flow->stats.signals_before_exempt = flow->dcqcn.signals;
    t->stats.exempt_messages++;
  } else if (flow->report == BTH_ELIGIBLE && !flow->obeyed_again) {
    flow->obeyed_again = true;
    t->stats.obeying_again_messages++;
  }
  flow->report = report;
}

static void finish(transport_t *t, send_flow_t *flow, uint64_t now, uint32_t type) {
  unschedule(t, flow);
  count_mode(t, flow, now);
  flow->done = true;
  flow->stats.completed_ns = now;
  if (type == TRANSPORT_SENT)
    t->stats.sent_messages++;
  else
    t->stats.failed_messages++;
  events_push(t, &(transport_event_t){.type = type,
                                      .qp = flow->qp,
                                      .id = flow->id,
                                      .cookie = flow->cookie,
                                      .time_ns = now,
                                      .length_bytes = flow->length});
}

static void signal_congestion(transport_t *t, send_flow_t *flow, uint64_t now) {
  uint64_t cuts = flow->dcqcn.cuts;
  dcqcn_signal(&flow->dcqcn, &t->dcqcn, now);
  t->stats.signals++;
  t->stats.signals_after_exempt += flow->was_exempt;
  t->stats.rate_cuts += flow->dcqcn.cuts - cuts;
}

static send_flow_t *find_sender(transport_t *t, uint32_t qp) {
  send_flow_t *flow = t->sends[qp_slot(qp)];
  if (flow == NULL || flow->qp != qp) {
    t->stats.late_feedback++;
    return NULL;
  }
  return flow;
}

int sender_notification(transport_t *t, uint64_t now, const uint8_t *bth) {
  send_flow_t *flow = find_sender(t, get24(bth + BTH_DEST_QP));
  if (flow == NULL) return TRANSPORT_UNKNOWN;
  if (!flow->done) signal_congestion(t, flow, now);
  return TRANSPORT_OK;
}

// Something beyond rcv_nxt has arrived. True: the packet at rcv_nxt is repaired.
static bool repair_gap(const transport_t *t, send_flow_t *flow, uint64_t now) {
  if (t->config.gap_repair_ns == 0) return false;
  if (flow->gap_head == flow->rcv_nxt && now - flow->gap_ns < t->config.gap_repair_ns) return false;
  flow->gap_head = flow->rcv_nxt;
  flow->gap_ns = now;
  uint32_t sent = flow->snd_nxt - flow->rcv_nxt;
  request(flow, flow->rcv_nxt, flow->rcv_nxt + (sent < t->config.payload_bytes ? sent : t->config.payload_bytes), false);
  return true;
}

int sender_feedback(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes) {
  if (bytes < BTH_BYTES + AETH_BYTES + FEEDBACK_BYTES) return TRANSPORT_MALFORMED;
  uint8_t syndrome = bth[BTH_BYTES];
  if (syndrome != SYNDROME_ACK && syndrome != SYNDROME_NAK) return TRANSPORT_MALFORMED;
  send_flow_t *flow = find_sender(t, get24(bth + BTH_DEST_QP));
  if (flow == NULL) return TRANSPORT_UNKNOWN;
  if (flow->done) return TRANSPORT_OK;

  const uint8_t *feedback = bth + BTH_BYTES + AETH_BYTES;
  uint64_t rcv_nxt = get32(feedback);
  uint32_t start = get32(feedback + 4);
  uint64_t end = start + (uint64_t)get32(feedback + 8);
  // The receiver rounds up to a block after the message's last byte.
  if (rcv_nxt > flow->length && rcv_nxt <= (uint64_t)flow->blocks * BLOCK_BYTES) rcv_nxt = flow->length;
  bool aligned = (rcv_nxt % BLOCK_BYTES == 0 || rcv_nxt == flow->length) && start % BLOCK_BYTES == 0 &&
                 (end % BLOCK_BYTES == 0 || end == flow->length);
  if (!aligned || rcv_nxt > flow->snd_nxt || end > flow->snd_nxt) {
    t->stats.bad_feedback++;
    return TRANSPORT_MALFORMED;
  }

  uint8_t report = bth[BTH_CONGESTION] & (BTH_ELIGIBLE | BTH_EXHAUSTED);
  if (report != flow->report) observe(t, flow, now, report);
  uint32_t fresh = settle_below(flow, (uint32_t)rcv_nxt);
  bool counts = true;
  if (syndrome == SYNDROME_ACK) {
    flow->stats.acks++;
    t->stats.acks++;
    fresh += settle_range(flow, start, (uint32_t)end);
    if (start > flow->rcv_nxt) counts = repair_gap(t, flow, now) || !t->config.ignore_beyond_gap;
  } else {
    flow->stats.naks++;
    t->stats.naks++;
    request(flow, start, (uint32_t)end, false);
  }
  if (fresh > 0) flow->expiries = 0;
  if (counts) {
    flow->activity_ns = now;
    if (bth[BTH_CONGESTION] & BTH_BECN) signal_congestion(t, flow, now);
  }
  if (flow->rcv_nxt + flow->settled_above == flow->length)
    finish(t, flow, now, TRANSPORT_SENT);
  else
    wake(t, flow, now);
  return TRANSPORT_OK;
}

static void run_expiries(transport_t *t, uint64_t now) {
  while (t->expiry.size > 0 && t->expiry.entries[0].key <= now) {
    send_flow_t *flow = t->sends[t->expiry.entries[0].slot];
    uint64_t due = flow->activity_ns + t->config.rto_ns;
    if (due > now) {
      heap_set(&t->expiry, flow->slot, due);
      continue;
    }
    if (flow->snd_nxt - flow->rcv_nxt == flow->settled_above) {
      // Nothing is outstanding: the flow waits for its pacing, not for feedback.
      flow->activity_ns = now;
      heap_set(&t->expiry, flow->slot, now + t->config.rto_ns);
      continue;
    }
    flow->stats.rtos++;
    t->stats.rtos++;
    if (++flow->expiries >= t->config.rto_limit) {
      finish(t, flow, now, TRANSPORT_FAILED);
      continue;
    }
    request(flow, flow->rcv_nxt, flow->snd_nxt, t->config.repeat_tail);
    flow->activity_ns = now;
    heap_set(&t->expiry, flow->slot, now + t->config.rto_ns);
    wake(t, flow, now);
  }
}

// Takes the next range of the flow: repairs first, ascending, then new data.
static uint32_t take_range(transport_t *t, send_flow_t *flow, uint32_t *start) {
  uint32_t payload = t->config.payload_bytes;
  if (flow->repair_blocks > 0) {
    uint32_t first_unsettled = flow->rcv_nxt / BLOCK_BYTES;
    if (flow->repair_hint < first_unsettled) flow->repair_hint = first_unsettled;
    uint32_t from = bitmap_next(flow->repair, flow->repair_hint, flow->blocks);
    uint32_t limit = from + payload / BLOCK_BYTES;
    if (limit > flow->blocks) limit = flow->blocks;
    uint32_t to = bitmap_run_end(flow->repair, from, limit);
    flow->repair_blocks -= bitmap_clear(flow->repair, from, to);
    flow->repair_hint = flow->repair_blocks > 0 ? to : UINT32_MAX;
    *start = from * BLOCK_BYTES;
    uint32_t bytes = block_bytes(flow, to - from, to == flow->blocks);
    flow->stats.retransmitted_bytes += bytes;
    flow->stats.retransmitted_packets++;
    t->stats.retransmitted_bytes += bytes;
    t->stats.retransmitted_packets++;
    return bytes;
  }
  uint32_t left = flow->length - flow->snd_nxt;
  uint32_t bytes = left < payload ? left : payload;
  *start = flow->snd_nxt;
  flow->snd_nxt += bytes;
  flow->stats.first_bytes += bytes;
  t->stats.first_bytes += bytes;
  return bytes;
}

static void write_headers(send_flow_t *flow, transport_packet_t *packet, uint32_t start, uint32_t bytes) {
  uint8_t *header = packet->header;
  memcpy(header, flow->header, TRANSPORT_HEADER_BYTES);
  uint32_t udp_length = UDP_BYTES + BTH_BYTES + RETH_BYTES + bytes;
  uint32_t sum = flow->ip_sum + IPV4_BYTES + udp_length;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  uint8_t *ip = header + ETHERNET_BYTES;
  put16(ip + 2, IPV4_BYTES + udp_length);
  put16(ip + 10, ~sum & 0xffff);
  put16(ip + IPV4_BYTES + 4, udp_length);
  uint8_t *bth = header + TRANSPORT_UDP_OFFSET;
  if (start + bytes == flow->length) bth[BTH_FLAGS] |= BTH_SOLICITED;
  put24(bth + BTH_PSN, flow->psn);
  flow->psn = (flow->psn + 1) & 0xffffff;
  uint8_t *reth = bth + BTH_BYTES;
  put32(reth + RETH_ADDR, start);
  put32(reth + RETH_LENGTH, bytes);
}

// Pacing by ideal times: the next packet is due a gap after this one was due,
// not after it went out, so late wake-ups do not add up (within the slack).
static void pace(transport_t *t, send_flow_t *flow, uint64_t now, uint32_t bytes) {
  uint64_t latest = now << TICK_SHIFT;
  uint64_t due = flow->next_tick;
  if (!t->config.port_paced && due < t->host_tick) due = t->host_tick;
  if (due + t->slack_ticks < latest) due = latest - t->slack_ticks;
  uint64_t rate = flow_rate(t, flow, now);
  uint64_t wire_bytes = (uint64_t)bytes + t->config.overhead_bytes;
  if (bytes == t->config.payload_bytes) {
    if (rate != flow->gap_rate) {
      flow->gap_rate = rate;
      flow->full_gap = gap_ticks(wire_bytes, rate);
    }
    flow->next_tick = due + flow->full_gap;
    t->host_tick = due + t->host_full_gap;
  } else {
    flow->next_tick = due + gap_ticks(wire_bytes, rate);
    t->host_tick = due + gap_ticks(wire_bytes, t->config.line_rate_bps);
  }
}

static void send_one(transport_t *t, send_flow_t *flow, uint64_t now, transport_packet_t *packet) {
  uint32_t start;
  packet->retransmission = flow->repair_blocks > 0;
  uint32_t bytes = take_range(t, flow, &start);
  write_headers(flow, packet, start, bytes);
  packet->dscp = flow->dscp;
  packet->dst_addr = flow->dst_addr;
  packet->payload_bytes = bytes;
  packet->payload = flow->data == NULL ? NULL : flow->data + start;
  packet->id = flow->id;
  pace(t, flow, now, bytes);
  t->stats.sent_packets++;
  if (flow->stats.packets++ == 0) {
    flow->stats.first_ns = now;
    heap_set(&t->expiry, flow->slot, now + t->config.rto_ns);
  }
  flow->activity_ns = now;
}

int transport_poll(transport_t *t, uint64_t now, transport_packet_t *packet) {
  run_expiries(t, now);
  if (!t->config.port_paced && tick_ceiling(t->host_tick) > now) return 0;
  while (t->timed.size > 0 && tick_ceiling(t->timed.entries[0].key) <= now) {
    send_flow_t *flow = t->sends[t->timed.entries[0].slot];
    heap_remove(&t->timed, flow->slot);
    make_ready(t, flow);
  }
  while (t->ready_head != NO_SLOT) {
    send_flow_t *flow = t->sends[t->ready_head];
    t->ready_head = flow->next_ready;
    if (t->ready_head == NO_SLOT) t->ready_tail = NO_SLOT;
    flow->state = FLOW_BLOCKED;
    if (!sendable(t, flow, now)) continue;
    send_one(t, flow, now, packet);
    if (sendable(t, flow, now)) {
      flow->state = FLOW_TIMED;
      heap_set(&t->timed, flow->slot, flow->next_tick);
    }
    return 1;
  }
  return 0;
}

uint64_t transport_next_wake(const transport_t *t) {
  uint64_t wake_ns = UINT64_MAX;
  if (t->ready_head != NO_SLOT || t->timed.size > 0) {
    uint64_t tick = t->config.port_paced ? 0 : t->host_tick;
    if (t->ready_head == NO_SLOT && t->timed.entries[0].key > tick) tick = t->timed.entries[0].key;
    wake_ns = tick_ceiling(tick);
  }
  if (t->expiry.size > 0 && t->expiry.entries[0].key < wake_ns) wake_ns = t->expiry.entries[0].key;
  return wake_ns;
}

static void write_template(transport_t *t, send_flow_t *flow, const transport_send_t *send) {
  uint8_t *header = flow->header;
  memset(header, 0, TRANSPORT_HEADER_BYTES);
  put48(header, send->dst_mac);
  put48(header + 6, t->config.src_mac);
  put16(header + 12, ETHERTYPE_IPV4);
  uint8_t *ip = header + ETHERNET_BYTES;
  ip[0] = 0x45;
  ip[1] = (uint8_t)(flow->dscp << 2 | ECN_ECT0);
  put16(ip + 6, 0x4000);  // do not fragment
  ip[8] = t->config.ttl;
  ip[9] = PROTO_UDP;
  put32(ip + 12, t->config.src_addr);
  put32(ip + 16, send->dst_addr);
  flow->ip_sum = 0;
  for (int i = 0; i < IPV4_BYTES; i += 2) flow->ip_sum += get16(ip + i);
  uint8_t *udp = ip + IPV4_BYTES;
  put16(udp, UDP_PORT_ROCE);  // the NIC writes its own
  put16(udp + 2, UDP_PORT_ROCE);
  uint8_t *bth = udp + UDP_BYTES;
  bth[BTH_OPCODE] = OPCODE_WRITE_ONLY;
  put16(bth + BTH_P_KEY, 0xffff);
  put24(bth + BTH_DEST_QP, send->dst_qp);
  put24(bth + BTH_BYTES + RETH_SOURCE_QP, send->src_qp);
}

static void recycle(transport_t *t, send_flow_t *flow) {
  flow->next_free = t->free_sends;
  t->free_sends = flow;
}

// A flow object whose bitmaps hold `words`, from the free list if it has one.
static send_flow_t *obtain(transport_t *t, uint32_t words) {
  send_flow_t *flow = t->free_sends;
  if (flow != NULL)
    t->free_sends = flow->next_free;
  else if ((flow = calloc(1, sizeof *flow)) == NULL)
    return NULL;
  if (flow->capacity < words) {
    free(flow->settled);
    flow->settled = malloc((size_t)words * 2 * sizeof *flow->settled);
    flow->capacity = flow->settled == NULL ? 0 : words;
    if (flow->settled == NULL) {
      recycle(t, flow);
      return NULL;
    }
  }
  uint64_t *settled = flow->settled;
  uint32_t capacity = flow->capacity;
  memset(settled, 0, (size_t)words * 2 * sizeof *settled);
  memset(flow, 0, sizeof *flow);
  flow->settled = settled;
  flow->repair = settled + words;
  flow->capacity = capacity;
  return flow;
}

void sender_stats(transport_t *t, send_flow_t *flow, uint64_t now, transport_flow_stats_t *stats) {
  *stats = flow->stats;
  stats->rate_bps = flow->done ? flow->dcqcn.rate_bps : flow_rate(t, flow, now);
  stats->alpha_q31 = flow->dcqcn.alpha_q31;
  stats->signals = flow->dcqcn.signals;
  stats->rate_cuts = flow->dcqcn.cuts;
  stats->settled_bytes = flow->rcv_nxt + flow->settled_above;
  if (!flow->was_exempt) stats->signals_before_exempt = stats->signals;
  if (flow->done) return;
  // The mode that lasts.
  if (flow->report == BTH_ELIGIBLE)
    stats->exempt_ns += now - flow->report_ns;
  else if (flow->was_exempt)
    stats->obeying_again_ns += now - flow->report_ns;
}

int transport_post_send(transport_t *t, uint64_t now, const transport_send_t *send, uint64_t *id) {
  uint32_t slot = qp_slot(send->src_qp);
  if (send->length_bytes == 0 || send->class_ > TRANSPORT_DATA || send->src_qp >> 24 != 0 ||
      send->dst_qp >> 24 != 0 || send->dst_mac >> 48 != 0)
    return TRANSPORT_INVALID;
  if (t->send_qps.qp[slot] != send->src_qp) return TRANSPORT_NOT_FOUND;
  if (t->sends[slot] != NULL) return TRANSPORT_BUSY;
  uint32_t blocks = block_ceiling(send->length_bytes);
  send_flow_t *flow = obtain(t, bitmap_words(blocks));
  if (flow == NULL) return TRANSPORT_NO_MEMORY;
  if (!events_reserve(t, 1)) {
    recycle(t, flow);
    return TRANSPORT_NO_MEMORY;
  }
  flow->length = send->length_bytes;
  flow->blocks = blocks;
  flow->repair_hint = UINT32_MAX;
  flow->gap_head = UINT32_MAX;
  flow->slot = (uint16_t)slot;
  flow->qp = send->src_qp;
  flow->data = send->data;
  flow->dst_addr = send->dst_addr;
  flow->dscp = send->class_ == TRANSPORT_GRADIENT ? t->config.gradient_dscp : t->config.data_dscp;
  uint64_t window = send->window_bytes != 0 ? send->window_bytes : t->config.window_bytes;
  flow->window = window != 0 ? window : UINT64_MAX;
  flow->cookie = send->cookie;
  flow->id = ++t->serial << ID_SERIAL_SHIFT | slot;
  flow->state = FLOW_BLOCKED;
  flow->activity_ns = now;
  flow->report_ns = now;
  flow->stats.posted_ns = now;
  dcqcn_init(&flow->dcqcn, &t->dcqcn);
  write_template(t, flow, send);
  t->sends[slot] = flow;
  *id = flow->id;
  wake(t, flow, now);
  return TRANSPORT_OK;
}

void sender_release(transport_t *t, send_flow_t *flow) {
  unschedule(t, flow);
  if (!flow->done) events_unreserve(t, 1);
  t->sends[flow->slot] = NULL;
  recycle(t, flow);
}

void sender_free(send_flow_t *flow) {
  if (flow == NULL) return;
  free(flow->settled);
  free(flow);
}
