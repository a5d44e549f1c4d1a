// SPDX-License-Identifier: Apache-2.0
// The sending half of a message: its scoreboard, selective repeat, the
// retransmission timeout. schedule.c sends.
#include "bitmap.h"
#include "internal.h"

static uint32_t block_ceiling(uint32_t bytes) { return bytes / BLOCK_BYTES + (bytes % BLOCK_BYTES != 0); }

// Bytes of `count` blocks, of which the message's last is one or is not.
static uint32_t block_bytes(const send_flow_t *flow, uint32_t count, bool with_last) {
  uint64_t bytes = (uint64_t)count * BLOCK_BYTES;
  if (with_last) bytes -= (uint64_t)flow->blocks * BLOCK_BYTES - flow->length;
  return (uint32_t)bytes;
}

// Marks what of [start, end) is sent and not settled to be sent again.
static void request(send_flow_t *flow, uint32_t start, uint32_t end) {
  if (start < flow->rcv_nxt) start = flow->rcv_nxt;
  if (end > flow->sent_end) end = flow->sent_end;
  if (start >= end) return;
  uint32_t from = start / BLOCK_BYTES, to = block_ceiling(end);
  for (uint32_t w = from / 64; w <= (to - 1) / 64; w++) {
    uint64_t fresh = bitmap_mask(w, from, to) & ~flow->settled[w] & ~flow->repair[w];
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
  // What was sent again may be acknowledged faster than it is sent.
  if (flow->snd_nxt < rcv_nxt) flow->snd_nxt = rcv_nxt;
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
static void count_mode(const send_flow_t *flow, uint64_t now, transport_flow_stats_t *stats) {
  uint64_t spent = now - flow->report_ns;
  if (flow->report == BTH_ELIGIBLE)
    stats->exempt_ns += spent;
  else if (flow->was_exempt)
    stats->obeying_again_ns += spent;
}

// The flags have changed. Nothing here depends on them.
static void observe(send_flow_t *flow, uint64_t now, uint8_t report) {
  count_mode(flow, now, &flow->stats);
  flow->report_ns = now;
  flow->stats.flag_changes += ((report ^ flow->report) & BTH_EXHAUSTED) != 0;
  flow->obeyed_again |= flow->report == BTH_ELIGIBLE;
  flow->report = report;
  if (report != BTH_ELIGIBLE || flow->was_exempt) return;
  flow->was_exempt = true;
  flow->stats.first_exempt_ns = now;
  flow->stats.signals_before_exempt = flow->dcqcn.signals;
}

static void finish(transport_t *t, send_flow_t *flow, uint64_t now, uint32_t type) {
  schedule_end(t, flow);
  count_mode(flow, now, &flow->stats);
  schedule_rate(t, flow, now);  // whatever is due by now is counted
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

static send_flow_t *find_sender(transport_t *t, uint32_t qp) {
  send_flow_t *flow = t->sends[qp_slot(qp)];
  return flow != NULL && flow->qp == qp ? flow : NULL;
}

int sender_notification(transport_t *t, uint64_t now, const uint8_t *bth) {
  send_flow_t *flow = find_sender(t, bth_dest_qp(bth));
  if (flow == NULL) {
    t->stats.late_feedback++;
    return TRANSPORT_UNKNOWN;
  }
  if (!flow->done) schedule_signal(t, flow, now);
  return TRANSPORT_OK;
}

// Something beyond rcv_nxt has arrived. True: the packet at rcv_nxt is repaired.
static bool repair_gap(const transport_t *t, send_flow_t *flow, uint64_t now) {
  if (t->config.gap_repair_ns == 0) return false;
  if (flow->gap_head == flow->rcv_nxt && now - flow->gap_ns < t->config.gap_repair_ns) return false;
  flow->gap_head = flow->rcv_nxt;
  flow->gap_ns = now;
  uint32_t sent = flow->sent_end - flow->rcv_nxt;
  request(flow, flow->rcv_nxt, flow->rcv_nxt + (sent < t->config.payload_bytes ? sent : t->config.payload_bytes));
  return true;
}

static bool ignores_beyond_gap(const transport_t *t, const send_flow_t *flow) {
  uint32_t flows = t->config.ignore_beyond_gap;
  return flows == TRANSPORT_FLOWS_ALL || (flows == TRANSPORT_FLOWS_DATA && flow->dscp != t->config.gradient_dscp);
}

// What every feedback does once it has had its say about bytes.
static void after_feedback(transport_t *t, send_flow_t *flow, uint64_t now, const uint8_t *bth) {
  flow->activity_ns = now;
  if (bth[BTH_CONGESTION] & BTH_BECN) schedule_signal(t, flow, now);
}

// The common case: the acknowledgement of the packet at rcv_nxt, with nothing
// settled above it and nothing to repair.
static inline bool is_plain_feedback(transport_t *t, uint64_t now, const uint8_t *bth, send_flow_t *flow) {
  const uint8_t *feedback = bth + BTH_BYTES + AETH_BYTES;
  uint64_t range = get64(feedback + 4);
  uint32_t start = (uint32_t)(range >> 32), end = start + (uint32_t)range;
  if (start != flow->rcv_nxt || end != get32(feedback) || end <= start || end > flow->snd_nxt || end == flow->length ||
      end % BLOCK_BYTES != 0 || flow->settled_above != 0 || flow->repair_blocks != 0 ||
      bth[BTH_BYTES] != SYNDROME_ACK || (bth[BTH_CONGESTION] & (BTH_ELIGIBLE | BTH_EXHAUSTED)) != flow->report)
    return false;
  flow->rcv_nxt = end;
  flow->expiries = 0;
  flow->stats.acks++;
  after_feedback(t, flow, now, bth);
  if (!flow->waiting) schedule_wake(t, flow, now);
  return true;
}

int sender_feedback(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes) {
  if (bytes < BTH_BYTES + AETH_BYTES + FEEDBACK_BYTES) return transport_malformed(t);
  send_flow_t *flow = find_sender(t, bth_dest_qp(bth));
  if (flow != NULL && !flow->done && is_plain_feedback(t, now, bth, flow)) return TRANSPORT_OK;
  uint8_t syndrome = bth[BTH_BYTES];
  if (syndrome != SYNDROME_ACK && syndrome != SYNDROME_NAK) return transport_malformed(t);
  if (flow == NULL) {
    t->stats.late_feedback++;
    return TRANSPORT_UNKNOWN;
  }
  if (flow->done) return TRANSPORT_OK;

  const uint8_t *feedback = bth + BTH_BYTES + AETH_BYTES;
  uint64_t rcv_nxt = get32(feedback);
  uint32_t start = get32(feedback + 4);
  uint64_t end = start + (uint64_t)get32(feedback + 8);
  // The receiver rounds up to a block after the message's last byte.
  if (rcv_nxt > flow->length && rcv_nxt <= (uint64_t)flow->blocks * BLOCK_BYTES) rcv_nxt = flow->length;
  bool aligned = (rcv_nxt % BLOCK_BYTES == 0 || rcv_nxt == flow->length) && start % BLOCK_BYTES == 0 &&
                 (end % BLOCK_BYTES == 0 || end == flow->length);
  if (!aligned || rcv_nxt > flow->sent_end || end > flow->sent_end) {
    t->stats.bad_feedback++;
    return transport_malformed(t);
  }

  uint8_t report = bth[BTH_CONGESTION] & (BTH_ELIGIBLE | BTH_EXHAUSTED);
  if (report != flow->report) observe(flow, now, report);
  uint32_t fresh = settle_below(flow, (uint32_t)rcv_nxt);
  bool counts = true;
  if (syndrome == SYNDROME_ACK) {
    flow->stats.acks++;
    fresh += settle_range(flow, start, (uint32_t)end);
    if (start > flow->rcv_nxt) counts = repair_gap(t, flow, now) || !ignores_beyond_gap(t, flow);
  } else {
    flow->stats.naks++;
    request(flow, start, (uint32_t)end);
  }
  if (fresh > 0) flow->expiries = 0;
  if (counts) after_feedback(t, flow, now, bth);
  if (flow->rcv_nxt + flow->settled_above == flow->length)
    finish(t, flow, now, TRANSPORT_SENT);
  else
    schedule_wake(t, flow, now);
  return TRANSPORT_OK;
}

void sender_run_expiries(transport_t *t, uint64_t now) {
  bool expired = false;
  while (heap_first_ns(&t->expiry) <= now) {
    send_flow_t *flow = t->sends[heap_first_slot(&t->expiry)];
    uint64_t due = flow->activity_ns + t->config.rto_ns;
    if (due > now) {
      heap_move_first(&t->expiry, due);
      continue;
    }
    uint32_t outstanding = flow->snd_nxt - flow->rcv_nxt;
    if (outstanding == 0 || (!t->config.repeat_tail && outstanding == flow->settled_above)) {
      // The flow waits for its pacing, not for feedback.
      flow->activity_ns = now;
      heap_move_first(&t->expiry, now + t->config.rto_ns);
      continue;
    }
    expired = true;
    flow->stats.rtos++;
    if (++flow->expiries >= t->config.rto_limit) {
      finish(t, flow, now, TRANSPORT_FAILED);
      continue;
    }
    if (t->config.repeat_tail)
      flow->snd_nxt = flow->rcv_nxt;
    else
      request(flow, flow->rcv_nxt, flow->sent_end);
    flow->activity_ns = now;
    heap_move_first(&t->expiry, now + t->config.rto_ns);
    schedule_wake(t, flow, now);
  }
  if (expired && t->held_count > 0) schedule_wake_held(t, now);
}

void sender_count_repeat(send_flow_t *flow, uint32_t start, uint32_t bytes) {
  uint32_t sent = flow->sent_end - start;
  flow->stats.retransmitted_bytes += bytes < sent ? bytes : sent;
  flow->stats.retransmitted_packets++;
}

uint32_t sender_take_repair(const transport_t *t, send_flow_t *flow, uint32_t *start) {
  uint32_t first_unsettled = flow->rcv_nxt / BLOCK_BYTES;
  if (flow->repair_hint < first_unsettled) flow->repair_hint = first_unsettled;
  uint32_t from = bitmap_next(flow->repair, flow->repair_hint, flow->blocks);
  uint32_t limit = from + t->config.payload_bytes / BLOCK_BYTES;
  if (limit > flow->blocks) limit = flow->blocks;
  uint32_t to = bitmap_run_end(flow->repair, from, limit);
  flow->repair_blocks -= bitmap_clear(flow->repair, from, to);
  flow->repair_hint = flow->repair_blocks > 0 ? to : UINT32_MAX;
  *start = from * BLOCK_BYTES;
  uint32_t bytes = block_bytes(flow, to - from, to == flow->blocks);
  sender_count_repeat(flow, *start, bytes);
  return bytes;
}

void sender_stats(transport_t *t, send_flow_t *flow, uint64_t now, transport_flow_stats_t *stats) {
  if (!flow->done) schedule_rate(t, flow, now);
  *stats = flow->stats;
  if (!flow->done) count_mode(flow, now, stats);
  stats->first_bytes = flow->sent_end;
  stats->rate_bps = flow->dcqcn.rate_bps;
  stats->alpha_q31 = flow->dcqcn.alpha_q31;
  stats->signals = flow->dcqcn.signals;
  stats->rate_cuts = flow->dcqcn.cuts;
  stats->settled_bytes = flow->rcv_nxt + flow->settled_above;
  if (!flow->was_exempt) stats->signals_before_exempt = stats->signals;
}

void sender_sum(const send_flow_t *flow, transport_stats_t *sums) {
  const transport_flow_stats_t *stats = &flow->stats;
  sums->sent_packets += stats->packets;
  sums->first_bytes += flow->sent_end;
  sums->retransmitted_bytes += stats->retransmitted_bytes;
  sums->retransmitted_packets += stats->retransmitted_packets;
  sums->acks += stats->acks;
  sums->naks += stats->naks;
  sums->signals += flow->dcqcn.signals;
  sums->rate_cuts += flow->dcqcn.cuts;
  sums->rtos += stats->rtos;
  sums->exempt_messages += flow->was_exempt;
  sums->obeying_again_messages += flow->obeyed_again;
  sums->flag_changes += stats->flag_changes;
  sums->exempt_ns += stats->exempt_ns;
  sums->obeying_again_ns += stats->obeying_again_ns;
  if (flow->was_exempt) sums->signals_after_exempt += flow->dcqcn.signals - stats->signals_before_exempt;
}

int transport_post_send(transport_t *t, uint64_t now, const transport_send_t *send, uint64_t *id) {
  uint32_t slot = qp_slot(send->src_qp);
  if (send->length_bytes == 0 || send->class_ > TRANSPORT_DATA || send->src_qp >> 24 != 0 ||
      send->dst_qp >> 24 != 0 || send->dst_mac >> 48 != 0)
    return TRANSPORT_INVALID;
  if (t->send_qps.qp[slot] != send->src_qp) return TRANSPORT_NOT_FOUND;
  if (t->sends[slot] != NULL) return TRANSPORT_BUSY;
  uint32_t blocks = block_ceiling(send->length_bytes), words = bitmap_words(blocks);
  send_flow_t *flow = (send_flow_t *)flow_obtain(&t->free_sends, sizeof *flow, words);
  if (flow == NULL) return TRANSPORT_NO_MEMORY;
  if (!events_reserve(t, 1)) {
    flow_recycle(&t->free_sends, &flow->memory);
    return TRANSPORT_NO_MEMORY;
  }
  flow->settled = flow->memory.maps;
  flow->repair = flow->memory.maps + words;
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
  flow->activity_ns = now;
  flow->report_ns = now;
  flow->stats.posted_ns = now;
  schedule_post(t, flow, send);
  t->sends[slot] = flow;
  *id = flow->id;
  schedule_wake(t, flow, now);
  return TRANSPORT_OK;
}

void sender_release(transport_t *t, send_flow_t *flow) {
  schedule_end(t, flow);
  if (!flow->done) events_unreserve(t, 1);
  sender_sum(flow, &t->stats);
  t->sends[flow->slot] = NULL;
  flow_recycle(&t->free_sends, &flow->memory);
}
