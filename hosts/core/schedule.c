// SPDX-License-Identifier: Apache-2.0
// When a sender's packets leave, and what they look like: rate, window, pacing,
// turns, headers.
#include <string.h>

#include "internal.h"

static uint64_t tick_ceiling(uint64_t tick) { return (tick + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT; }

// What depends on the rate.
static void rate_changed(const transport_t *t, send_flow_t *flow) {
  const transport_config_t *config = &t->config;
  flow->rate_bps = flow->dcqcn.rate_bps;
  flow->full_gap = gap_ticks((uint64_t)config->payload_bytes + config->overhead_bytes, flow->rate_bps);
  flow->open_window = flow->window;
  if (!config->scale_window || flow->window == UINT64_MAX) return;
  __extension__ typedef unsigned __int128 wide_t;
  flow->open_window = (uint64_t)((wide_t)flow->window * flow->rate_bps / config->line_rate_bps);
  if (flow->open_window == 0) flow->open_window = 1;
}

// Cuts and increases happen late, when somebody looks.
static inline void refresh(const transport_t *t, send_flow_t *flow, uint64_t now) {
  if (flow->dcqcn.next_ns > now) return;
  dcqcn_advance(&flow->dcqcn, &t->dcqcn, now);
  if (flow->dcqcn.rate_bps != flow->rate_bps) rate_changed(t, flow);
}

uint64_t schedule_rate(transport_t *t, send_flow_t *flow, uint64_t now) {
  refresh(t, flow, now);
  return flow->rate_bps;
}

void schedule_signal(transport_t *t, send_flow_t *flow, uint64_t now) {
  dcqcn_signal(&flow->dcqcn, &t->dcqcn, now);
  if (flow->dcqcn.rate_bps != flow->rate_bps) rate_changed(t, flow);
}

static inline bool has_window(const transport_t *t, const send_flow_t *flow) {
  uint64_t used = flow->snd_nxt - flow->rcv_nxt;
  if (t->config.window_basis == TRANSPORT_WINDOW_UNSETTLED)
    used = used > flow->settled_above ? used - flow->settled_above : 0;
  return used < flow->open_window;
}

// The receiver's scoreboard limits new data alone: what is repaired has been in it.
static inline bool sendable(const transport_t *t, const send_flow_t *flow) {
  if (flow->repair_blocks > 0) return !t->config.window_repairs || has_window(t, flow);
  uint32_t left = flow->length - flow->snd_nxt;
  if (left == 0) return false;
  uint64_t used = flow->snd_nxt - flow->rcv_nxt;
  if (used + (left < t->config.payload_bytes ? left : t->config.payload_bytes) > t->config.span_bytes) return false;
  return has_window(t, flow);
}

static void set_held(transport_t *t, send_flow_t *flow, bool held) {
  if (flow->held == held) return;
  flow->held = held;
  t->held[flow->slot / 64] ^= UINT64_C(1) << flow->slot % 64;
  t->held_count += held ? 1 : UINT32_MAX;
}

// A flow may not send: is it for its window?
static inline void block(transport_t *t, send_flow_t *flow) {
  if (!t->config.window_repairs) return;
  bool more = flow->repair_blocks > 0 || flow->snd_nxt < flow->length;
  set_held(t, flow, more && !has_window(t, flow));
}

// A blocked flow that may send again gets in line, without credit for the time it
// was blocked.
void schedule_wake(transport_t *t, send_flow_t *flow, uint64_t now) {
  if (flow->waiting || flow->done) return;
  refresh(t, flow, now);
  if (!sendable(t, flow)) {
    block(t, flow);
    return;
  }
  set_held(t, flow, false);
  uint64_t tick = now << TICK_SHIFT;
  if (flow->next_tick < tick) flow->next_tick = tick;
  flow->waiting = true;
  heap_push(&t->timed, flow->slot, tick_ceiling(flow->next_tick));
}

void schedule_wake_held(transport_t *t, uint64_t now) {
  for (uint32_t w = 0; w < TRANSPORT_SLOTS / 64; w++)
    for (uint64_t slots = t->held[w]; slots != 0; slots &= slots - 1)
      schedule_wake(t, t->sends[w * 64 + (uint32_t)__builtin_ctzll(slots)], now);
}

void schedule_remove(transport_t *t, send_flow_t *flow) {
  if (!flow->waiting) return;
  heap_remove(&t->timed, flow->slot);
  flow->waiting = false;
}

// --- headers

static void put_lengths(uint8_t *header, uint32_t bytes) {
  uint32_t udp_length = UDP_BYTES + BTH_BYTES + RETH_BYTES + bytes;
  uint8_t *ip = header + ETHERNET_BYTES;
  put16(ip + 2, IPV4_BYTES + udp_length);
  put16(ip + 10, 0);
  uint32_t sum = 0;
  for (int i = 0; i < IPV4_BYTES; i += 2) sum += get16(ip + i);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  put16(ip + 10, ~sum & 0xffff);
  put16(ip + IPV4_BYTES + 4, udp_length);
  put32(header + TRANSPORT_UDP_OFFSET + BTH_BYTES + RETH_LENGTH, bytes);
}

void schedule_post(transport_t *t, send_flow_t *flow, const transport_send_t *send) {
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
  uint8_t *udp = ip + IPV4_BYTES;
  put16(udp, UDP_PORT_ROCE);  // the NIC writes its own
  put16(udp + 2, UDP_PORT_ROCE);
  uint8_t *bth = udp + UDP_BYTES;
  bth[BTH_OPCODE] = OPCODE_WRITE_ONLY;
  put16(bth + BTH_P_KEY, 0xffff);
  put24(bth + BTH_DEST_QP, send->dst_qp);
  put24(bth + BTH_BYTES + RETH_SOURCE_QP, send->src_qp);
  put_lengths(header, t->config.payload_bytes);
  dcqcn_init(&flow->dcqcn, &t->dcqcn);
  rate_changed(t, flow);
  t->live[t->live_count++] = flow->slot;
  t->triggered = true;
}

void schedule_end(transport_t *t, send_flow_t *flow) {
  schedule_remove(t, flow);
  set_held(t, flow, false);
  heap_remove(&t->expiry, flow->slot);
  uint32_t at = 0;
  while (at < t->live_count && t->live[at] != flow->slot) at++;
  if (at < t->live_count) t->live[at] = t->live[--t->live_count];
}

// --- packets

// Pacing by ideal times: the next packet is due a gap after this one was due,
// not after it went out, so late wake-ups do not add up (within the slack).
static inline void pace(transport_t *t, send_flow_t *flow, uint64_t now, uint32_t bytes) {
  uint64_t latest = now << TICK_SHIFT;
  uint64_t due = flow->next_tick;
  if (!t->config.port_paced && due < t->host_tick) due = t->host_tick;
  if (due + t->slack_ticks < latest) due = latest - t->slack_ticks;
  if (bytes == t->config.payload_bytes) {
    flow->next_tick = due + flow->full_gap;
    t->host_tick = due + t->host_full_gap;
  } else {
    uint64_t wire_bytes = (uint64_t)bytes + t->config.overhead_bytes;
    flow->next_tick = due + gap_ticks(wire_bytes, flow->rate_bps);
    t->host_tick = due + gap_ticks(wire_bytes, t->config.line_rate_bps);
  }
}

static inline void send_one(transport_t *t, send_flow_t *flow, uint64_t now, transport_packet_t *packet) {
  uint32_t start = flow->snd_nxt, bytes = flow->length - start;
  packet->retransmission = start < flow->sent_end || flow->repair_blocks > 0;
  if (flow->repair_blocks > 0) {
    bytes = sender_take_repair(t, flow, &start);
  } else {
    if (bytes > t->config.payload_bytes) bytes = t->config.payload_bytes;
    flow->snd_nxt += bytes;
    if (packet->retransmission) sender_count_repeat(flow, start, bytes);
    if (flow->snd_nxt > flow->sent_end) flow->sent_end = flow->snd_nxt;
  }
  uint8_t *header = packet->header, *bth = header + TRANSPORT_UDP_OFFSET;
  memcpy(header, flow->header, TRANSPORT_HEADER_BYTES);
  if (bytes != t->config.payload_bytes) put_lengths(header, bytes);
  if (start + bytes == flow->length) bth[BTH_FLAGS] = BTH_SOLICITED;
  put24(bth + BTH_PSN, flow->psn);
  flow->psn = (flow->psn + 1) & 0xffffff;
  put32(bth + BTH_BYTES + RETH_ADDR, start);
  packet->dscp = flow->dscp;
  packet->dst_addr = flow->dst_addr;
  packet->payload_bytes = bytes;
  packet->payload = flow->data == NULL ? NULL : flow->data + start;
  packet->id = flow->id;
  pace(t, flow, now, bytes);
  if (flow->stats.packets++ == 0) {
    flow->stats.first_ns = now;
    heap_push(&t->expiry, flow->slot, now + t->config.rto_ns);
  }
  flow->activity_ns = now;
}

// A flow's next packet could have left by its pacing, and has not.
static bool any_time_passed(const transport_t *t, uint64_t now) {
  for (uint32_t i = 0; i < t->live_count; i++)
    if (tick_ceiling(t->sends[t->live[i]]->next_tick) <= now) return true;
  return false;
}

int transport_poll(transport_t *t, uint64_t now, transport_packet_t *packet) {
  if (heap_first_ns(&t->expiry) <= now) sender_run_expiries(t, now);
  if (!t->config.port_paced && tick_ceiling(t->host_tick) > now) return 0;
  while (heap_first_ns(&t->timed) <= now) {
    send_flow_t *flow = t->sends[heap_first_slot(&t->timed)];
    refresh(t, flow, now);
    if (!sendable(t, flow)) {
      schedule_remove(t, flow);
      block(t, flow);
      continue;
    }
    send_one(t, flow, now, packet);
    t->triggered = true;
    if (sendable(t, flow))
      heap_move_first(&t->timed, tick_ceiling(flow->next_tick));
    else {
      schedule_remove(t, flow);
      block(t, flow);
    }
    if (t->held_count > 0) schedule_wake_held(t, now);
    return 1;
  }
  t->triggered = false;
  if (t->config.blocked_stops_timer) t->stopped = any_time_passed(t, now);
  return 0;
}

uint64_t transport_next_wake(const transport_t *t) {
  uint64_t wake_ns = heap_first_ns(&t->timed);
  if (t->config.blocked_stops_timer && t->live_count > 0) {
    if (t->triggered) return 0;
    if (t->stopped) wake_ns = UINT64_MAX;
  }
  if (!t->config.port_paced && wake_ns != UINT64_MAX && wake_ns < tick_ceiling(t->host_tick))
    wake_ns = tick_ceiling(t->host_tick);
  uint64_t expiry_ns = heap_first_ns(&t->expiry);
  return expiry_ns < wake_ns ? expiry_ns : wake_ns;
}
