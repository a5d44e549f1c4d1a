// SPDX-License-Identifier: Apache-2.0
//
// An independent checker of one receiving NIC. It sees the frames at the NIC's
// two ports, knows what the control plane promised and which messages are
// expected, keeps a scoreboard of its own, and holds every report (an ACK or NAK
// that leaves towards the wire) against what the paper and docs/dataplane.md
// promise. It shares neither code nor counters with the dataplane.
//
//   wire in:  data, trimmed headers      wire out: reports
//   host out: deliveries                 all else is ignored
//
// Sans-I/O like the transport: no clock, no global state, one thread at a time.
// Reports leave in the order of the packets that they answer, and so do
// deliveries; between a packet and its report others may arrive, and the
// control plane may change the steps: the order of the calls counts.

#ifndef HOSTS_CHECKER_H
#define HOSTS_CHECKER_H

#include <stddef.h>
#include <stdint.h>

#define CHECKER_STEP_SLOTS 8
#define CHECKER_FIFTHS 5
#define CHECKER_KINDS 27

typedef struct checker checker_t;

enum checker_status {
  CHECKER_OK = 0,
  CHECKER_INVALID = -1,
  CHECKER_NO_MEMORY = -2,
};

// What can be wrong. checker_kind_name has the names.
enum checker_kind {
  CHECKER_FORGAVE_BEYOND_BUDGET = 0,  // forgiven > floor(p x expected)
  CHECKER_FORGAVE_UNVESTED = 1,       // or, without vesting, beyond the installed budget
  CHECKER_FORGAVE_CLASS = 2,          // not gradient traffic, or no flow of the step is eligible
  CHECKER_FORGAVE_CLOSED = 3,         // no open budget
  CHECKER_FORGAVE_DRAW = 4,           // P is 0
  CHECKER_NOT_FORGIVEN = 5,           // P is 1, and every rule allows it
  CHECKER_DOUBLE_DELIVERY = 6,        // a block that was settled before
  CHECKER_WRONG_DELIVERY = 7,         // other blocks, another event, a wrong length
  CHECKER_NOT_DELIVERED = 8,          // settled, and the host was not told
  CHECKER_STRAY_DELIVERY = 9,         // of a packet that never arrived
  CHECKER_ACKNOWLEDGED_HOLE = 10,     // bytes neither received nor forgiven
  CHECKER_REQUESTED_SETTLED = 11,     // a NAK although nothing of the range is missing
  CHECKER_RCV_NXT = 12,               // behind what is settled
  CHECKER_RANGE = 13,                 // a report names another range than its packet
  CHECKER_ELIGIBLE_FLAG = 14,
  CHECKER_EXHAUSTED_FLAG = 15,
  CHECKER_ECHO = 16,
  CHECKER_REPORT_FIELD = 17,          // anything else that docs/dataplane.md fixes
  CHECKER_UNANSWERED = 18,            // a packet without report
  CHECKER_STRAY_REPORT = 19,          // a report without packet
  CHECKER_UNKNOWN_FLOW = 20,          // nobody expects this queue pair
  CHECKER_OUTSIDE_MESSAGE = 21,       // a range beyond the message's end
  CHECKER_WRONG_BUDGET = 22,          // installed: not floor(p x expected), or changed during the step
  CHECKER_REOPENED = 23,              // a closed budget was opened again
  CHECKER_NOT_SETTLED = 24,           // at the end: a message is incomplete
  CHECKER_OUTSTANDING = 25,           // at the end: the books don't close
  CHECKER_INCOMPLETE = 26,            // no memory, or headers not captured: not everything was checked
};

typedef struct checker_config {
  uint32_t notification_interval_us;  // where no step's entry has one; 0: echoes on ACKs
  uint32_t kept_violations;           // the first so many are kept, the others counted
  uint8_t gradient_dscp;
  uint8_t gradient_trimmed_dscp;
  uint8_t data_trimmed_dscp;
  uint8_t reserved;
} checker_config_t;

int checker_create(const checker_config_t *config, checker_t **out);
void checker_destroy(checker_t *c);  // NULL is allowed

// What the control plane promises for a step slot, in the terms of the table
// `steps`, and the bytes that the rank expects.
typedef struct checker_step {
  uint64_t expected_bytes;
  uint64_t budget_bytes;
  uint64_t forgive_threshold;  // P x 2^32
  uint32_t step_tag;           // not 0
  uint32_t p_ppm;
  uint32_t packet_bytes;
  uint32_t open;
  uint32_t vesting;
  uint32_t exemption;  // 0 paper, 1 never, 2 never ends
  uint32_t eligible;
  uint32_t notification_interval_us;
  uint32_t forgiveness_echoes;
  uint32_t trimmed_starts_flow;
} checker_step_t;

