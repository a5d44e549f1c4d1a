// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_FLOW_STATE_P4_
#define _NIC_FLOW_STATE_P4_

#include "metadata.p4"

// The receiver's state of the flow in each slot, but for the bitmaps
// (scoreboard.p4). Flows starts all of it afresh for a new flow.
register<bit<1>, flow_slot_t>(FLOW_SLOTS) flow_used;
register<owner_t, flow_slot_t>(FLOW_SLOTS) flow_owner;
register<bit<1>, flow_slot_t>(FLOW_SLOTS) flow_eligible;       // fixed at creation
register<bit<32>, flow_slot_t>(FLOW_SLOTS) flow_step_tag;
register<bit<32>, flow_slot_t>(FLOW_SLOTS) flow_epoch;         // flows had so far
register<block_t, flow_slot_t>(FLOW_SLOTS) flow_next;          // rcv_nxt
register<block_t, flow_slot_t>(FLOW_SLOTS) flow_top;
register<bit<RING_WORDS>, flow_slot_t>(FLOW_SLOTS) flow_full;
register<bit<32>, flow_slot_t>(FLOW_SLOTS) flow_draws;
register<bit<48>, flow_slot_t>(FLOW_SLOTS) flow_quiet_until;   // us

#endif  // _NIC_FLOW_STATE_P4_
