// SPDX-License-Identifier: Apache-2.0
// The rules: what a packet does to the scoreboard and the step's bytes, and what
// its report and its delivery must be. From the paper and docs/dataplane.md.
#include <stdlib.h>
#include <string.h>

#include "bitmap.h"
#include "checker_internal.h"
#include "wire.h"

static const uint64_t million = 1000000;

static uint32_t ceiling(uint64_t bytes) { return (uint32_t)((bytes + BLOCK_BYTES - 1) / BLOCK_BYTES); }

static uint32_t low_bits(uint32_t n) { return UINT32_MAX >> (32 - n); }

// Maps for a flow's blocks. False: no memory.
static bool take_maps(checker_t *c, checked_flow_t *flow) {
  if (flow->settled != NULL) return true;
  uint32_t words = bitmap_words(flow->blocks);
  for (spare_maps_t **at = &c->spare; *at != NULL; at = &(*at)->next) {
    spare_maps_t *maps = *at;
    if (maps->words < words) continue;
    *at = maps->next;
    words = maps->words;
    memset(maps, 0, (size_t)words * 3 * sizeof(uint64_t));
    flow->settled = (uint64_t *)(void *)maps;
    break;
  }
  if (flow->settled == NULL) {
    flow->settled = calloc((size_t)words * 3, sizeof(uint64_t));
    if (flow->settled == NULL) return false;
  }
  flow->map_words = words;
  return true;
}

void checker_drop_maps(checker_t *c, checked_flow_t *flow) {
  if (flow->settled == NULL) return;
  spare_maps_t *maps = (spare_maps_t *)(void *)flow->settled;
  maps->next = c->spare;
  maps->words = flow->map_words;
  c->spare = maps;
  flow->settled = NULL;
}

static uint64_t *forgiven_map(const checked_flow_t *flow) { return flow->settled + flow->map_words; }

static uint64_t *charged_map(const checked_flow_t *flow) { return flow->settled + 2 * (size_t)flow->map_words; }

// 32 bits of a map from block `first` on.
static uint32_t window_of(const checked_flow_t *flow, const uint64_t *map, uint32_t first) {
  uint32_t w = first / 64, shift = first % 64;
  uint64_t bits = map[w] >> shift;
  if (shift > 32 && w + 1 < flow->map_words) bits |= map[w + 1] << (64 - shift);
  return (uint32_t)bits;
}

static void write_window(checked_flow_t *flow, uint64_t *map, uint32_t first, uint32_t mask, bool set) {
  uint32_t w = first / 64, shift = first % 64;
  uint64_t low = (uint64_t)mask << shift;
  uint64_t high = shift > 32 ? (uint64_t)mask >> (64 - shift) : 0;
  map[w] = set ? map[w] | low : map[w] & ~low;
  if (high != 0 && w + 1 < flow->map_words) map[w + 1] = set ? map[w + 1] | high : map[w + 1] & ~high;
}

// Which of the `n` blocks from `first` on are not settled.
static uint32_t missing_of(const checked_flow_t *flow, uint32_t first, uint32_t n) {
  uint32_t mask = low_bits(n);
  if (first < flow->rcv_nxt) {
    uint32_t below = flow->rcv_nxt - first;
    if (below >= n) return 0;
    mask &= UINT32_MAX << below;
  }
  if (flow->above > 0) mask &= ~window_of(flow, flow->settled, first);
  return mask;
}

// Bytes of the masked blocks of a range of `length` bytes in `n` blocks: only the
// last may be short.
static uint32_t bytes_of(uint32_t mask, uint32_t length, uint32_t n) {
  uint32_t bytes = (uint32_t)__builtin_popcount(mask) * BLOCK_BYTES;
  if (mask >> (n - 1) & 1) bytes -= n * BLOCK_BYTES - length;
  return bytes;
}

