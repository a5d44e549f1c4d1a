// SPDX-License-Identifier: Apache-2.0
#ifndef HOSTS_CHECKER_INTERNAL_H
#define HOSTS_CHECKER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "include/checker.h"
#include "wire.h"

enum {
  FLOW_SLOTS = 1 << 10,
  OWNERS = 1 << 11,
  WORD_BLOCKS = 64,
  WINDOW_WORDS = 127,  // docs/dataplane.md, beyond_window
  EXEMPTION_NEVER = 1,
  EXEMPTION_NEVER_ENDS = 2,
};

#define NO_FLOW UINT32_MAX  // instead of a queue pair

// What the next packet of a flow without holes is if it follows the last one in
// order, and is as whole as that was. Words in host order, but where they are said
// to be as in the frame.
typedef struct plain {
  uint64_t id;        // BTH; UINT64_MAX: no such packet is known
  uint64_t start;     // RETH, offset
  uint64_t source;    // RETH, source_qp and length
  uint64_t ip;        // as in the frame: from EtherType to total length, without ECN
  uint64_t due;       // first word of the report without its congestion byte
  uint64_t delivery;  // delivery header, as in the frame
  uint32_t udp;       // as in the frame: destination port, length
  uint32_t wire_bytes;
  uint32_t end;     // the message's last packet starts here or later
  uint32_t blocks;  // of the packet
} plain_t;

// A flow as its packets have shown it so far. Bits of `settled` mean something at
// and above rcv_nxt only: below, all is settled. A flow that has neither holes
// nor trims needs no maps.
typedef struct checked_flow {
  uint32_t qp;       // NO_FLOW: the slot was never used
  uint32_t rcv_nxt;  // in blocks
  uint32_t above;    // blocks settled above it
  uint32_t charged_blocks;
  uint32_t length;  // 0: nobody expects this flow, and it is not checked
  uint32_t blocks;
  uint32_t tag;  // of its step; 0: none yet
  bool eligible;
  bool forgotten;  // it need not become complete
  bool next_forgotten;
  uint32_t next_qp;  // expected on this slot, not begun; NO_FLOW: none
  uint32_t next_length;
  uint32_t map_words;
  struct step_slot *slot;
  uint64_t *settled;  // maps: settled, forgiven, charged, in one piece; or NULL
  plain_t plain;
} checked_flow_t;

// The queue pairs that a flow slot had before the NIC restarted, the latest first.
enum { PAST_FLOWS = 2 };
typedef struct past_flows {
  uint32_t qp[PAST_FLOWS];  // NO_FLOW: none
  uint32_t length[PAST_FLOWS];
} past_flows_t;

// A step slot: the entry as installed, and the bytes of its tag, which stay when
// the entry goes. The first fields are derived from these, for every packet.
typedef struct step_slot {
  uint32_t live_tag;  // of the entry; 0: none
  bool present;
  // A report's congestion byte: an eligible flow's flags while the step is not
  // exhausted and while it is, and the echo.
  uint8_t flags;
  uint8_t exhausted_flags;
  uint8_t echo;
  int64_t allowance;  // exhausted when forgiven + outstanding are more
  checker_step_stats_t books;
  checker_step_t entry;
} step_slot_t;

enum arrival_kind { ARRIVAL_DATA, ARRIVAL_TRIMMED, ARRIVAL_CONTROL };
enum arrival_state {
  ARRIVAL_DELIVERED = 1,  // its delivery was seen
  ARRIVAL_AWAITED = 2,    // judged, and `delivery` must still come
  ARRIVAL_PASSED = 4,     // a later one was delivered, so it will not be
  ARRIVAL_JUDGED = 8,     // it has done its work on the books
  ARRIVAL_EAGER = 16,     // that was at once: its report must be `due`
};

// A packet from the wire between its arrival and its report and delivery; or a
// change of a step between such packets. Header words are as in the frame, in
// network order.
typedef struct arrival {
  uint64_t id;      // BTH: congestion bits 8, dest_qp 24, ack_req 1, reserved 7, PSN 24
  uint64_t range;   // RETH: offset
  uint64_t source;  // RETH: source_qp 32, length 32
  union {
    uint64_t delivery;  // delivery header: event 8, reserved 24, accept mask 32; 0: none
    struct step_change *change;
  };
  uint64_t due;  // first word of the report, in host order
  uint32_t wire_bytes;
  uint32_t udp;  // as in plain_t
  uint64_t ip;
  uint8_t kind;
  uint8_t state;
  uint8_t tos;
  uint8_t solicited;
} arrival_t;

