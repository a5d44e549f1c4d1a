// SPDX-License-Identifier: Apache-2.0
//
// The transport of one host: selective repeat by byte ranges, pacing, DCQCN
// rate control and a retransmission timeout. Sans-I/O: packets and `now` in,
// packets and the next wake-up time out. There is no clock, no socket, no
// thread and no global state inside; a handle is used by one thread at a time.
//
//   loop:  transport_receive(t, now, ...)      for every packet that arrived
//          while (transport_poll(t, now, &p) == 1) transmit p
//          while (transport_next_event(t, &e) == 1) tell the application
//          sleep until transport_next_wake(t), or a packet
//
// Time is integer nanoseconds from any origin, never falling, below 2^53. At
// equal times a timer comes before a packet. Results depend on the calls alone.
//
// A message is one flow: it has a queue pair at either end, its offsets start
// at 0, and every packet of it can be placed by itself (docs/dataplane.md has
// the wire). Functions return a transport_status: 0 or a positive result, or a
// negative error that left everything as it was.

#ifndef HOSTS_TRANSPORT_H
#define HOSTS_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_HEADER_BYTES 70  // Ethernet, IPv4, UDP, BTH, RETH
#define TRANSPORT_UDP_OFFSET 42    // where BTH starts in it
#define TRANSPORT_BLOCK_BYTES 512
#define TRANSPORT_MAX_PAYLOAD_BYTES 16384
#define TRANSPORT_SLOTS 1024  // messages at a time, in either direction
#define TRANSPORT_STEP_SLOTS 8

typedef struct transport transport_t;

enum transport_status {
  TRANSPORT_OK = 0,
  TRANSPORT_INVALID = -1,    // an argument or a configuration out of its range
  TRANSPORT_NO_MEMORY = -2,
  TRANSPORT_BUSY = -3,       // the queue pair's slot holds another message
  TRANSPORT_NOT_FOUND = -4,  // no such message or queue pair
  TRANSPORT_EXHAUSTED = -5,  // no free queue pair
  TRANSPORT_MALFORMED = -6,  // a packet that breaks the wire format: counted, dropped
  TRANSPORT_UNKNOWN = -7,    // a packet for a queue pair without message: counted, dropped
};

enum transport_class { TRANSPORT_GRADIENT = 0, TRANSPORT_DATA = 1 };

enum transport_window {
  TRANSPORT_WINDOW_UNSETTLED = 0,   // bytes sent and not settled
  TRANSPORT_WINDOW_CUMULATIVE = 1,  // bytes from rcv_nxt to the end of what was sent
};

enum transport_flows {
  TRANSPORT_FLOWS_NONE = 0,
  TRANSPORT_FLOWS_DATA = 1,  // all that carry no gradients
  TRANSPORT_FLOWS_ALL = 2,
};

// DCQCN's reaction point, in the variant of HPCC's simulator ("Mellanox"). From
// a flow's first signal on, two clocks run, anchored there: every alpha_period
// alpha <- (1 - g) alpha, plus g if a signal came in that period; every
// decrease_period (1 ns later than alpha's), if a signal came: cut, that is
// rate <- rate (1 - alpha/2), stage <- 0, increase timer restarted. Each
// increase_period: stage < fast_recovery_stages: nothing; equal: target +=
// additive; above: target += hyper; then rate <- (rate + target) / 2, stage + 1.
// Without clamp_target, a cut sets target <- rate only when stage > 0.
//
// Fixed point: alpha and g in units of 2^-31; rates in whole bits per second, cuts
// and means rounded up. n periods of decay at once are a product of the powers
// (1-g)^(2^k), each rounded down; they are applied at signals and cuts only, so
// that the result does not depend on when anybody looks.
typedef struct transport_dcqcn {
  uint32_t enabled;  // 0: line rate always
  uint32_t clamp_target;
  uint32_t fast_recovery_stages;
  uint32_t gain_q31;           // 0 .. 2^31
  uint32_t initial_alpha_q31;  // at the first signal
  uint32_t first_signal_ppm;   // rate at the first signal, 1000000 = unchanged
  uint64_t alpha_period_ns;
  uint64_t decrease_period_ns;
  uint64_t increase_period_ns;
  uint64_t additive_bps;
  uint64_t hyper_bps;
  uint64_t min_bps;
} transport_dcqcn_t;

