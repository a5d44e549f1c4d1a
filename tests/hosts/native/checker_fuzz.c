// SPDX-License-Identifier: Apache-2.0
// The checker under frames that are right, nearly right, cut short or nonsense, in
// any order, between changes of steps and of what is expected; for builds with
// sanitizers. Nothing is asserted of its verdicts but that they add up.
//
//   checker_fuzz SEED FRAMES   ->  exit status 0, or a line on stderr
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/checker.h"
#include "wire.h"

enum { FLOWS = 3, BLOCKS = 200 };
enum { GRADIENT = 10, GRADIENT_TRIMMED = 12, DATA = 18, DATA_TRIMMED = 20, FRAME = 96, PAST = 64 };

typedef struct frame {
  uint8_t data[FRAME];
  uint32_t bytes, wire_bytes;
} frame_t;

static uint64_t state;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % below;
}

static void fail(const char *what) {
  fprintf(stderr, "checker_fuzz: %s\n", what);
  exit(1);
}

static void headers(frame_t *f, uint32_t dscp, uint32_t bytes, uint32_t payload, uint32_t opcode) {
  memset(f, 0, sizeof *f);
  f->bytes = bytes;
  f->wire_bytes = bytes + payload;
  put16(f->data + 12, ETHERTYPE_IPV4);
  f->data[14] = 0x45;
  f->data[15] = (uint8_t)(dscp << 2 | (draw(4) == 0 ? ECN_CE : ECN_ECT0));
  put16(f->data + 16, f->wire_bytes - 14);
  f->data[23] = PROTO_UDP;
  put16(f->data + 36, UDP_PORT_ROCE);
  put16(f->data + 38, f->wire_bytes - 34);
  f->data[42] = (uint8_t)opcode;
}

typedef struct flow {
  uint32_t owner, next, psn;
} flow_t;

static uint32_t qp_of(const flow_t *flows, uint32_t i) {
  uint32_t owner = flows[i].owner + (draw(100) == 0) - (draw(100) == 0);
  return i % 2 << 21 | (owner & 2047) << 10 | i;
}

// A packet of one of a few flows, in order more often than not. A flow that is
// through comes again under the next owner.
static void arrival(checker_t *c, frame_t *f, flow_t *flows, int calm) {
  static const uint8_t dscps[] = {GRADIENT, GRADIENT, GRADIENT, GRADIENT, GRADIENT_TRIMMED, DATA, DATA_TRIMMED};
  uint32_t i = (uint32_t)draw(FLOWS), dscp = dscps[calm ? 0 : draw(sizeof dscps)];
  if (flows[i].owner == 0 || (flows[i].next >= BLOCKS && draw(20) == 0)) {
    flows[i] = (flow_t){.owner = flows[i].owner + 1};
    checker_expect(c, i % 2 << 21 | (flows[i].owner & 2047) << 10 | i, BLOCKS * 512 - (uint32_t)draw(512));
  }
  uint32_t qp = qp_of(flows, i);
  uint32_t blocks = calm || draw(4) ? 8 : (uint32_t)draw(34), start = calm || draw(4) ? flows[i].next : (uint32_t)draw(BLOCKS);
  uint32_t length = blocks * 512 - (draw(30) ? 0 : (uint32_t)draw(512));
  headers(f, dscp, 70, dscp == GRADIENT_TRIMMED || dscp == DATA_TRIMMED ? 0 : length, OPCODE_WRITE_ONLY);
  if (start == flows[i].next) flows[i].next = start + blocks;
  uint8_t *bth = f->data + 42;
  if (draw(60) == 0) bth[BTH_FLAGS] = BTH_SOLICITED;
  put24(bth + BTH_DEST_QP, qp);
  put24(bth + BTH_PSN, flows[i].psn++);
  put32(bth + BTH_BYTES + RETH_ADDR, draw(50) ? start * 512 : UINT32_MAX - (uint32_t)draw(20000));
  put24(bth + BTH_BYTES + RETH_SOURCE_QP, qp ^ 0x555);
  put32(bth + BTH_BYTES + RETH_LENGTH, length);
}

// What a NIC might make of a packet.
static void deliver(frame_t *f, const frame_t *packet) {
  *f = *packet;
  f->data[70] = draw(6) ? DELIVERY_DATA : DELIVERY_FORGIVEN;
  uint32_t blocks = (get32(packet->data + 66) + 511) / 512;
  put32(f->data + 74, draw(8) && blocks > 0 && blocks <= 32 ? UINT32_MAX >> (32 - blocks) : (uint32_t)state);
  f->bytes = 78;
  f->wire_bytes = packet->wire_bytes + 8;
}

static void answer(frame_t *f, const frame_t *packet) {
  headers(f, 46, 70, 0, draw(30) ? OPCODE_ACKNOWLEDGE : OPCODE_CNP);
  const uint8_t *bth = packet->data + 42;
  uint8_t *out = f->data + 42;
  out[BTH_CONGESTION] = (uint8_t)(draw(3) ? BTH_ELIGIBLE : draw(8) << 4);
  memcpy(out + BTH_DEST_QP, bth + BTH_BYTES + RETH_SOURCE_QP, 3);
  memcpy(out + BTH_PSN, bth + BTH_PSN, 3);
  out[12] = draw(5) ? SYNDROME_ACK : SYNDROME_NAK;
  uint32_t start = get32(bth + BTH_BYTES + RETH_ADDR), length = get32(bth + BTH_BYTES + RETH_LENGTH);
  put32(out + 16, draw(3) ? start + length : (uint32_t)draw(2 * BLOCKS) * 512);
  put32(out + 20, start);
  put32(out + 24, length);
}

