// SPDX-License-Identifier: Apache-2.0
// The handle: configuration, queue pairs, demultiplexing, events, statistics.
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static bool config_valid(const transport_config_t *c) {
  const transport_dcqcn_t *d = &c->dcqcn;
  const uint64_t max_rate = UINT64_C(1) << 50;
  if (c->line_rate_bps == 0 || c->line_rate_bps > max_rate || c->src_mac >> 48 != 0 || c->payload_bytes == 0 ||
      c->payload_bytes % BLOCK_BYTES != 0 || c->payload_bytes > TRANSPORT_MAX_PAYLOAD_BYTES ||
      c->overhead_bytes > 1024 || c->window_basis > TRANSPORT_WINDOW_CUMULATIVE ||
      c->span_bytes < c->payload_bytes || c->rto_ns == 0 || c->rto_ns > UINT64_C(1) << 52 || c->rto_limit == 0 ||
      c->first_owner >> OWNER_WIDTH != 0 || c->catch_up_ns > UINT64_C(1) << 40 || c->port_paced > 1 ||
      c->repeat_tail > 1 || c->window_repairs > c->repeat_tail || c->blocked_stops_timer > c->port_paced || c->ignore_beyond_gap > TRANSPORT_FLOWS_ALL || c->gap_repair_ns > UINT64_C(1) << 52 ||
      c->gradient_dscp > 63 || c->data_dscp > 63 || c->ttl == 0)
    return false;
  if (!d->enabled) return true;
  return d->gain_q31 <= UINT32_C(1) << 31 && d->initial_alpha_q31 <= UINT32_C(1) << 31 && d->first_signal_ppm > 0 &&
         d->first_signal_ppm <= 1000000 && d->alpha_period_ns > 0 && d->decrease_period_ns > 0 &&
         d->increase_period_ns > 0 && d->min_bps > 0 && d->min_bps <= c->line_rate_bps &&
         d->additive_bps <= max_rate && d->hyper_bps <= max_rate;
}

static void qp_pool_init(qp_pool_t *pool, uint32_t first_owner) {
  for (uint32_t i = 0; i < TRANSPORT_SLOTS; i++) {
    pool->free[i] = (uint16_t)i;
    pool->owner[i] = (uint16_t)first_owner;
    pool->qp[i] = UINT32_MAX;
  }
  pool->head = 0;
  pool->count = TRANSPORT_SLOTS;
}

int transport_create(const transport_config_t *config, transport_t **out) {
  if (!config_valid(config)) return TRANSPORT_INVALID;
  transport_t *t = calloc(1, sizeof *t);
  if (t == NULL) return TRANSPORT_NO_MEMORY;
  t->config = *config;
  dcqcn_params_init(&t->dcqcn, &config->dcqcn, config->line_rate_bps);
  t->slack_ticks = config->catch_up_ns << TICK_SHIFT;
  // What a port fetches at the end of a nanosecond may have left at its start: without that fraction a lone flow would
  // never fill its line.
  if (config->port_paced && t->slack_ticks == 0) t->slack_ticks = (1 << TICK_SHIFT) - 1;
  t->host_full_gap = gap_ticks((uint64_t)config->payload_bytes + config->overhead_bytes, config->line_rate_bps);
  qp_pool_init(&t->send_qps, config->first_owner);
  qp_pool_init(&t->receive_qps, config->first_owner);
  *out = t;
  return TRANSPORT_OK;
}

void transport_destroy(transport_t *t) {
  if (t == NULL) return;
  for (uint32_t i = 0; i < TRANSPORT_SLOTS; i++) {
    if (t->sends[i] != NULL) flow_free(&t->sends[i]->memory);
    if (t->receives[i] != NULL) flow_free(&t->receives[i]->memory);
  }
  flow_free_list(t->free_sends);
  flow_free_list(t->free_receives);
  free(t->events);
  free(t);
}

static int qp_alloc(qp_pool_t *pool, uint32_t step_slot, uint32_t *qp) {
  if (step_slot >= TRANSPORT_STEP_SLOTS) return TRANSPORT_INVALID;
  if (pool->count == 0) return TRANSPORT_EXHAUSTED;
  uint32_t slot = pool->free[pool->head];
  pool->head = (pool->head + 1) % TRANSPORT_SLOTS;
  pool->count--;
  uint32_t owner = pool->owner[slot];
  pool->owner[slot] = (uint16_t)((owner + 1) & ((1 << OWNER_WIDTH) - 1));
  *qp = pool->qp[slot] = step_slot << (OWNER_WIDTH + FLOW_SLOT_WIDTH) | owner << FLOW_SLOT_WIDTH | slot;
  return TRANSPORT_OK;
}

static int qp_free(qp_pool_t *pool, bool in_use, uint32_t qp) {
  uint32_t slot = qp_slot(qp);
  if (pool->qp[slot] != qp) return TRANSPORT_NOT_FOUND;
  if (in_use) return TRANSPORT_BUSY;
  pool->qp[slot] = UINT32_MAX;
  pool->free[(pool->head + pool->count) % TRANSPORT_SLOTS] = (uint16_t)slot;
  pool->count++;
  return TRANSPORT_OK;
}

int transport_alloc_send_qp(transport_t *t, uint32_t step_slot, uint32_t *qp) {
  return qp_alloc(&t->send_qps, step_slot, qp);
}

int transport_alloc_receive_qp(transport_t *t, uint32_t step_slot, uint32_t *qp) {
  return qp_alloc(&t->receive_qps, step_slot, qp);
}

