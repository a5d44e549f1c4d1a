// SPDX-License-Identifier: Apache-2.0
// The SmartNIC between a host and the fabric: the receiver and the sender of the
// protocol. All state of flows and steps lives in ingress.
//
//   ingress            Validation
//     from the wire    data, trimmed header ---> Receiver ---> answered in egress
//                      feedback, notification -> Sender -----> host
//     from the host    data -------------------> HostSide ---> wire
//     from the CPU     state query ------------> StateQuery -> CPU
//     anything that is not RoCE crosses as it is
//
//   egress             Feedback: host's copy, acknowledgement, notification
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "nic/metadata.p4"
#include "nic/parser.p4"
#include "nic/validation.p4"
#include "nic/receiver.p4"
#include "nic/sender.p4"
#include "nic/host_side.p4"
#include "nic/state_query.p4"
#include "nic/feedback.p4"

control NicVerifyChecksum(inout nic_headers_t hdr, inout nic_metadata_t meta) {
  apply {}
}

control NicIngress(inout nic_headers_t hdr,
                   inout nic_metadata_t meta,
                   inout standard_metadata_t std_meta) {
  Validation() validation;
  Receiver() receiver;
  Sender() sender;
  HostSide() host_side;
  StateQuery() state_query;

  counter<cell_t>(1, CounterType.packets) malformed;

  action configure(bit<32> seed, bit<6> control_dscp, bit<32> notification_interval_us) {
    meta.seed = seed;
    meta.control_dscp = control_dscp;
    meta.notification_interval_us = notification_interval_us;
  }

  @brief("Settings of this NIC, as its default action.")
  table nic_config {
    actions = { configure; }
    default_action = configure(0, 46, 0);
    size = 1;
  }

  action classify(bit<1> gradient, bit<1> trimmed) {
    meta.gradient = gradient;
    meta.trimmed = trimmed;
  }

  table traffic_class {
    key = {
      hdr.ipv4.dscp : exact @name("dscp");
    }
    actions = {
      classify;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_TRAFFIC_CLASSES;
  }

  action set_step(bit<32> step_tag, bit<32> p_ppm, bit<64> budget, bit<1> open,
                  bit<32> packet_bytes, bit<33> forgive_threshold, bit<1> vesting,
                  bit<2> exemption, bit<1> eligible,
                  bit<32> notification_interval_us, bit<1> forgiveness_echoes,
                  bit<1> trimmed_starts_flow) {
    meta.step.tag = step_tag;
    meta.step.p_ppm = p_ppm;
    meta.step.budget = budget;
    meta.step.open = open;
    meta.step.packet_bytes = packet_bytes;
    meta.step.forgive_threshold = forgive_threshold;
    meta.step.vesting = vesting;
    meta.step.exemption = exemption;
    meta.step.eligible = eligible;
    meta.step.forgiveness_echoes = forgiveness_echoes;
    meta.step.trimmed_starts_flow = trimmed_starts_flow;
    meta.notification_interval_us = notification_interval_us;
  }

  @brief("The loss budget of each step in progress: one entry per step slot.")
  table steps {
    key = {
      meta.qp : ternary @name("dest_qp");
    }
    actions = {
      set_step;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_STEP_ENTRIES;
  }

  @hidden action cross() {
    if (std_meta.ingress_port == HOST_PORT) {
      std_meta.egress_spec = WIRE_PORT;
    } else if (std_meta.ingress_port == WIRE_PORT) {
      std_meta.egress_spec = HOST_PORT;
    }
  }

  apply {
    mark_to_drop(std_meta);  // until somebody wants the packet
    nic_config.apply();
    if (hdr.ipv4.isValid()) {
      traffic_class.apply();
    }
    validation.apply(hdr, meta, std_meta);

    bool is_range = meta.kind == KIND_DATA || meta.kind == KIND_TRIMMED;
    if ((is_range && std_meta.ingress_port == WIRE_PORT) ||
        (meta.kind == KIND_QUERY && hdr.state_query.step_slot < STEP_SLOTS)) {
      steps.apply();
    }

    if (meta.kind == KIND_MALFORMED) {
      malformed.count(0);
    } else if (meta.kind == KIND_PLAIN) {
      cross();
    } else if (meta.kind == KIND_QUERY) {
      state_query.apply(hdr, meta, std_meta);
    } else if (std_meta.ingress_port == WIRE_PORT) {
      if (is_range) {
        receiver.apply(hdr, meta, std_meta);
      } else {
        sender.apply(hdr, meta, std_meta);
      }
    } else if (is_range) {
      host_side.apply(hdr, std_meta);
    } else {
      malformed.count(0);
    }
  }
}

control NicEgress(inout nic_headers_t hdr,
                  inout nic_metadata_t meta,
                  inout standard_metadata_t std_meta) {
  Feedback() feedback;

  apply {
    feedback.apply(hdr, meta, std_meta);
  }
}

// The IPv4 checksum is adjusted where a field changes.
control NicComputeChecksum(inout nic_headers_t hdr, inout nic_metadata_t meta) {
  apply {}
}

@pkginfo(name="nic.p4", version="1.0.0")
@brief("Bounded forgiveness of trimmed gradient bytes, and exemption from congestion control")
V1Switch(NicParser(), NicVerifyChecksum(), NicIngress(), NicEgress(),
         NicComputeChecksum(), NicDeparser()) main;
