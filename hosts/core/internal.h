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

// What flows of either direction start with: memory that is used again.
typedef struct flow_memory {
  uint64_t *maps;     // two bitmaps of `words` each
  uint32_t capacity;  // words of both together that there is room for
  struct flow_memory *next_free;
} flow_memory_t;

typedef struct send_flow {
  flow_memory_t memory;
  // Scoreboard. Bits of `settled` and `repair` are only meant at and above
  // rcv_nxt; a block is in `repair` when it waits to be sent again.
  uint64_t *settled;
  uint64_t *repair;
  uint32_t length;
  uint32_t blocks;
  uint32_t rcv_nxt;
  uint32_t snd_nxt;        // next new data; after going back, what is to be sent again
  uint32_t sent_end;       // end of all that was ever sent
  uint32_t settled_above;  // bytes settled at or above rcv_nxt
  uint32_t repair_blocks;
  uint32_t repair_hint;  // no block below it is in `repair`
  uint32_t psn;
  uint64_t next_tick;    // earliest time of the next packet
  uint64_t window;       // bytes, as configured; UINT64_MAX: none
  uint64_t open_window;  // bytes, at the present rate
  uint64_t full_gap;     // ticks per full packet, at the present rate
  uint64_t rate_bps;     // the rate that these two are for
  uint64_t activity_ns;  // last send, ACK or NAK
  uint32_t expiries;     // consecutive
  uint16_t slot;
  bool waiting;  // in the heap `timed`
  bool held;     // in the set `held`
  bool done;     // completed or failed
  uint8_t report;     // flags of the latest feedback
  bool was_exempt;    // at some time
  bool obeyed_again;  // after that
  uint64_t report_ns;  // when they came
  uint32_t gap_head;   // rcv_nxt of the last gap repair
  uint64_t gap_ns;     // its time
  dcqcn_t dcqcn;
  const uint8_t *data;
  uint32_t dst_addr;
  uint32_t qp;
  uint8_t dscp;
  uint8_t header[TRANSPORT_HEADER_BYTES];  // of a full packet that does not end the message
  uint64_t id;
  uint64_t cookie;
  transport_flow_stats_t stats;  // what dcqcn counts is there
} send_flow_t;

typedef struct receive_flow {
  flow_memory_t memory;
  // Bits of `settled` are only meant at and above `front`, below which all is settled.
  uint64_t *settled;
  uint64_t *forgiven;
  uint8_t *buffer;
  uint32_t posted;  // bytes
  uint32_t length;  // bytes; below `posted` once the message ended early
  uint32_t settled_bytes;
  uint32_t front;  // blocks
  uint32_t above;  // blocks settled at or above it
  // Of the latest packet that was new as a whole: its length and delivery header.
  uint32_t whole_bytes;
  uint64_t whole_delivery;
  uint32_t qp;
  bool done;
  bool reported;  // a double settlement, once per message
  uint16_t slot;
  uint64_t id;
  uint64_t cookie;
  transport_flow_stats_t stats;
} receive_flow_t;

// A cleared flow of `bytes`, whose two maps hold `words` each, from the free list if
// it has one. NULL: no memory.
flow_memory_t *flow_obtain(flow_memory_t **free_list, size_t bytes, uint32_t words);
void flow_recycle(flow_memory_t **free_list, flow_memory_t *flow);
void flow_free(flow_memory_t *flow);  // NULL is allowed
void flow_free_list(flow_memory_t *free_list);

// Binary min-heap of slots by time, at equal times by slot, so that order never
// depends on history. An entry is time << HEAP_SLOT_BITS | slot, of each slot at
// most one. Times are below 2^54.
enum { HEAP_SLOT_BITS = 10 };

typedef struct heap {
  uint64_t entries[TRANSPORT_SLOTS];
  uint32_t size;
} heap_t;

// Of an empty heap: UINT64_MAX.
static inline uint64_t heap_first_ns(const heap_t *heap) {
  return heap->size > 0 ? heap->entries[0] >> HEAP_SLOT_BITS : UINT64_MAX;
}

static inline uint16_t heap_first_slot(const heap_t *heap) { return heap->entries[0] & (TRANSPORT_SLOTS - 1); }

void heap_push(heap_t *heap, uint16_t slot, uint64_t time_ns);
void heap_move_first(heap_t *heap, uint64_t time_ns);  // the first entry gets another time
void heap_remove(heap_t *heap, uint16_t slot);         // absent: nothing; walks through the entries

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
  heap_t timed;    // flows that may send, by next_tick, rounded up
  heap_t expiry;   // flows by a time not after their retransmission timeout
  // With window_repairs: flows that have something to send and only wait for their
  // window. It may open by the rate alone, which nobody is told of: all of them are
  // looked at when anything arrives or leaves.
  uint64_t held[TRANSPORT_SLOTS / 64];
  uint32_t held_count;
  uint64_t host_tick;  // when the host's line is free
  uint64_t host_full_gap;
  uint64_t slack_ticks;  // a packet that was due longer ago counts as due this long ago
  // Messages that are being sent, for blocked_stops_timer.
  uint16_t live[TRANSPORT_SLOTS];
  uint32_t live_count;
  bool triggered;  // something happened since transport_poll found nothing to send
  bool stopped;    // it set no timer then
  uint64_t serial;  // of the last message
  qp_pool_t send_qps;
  qp_pool_t receive_qps;
  transport_event_t *events;  // ring
  uint32_t event_capacity;
  uint32_t event_head;
  uint32_t event_count;
  uint32_t event_reserved;
  flow_memory_t *free_sends;
  flow_memory_t *free_receives;
  transport_stats_t stats;  // but for what live flows count
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

// Counts a packet that breaks the wire format.
static inline int transport_malformed(transport_t *t) {
  t->stats.malformed++;
  return TRANSPORT_MALFORMED;
}

// sender.c
int sender_feedback(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes);
int sender_notification(transport_t *t, uint64_t now, const uint8_t *bth);
void sender_stats(transport_t *t, send_flow_t *flow, uint64_t now, transport_flow_stats_t *stats);
void sender_sum(const send_flow_t *flow, transport_stats_t *sums);
void sender_release(transport_t *t, send_flow_t *flow);
void sender_run_expiries(transport_t *t, uint64_t now);
void sender_count_repeat(send_flow_t *flow, uint32_t start, uint32_t bytes);
// The next range that waits to be sent again, ascending. `*start` is its offset.
uint32_t sender_take_repair(const transport_t *t, send_flow_t *flow, uint32_t *start);

// schedule.c
void schedule_post(transport_t *t, send_flow_t *flow, const transport_send_t *send);
uint64_t schedule_rate(transport_t *t, send_flow_t *flow, uint64_t now);
void schedule_signal(transport_t *t, send_flow_t *flow, uint64_t now);
void schedule_wake(transport_t *t, send_flow_t *flow, uint64_t now);
void schedule_wake_held(transport_t *t, uint64_t now);
void schedule_remove(transport_t *t, send_flow_t *flow);  // until it is woken
void schedule_end(transport_t *t, send_flow_t *flow);     // for good; again: nothing

// receiver.c
int receiver_deliver(transport_t *t, uint64_t now, const uint8_t *bth, size_t bytes, size_t wire_bytes);
int receiver_forgiven(const receive_flow_t *flow, transport_range_t *ranges, int capacity);
void receiver_stats(const receive_flow_t *flow, transport_flow_stats_t *stats);
void receiver_sum(const receive_flow_t *flow, transport_stats_t *sums);
void receiver_release(transport_t *t, receive_flow_t *flow);

#endif  // HOSTS_INTERNAL_H