// Takes the masked blocks off `charged`; returns their bytes.
static uint32_t discharge(checked_flow_t *flow, uint32_t first, uint32_t mask, uint32_t length, uint32_t n) {
  if (flow->charged_blocks == 0) return 0;
  uint32_t charged = window_of(flow, charged_map(flow), first) & mask;
  if (charged == 0) return 0;
  write_window(flow, charged_map(flow), first, charged, false);
  flow->charged_blocks -= (uint32_t)__builtin_popcount(charged);
  return bytes_of(charged, length, n);
}

static void complete_when_settled(checker_t *c, checked_flow_t *flow) {
  if (flow->rcv_nxt < flow->blocks) return;
  c->stats.complete_messages++;
  flow->charged_blocks = 0;
  checker_drop_maps(c, flow);
}

// Settles the masked blocks, none of which was, and moves rcv_nxt on.
static void settle(checker_t *c, checked_flow_t *flow, uint32_t first, uint32_t mask) {
  write_window(flow, flow->settled, first, mask, true);
  flow->above += (uint32_t)__builtin_popcount(mask);
  uint32_t end = bitmap_run_end(flow->settled, flow->rcv_nxt, flow->blocks);
  flow->above -= end - flow->rcv_nxt;
  flow->rcv_nxt = end;
  complete_when_settled(c, flow);
}

static void take_outstanding(checker_step_stats_t *books, uint64_t bytes) {
  books->outstanding_bytes -= bytes < books->outstanding_bytes ? bytes : books->outstanding_bytes;
}

static uint32_t fifth_of(const checker_step_stats_t *books) {
  uint64_t settled = books->received_bytes + books->forgiven_bytes;
  if (settled >= books->expected_bytes) return CHECKER_FIFTHS - 1;
  return (uint32_t)(CHECKER_FIFTHS * settled / books->expected_bytes);
}

// --- what a report was due to be

typedef struct verdict {
  uint32_t missing;   // blocks of the range that were, before the packet
  uint32_t accepted;  // blocks that the host must be told of
  uint32_t event;
  bool request;
  bool forgiven;
} verdict_t;

// Data: what is missing is received.
static void judge_data(checker_t *c, checked_flow_t *flow, checker_step_stats_t *books, uint32_t first, uint32_t n,
                       uint32_t length, verdict_t *v) {
  uint32_t fresh = length;
  if (first == flow->rcv_nxt && flow->above == 0 && flow->charged_blocks == 0) {
    v->missing = low_bits(n);
    flow->rcv_nxt += n;
    if (flow->rcv_nxt >= flow->blocks) complete_when_settled(c, flow);
  } else {
    v->missing = missing_of(flow, first, n);
    fresh = v->missing == 0 ? 0 : bytes_of(v->missing, length, n);
    if (flow->settled != NULL) {
      uint32_t late = window_of(flow, forgiven_map(flow), first) & low_bits(n);
      if (late != 0) c->stats.late_bytes += bytes_of(late, length, n);
    }
    c->stats.duplicate_bytes += length - fresh;
    if (fresh > 0) {
      uint32_t charged = discharge(flow, first, v->missing, length, n);
      if (books != NULL) take_outstanding(books, charged);
      settle(c, flow, first, v->missing);
    }
  }
  v->accepted = v->missing;
  v->event = DELIVERY_DATA;
  c->stats.received_bytes += fresh;
  if (books != NULL && flow->eligible) books->received_bytes += fresh;
}

// The first rule that forbids to forgive `bytes` more, or CHECKER_KINDS.
static uint32_t forbidden(const checker_t *c, const arrival_t *a, const step_slot_t *slot, bool has_entry,
                          uint64_t bytes, uint64_t *expected, uint64_t *seen) {
  const checker_step_t *entry = &slot->entry;
  const checker_step_stats_t *books = &slot->books;
  *expected = *seen = 0;
  if (a->tos >> 2 != c->config.gradient_trimmed_dscp || (has_entry && !entry->eligible)) return CHECKER_FORGAVE_CLASS;
  if (!has_entry || !entry->open) return CHECKER_FORGAVE_CLOSED;
  uint64_t forgiven = *seen = books->forgiven_bytes + bytes;
  if (entry->vesting) {
    // forgiven <= p (received + forgiven), in integers.
    *expected = entry->p_ppm < million ? entry->p_ppm * books->received_bytes / (million - entry->p_ppm) : forgiven;
    if (forgiven * million > entry->p_ppm * (books->received_bytes + forgiven)) return CHECKER_FORGAVE_UNVESTED;
  } else {
    *expected = entry->budget_bytes;
    if (forgiven > entry->budget_bytes) return CHECKER_FORGAVE_UNVESTED;
  }
  if (entry->forgive_threshold == 0) return CHECKER_FORGAVE_DRAW;
  return CHECKER_KINDS;
}