typedef struct transport_config {
  uint64_t line_rate_bps;         // of the host, all flows together
  uint64_t src_mac;               // 48 bits; matters only where whole frames are used
  uint32_t src_addr;              // host byte order
  uint32_t payload_bytes;         // per packet; multiple of 512, at most 16384
  uint32_t overhead_bytes;        // per packet on top of payload, for pacing
  uint32_t window_basis;          // enum transport_window
  uint64_t window_bytes;          // new data goes out while less is in the window; 0: no window
  uint32_t scale_window;          // 1: times rate / line rate
  uint32_t span_bytes;            // never send beyond rcv_nxt + span: the receiver's scoreboard
  uint64_t rto_ns;                // from the last send, ACK or NAK of the flow
  uint32_t rto_limit;             // expiries without progress until the message fails
  uint32_t first_owner;           // owner tag of a slot's first use
  uint64_t catch_up_ns;           // how late a packet may be and still be made up for
  uint64_t gap_repair_ns;         // an ACK beyond rcv_nxt: repair the packet there, at most this often; 0: never
  uint32_t ignore_beyond_gap;     // enum transport_flows: otherwise such an ACK is no signal and restarts no timeout
  uint32_t repeat_tail;           // 1: on expiry go back to rcv_nxt: all from there on is sent again
  uint32_t window_repairs;        // 1: repairs need room in the window too; only with repeat_tail
  uint32_t blocked_stops_timer;   // 1: while a flow's time has passed unused, others wait for an arrival
  uint32_t port_paced;            // 1: a port fetches the packets when its line is free; only flows are paced
  uint8_t gradient_dscp;
  uint8_t data_dscp;
  uint8_t ttl;
  uint8_t reserved;
  transport_dcqcn_t dcqcn;
} transport_config_t;

// Copies the configuration. TRANSPORT_INVALID names no field: the caller checks
// first (hosts/config.py does). transport_destroy(NULL) is allowed.
int transport_create(const transport_config_t *config, transport_t **out);
void transport_destroy(transport_t *t);

// Queue pair numbers: step slot 3 bits, owner 11, flow slot 10. A freed slot is
// used again last of all, its owner one up. Free a receive queue pair only when
// the sender is known to have finished: its NIC must answer until then.
int transport_alloc_send_qp(transport_t *t, uint32_t step_slot, uint32_t *qp);
int transport_alloc_receive_qp(transport_t *t, uint32_t step_slot, uint32_t *qp);
int transport_free_send_qp(transport_t *t, uint32_t qp);
int transport_free_receive_qp(transport_t *t, uint32_t qp);

typedef struct transport_send {
  uint64_t cookie;      // handed back in events
  uint64_t dst_mac;     // 48 bits; matters only where whole frames are used
  uint32_t dst_addr;    // host byte order
  uint32_t dst_qp;      // chosen by the receiver
  uint32_t src_qp;      // from transport_alloc_send_qp
  uint32_t class_;      // enum transport_class
  const uint8_t *data;  // borrowed until SENT, FAILED or release; NULL: no payload is carried
  uint32_t length_bytes;
  uint32_t reserved;
  uint64_t window_bytes;  // 0: the configured one
} transport_send_t;

typedef struct transport_expect {
  uint64_t cookie;
  uint32_t qp;  // from transport_alloc_receive_qp
  uint32_t length_bytes;
  uint8_t *buffer;  // borrowed until release; NULL: payload is not stored
} transport_expect_t;

// Message ids are never used twice in the life of a handle.
int transport_post_send(transport_t *t, uint64_t now, const transport_send_t *send, uint64_t *id);
int transport_post_receive(transport_t *t, uint64_t now, const transport_expect_t *expect, uint64_t *id);

// Ends a message in any state and forgets it: no more packets, and no more
// events than those already waiting. Queue pairs stay allocated. Every message
// is released once.
int transport_release(transport_t *t, uint64_t id);

// A packet to send. `header` is a whole frame's; behind TRANSPORT_UDP_OFFSET it
// is what a UDP socket sends. The IPv4 checksum is right, the UDP checksum 0.
typedef struct transport_packet {
  uint8_t header[TRANSPORT_HEADER_BYTES];
  uint8_t dscp;
  uint8_t reserved;
  uint32_t dst_addr;
  uint32_t payload_bytes;  // of the packet, carried or not
  uint32_t retransmission;
  const uint8_t *payload;  // borrowed, as `data` of the message; NULL: not carried
  uint64_t id;
} transport_packet_t;

// One packet from BTH on, as a UDP socket delivers it. `bytes` were captured at
// `data`, `wire_bytes` is the packet's true length: the difference is payload
// that is not carried. Nothing is kept of `data` after the call.
int transport_receive(transport_t *t, uint64_t now, const uint8_t *data, size_t bytes, size_t wire_bytes);
// The same, from Ethernet on; padding after the UDP length is ignored.
int transport_receive_frame(transport_t *t, uint64_t now, const uint8_t *data, size_t bytes, size_t wire_bytes);

