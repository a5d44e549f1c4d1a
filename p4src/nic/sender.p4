// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_SENDER_P4_
#define _NIC_SENDER_P4_

#include "metadata.p4"

// The sender of the paper: keeps the mode bit of each flow of this host, and hides
// congestion signals from the host while the flow is exempt. Feedback and
// notifications from the wire pass here on their way to the host.
// The mode starts as Obeying; the latest report wins, and is applied before the
// signal of the same packet.
control Sender(inout nic_headers_t hdr,
               inout nic_metadata_t meta,
               inout standard_metadata_t std_meta) {
  register<bit<1>, flow_slot_t>(FLOW_SLOTS) sender_used;
  register<owner_t, flow_slot_t>(FLOW_SLOTS) sender_owner;
  register<bit<1>, flow_slot_t>(FLOW_SLOTS) sender_exempt;

  counter<cell_t>(1, CounterType.packets) notification_delivered;
  counter<cell_t>(1, CounterType.packets) notification_ignored;
  counter<cell_t>(1, CounterType.packets) request_obeyed;
  counter<cell_t>(1, CounterType.packets) request_exempt;
  counter<cell_t>(1, CounterType.packets) became_exempt;
  counter<cell_t>(1, CounterType.packets) became_obeying;

  flow_slot_t slot;
  bit<1> used;
  owner_t age;
  bit<1> exempt = 0;

  @hidden action compare_owner() {
    slot = meta.qp[QP_FLOW_SLOT];
    owner_t owner;
    sender_used.read(used, slot);
    sender_owner.read(owner, slot);
    age = meta.qp[QP_OWNER] - owner;
  }

  // OnFlowStart: the flow's first feedback is early enough, because no signal can
  // come before it.
  @hidden action start_flow() {
    sender_used.write(slot, 1);
    sender_owner.write(slot, meta.qp[QP_OWNER]);
    sender_exempt.write(slot, 0);
  }

  @hidden action load_mode() {
    sender_exempt.read(exempt, slot);
  }

  // OnReport.
  @hidden action set_mode(in bit<1> mode) {
    exempt = mode;
    sender_exempt.write(slot, mode);
  }

  apply {
    std_meta.egress_spec = HOST_PORT;
    bool is_stale = false;
    compare_owner();
    if (used == 0 || (age != 0 && age[OWNER_WIDTH - 1:OWNER_WIDTH - 1] == 0)) {
      start_flow();
    } else if (age != 0) {
      is_stale = true;
    } else {
      load_mode();
    }

    if (meta.kind == KIND_FEEDBACK && !is_stale) {
      bit<1> mode = hdr.bth.exemption_eligible & ~hdr.bth.budget_exhausted;
      if (mode != exempt) {
        set_mode(mode);
        if (mode == 1) {
          became_exempt.count(0);
        } else {
          became_obeying.count(0);
        }
      }
    }

    if (meta.kind == KIND_FEEDBACK && hdr.aeth.syndrome == SYNDROME_NAK) {
      // OnRetransmissionRequest: reduce only when obeying, retransmit anyway.
      if (!is_stale) {
        hdr.bth.becn = ~exempt;
        if (exempt == 1) {
          request_exempt.count(0);
        } else {
          request_obeyed.count(0);
        }
      }
    } else if (meta.kind == KIND_NOTIFICATION || hdr.bth.becn == 1) {
      // OnCongestionNotification.
      if (exempt == 0) {
        notification_delivered.count(0);
      } else {
        notification_ignored.count(0);
        hdr.bth.becn = 0;
        if (meta.kind == KIND_NOTIFICATION) {
          mark_to_drop(std_meta);
        }
      }
    }
  }
}  // control Sender

#endif  // _NIC_SENDER_P4_