// A trimmed header, whose report says whether it was forgiven: held against
// whether it may be.
static void judge_trimmed(checker_t *c, uint64_t now, arrival_t *a, checked_flow_t *flow, step_slot_t *slot,
                          bool has_books, uint32_t first, uint32_t n, uint32_t length, bool acknowledged,
                          verdict_t *v) {
  checker_step_stats_t *books = has_books ? &slot->books : NULL;
  bool has_entry = has_books && slot->present;
  uint32_t fifth = has_books ? fifth_of(books) : 0;
  c->stats.trimmed_bytes += length;
  if (has_books) {
    books->trimmed_bytes += length;
    books->trimmed_by_fifth[fifth] += length;
  }
  v->missing = missing_of(flow, first, n);
  if (v->missing == 0) return;
  if (!take_maps(c, flow)) {
    checker_violate(c, now, CHECKER_INCOMPLETE, a, 0, 0);
    return;
  }
  uint32_t bytes = bytes_of(v->missing, length, n);
  uint64_t expected, seen;
  uint32_t rule = forbidden(c, a, slot, has_entry, bytes, &expected, &seen);
  if (rule != CHECKER_FORGAVE_CLASS && rule != CHECKER_FORGAVE_CLOSED) {
    uint32_t fresh = v->missing & ~window_of(flow, charged_map(flow), first);
    if (fresh != 0) {
      write_window(flow, charged_map(flow), first, fresh, true);
      flow->charged_blocks += (uint32_t)__builtin_popcount(fresh);
      books->outstanding_bytes += bytes_of(fresh, length, n);
      if (books->outstanding_bytes > books->most_outstanding_bytes)
        books->most_outstanding_bytes = books->outstanding_bytes;
    }
  }
  if (acknowledged && !(a->state & ARRIVAL_DELIVERED) && a->state & ARRIVAL_PASSED) {
    // Nothing of it went to the host: it was not forgiven, and is acknowledged all the same.
    v->request = true;
    return;
  }
  if (!acknowledged) {
    v->request = true;
    if (rule == CHECKER_KINDS && slot->entry.forgive_threshold > UINT32_MAX)
      checker_violate(c, now, CHECKER_NOT_FORGIVEN, a, expected, seen);
    if (has_books) books->requested_bytes += bytes;
    return;
  }
  if (rule != CHECKER_KINDS) checker_violate(c, now, rule, a, expected, seen);
  uint32_t charged = discharge(flow, first, v->missing, length, n);
  if (has_books) {
    take_outstanding(books, charged);
    books->forgiven_bytes += bytes;
    books->forgiven_by_fifth[fifth] += bytes;
    if (books->forgiven_bytes > books->limit_bytes)
      checker_violate(c, now, CHECKER_FORGAVE_BEYOND_BUDGET, a, books->limit_bytes, books->forgiven_bytes);
  }
  c->stats.forgiven_bytes += bytes;
  write_window(flow, forgiven_map(flow), first, v->missing, true);
  settle(c, flow, first, v->missing);
  v->accepted = v->missing;
  v->event = DELIVERY_FORGIVEN;
  v->forgiven = true;
}

// The congestion byte of a report but for the echo.
static uint8_t flags_of(const checked_flow_t *flow, step_slot_t *slot, bool has_books) {
  if (!flow->eligible) return 0;
  uint8_t flags = BTH_ELIGIBLE | BTH_EXHAUSTED;
  if (!has_books) return flags;
  checker_step_stats_t *books = &slot->books;
  if (slot->present) {
    bool exhausted = (int64_t)(books->forgiven_bytes + books->outstanding_bytes) > slot->allowance;
    flags = exhausted ? slot->exhausted_flags : slot->flags;
  }
  books->reports++;
  books->exhausted_reports += (flags & BTH_EXHAUSTED) != 0;
  return flags;
}