static inline uint64_t from_network(uint64_t word) { return get64((const uint8_t *)&word); }
static inline uint64_t to_network(uint64_t word) { return from_network(word); }

static inline uint32_t arrival_qp(const arrival_t *a) { return (uint32_t)(from_network(a->id) >> 32) & 0xffffff; }
static inline uint32_t arrival_psn(const arrival_t *a) { return (uint32_t)from_network(a->id) & 0xffffff; }
static inline uint32_t arrival_start(const arrival_t *a) { return (uint32_t)from_network(a->range); }
static inline uint32_t arrival_length(const arrival_t *a) { return (uint32_t)from_network(a->source); }
// Where its report goes, and its sequence number, as in the report's first word.
static inline uint64_t arrival_answer(const arrival_t *a) {
  return (from_network(a->source) >> 32 & 0xffffff) << 32 | arrival_psn(a);
}

typedef struct step_change {
  uint32_t slot;
  enum { STEP_SET, STEP_CLOSE, STEP_REMOVE } what;
  checker_step_t step;
} step_change_t;

// Maps that no flow needs at the moment.
typedef struct spare_maps {
  struct spare_maps *next;
  uint32_t words;
} spare_maps_t;

// Of a report's first word: the congestion bits but the reserved ones, dest_qp,
// the request for an acknowledgement, PSN.
#define CHECKER_REPORT_MASK UINT64_C(0xf0ffffff80ffffff)

struct checker {
  checker_config_t config;
  uint64_t trimmed_dscps;  // bit i: DSCP i is of trimmed headers
  // Ring of 2^k; indices only grow. Reports take `reported`, deliveries `delivered`.
  arrival_t *ring;
  uint32_t ring_mask;
  uint32_t reported;
  uint32_t delivered;
  uint32_t tail;
  uint32_t full;       // no room when `tail` gets there, as far as is known
  uint32_t undecided;  // packets and changes in the ring that are not judged yet
  step_slot_t slots[CHECKER_STEP_SLOTS];
  checker_stats_t stats;
  checker_violation_t *violations;
  uint32_t violation_count;
  spare_maps_t *spare;
  past_flows_t *past;  // by flow slot; NULL: the NIC has not restarted
  checked_flow_t flows[FLOW_SLOTS];
};

// A report's words, in host order.
typedef struct report {
  uint64_t id;      // BTH, as of an arrival
  uint64_t answer;  // syndrome 8, msn 24, rcv_nxt 32
  uint64_t range;   // start 32, length 32
} report_t;

void checker_violate(checker_t *c, uint64_t now, uint32_t kind, const arrival_t *a, uint64_t expected, uint64_t seen);
void checker_is_settled(checker_t *c, uint64_t now, const checked_flow_t *flow);  // that it must be
void checker_apply(checker_t *c, uint64_t now, step_change_t *change);            // takes `change`
// Of a message from before a restart; 0: none on this queue pair is known.
uint32_t checker_past_length(const checker_t *c, uint32_t qp);

// Holds a report against its packet, whose flow it belongs to, after the packet
// has done its work on the books.
void checker_judge(checker_t *c, uint64_t now, arrival_t *a, checked_flow_t *flow, const report_t *seen);
// The same for a trimmed header that found no flow, and started none.
void checker_judge_unknown(checker_t *c, uint64_t now, const arrival_t *a, const report_t *seen);
// What is not as it was due. Of a delivery header, in host order; `missing`: blocks
// that were not settled before.
void checker_name_report(checker_t *c, uint64_t now, const arrival_t *a, const report_t *due, const report_t *seen);
void checker_name_delivery(checker_t *c, uint64_t now, const arrival_t *a, uint32_t missing, uint64_t due,
                           uint64_t seen);
void checker_drop_maps(checker_t *c, checked_flow_t *flow);

bool checker_push(checker_t *c, const arrival_t *a);
// The next packet that must have a report, with its flow, which it may begin, or
// NULL, if it is unknown. On the way packets that the rules drop are dropped, and
// step changes take effect.
arrival_t *checker_next(checker_t *c, uint64_t now, checked_flow_t **flow);
// Packets before `to` get no delivery any more.
void checker_pass(checker_t *c, uint64_t now, uint32_t to);

#endif  // HOSTS_CHECKER_INTERNAL_H
