// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_METADATA_P4_
#define _NIC_METADATA_P4_

#include "../include/headers.p4"

typedef bit<STEP_SLOT_WIDTH> step_slot_t;
typedef bit<OWNER_WIDTH> owner_t;
typedef bit<FLOW_SLOT_WIDTH> flow_slot_t;
typedef bit<WORD_INDEX_WIDTH> word_index_t;   // flow slot, place in its ring
typedef bit<32> block_t;                      // index of a block in its message
typedef bit<MAX_RANGE_BLOCKS> range_mask_t;   // bit i: the i-th block of a range

const bit<64> ALL_ONES = 0xffffffffffffffff;

// Single-cell counters.
typedef bit<1> cell_t;

// Multicast groups and replica ids. The controller installs the groups.
const bit<16> GROUP_HOST_FEEDBACK = 1;
const bit<16> GROUP_HOST_FEEDBACK_NOTIFICATION = 2;
const bit<16> GROUP_FEEDBACK_NOTIFICATION = 3;
const bit<16> RID_HOST = 1;
const bit<16> RID_NOTIFICATION = 3;   // everything else is feedback

// Queue of the answers; data has 0 (p4src/switch/metadata.p4).
const bit<3> PRIORITY_FEEDBACK = 2;

const bit<16> TRIMMED_UDP_BYTES = UDP_BYTES + BTH_BYTES + RETH_BYTES;
const bit<16> TRIMMED_IPV4_BYTES = IPV4_BYTES + TRIMMED_UDP_BYTES;
const bit<16> FEEDBACK_UDP_BYTES = UDP_BYTES + BTH_BYTES + AETH_BYTES + FEEDBACK_BYTES;
const bit<16> FEEDBACK_IPV4_BYTES = IPV4_BYTES + FEEDBACK_UDP_BYTES;
const bit<16> FEEDBACK_FRAME_BYTES = ETHERNET_BYTES + FEEDBACK_IPV4_BYTES;
const bit<16> CNP_UDP_BYTES = UDP_BYTES + BTH_BYTES + CNP_PAD_BYTES;
const bit<16> CNP_IPV4_BYTES = IPV4_BYTES + CNP_UDP_BYTES;
const bit<16> CNP_FRAME_BYTES = ETHERNET_BYTES + CNP_IPV4_BYTES;
const bit<32> STATE_REPORT_BYTES = 44;
const bit<8> FEEDBACK_TTL = 64;

// First field of each kind of draw (include/hash.p4).
const bit<8> DRAW_FORGIVE = 3;
const bit<8> DRAW_SOURCE_PORT = 4;

// What a packet is, as Validation found it.
const bit<3> KIND_PLAIN = 0;          // not RoCE
const bit<3> KIND_MALFORMED = 1;
const bit<3> KIND_DATA = 2;
const bit<3> KIND_TRIMMED = 3;
const bit<3> KIND_FEEDBACK = 4;
const bit<3> KIND_NOTIFICATION = 5;
const bit<3> KIND_QUERY = 6;

struct nic_headers_t {
  state_query_t state_query;
  state_report_t state_report;
  ethernet_t ethernet;
  ipv4_t ipv4;
  udp_t udp;
  bth_t bth;
  reth_t reth;
  delivery_t delivery;
  aeth_t aeth;
  feedback_t feedback;
  cnp_pad_t cnp_pad;
}

// The entry of a step: what the controller has installed for a slot.
struct step_entry_t {
  bit<32> tag;            // 0: no entry
  bit<32> p_ppm;
  bit<64> budget;
  bit<1> open;
  bit<32> packet_bytes;
  bit<33> forgive_threshold;
  bit<1> vesting;
  bit<2> exemption;
  bit<1> eligible;
  bit<1> forgiveness_echoes;
  bit<1> trimmed_starts_flow;
}

const bit<2> EXEMPTION_NEVER = 1;
const bit<2> EXEMPTION_NEVER_ENDS = 2;

// The flow a packet belongs to.
struct flow_t {
  flow_slot_t slot;
  bit<1> exemption_eligible;
  bit<32> step_tag;           // of its step; 0: none met so far
}

// The range a packet reports, in blocks.
struct range_t {
  block_t first;
  bit<8> blocks;
  bit<32> tail_gap;       // bytes by which its last block falls short of a block
  range_mask_t all;       // all its blocks
  range_mask_t missing;   // Unsettled(flow, range)
  bit<32> missing_bytes;
  bit<32> charged_bytes;  // of the missing ones, already in outstanding
}

// What becomes of the missing blocks.
const bit<2> OUTCOME_NONE = 0;
const bit<2> OUTCOME_RECEIVED = 1;
const bit<2> OUTCOME_FORGIVEN = 2;
const bit<2> OUTCOME_CHARGED = 3;     // requested, and counted in outstanding

// The answer to a data packet or trimmed header, carried to egress.
struct reply_t {
  bool due;
  bit<8> syndrome;
  bit<1> ecn_echo;
  bit<1> exemption_eligible;
  bit<1> budget_exhausted;
  offset_t rcv_nxt;
}

struct nic_metadata_t {
  // Settings.
  bit<32> seed;
  bit<6> control_dscp;
  bit<32> notification_interval_us;

  bit<3> kind;
  bit<1> gradient;        // by DSCP
  bit<1> trimmed;         // by DSCP
  qp_t qp;                // of the flow the packet belongs to, at its receiver

  step_entry_t step;
  flow_t flow;
  range_t range;
  bit<2> outcome;
  reply_t reply;
}

#endif  // _NIC_METADATA_P4_
