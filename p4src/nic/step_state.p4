// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_STEP_STATE_P4_
#define _NIC_STEP_STATE_P4_

#include "metadata.p4"

// The byte state of the step in each slot, shared by all flows to this rank. It
// belongs to the step whose tag it has, and counts for the flows of that step
// alone: a flow that outlives its step can't touch the next one's budget.
register<bit<32>, step_slot_t>(STEP_SLOTS) state_tag;
register<bit<64>, step_slot_t>(STEP_SLOTS) state_received;
register<bit<64>, step_slot_t>(STEP_SLOTS) state_forgiven;
register<bit<64>, step_slot_t>(STEP_SLOTS) state_outstanding;
register<bit<64>, step_slot_t>(STEP_SLOTS) state_trimmed;
register<bit<1>, step_slot_t>(STEP_SLOTS) state_exhausted;   // flag as last sent

#endif  // _NIC_STEP_STATE_P4_
