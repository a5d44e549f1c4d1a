// SPDX-License-Identifier: Apache-2.0
// What the checker costs: messages that arrive in order, each packet with its
// delivery and its report, without payload; one in TRIM_EVERY comes trimmed first,
// and is refused.
//
//   checker_bench MESSAGES FLOWS MESSAGE_BYTES TRIM_EVERY   ->  one JSON line
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "include/checker.h"
#include "wire.h"

enum { PAYLOAD = 4096, MAX_FLOWS = 1024, GRADIENT = 10, GRADIENT_TRIMMED = 12, DATA_TRIMMED = 20 };

typedef struct flow {
  uint32_t qp, next, psn, hole;
} flow_t;

static checker_t *checker;
static uint64_t now;

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void headers(uint8_t *frame, uint32_t dscp, uint32_t ip_bytes, uint32_t opcode) {
  memset(frame, 0, 78);
  put16(frame + 12, ETHERTYPE_IPV4);
  frame[14] = 0x45;
  frame[15] = (uint8_t)(dscp << 2 | ECN_ECT0);
  put16(frame + 16, ip_bytes);
  frame[23] = PROTO_UDP;
  put16(frame + 36, UDP_PORT_ROCE);
  put16(frame + 38, ip_bytes - IPV4_BYTES);
  frame[42] = (uint8_t)opcode;
}

static int packet(flow_t *f, uint32_t start, uint32_t bytes, uint32_t length, int trimmed, uint32_t rcv_nxt) {
  uint8_t data[78], report[78];
  uint32_t payload = trimmed ? 0 : bytes;
  headers(data, trimmed ? GRADIENT_TRIMMED : GRADIENT, 56 + payload, OPCODE_WRITE_ONLY);
  uint8_t *bth = data + 42;
  if (start + bytes == length) bth[BTH_FLAGS] = BTH_SOLICITED;
  put24(bth + BTH_DEST_QP, f->qp);
  put24(bth + BTH_PSN, f->psn);
  put32(bth + BTH_BYTES + RETH_ADDR, start);
  put24(bth + BTH_BYTES + RETH_SOURCE_QP, f->qp);
  put32(bth + BTH_BYTES + RETH_LENGTH, bytes);
  data[70] = DELIVERY_DATA;
  put32(data + 74, (1u << ((bytes + 511) / 512)) - 1);
  headers(report, 46, 56, OPCODE_ACKNOWLEDGE);
  uint8_t *answer = report + 42;
  answer[BTH_CONGESTION] = BTH_ELIGIBLE;
  put24(answer + BTH_DEST_QP, f->qp);
  put24(answer + BTH_PSN, f->psn++);
  answer[12] = trimmed ? SYNDROME_NAK : SYNDROME_ACK;
  put32(answer + 16, rcv_nxt);
  put32(answer + 20, start);
  put32(answer + 24, bytes);
  int wrong = checker_wire(checker, now, 0, data, 70, 70 + payload);
  if (!trimmed) wrong |= checker_host(checker, now, 1, data, 78, 78 + payload);
  return wrong | checker_wire(checker, now, 1, report, 70, 70);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: checker_bench MESSAGES FLOWS MESSAGE_BYTES TRIM_EVERY\n");
    return 2;
  }
  uint64_t messages = strtoull(argv[1], NULL, 10);
  uint32_t flows = (uint32_t)strtoul(argv[2], NULL, 10);
  uint32_t length = (uint32_t)strtoul(argv[3], NULL, 10);
  uint64_t trim_every = strtoull(argv[4], NULL, 10);
  checker_config_t config = {.kept_violations = 10,
                             .gradient_dscp = GRADIENT,
                             .gradient_trimmed_dscp = GRADIENT_TRIMMED,
                             .data_trimmed_dscp = DATA_TRIMMED};
  // P = 0, so that what is trimmed comes again.
  checker_step_t step = {.step_tag = 1, .p_ppm = 100000, .packet_bytes = PAYLOAD, .open = 1, .vesting = 1,
                         .eligible = 1, .trimmed_starts_flow = 1};
  step.expected_bytes = messages * length;
  step.budget_bytes = step.expected_bytes / 10;
  static flow_t state[MAX_FLOWS];
  if (flows == 0 || flows > MAX_FLOWS || length == 0 || checker_create(&config, &checker) != CHECKER_OK ||
      checker_set_step(checker, 0, 0, &step) != CHECKER_OK)
    return 1;
  uint64_t packets = 0, begun = 0;
  double start = cpu_seconds();
  for (uint64_t done = 0; done < messages;) {
    for (uint32_t i = 0; i < flows && done < messages; i++) {
      flow_t *f = &state[i];
      if (f->next == 0) {
        if (begun++ >= messages) continue;
        f->qp = (uint32_t)((((begun - 1) / MAX_FLOWS + 1) % 2048) << 10 | (begun - 1) % MAX_FLOWS);
        if (checker_expect(checker, f->qp, length) != CHECKER_OK) return 1;
      }
      now += 83;
      uint32_t bytes = length - f->next < PAYLOAD ? length - f->next : PAYLOAD;
      packets++;
      if (trim_every != 0 && packets % trim_every == 0) {
        if (packet(f, f->next, bytes, length, 1, f->next)) return 1;
        packets++;
      }
      uint32_t end = f->next + bytes;
      if (packet(f, f->next, bytes, length, 0, (end + 511) / 512 * 512)) return 1;
      f->next = end < length ? end : 0;
      done += end == length;
    }
  }
  double seconds = cpu_seconds() - start;
  if (checker_finish(checker, now) != 0) return 1;
  printf("{\"packets\": %llu, \"cpu_s\": %.4f}\n", (unsigned long long)packets, seconds);
  checker_destroy(checker);
  return 0;
}
