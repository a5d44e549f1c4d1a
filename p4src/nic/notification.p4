// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_NOTIFICATION_P4_
#define _NIC_NOTIFICATION_P4_

#include "metadata.p4"
#include "flow_state.p4"

// The congestion signal of the receiver, whether or not the flow is exempt: an
// echo on the acknowledgement, or, where an interval is set, a notification
// besides it, at most one per flow and interval. A retransmission request carries
// none: it is a signal by itself.
// Reads meta.reply and meta.outcome; writes meta.reply.ecn_echo, or says that a
// notification is due.
control Notification(in nic_headers_t hdr,
                     inout nic_metadata_t meta,
                     in standard_metadata_t std_meta,
                     out bool is_due) {
  counter<cell_t>(1, CounterType.packets) echo_sent;
  counter<cell_t>(1, CounterType.packets) notification_sent;

  bit<48> quiet_until;

  @hidden action stay_quiet() {
    flow_quiet_until.write(
        meta.flow.slot, std_meta.ingress_global_timestamp +
                            (bit<48>)meta.notification_interval_us);
  }

  apply {
    is_due = false;
    if (meta.reply.syndrome == SYNDROME_ACK &&
        (hdr.ipv4.ecn == ECN_CE || (meta.outcome == OUTCOME_FORGIVEN &&
                                    meta.step.forgiveness_echoes == 1))) {
      if (meta.notification_interval_us == 0) {
        meta.reply.ecn_echo = 1;
        echo_sent.count(0);
      } else {
        flow_quiet_until.read(quiet_until, meta.flow.slot);
        if (std_meta.ingress_global_timestamp >= quiet_until) {
          is_due = true;
          stay_quiet();
          notification_sent.count(0);
        }
      }
    }
  }
}  // control Notification

#endif  // _NIC_NOTIFICATION_P4_