static void garble(frame_t *f) {
  if (draw(3) == 0) f->bytes = (uint32_t)draw(f->bytes + 1);
  if (draw(3) == 0) f->wire_bytes = (uint32_t)draw(20000);
  for (uint64_t i = draw(4); i > 0; i--) f->data[draw(FRAME)] ^= (uint8_t)(1 << draw(8));
  if (f->wire_bytes < f->bytes) f->wire_bytes = f->bytes;
}

// An exact copy on the heap, so that reading beyond it is seen.
static void feed(checker_t *c, uint64_t now, int host, int outgoing, const frame_t *f) {
  uint8_t *copy = malloc(f->bytes + 1);
  if (copy == NULL) fail("no memory");
  memcpy(copy, f->data, f->bytes);
  uint8_t *exact = realloc(copy, f->bytes == 0 ? 1 : f->bytes);
  if (exact == NULL) fail("no memory");
  checker_stats_t before, after;
  checker_get_stats(c, &before);
  int wrong = (host ? checker_host : checker_wire)(c, now, outgoing, exact, f->bytes, f->wire_bytes);
  checker_get_stats(c, &after);
  if (wrong != (after.violations > before.violations)) fail("the answer is not what was counted");
  free(exact);
}

static void control(checker_t *c, uint64_t now) {
  if (draw(60) == 0) {
    if (checker_restart(c, now) != CHECKER_OK) fail("restart refused");
    return;
  }
  uint32_t slot = (uint32_t)draw(2);
  checker_step_t step = {
      .expected_bytes = 200000 * draw(3),
      .forgive_threshold = draw(3) << 31,
      .step_tag = 1 + (uint32_t)draw(4),
      .p_ppm = (uint32_t)draw(5) * 250000,
      .packet_bytes = 4096,
      .open = draw(4) != 0,
      .vesting = draw(4) != 0,
      .exemption = (uint32_t)draw(3),
      .eligible = draw(5) != 0,
      .notification_interval_us = draw(5) == 0,
      .forgiveness_echoes = (uint32_t)draw(2),
      .trimmed_starts_flow = (uint32_t)draw(2),
  };
  step.budget_bytes = step.expected_bytes * step.p_ppm / 1000000 + (draw(10) == 0);
  switch (draw(6)) {
    case 0:
      checker_set_step(c, now, slot, &step);
      break;
    case 1:
      checker_close_step(c, now, slot);
      break;
    case 2:
      checker_remove_step(c, now, slot);
      break;
    case 3:
      checker_forget(c, (uint32_t)draw(1 << 24));
      break;
    default: {
      uint32_t qp = slot << 21 | (uint32_t)(1 + draw(3)) << 10 | (uint32_t)draw(FLOWS);
      if (draw(50) == 0) checker_expect(c, qp, 1 + (uint32_t)draw(200000));
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: checker_fuzz SEED FRAMES");
  state = strtoull(argv[1], NULL, 10) * 2 + 1;
  for (int i = 0; i < 10; i++) draw(2);
  checker_config_t config = {.kept_violations = (uint32_t)draw(50),
                             .gradient_dscp = GRADIENT,
                             .gradient_trimmed_dscp = GRADIENT_TRIMMED,
                             .data_trimmed_dscp = DATA_TRIMMED};
  checker_t *c;
  if (checker_create(&config, &c) != CHECKER_OK) fail("create refused");
  flow_t flows[FLOWS] = {{0}};
  frame_t past[PAST] = {0};
  uint32_t written = 0, reported = 0, delivered = 0;
  uint64_t now = 0;
  int calm = 0;
  for (long left = strtol(argv[2], NULL, 10); left > 0; left--, now++) {
    frame_t f;
    uint64_t kind = draw(100);
    // Times without trouble, when one packet is like the next.
    if (draw(300) == 0) calm = !calm;
    if (calm && kind < 97) {
      if (reported != written)
        kind = 70;
      else if (delivered != written)
        kind = 50;
      else
        kind = 0;
    }
    if (kind < 45 && written - reported < PAST && written - delivered < PAST) {
      arrival(c, &f, flows, calm);
      past[written++ % PAST] = f;
      feed(c, now, 0, 0, &f);
    } else if (kind < 65 && delivered != written) {
      deliver(&f, &past[delivered++ % PAST]);
      feed(c, now, 1, 1, &f);
    } else if (kind < 88 && reported != written) {
      answer(&f, &past[reported++ % PAST]);
      feed(c, now, 0, 1, &f);
    } else if (kind < 92) {
      control(c, now);
    } else if (written > 0) {
      const frame_t *from = &past[draw(written < PAST ? written : PAST)];
      if (draw(3) == 0)
        deliver(&f, from);
      else if (draw(2))
        answer(&f, from);
      else
        f = *from;
      garble(&f);
      feed(c, now, (int)draw(2), (int)draw(2), &f);
    }
    if (left % 4096 == 0) checker_finish(c, now);
  }
  checker_stats_t stats;
  checker_get_stats(c, &stats);
  uint64_t sum = 0;
  for (int i = 0; i < CHECKER_KINDS; i++) sum += stats.violations_by_kind[i];
  if (sum != stats.violations) fail("violations do not add up");
  static checker_violation_t kept[64];
  int count = checker_violations(c, kept, 64);
  for (int i = 0; i < count; i++) {
    char text[400], small[7];
    int length = checker_describe(&kept[i], text, sizeof text);
    if (length <= 0 || (size_t)length >= sizeof text || strstr(text, checker_kind_name(kept[i].kind)) == NULL)
      fail("a violation has no text");
    if (checker_describe(&kept[i], small, sizeof small) != length) fail("a text that does not fit changes its length");
  }
  if (draw(2)) checker_finish(c, now);
  checker_destroy(c);
  checker_destroy(NULL);
  return 0;
}
