// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_FLOWS_P4_
#define _NIC_FLOWS_P4_

#include "metadata.p4"
#include "flow_state.p4"

// Which flow owns a flow slot. Owners are serial numbers: ahead of the slot's
// means a new flow, which takes the slot over; behind it means a packet of a flow
// that has left. A slot never used takes any owner.
// A step may leave it to data alone to start flows: a trimmed header of a flow that
// has no state yet is then unknown, and changes nothing.
// Reads meta.kind, meta.qp and the step's entry; writes meta.flow.
control Flows(inout nic_metadata_t meta, out bool is_stale, out bool is_unknown) {
  bit<1> used;
  owner_t age;

  @hidden action compare_owner() {
    meta.flow.slot = meta.qp[QP_FLOW_SLOT];
    owner_t owner;
    flow_used.read(used, meta.flow.slot);
    flow_owner.read(owner, meta.flow.slot);
    age = meta.qp[QP_OWNER] - owner;
  }

  // exemption_eligible is fixed here: gradient payload on a step with p > 0. The new
  // epoch makes every bitmap word of the slot read as zeros.
  @hidden action create() {
    meta.flow.step_tag = meta.step.tag;
    meta.flow.exemption_eligible = 0;
    if (meta.gradient == 1 && meta.step.eligible == 1 && meta.step.p_ppm > 0) {
      meta.flow.exemption_eligible = 1;
    }
    flow_used.write(meta.flow.slot, 1);
    flow_owner.write(meta.flow.slot, meta.qp[QP_OWNER]);
    flow_eligible.write(meta.flow.slot, meta.flow.exemption_eligible);
    flow_step_tag.write(meta.flow.slot, meta.flow.step_tag);
    bit<32> epoch;
    flow_epoch.read(epoch, meta.flow.slot);
    epoch = epoch + 1;
    flow_epoch.write(meta.flow.slot, epoch);
    flow_next.write(meta.flow.slot, 0);
    flow_top.write(meta.flow.slot, 0);
    flow_full.write(meta.flow.slot, 0);
    flow_draws.write(meta.flow.slot, 0);
    flow_quiet_until.write(meta.flow.slot, 0);
  }

  @hidden action load() {
    flow_eligible.read(meta.flow.exemption_eligible, meta.flow.slot);
    flow_step_tag.read(meta.flow.step_tag, meta.flow.slot);
  }

  // The flow started before its step had an entry.
  @hidden action join_step() {
    meta.flow.step_tag = meta.step.tag;
    flow_step_tag.write(meta.flow.slot, meta.flow.step_tag);
  }

  apply {
    is_stale = false;
    is_unknown = false;
    compare_owner();
    if (used == 0 || (age != 0 && age[OWNER_WIDTH - 1:OWNER_WIDTH - 1] == 0)) {
      if (meta.kind == KIND_TRIMMED && meta.step.tag != 0 &&
          meta.step.trimmed_starts_flow == 0) {
        is_unknown = true;
      } else {
        create();
      }
    } else if (age != 0) {
      is_stale = true;
    } else {
      load();
      if (meta.flow.step_tag == 0 && meta.step.tag != 0) {
        join_step();
      }
    }
  }
}  // control Flows

#endif  // _NIC_FLOWS_P4_