// Call each at the moment when the NIC's table changes. A new tag starts the
// slot's byte state; with the same tag only `open` may change, from 1 to 0.
int checker_set_step(checker_t *c, uint64_t now, uint32_t slot, const checker_step_t *step);
int checker_close_step(checker_t *c, uint64_t now, uint32_t slot);
int checker_remove_step(checker_t *c, uint64_t now, uint32_t slot);

// A message is expected on this receive queue pair: before its first packet. It
// stays known until another one uses its flow slot. A message that its sender
// ends early (solicited) is that long.
int checker_expect(checker_t *c, uint32_t qp, uint32_t length_bytes);
// It was given up: it need not become complete.
int checker_forget(checker_t *c, uint32_t qp);

// The NIC's program was loaded anew, and its steps are installed again, closed. It
// has forgotten flows and bytes, and so has the checker; what came before is judged
// as far as it was answered:
// - Packets inside have no report and no delivery any more. Either of them still
//   leaving is a stray one.
// - The books of every step start over: from now on they say what came since, as
//   the NIC's own byte state does. Nothing more is forgiven in these steps, and to
//   open one again is a violation.
// - Messages that were expected need not become complete. Those that start over
//   are expected again, on other queue pairs.
// - Packets for a flow slot's last two queue pairs of before may still come: the
//   NIC begins such a flow anew, and it is judged like any other.
int checker_restart(checker_t *c, uint64_t now);

// A frame at the NIC's port; `outgoing` 1: the NIC sends it. `bytes` are at
// `data`, `wire_bytes` is its true length. `context`: the checker. 1: a promise
// was broken; 0: all is well. They fit `struct sw_observer` of the target.
int checker_wire(void *context, uint64_t now, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes);
int checker_host(void *context, uint64_t now, int outgoing, const uint8_t *data, uint32_t bytes,
                 uint32_t wire_bytes);

// Everything has left the NIC and nothing more will come. Returns the number of
// violations in all.
int64_t checker_finish(checker_t *c, uint64_t now);

typedef struct checker_violation {
  uint64_t time_ns;
  uint64_t expected;  // what these two are depends on the kind: checker_describe says it
  uint64_t seen;
  uint32_t kind;
  uint32_t qp;  // of the receiver
  uint32_t psn;
  uint32_t start;  // the packet's range
  uint32_t length_bytes;
  uint32_t reserved;
} checker_violation_t;

// Writes at most `capacity` of those that were kept, returns how many there are.
int checker_violations(const checker_t *c, checker_violation_t *out, int capacity);
// One line of text with a terminating 0, at most `size` bytes; returns its length.
int checker_describe(const checker_violation_t *violation, char *text, size_t size);
const char *checker_kind_name(uint32_t kind);

typedef struct checker_stats {
  uint64_t reports;     // checked
  uint64_t requests;    // of these: NAKs
  uint64_t deliveries;  // matched to their packets
  uint64_t notifications;
  uint64_t data_packets;
  uint64_t trimmed_packets;
  uint64_t unknown_packets;  // of these: found no flow, and started none
  uint64_t dropped_packets;  // that the rules drop: bad range, stale, beyond the window
  uint64_t malformed;
  uint64_t lost_packets;     // inside the NIC when it restarted, and not answered
  uint64_t received_bytes;   // new, of any flow
  uint64_t duplicate_bytes;
  uint64_t late_bytes;       // of these: for a range forgiven before, while its message was incomplete
  uint64_t forgiven_bytes;
  uint64_t trimmed_bytes;
  uint64_t messages;  // begun
  uint64_t complete_messages;
  uint64_t pending;  // packets whose report has not left yet
  uint64_t violations;
  uint64_t violations_by_kind[CHECKER_KINDS];
} checker_stats_t;

int checker_get_stats(const checker_t *c, checker_stats_t *stats);

// One step. A slot's last step can be read until the next one starts there.
typedef struct checker_step_stats {
  uint64_t expected_bytes;
  uint64_t limit_bytes;  // floor(p x expected)
  uint64_t received_bytes;
  uint64_t forgiven_bytes;
  uint64_t outstanding_bytes;
  uint64_t most_outstanding_bytes;
  uint64_t trimmed_bytes;    // of headers, settled or not
  uint64_t unknown_bytes;    // of these: found no flow and started none, so the NIC counts them nowhere
  uint64_t requested_bytes;  // missing in ranges that were requested
  uint64_t reports;          // of eligible flows
  uint64_t exhausted_reports;
  // By fifth of the step: (received + forgiven) / expected when the header came.
  uint64_t trimmed_by_fifth[CHECKER_FIFTHS];
  uint64_t forgiven_by_fifth[CHECKER_FIFTHS];
  uint32_t step_tag;  // 0: none yet
  uint32_t p_ppm;
} checker_step_stats_t;

int checker_get_step(const checker_t *c, uint32_t slot, checker_step_stats_t *stats);

#endif  // HOSTS_CHECKER_H