int transport_free_send_qp(transport_t *t, uint32_t qp) {
  return qp_free(&t->send_qps, t->sends[qp_slot(qp)] != NULL, qp);
}

int transport_free_receive_qp(transport_t *t, uint32_t qp) {
  return qp_free(&t->receive_qps, t->receives[qp_slot(qp)] != NULL, qp);
}

int transport_receive(transport_t *t, uint64_t now, const uint8_t *data, size_t bytes, size_t wire_bytes) {
  t->triggered = true;
  if (bytes >= BTH_BYTES && wire_bytes >= bytes) {
    uint8_t opcode = data[BTH_OPCODE];
    int status = TRANSPORT_MALFORMED;
    if (opcode == OPCODE_WRITE_ONLY)
      status = receiver_deliver(t, now, data, bytes, wire_bytes);
    else if (opcode == OPCODE_ACKNOWLEDGE)
      status = sender_feedback(t, now, data, bytes);
    else if (opcode == OPCODE_CNP)
      status = sender_notification(t, now, data);
    else
      return transport_malformed(t);
    if (status == TRANSPORT_OK && t->held_count > 0) schedule_wake_held(t, now);
    return status;
  }
  return transport_malformed(t);
}

int transport_receive_frame(transport_t *t, uint64_t now, const uint8_t *data, size_t bytes, size_t wire_bytes) {
  if (bytes < TRANSPORT_UDP_OFFSET || wire_bytes < bytes || !frame_is_roce(data)) return transport_malformed(t);
  size_t payload_bytes = get16(data + ETHERNET_BYTES + IPV4_BYTES + 4);
  if (payload_bytes < UDP_BYTES || TRANSPORT_UDP_OFFSET - UDP_BYTES + payload_bytes > wire_bytes)
    return transport_malformed(t);
  payload_bytes -= UDP_BYTES;
  size_t captured = bytes - TRANSPORT_UDP_OFFSET;
  if (captured > payload_bytes) captured = payload_bytes;
  return transport_receive(t, now, data + TRANSPORT_UDP_OFFSET, captured, payload_bytes);
}

static send_flow_t *send_by_id(const transport_t *t, uint64_t id) {
  send_flow_t *flow = t->sends[id & (TRANSPORT_SLOTS - 1)];
  return flow != NULL && flow->id == id ? flow : NULL;
}

static receive_flow_t *receive_by_id(const transport_t *t, uint64_t id) {
  receive_flow_t *flow = t->receives[id & (TRANSPORT_SLOTS - 1)];
  return flow != NULL && flow->id == id ? flow : NULL;
}

int transport_release(transport_t *t, uint64_t id) {
  send_flow_t *send = send_by_id(t, id);
  receive_flow_t *receive = receive_by_id(t, id);
  if (send != NULL)
    sender_release(t, send);
  else if (receive != NULL)
    receiver_release(t, receive);
  else
    return TRANSPORT_NOT_FOUND;
  return TRANSPORT_OK;
}

int transport_forgiven(const transport_t *t, uint64_t id, transport_range_t *ranges, int capacity) {
  receive_flow_t *flow = receive_by_id(t, id);
  return flow == NULL ? TRANSPORT_NOT_FOUND : receiver_forgiven(flow, ranges, capacity);
}

int transport_flow_stats(transport_t *t, uint64_t now, uint64_t id, transport_flow_stats_t *stats) {
  send_flow_t *send = send_by_id(t, id);
  receive_flow_t *receive = receive_by_id(t, id);
  if (send != NULL) {
    sender_stats(t, send, now, stats);
  } else if (receive != NULL) {
    receiver_stats(receive, stats);
  } else {
    return TRANSPORT_NOT_FOUND;
  }
  return TRANSPORT_OK;
}

int transport_get_stats(const transport_t *t, transport_stats_t *stats) {
  *stats = t->stats;
  for (uint32_t i = 0; i < TRANSPORT_SLOTS; i++) {
    if (t->sends[i] != NULL) sender_sum(t->sends[i], stats);
    if (t->receives[i] != NULL) receiver_sum(t->receives[i], stats);
  }
  return TRANSPORT_OK;
}

bool events_reserve(transport_t *t, uint32_t count) {
  uint32_t needed = t->event_count + t->event_reserved + count;
  if (needed > t->event_capacity) {
    uint32_t capacity = t->event_capacity == 0 ? 64 : t->event_capacity;
    while (capacity < needed) capacity *= 2;
    transport_event_t *events = malloc(capacity * sizeof *events);
    if (events == NULL) return false;
    for (uint32_t i = 0; i < t->event_count; i++)
      events[i] = t->events[(t->event_head + i) % t->event_capacity];
    free(t->events);
    t->events = events;
    t->event_capacity = capacity;
    t->event_head = 0;
  }
  t->event_reserved += count;
  return true;
}

void events_unreserve(transport_t *t, uint32_t count) { t->event_reserved -= count; }

void events_push(transport_t *t, const transport_event_t *event) {
  t->event_reserved--;
  t->events[(t->event_head + t->event_count++) % t->event_capacity] = *event;
}

int transport_next_event(transport_t *t, transport_event_t *event) {
  if (t->event_count == 0) return 0;
  *event = t->events[t->event_head];
  t->event_head = (t->event_head + 1) % t->event_capacity;
  t->event_count--;
  return 1;
}

int transport_waiting_events(const transport_t *t) { return (int)t->event_count; }
