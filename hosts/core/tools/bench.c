// SPDX-License-Identifier: Apache-2.0
// Packets per CPU second of the transport alone: flows that send, are delivered
// and acknowledged in order, without payload, in simulated time. One packet =
// one transport_poll, one delivery at the receiver, one acknowledgement.
//
//   bench MESSAGES FLOWS MESSAGE_BYTES MARK_EVERY   ->  one JSON line
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/transport.h"
#include "wire.h"

enum { RING = 1 << 16, DELAY_NS = 20000 };

typedef struct in_flight {
  uint64_t due;
  uint32_t dst_qp, src_qp, psn, start, bytes;
  uint8_t last;
} in_flight_t;

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int post(transport_t *a, transport_t *b, uint64_t now, uint32_t bytes) {
  uint32_t dst, src;
  uint64_t id;
  if (transport_alloc_receive_qp(b, 0, &dst) != 0 || transport_alloc_send_qp(a, 0, &src) != 0) return -1;
  transport_expect_t expect = {.qp = dst, .length_bytes = bytes};
  transport_send_t send = {.dst_addr = 2, .dst_qp = dst, .src_qp = src, .length_bytes = bytes};
  if (transport_post_receive(b, now, &expect, &id) != 0) return -1;
  return transport_post_send(a, now, &send, &id);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: bench MESSAGES FLOWS MESSAGE_BYTES MARK_EVERY\n");
    return 2;
  }
  uint64_t messages = strtoull(argv[1], NULL, 10);
  uint64_t flows = strtoull(argv[2], NULL, 10);
  uint32_t message_bytes = (uint32_t)strtoul(argv[3], NULL, 10);
  uint64_t mark_every = strtoull(argv[4], NULL, 10);
  transport_config_t config = {
      .line_rate_bps = 400000000000,
      .payload_bytes = 4096,
      .overhead_bytes = 36,
      .window_bytes = 3516200,
      .window_basis = TRANSPORT_WINDOW_CUMULATIVE,
      .scale_window = 1,
      .span_bytes = 4128768,
      .rto_ns = 1000000,
      .rto_limit = 1024,
      .first_owner = 1,
      .catch_up_ns = 1,
      .gradient_dscp = 8,
      .data_dscp = 10,
      .ttl = 64,
      .dcqcn = {.enabled = 1,
                .fast_recovery_stages = 1,
                .gain_q31 = 1u << 23,
                .initial_alpha_q31 = 1u << 31,
                .first_signal_ppm = 1000000,
                .alpha_period_ns = 1000,
                .decrease_period_ns = 4000,
                .increase_period_ns = 900000,
                .additive_bps = 200000000,
                .hyper_bps = 400000000,
                .min_bps = 400000000},
  };
  transport_t *a, *b;
  if (transport_create(&config, &a) != 0 || transport_create(&config, &b) != 0) return 1;
  in_flight_t *ring = malloc(RING * sizeof *ring);
  if (ring == NULL) return 1;
  uint32_t head = 0, tail = 0;
  uint64_t now = 0, posted = 0, done = 0, packets = 0;
  double start = cpu_seconds();
  for (; posted < flows && posted < messages; posted++)
    if (post(a, b, now, message_bytes) != 0) return 1;
  transport_packet_t packet;
  while (done < messages) {
    uint64_t wake = transport_next_wake(a);
    if (wake <= now && tail - head < RING && transport_poll(a, now, &packet) == 1) {
      const uint8_t *bth = packet.header + TRANSPORT_UDP_OFFSET;
      ring[tail++ % RING] = (in_flight_t){
          .due = now + DELAY_NS,
          .dst_qp = get24(bth + BTH_DEST_QP),
          .src_qp = get24(bth + BTH_BYTES + RETH_SOURCE_QP),
          .psn = get24(bth + BTH_PSN),
          .start = get32(bth + BTH_BYTES + RETH_ADDR),
          .bytes = packet.payload_bytes,
          .last = bth[BTH_FLAGS],
      };
      packets++;
      continue;
    }
    if (head != tail && ring[head % RING].due < wake) wake = ring[head % RING].due;
    if (wake > now) now = wake;
    for (; head != tail && ring[head % RING].due <= now; head++) {
      const in_flight_t *p = &ring[head % RING];
      uint8_t delivery[BTH_BYTES + RETH_BYTES + DELIVERY_BYTES] = {OPCODE_WRITE_ONLY, p->last};
      put24(delivery + BTH_DEST_QP, p->dst_qp);
      put32(delivery + BTH_BYTES + RETH_ADDR, p->start);
      put32(delivery + BTH_BYTES + RETH_LENGTH, p->bytes);
      delivery[BTH_BYTES + RETH_BYTES] = DELIVERY_DATA;
      put32(delivery + BTH_BYTES + RETH_BYTES + 4, (1u << ((p->bytes + 511) / 512)) - 1);
      transport_receive(b, now, delivery, sizeof delivery, sizeof delivery + p->bytes);
      uint8_t ack[BTH_BYTES + AETH_BYTES + FEEDBACK_BYTES] = {OPCODE_ACKNOWLEDGE};
      put24(ack + BTH_DEST_QP, p->src_qp);
      ack[BTH_BYTES] = SYNDROME_ACK;
      if (mark_every != 0 && p->psn % mark_every == mark_every - 1) ack[BTH_CONGESTION] = BTH_BECN;
      put32(ack + BTH_BYTES + AETH_BYTES, p->start + p->bytes);
      put32(ack + BTH_BYTES + AETH_BYTES + 4, p->start);
      put32(ack + BTH_BYTES + AETH_BYTES + 8, p->bytes);
      transport_receive(a, now, ack, sizeof ack, sizeof ack);
    }
    transport_event_t event;
    while (transport_next_event(b, &event) == 1) {
      transport_release(b, event.id);
      transport_free_receive_qp(b, event.qp);
    }
    while (transport_next_event(a, &event) == 1) {
      if (event.type != TRANSPORT_SENT) return 1;
      transport_release(a, event.id);
      transport_free_send_qp(a, event.qp);
      done++;
      if (posted < messages) {
        if (post(a, b, now, message_bytes) != 0) return 1;
        posted++;
      }
    }
  }
  double seconds = cpu_seconds() - start;
  transport_stats_t stats;
  transport_get_stats(a, &stats);
  printf("{\"packets\": %llu, \"cpu_s\": %.4f, \"simulated_s\": %.6f, \"signals\": %llu, \"rate_cuts\": %llu, "
         "\"retransmitted_packets\": %llu}\n",
         (unsigned long long)packets, seconds, (double)now / 1e9, (unsigned long long)stats.signals,
         (unsigned long long)stats.rate_cuts, (unsigned long long)stats.retransmitted_packets);
  transport_destroy(a);
  transport_destroy(b);
  free(ring);
  return 0;
}
