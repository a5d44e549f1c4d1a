// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_RECEIVER_P4_
#define _NIC_RECEIVER_P4_

#include "metadata.p4"
#include "ranges.p4"
#include "flows.p4"
#include "scoreboard.p4"
#include "notification.p4"

// The receiver of the paper: takes a data packet or trimmed header from the wire
// and settles what becomes of it. Egress (feedback.p4) writes the answer.
//
//   Ranges -> Flows -> Scoreboard( Forgiveness ) -> Notification -> reply
//                  -> request, where the flow is unknown -----------> reply
control Receiver(in nic_headers_t hdr,
                 inout nic_metadata_t meta,
                 inout standard_metadata_t std_meta) {
  Ranges() ranges;
  Flows() flows;
  Scoreboard() scoreboard;
  Notification() notification;

  counter<cell_t>(1, CounterType.packets) data_received;
  counter<cell_t>(1, CounterType.packets) data_duplicate;
  counter<cell_t>(1, CounterType.packets) trimmed_received;
  counter<cell_t>(1, CounterType.packets) bad_range;
  counter<cell_t>(1, CounterType.packets) stale;
  counter<cell_t>(1, CounterType.packets) unknown_flow;
  counter<cell_t>(1, CounterType.packets) beyond_window;

  // The request of a receiver that knows nothing of the flow: no flags.
  @hidden action request() {
    meta.outcome = OUTCOME_NONE;
    meta.reply.syndrome = SYNDROME_NAK;
    meta.reply.ecn_echo = 0;
    meta.reply.exemption_eligible = 0;
    meta.reply.budget_exhausted = 0;
    meta.reply.rcv_nxt = 0;
  }

  // A copy for the host where something was settled. Without one the packet itself
  // turns around, and without a notification no group is needed.
  @hidden action reply(in bool to_host, in bool notify) {
    meta.reply.due = true;
    // Ahead of the host's own data, however much of it waits for the wire.
    std_meta.priority = PRIORITY_FEEDBACK;
    if (to_host) {
      std_meta.mcast_grp =
          notify ? GROUP_HOST_FEEDBACK_NOTIFICATION : GROUP_HOST_FEEDBACK;
    } else if (notify) {
      std_meta.mcast_grp = GROUP_FEEDBACK_NOTIFICATION;
    } else {
      std_meta.egress_spec = WIRE_PORT;
    }
  }

  apply {
    bool is_bad_range;
    ranges.apply(hdr, meta, is_bad_range);
    if (is_bad_range) {
      bad_range.count(0);
    } else {
      bool is_stale;
      bool is_unknown;
      flows.apply(meta, is_stale, is_unknown);
      if (is_stale) {
        stale.count(0);
      } else if (is_unknown) {
        unknown_flow.count(0);
        request();
        reply(false, false);
      } else {
        bool is_beyond_window;
        scoreboard.apply(hdr, meta, is_beyond_window);
        if (is_beyond_window) {
          beyond_window.count(0);
        } else {
          if (meta.kind == KIND_TRIMMED) {
            trimmed_received.count(0);
          } else if (meta.outcome == OUTCOME_RECEIVED) {
            data_received.count(0);
          } else {
            data_duplicate.count(0);
          }
          bool is_notification_due;
          notification.apply(hdr, meta, std_meta, is_notification_due);
          reply(meta.outcome == OUTCOME_RECEIVED || meta.outcome == OUTCOME_FORGIVEN,
                is_notification_due);
        }
      }
    }
  }
}  // control Receiver

#endif  // _NIC_RECEIVER_P4_
