// SPDX-License-Identifier: Apache-2.0
// Two transports over a network that loses, trims, doubles, delays and breaks
// packets, for builds with sanitizers. Checks what the Python tests check of
// bytes and completion; above all it walks every path with random input.
//
//   soak SEED ROUNDS   ->  exit status 0, or a line on stderr
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/transport.h"
#include "wire.h"

enum { MESSAGES = 12, MAX_LENGTH = 60000, BLOCKS = MAX_LENGTH / 512 + 2, QUEUE = 8192 };

typedef struct packet {
  uint64_t due;
  uint64_t order;
  bool to_sender;
  uint32_t bytes;
  uint8_t data[28 + 8 + 4096];
} packet_t;

typedef struct message {
  uint32_t length, dst_qp;
  uint64_t send_id, receive_id;
  uint8_t *payload, *buffer;
  bool settled[BLOCKS], forgiven[BLOCKS], sent, received;
} message_t;

static uint64_t state;
static packet_t *queue[QUEUE];
static uint32_t queued;
static uint64_t order;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % below;
}

static void fail(const char *what) {
  fprintf(stderr, "soak: %s\n", what);
  exit(1);
}

static void put(uint64_t due, bool to_sender, const uint8_t *data, uint32_t bytes) {
  if (queued == QUEUE) return;
  packet_t *p = malloc(sizeof *p);
  if (p == NULL) fail("no memory");
  *p = (packet_t){.due = due, .order = order++, .to_sender = to_sender, .bytes = bytes};
  memcpy(p->data, data, bytes);
  queue[queued++] = p;
}

static packet_t *take(uint64_t now) {
  uint32_t best = queued;
  for (uint32_t i = 0; i < queued; i++)
    if (queue[i]->due <= now && (best == queued || queue[i]->due < queue[best]->due ||
                                 (queue[i]->due == queue[best]->due && queue[i]->order < queue[best]->order)))
      best = i;
  if (best == queued) return NULL;
  packet_t *p = queue[best];
  queue[best] = queue[--queued];
  return p;
}

// A NIC in a few lines: one flow's blocks, feedback, delivery.
static void arrive(message_t *messages, transport_t *receiver, uint64_t now, const transport_packet_t *out) {
  const uint8_t *bth = out->header + TRANSPORT_UDP_OFFSET;
  message_t *m = messages;
  while (m->dst_qp != get24(bth + BTH_DEST_QP)) m++;
  uint32_t start = get32(bth + BTH_BYTES + RETH_ADDR), bytes = out->payload_bytes;
  bool trimmed = draw(10) == 0, forgive = draw(3) == 0;
  uint32_t accept = 0;
  for (uint32_t i = 0; i * 512 < bytes; i++) {
    uint32_t block = start / 512 + i;
    if (m->settled[block] || (trimmed && !forgive)) continue;
    m->settled[block] = true;
    m->forgiven[block] = trimmed;
    accept |= UINT32_C(1) << i;
  }
  uint8_t data[28 + 8 + 4096];
  memcpy(data, bth, 28);
  memset(data + 28, 0, 8);
  data[28] = trimmed ? DELIVERY_FORGIVEN : DELIVERY_DATA;
  put32(data + 32, accept);
  memcpy(data + 36, m->payload + start, bytes);
  uint32_t size = trimmed ? 36 : 36 + bytes;
  // An exact copy on the heap, so that reading beyond it is seen.
  uint8_t *exact = malloc(size);
  if (exact == NULL) fail("no memory");
  memcpy(exact, data, size);
  if (accept != 0 && transport_receive(receiver, now, exact, size, size) != TRANSPORT_OK) fail("delivery refused");
  free(exact);

  uint32_t rcv_nxt = 0;
  while (m->settled[rcv_nxt]) rcv_nxt++;
  bool whole = true;
  for (uint32_t i = 0; i * 512 < bytes; i++) whole &= m->settled[start / 512 + i];
  uint8_t feedback[28] = {OPCODE_ACKNOWLEDGE};
  put24(feedback + BTH_DEST_QP, get24(bth + BTH_BYTES + RETH_SOURCE_QP));
  feedback[12] = whole ? SYNDROME_ACK : SYNDROME_NAK;
  if (draw(4) == 0) feedback[BTH_CONGESTION] = BTH_BECN;
  put32(feedback + 16, rcv_nxt * 512);
  put32(feedback + 20, start);
  put32(feedback + 24, bytes);
  for (uint64_t copies = draw(20) == 0 ? 0 : 1 + draw(20) / 19; copies > 0; copies--)
    put(now + 100 + draw(20000), true, feedback, sizeof feedback);
}