void checker_name_report(checker_t *c, uint64_t now, const arrival_t *a, const report_t *due, const report_t *seen) {
  uint64_t wrong = (due->id ^ seen->id) & CHECKER_REPORT_MASK;
  bool due_request = due->answer >> 56 == SYNDROME_NAK, seen_request = seen->answer >> 56 == SYNDROME_NAK;
  if (due_request != seen_request)
    checker_violate(c, now, seen_request ? CHECKER_REQUESTED_SETTLED : CHECKER_ACKNOWLEDGED_HOLE, a, due_request,
                    seen_request);
  uint32_t due_nxt = (uint32_t)due->answer, seen_nxt = (uint32_t)seen->answer;
  // Ahead of what is settled: bytes are acknowledged that nobody has.
  if (due_nxt != seen_nxt)
    checker_violate(c, now, seen_nxt > due_nxt ? CHECKER_ACKNOWLEDGED_HOLE : CHECKER_RCV_NXT, a, due_nxt, seen_nxt);
  if (due->range != seen->range) checker_violate(c, now, CHECKER_RANGE, a, due->range, seen->range);
  static const struct {
    uint8_t bit;
    uint8_t kind;
  } bits[] = {{BTH_ELIGIBLE, CHECKER_ELIGIBLE_FLAG}, {BTH_EXHAUSTED, CHECKER_EXHAUSTED_FLAG}, {BTH_BECN, CHECKER_ECHO}};
  for (uint32_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    uint64_t bit = (uint64_t)bits[i].bit << 56;
    if (wrong & bit) checker_violate(c, now, bits[i].kind, a, (due->id & bit) != 0, (seen->id & bit) != 0);
    wrong &= ~bit;
  }
  if (wrong != 0) checker_violate(c, now, CHECKER_REPORT_FIELD, a, due->id & CHECKER_REPORT_MASK, seen->id & CHECKER_REPORT_MASK);
  if (((due->answer ^ seen->answer) >> 32) != 0 && due_request == seen_request)
    checker_violate(c, now, CHECKER_REPORT_FIELD, a, due->answer >> 32, seen->answer >> 32);
}

void checker_name_delivery(checker_t *c, uint64_t now, const arrival_t *a, uint32_t missing, uint64_t due,
                           uint64_t seen) {
  uint32_t kind = CHECKER_WRONG_DELIVERY;
  if (seen == 0)
    kind = CHECKER_NOT_DELIVERED;
  else if ((uint32_t)seen & ~missing)
    kind = CHECKER_DOUBLE_DELIVERY;
  checker_violate(c, now, kind, a, due, seen);
}

