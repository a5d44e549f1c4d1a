// SPDX-License-Identifier: Apache-2.0
// What of p4src/include/headers.p4 a host sees (a test compares the constants).
#ifndef HOSTS_WIRE_H
#define HOSTS_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
  ETHERTYPE_IPV4 = 0x0800,
  PROTO_UDP = 17,
  UDP_PORT_ROCE = 4791,
  ECN_ECT0 = 2,
  ECN_CE = 3,
  OPCODE_WRITE_ONLY = 0x0a,
  OPCODE_ACKNOWLEDGE = 0x11,
  OPCODE_CNP = 0x81,
  SYNDROME_ACK = 0x1f,
  SYNDROME_NAK = 0x60,
  DELIVERY_DATA = 1,
  DELIVERY_FORGIVEN = 2,
  ETHERNET_BYTES = 14,
  IPV4_BYTES = 20,
  UDP_BYTES = 8,
  BTH_BYTES = 12,
  RETH_BYTES = 16,
  AETH_BYTES = 4,
  FEEDBACK_BYTES = 12,
  DELIVERY_BYTES = 8,
  CNP_PAD_BYTES = 16,
  BLOCK_SHIFT = 9,
  BLOCK_BYTES = 512,
  STEP_SLOT_WIDTH = 3,
  OWNER_WIDTH = 11,
  FLOW_SLOT_WIDTH = 10,
  MAX_RANGE_BLOCKS = 32,
};

// Byte offsets inside BTH and RETH, and bits of BTH's flag bytes.
enum {
  BTH_OPCODE = 0,
  BTH_FLAGS = 1,  // solicited is the top bit
  BTH_P_KEY = 2,
  BTH_CONGESTION = 4,  // fecn, becn, exemption_eligible, budget_exhausted, reserved
  BTH_DEST_QP = 5,
  BTH_PSN = 9,
  RETH_ADDR = 4,  // low half of the 64-bit address
  RETH_SOURCE_QP = 9,
  RETH_LENGTH = 12,
  BTH_SOLICITED = 0x80,
  BTH_BECN = 0x40,
  BTH_ELIGIBLE = 0x20,
  BTH_EXHAUSTED = 0x10,
};

static inline uint32_t get24(const uint8_t *p) {
  return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t get16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static inline uint32_t get32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t get64(const uint8_t *p) {
  return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32 |
         (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | p[7];
}

static inline void put16(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 8);
  p[1] = (uint8_t)v;
}

static inline void put24(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 16);
  p[1] = (uint8_t)(v >> 8);
  p[2] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 24);
  p[1] = (uint8_t)(v >> 16);
  p[2] = (uint8_t)(v >> 8);
  p[3] = (uint8_t)v;
}

static inline void put48(uint8_t *p, uint64_t v) {
  put16(p, (uint32_t)(v >> 32));
  put32(p + 2, (uint32_t)v);
}

static inline uint32_t bth_dest_qp(const uint8_t *bth) { return get32(bth + BTH_CONGESTION) & 0xffffff; }

// Neither a fragment nor another protocol than UDP.
static inline bool frame_is_whole_udp(const uint8_t *data) {
  static const uint8_t mask[4] = {0x3f, 0xff, 0, 0xff}, value[4] = {0, 0, 0, PROTO_UDP};
  uint32_t word, m, v;
  memcpy(&word, data + 20, sizeof word);
  memcpy(&m, mask, sizeof m);
  memcpy(&v, value, sizeof v);
  return (word & m) == v;
}

// UDP to RoCE's port in an unfragmented IPv4 packet without options. 38 bytes at
// least, from Ethernet on.
static inline bool frame_is_roce(const uint8_t *data) {
  return get32(data + 12) >> 8 == (ETHERTYPE_IPV4 << 8 | 0x45) && frame_is_whole_udp(data) &&
         get16(data + 36) == UDP_PORT_ROCE;
}

#endif  // HOSTS_WIRE_H