// 1: *packet is to be sent now; 0: nothing until transport_next_wake. Runs
// retransmission timeouts that are due.
int transport_poll(transport_t *t, uint64_t now, transport_packet_t *packet);

// When transport_poll must be called next if nothing else happens; UINT64_MAX:
// never. May be in the past (call at once), and may turn out to be for nothing.
uint64_t transport_next_wake(const transport_t *t);

enum transport_event_type {
  TRANSPORT_SENT = 1,              // every byte settled at the receiver
  TRANSPORT_FAILED = 2,            // rto_limit expiries without progress
  TRANSPORT_RECEIVED = 3,          // every byte settled here, once
  TRANSPORT_DOUBLE_SETTLEMENT = 4  // a block was delivered twice: not copied, not counted again
};

typedef struct transport_event {
  uint32_t type;
  uint32_t qp;  // ours
  uint64_t id;
  uint64_t cookie;
  uint64_t time_ns;
  uint32_t length_bytes;    // RECEIVED: of the message as sent; less than posted: it ended early
  uint32_t forgiven_bytes;  // RECEIVED
  uint32_t offset;          // DOUBLE_SETTLEMENT: start of the packet's range
  uint32_t reserved;
} transport_event_t;

int transport_next_event(transport_t *t, transport_event_t *event);  // 1: taken; 0: none
int transport_waiting_events(const transport_t *t);

typedef struct transport_range {
  uint32_t start;
  uint32_t length_bytes;
} transport_range_t;

// Forgiven ranges of a received message, merged and ascending. Writes at most
// `capacity`, returns how many there are.
int transport_forgiven(const transport_t *t, uint64_t id, transport_range_t *ranges, int capacity);

typedef struct transport_flow_stats {
  uint64_t posted_ns;
  uint64_t first_ns;      // first packet sent or delivered; 0 with packets == 0
  uint64_t completed_ns;  // 0: not yet
  uint64_t packets;       // sent, or delivered
  uint64_t first_bytes;   // payload sent for the first time, or settled by data
  uint64_t retransmitted_bytes;
  uint64_t retransmitted_packets;
  uint64_t acks;
  uint64_t naks;
  uint64_t signals;    // congestion signals
  uint64_t rate_cuts;
  uint64_t rtos;
  uint64_t forgiven_bytes;  // receiver
  uint64_t rate_bps;        // sender, at `now`
  uint64_t alpha_q31;
  uint64_t settled_bytes;
  // Of a sender, by the flags on its feedback: the NIC decides, this only observes. A
  // flow is exempt while its latest report says eligible and not exhausted.
  uint64_t first_exempt_ns;   // 0: never
  uint64_t flag_changes;      // of the exhausted flag, which starts clear
  uint64_t exempt_ns;
  uint64_t obeying_again_ns;  // obeying after having been exempt
  uint64_t signals_before_exempt;
} transport_flow_stats_t;

int transport_flow_stats(transport_t *t, uint64_t now, uint64_t id, transport_flow_stats_t *stats);

// Sums over the life of the handle, released messages included.
typedef struct transport_stats {
  uint64_t sent_packets;
  uint64_t first_bytes;
  uint64_t retransmitted_bytes;
  uint64_t retransmitted_packets;
  uint64_t acks;
  uint64_t naks;
  uint64_t signals;
  uint64_t rate_cuts;
  uint64_t rtos;
  uint64_t sent_messages;    // completed
  uint64_t failed_messages;
  uint64_t received_packets;  // data and forgiveness deliveries
  uint64_t received_bytes;    // settled by data
  uint64_t forgiven_bytes;
  uint64_t received_messages;
  uint64_t double_settlements;
  uint64_t unknown_qp;      // deliveries for which no message is posted: their bytes are lost
  uint64_t late_feedback;   // feedback and notifications for which there is no message any more
  uint64_t malformed;
  uint64_t bad_feedback;  // feedback on bytes that were never sent
  uint64_t exempt_messages;         // exempt at some time
  uint64_t obeying_again_messages;  // of these: obeyed again later
  uint64_t flag_changes;
  uint64_t exempt_ns;         // both up to the last change or completion
  uint64_t obeying_again_ns;
  uint64_t signals_after_exempt;  // taken by flows that had been exempt
} transport_stats_t;

int transport_get_stats(const transport_t *t, transport_stats_t *stats);

#endif  // HOSTS_TRANSPORT_H