static void garble(transport_t *t, uint64_t now, const uint8_t *data, uint32_t bytes) {
  uint32_t size = (uint32_t)draw(bytes + 1);
  uint8_t *copy = malloc(size + 1);
  if (copy == NULL) fail("no memory");
  memcpy(copy, data, size);
  // Never a valid packet of this run: the queue pairs' top bits are not in use.
  if (size > BTH_DEST_QP) copy[BTH_DEST_QP] |= 0x80;
  for (int i = 0; i < 4 && size > 12; i++) copy[12 + draw(size - 12)] ^= (uint8_t)(1 << draw(8));
  transport_receive(t, now, copy, size, size + draw(3) * 1000);
  transport_receive_frame(t, now, copy, size, size);
  free(copy);
}

static void round_of_messages(transport_t *a, transport_t *b, uint64_t *now) {
  message_t *messages = calloc(MESSAGES, sizeof *messages);
  if (messages == NULL) fail("no memory");
  for (int i = 0; i < MESSAGES; i++) {
    message_t *m = &messages[i];
    m->length = (uint32_t)(1 + draw(draw(2) ? 3000 : MAX_LENGTH));
    m->payload = malloc(m->length);
    m->buffer = malloc(m->length);
    if (m->payload == NULL || m->buffer == NULL) fail("no memory");
    for (uint32_t k = 0; k < m->length; k++) m->payload[k] = (uint8_t)draw(256);
    memset(m->buffer, 0xee, m->length);
    uint32_t src_qp;
    if (transport_alloc_receive_qp(b, (uint32_t)draw(4), &m->dst_qp) != 0) fail("no receive queue pair");
    if (transport_alloc_send_qp(a, 0, &src_qp) != 0) fail("no send queue pair");
    transport_expect_t expect = {.qp = m->dst_qp, .length_bytes = m->length, .buffer = m->buffer, .cookie = (uint64_t)i};
    transport_send_t send = {.dst_addr = 2, .dst_qp = m->dst_qp, .src_qp = src_qp, .data = m->payload,
                             .length_bytes = m->length, .cookie = (uint64_t)i};
    if (transport_post_receive(b, *now, &expect, &m->receive_id) != 0) fail("receive refused");
    if (transport_post_send(a, *now, &send, &m->send_id) != 0) fail("send refused");
    if (transport_post_send(a, *now, &send, &m->send_id) != TRANSPORT_BUSY) fail("two messages on a queue pair");
  }
  int left = 2 * MESSAGES;
  transport_packet_t out;
  while (left > 0) {
    while (transport_poll(a, *now, &out) == 1) {
      if (draw(15) == 0) continue;  // lost
      arrive(messages, b, *now, &out);
      if (draw(10) == 0) arrive(messages, b, *now, &out);
      if (draw(10) == 0) garble(draw(2) ? a : b, *now, out.header + TRANSPORT_UDP_OFFSET, 28);
    }
    transport_event_t event;
    while (transport_next_event(a, &event) == 1) {
      if (event.type != TRANSPORT_SENT) fail("a message failed");
      messages[event.cookie].sent = true;
      if (transport_release(a, event.id) != 0 || transport_free_send_qp(a, event.qp) != 0) fail("release refused");
      left--;
    }
    while (transport_next_event(b, &event) == 1) {
      if (event.type != TRANSPORT_RECEIVED) fail("double settlement");
      messages[event.cookie].received = true;
      left--;
    }
    uint64_t wake = transport_next_wake(a);
    for (uint32_t i = 0; i < queued; i++)
      if (queue[i]->due < wake) wake = queue[i]->due;
    if (wake == UINT64_MAX && left > 0) fail("nothing left to do, but messages are");
    if (wake != UINT64_MAX && wake > *now) *now = wake;
    packet_t *p;
    while ((p = take(*now)) != NULL) {
      transport_receive(p->to_sender ? a : b, *now, p->data, p->bytes, p->bytes);
      free(p);
    }
  }
  for (int i = 0; i < MESSAGES; i++) {
    message_t *m = &messages[i];
    for (uint32_t k = 0; k < m->length; k++)
      if (m->buffer[k] != (m->forgiven[k / 512] ? 0xee : m->payload[k])) fail("wrong bytes");
    transport_range_t ranges[BLOCKS];
    int count = transport_forgiven(b, m->receive_id, ranges, BLOCKS);
    uint32_t reported = 0, expected = 0;
    for (int k = 0; k < count; k++) reported += ranges[k].length_bytes;
    for (uint32_t k = 0; k < m->length; k++) expected += m->forgiven[k / 512];
    if (reported != expected) fail("forgiven ranges are wrong");
    if (transport_release(b, m->receive_id) != 0 || transport_free_receive_qp(b, m->dst_qp) != 0)
      fail("retire refused");
    free(m->payload);
    free(m->buffer);
  }
  free(messages);
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: soak SEED ROUNDS");
  state = strtoull(argv[1], NULL, 10) * 2 + 1;
  for (int i = 0; i < 10; i++) draw(2);
  transport_config_t config = {
      .line_rate_bps = 10000000000,
      .payload_bytes = (uint32_t)(512 << draw(4)),
      .overhead_bytes = 70,
      .window_basis = (uint32_t)draw(2),
      .window_bytes = draw(3) * 20000,
      .scale_window = (uint32_t)draw(2),
      .span_bytes = 32768,
      .rto_ns = 100000,
      .rto_limit = 1000,
      .first_owner = 2040,
      .catch_up_ns = draw(2),
      .port_paced = (uint32_t)draw(2),
      .repeat_tail = (uint32_t)draw(2),
      .gap_repair_ns = draw(3) * 5000,
      .ignore_beyond_gap = (uint32_t)draw(3),
      .window_repairs = (uint32_t)draw(2),
      .blocked_stops_timer = (uint32_t)draw(2),
      .gradient_dscp = 8,
      .data_dscp = 10,
      .ttl = 64,
      .dcqcn = {.enabled = (uint32_t)draw(2), .fast_recovery_stages = 1, .gain_q31 = 1u << 23,
                .initial_alpha_q31 = 1u << 31, .first_signal_ppm = 1000000, .alpha_period_ns = 1000,
                .decrease_period_ns = 4000, .increase_period_ns = 90000, .additive_bps = 5000000,
                .hyper_bps = 10000000, .min_bps = 10000000},
  };
  config.window_repairs &= config.repeat_tail;
  config.blocked_stops_timer &= config.port_paced;
  transport_t *a, *b;
  if (transport_create(&config, &a) != 0 || transport_create(&config, &b) != 0) fail("create refused");
  uint64_t now = 0;
  for (long i = strtol(argv[2], NULL, 10); i > 0; i--) round_of_messages(a, b, &now);
  while (queued > 0) free(queue[--queued]);
  transport_stats_t stats;
  transport_get_stats(b, &stats);
  if (stats.double_settlements != 0) fail("double settlement");
  // Destroyed with messages under way: nothing may leak.
  uint32_t qp;
  uint64_t id;
  transport_alloc_send_qp(a, 0, &qp);
  transport_send_t send = {.dst_addr = 2, .dst_qp = 1, .src_qp = qp, .length_bytes = 100000};
  transport_post_send(a, now, &send, &id);
  transport_packet_t out;
  transport_poll(a, now, &out);
  transport_destroy(a);
  transport_destroy(b);
  transport_destroy(NULL);
  return 0;
}
