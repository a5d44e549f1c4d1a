// SPDX-License-Identifier: Apache-2.0
#ifndef HOSTS_INTERNAL_H
#define HOSTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dcqcn.h"
#include "include/transport.h"
#include "wire.h"

// Pacing runs in ticks of 2^-10 ns: at 400 Gb/s a nanosecond is 50 bytes.
enum { TICK_SHIFT = 10 };

enum { NO_SLOT = 0xffff };

// Where a sender flow waits: for an acknowledgement, its turn, or its time.
enum flow_state { FLOW_BLOCKED, FLOW_READY, FLOW_TIMED };

typedef struct send_flow {
  // Scoreboard. Bits of `settled` and `repair` are only meant at and above
  // rcv_nxt; a block is in `repair` when it waits to be sent again.
  uint64_t *settled;
  uint64_t *repair;
  uint32_t length;
  uint32_t blocks;
  uint32_t rcv_nxt;
  uint32_t snd_nxt;
  uint32_t settled_above;  // bytes settled at or above rcv_nxt
  uint32_t repair_blocks;
  uint32_t repair_hint;  // no block below it is in `repair`
  uint32_t psn;
  uint64_t next_tick;   // earliest time of the next packet
  uint64_t window;      // bytes; UINT64_MAX: none
  uint64_t window_rate;    // the rate that scaled_window was computed for
  uint64_t scaled_window;
  uint64_t gap_rate;    // the rate that full_gap was computed for
  uint64_t full_gap;    // ticks per full packet
  uint64_t activity_ns; // last send, ACK or NAK
  uint32_t expiries;    // consecutive
  uint16_t slot;
  uint16_t next_ready;
  uint8_t state;
  bool done;  // completed or failed
  uint8_t report;        // flags of the latest feedback
  bool was_exempt;       // at some time
  bool obeyed_again;     // after that
  uint64_t report_ns;    // when they came, or their time was last counted
  uint32_t gap_head;     // rcv_nxt of the last gap repair
  uint64_t gap_ns;       // its time
  dcqcn_t dcqcn;
  const uint8_t *data;
  uint32_t dst_addr;
  uint32_t qp;
  uint32_t ip_sum;  // of the IPv4 header without total length
  uint8_t dscp;
  uint8_t header[TRANSPORT_HEADER_BYTES];
  uint64_t id;
  uint64_t cookie;
  transport_flow_stats_t stats;
  uint32_t capacity;  // words allocated to each bitmap
  struct send_flow *next_free;
} send_flow_t;

typedef struct receive_flow {
  uint64_t *settled;
  uint64_t *forgiven;
  uint8_t *buffer;
  uint32_t posted;  // bytes
  uint32_t length;  // bytes; below `posted` once the message ended early
  uint32_t settled_bytes;
  uint32_t qp;
  bool done;
  bool reported;  // a double settlement, once per message
  uint16_t slot;
  uint64_t id;
  uint64_t cookie;
  transport_flow_stats_t stats;
  uint32_t capacity;  // words allocated to each bitmap
  struct receive_flow *next_free;
} receive_flow_t;

// Binary min-heap over slots, ties by slot, so that order never depends on
// history.
typedef struct heap_entry {
  uint64_t key;
  uint16_t slot;
} heap_entry_t;

typedef struct heap {
  heap_entry_t entries[TRANSPORT_SLOTS];
  uint16_t position[TRANSPORT_SLOTS];  // NO_SLOT: absent
  uint32_t size;
} heap_t;

void heap_init(heap_t *heap);
void heap_set(heap_t *heap, uint16_t slot, uint64_t key);  // inserts or moves
void heap_remove(heap_t *heap, uint16_t slot);             // absent: nothing

// Queue pair numbers: free slots wait in a ring, oldest first.
typedef struct qp_pool {
  uint16_t free[TRANSPORT_SLOTS];
  uint16_t owner[TRANSPORT_SLOTS];  // of the next use
  uint32_t qp[TRANSPORT_SLOTS];     // allocated number; UINT32_MAX: free
  uint32_t head;
  uint32_t count;
} qp_pool_t;

struct transport {
  transport_config_t config;
  dcqcn_params_t dcqcn;
  send_flow_t *sends[TRANSPORT_SLOTS];
  receive_flow_t *receives[TRANSPORT_SLOTS];
  heap_t timed;    // flows by next_tick
  heap_t expiry;   // flows by a time not after their retransmission timeout
  uint64_t host_tick;  // when the host's line is free
  uint64_t host_full_gap;
  uint64_t slack_ticks;  // a packet that was due longer ago counts as due this long ago
  uint16_t ready_head;
  uint16_t ready_tail;
  uint64_t serial;  // of the last message
  qp_pool_t send_qps;
  qp_pool_t receive_qps;
  transport_event_t *events;  // ring
  uint32_t event_capacity;
  uint32_t event_head;
  uint32_t event_count;
  uint32_t event_reserved;
  send_flow_t *free_sends;
  receive_flow_t *free_receives;
  transport_stats_t stats;
};

// Message id: serial | direction | slot.
enum { ID_SLOT_BITS = 10, ID_RECEIVE_BIT = 1 << ID_SLOT_BITS, ID_SERIAL_SHIFT = ID_SLOT_BITS + 1 };

static inline uint32_t qp_slot(uint32_t qp) { return qp & (TRANSPORT_SLOTS - 1); }

static inline uint64_t gap_ticks(uint64_t bytes, uint64_t rate_bps) {
  return bytes * 8 * ((uint64_t)1000000000 << TICK_SHIFT) / rate_bps;
}

// Room for events is made when a message is posted, so that none is lost later.
// False: no memory. A push uses up one reservation.
bool events_reserve(transport_t *t, uint32_t count);
void events_unreserve(transport_t *t, uint32_t count);
void events_push(transport_t *t, const transport_event_t *event);

int sender_feedback(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes);
int sender_notification(transport_t *t, uint64_t now, const uint8_t *bth);
void sender_stats(transport_t *t, send_flow_t *flow, uint64_t now, transport_flow_stats_t *stats);
void sender_release(transport_t *t, send_flow_t *flow);
void sender_free(send_flow_t *flow);

int receiver_deliver(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes, size_t wire_bytes);
int receiver_forgiven(const receive_flow_t *flow, transport_range_t *ranges, int capacity);
void receiver_release(transport_t *t, receive_flow_t *flow);
void receiver_free(receive_flow_t *flow);

#endif  // HOSTS_INTERNAL_H