void checker_judge(checker_t *c, uint64_t now, arrival_t *a, checked_flow_t *flow, const report_t *seen) {
  step_slot_t *slot = flow->slot;
  uint32_t start = arrival_start(a), length = arrival_length(a);
  uint32_t first = start / BLOCK_BYTES, n = ceiling(length);
  bool has_books = flow->tag == slot->books.step_tag && flow->tag != 0;
  bool acknowledged = seen->answer >> 56 != SYNDROME_NAK;
  c->stats.requests += !acknowledged;
  c->stats.trimmed_packets += a->kind == ARRIVAL_TRIMMED;

  uint64_t end = (uint64_t)start + length;
  if (a->solicited && end < flow->length && first + n >= flow->rcv_nxt) {
    flow->length = (uint32_t)end;
    flow->blocks = first + n;
  }
  if (end > flow->length) {
    checker_violate(c, now, CHECKER_OUTSIDE_MESSAGE, a, flow->length, end);
    return;
  }

  verdict_t v = {0};
  if (a->kind == ARRIVAL_DATA) {
    if ((first != flow->rcv_nxt || flow->above != 0) && first + n > flow->rcv_nxt && !take_maps(c, flow)) {
      checker_violate(c, now, CHECKER_INCOMPLETE, a, 0, 0);
      return;
    }
    judge_data(c, flow, has_books ? &slot->books : NULL, first, n, length, &v);
  } else {
    judge_trimmed(c, now, a, flow, slot, has_books, first, n, length, acknowledged, &v);
  }

  uint64_t delivery = v.accepted != 0 ? (uint64_t)v.event << 56 | v.accepted : 0;
  if (delivery != from_network(a->delivery)) {
    if (a->state & (ARRIVAL_DELIVERED | ARRIVAL_PASSED)) {
      checker_name_delivery(c, now, a, v.missing, delivery, from_network(a->delivery));
    } else {
      a->delivery = to_network(delivery);
      a->state |= ARRIVAL_AWAITED;
    }
  }

  flow->plain.id = UINT64_MAX;
  if (a->kind == ARRIVAL_DATA && v.missing == low_bits(n) && length % BLOCK_BYTES == 0 && !a->solicited &&
      flow->rcv_nxt == first + n && flow->above == 0 && flow->charged_blocks == 0 && end + length < flow->length) {
    flow->plain = (plain_t){
        .id = from_network(a->id) + 1,
        .start = end,
        .source = from_network(a->source),
        .ip = a->ip,
        .due = arrival_answer(a) + 1,
        .delivery = to_network(delivery),
        .udp = a->udp,
        .wire_bytes = a->wire_bytes,
        .end = flow->length - length,
        .blocks = n,
    };
  }

  uint8_t bits = flags_of(flow, slot, has_books);
  bool echo = (a->tos & 3) == ECN_CE || (v.forgiven && slot->present && slot->entry.forgiveness_echoes);
  if (echo && !v.request) bits |= slot->echo;
  report_t due = {
      .id = (uint64_t)bits << 56 | arrival_answer(a),
      .answer = (uint64_t)(v.request ? SYNDROME_NAK : SYNDROME_ACK) << 56 | (uint64_t)flow->rcv_nxt * BLOCK_BYTES,
      .range = (uint64_t)start << 32 | length,
  };
  if ((due.id ^ seen->id) & CHECKER_REPORT_MASK || due.answer != seen->answer || due.range != seen->range)
    checker_name_report(c, now, a, &due, seen);
}

void checker_judge_unknown(checker_t *c, uint64_t now, const arrival_t *a, const report_t *seen) {
  uint32_t qp = arrival_qp(a), start = arrival_start(a), length = arrival_length(a);
  const checked_flow_t *flow = &c->flows[qp & (FLOW_SLOTS - 1)];
  checker_step_stats_t *books = &c->slots[qp >> (OWNER_WIDTH + FLOW_SLOT_WIDTH)].books;
  uint32_t fifth = fifth_of(books);
  c->stats.requests += seen->answer >> 56 == SYNDROME_NAK;
  c->stats.trimmed_packets++;
  c->stats.unknown_packets++;
  c->stats.trimmed_bytes += length;
  books->trimmed_bytes += length;
  books->unknown_bytes += length;
  books->trimmed_by_fifth[fifth] += length;
  books->requested_bytes += length;
  uint32_t message = flow->next_qp == qp ? flow->next_length : checker_past_length(c, qp);
  if (message == 0)
    checker_violate(c, now, CHECKER_UNKNOWN_FLOW, a, flow->next_qp, qp);
  else if ((uint64_t)start + length > message)
    checker_violate(c, now, CHECKER_OUTSIDE_MESSAGE, a, message, (uint64_t)start + length);
  if (a->delivery != 0) checker_name_delivery(c, now, a, UINT32_MAX, 0, from_network(a->delivery));
  // All of the range is missing, nothing is known of the flow, and nothing is signalled.
  report_t due = {
      .id = arrival_answer(a),
      .answer = (uint64_t)SYNDROME_NAK << 56,
      .range = (uint64_t)start << 32 | length,
  };
  if ((due.id ^ seen->id) & CHECKER_REPORT_MASK || due.answer != seen->answer || due.range != seen->range)
    checker_name_report(c, now, a, &due, seen);
}
