// SPDX-License-Identifier: Apache-2.0
// The switch of the fabric: IPv4 forwarding over equal paths, byte-exact
// occupancy, packet trimming and ECN marking. It decides nothing about what is
// trimmed: that is the receiver's (nic.p4).
//
//   ingress   Validation -> Classification -> Forwarding -> Admission -> Trimming
//                                                               |
//             queues, one per priority: 0 data, 1 trimmed headers, 2 feedback
//                                                               |
//   egress                                        Departure -> Marking
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "switch/metadata.p4"
#include "switch/parser.p4"
#include "switch/validation.p4"
#include "switch/classification.p4"
#include "switch/forwarding.p4"
#include "switch/occupancy.p4"
#include "switch/admission.p4"
#include "switch/trimming.p4"
#include "switch/departure.p4"
#include "switch/marking.p4"

control SwitchVerifyChecksum(inout switch_headers_t hdr,
                             inout switch_metadata_t meta) {
  apply {}
}

control SwitchIngress(inout switch_headers_t hdr,
                      inout switch_metadata_t meta,
                      inout standard_metadata_t std_meta) {
  Validation() validation;
  Classification() classification;
  Forwarding() forwarding;
  Admission() admission;
  Trimming() trimming;

  action configure(bit<32> seed) {
    meta.seed = seed;
  }

  @brief("Settings of this switch, as its default action.")
  table switch_config {
    actions = { configure; }
    default_action = configure(0);
    size = 1;
  }

  apply {
    mark_to_drop(std_meta);  // until there is a route
    switch_config.apply();
    validation.apply(hdr, meta, std_meta);
    if (meta.accepted) {
      bool routed;
      classification.apply(hdr, meta, std_meta);
      forwarding.apply(hdr, meta, std_meta, routed);
      if (routed) {
        bool admitted;
        admission.apply(meta, std_meta, admitted);
        if (!admitted) {
          trimming.apply(hdr, meta, std_meta);
        }
      }
    }
  }
}

control SwitchEgress(inout switch_headers_t hdr,
                     inout switch_metadata_t meta,
                     inout standard_metadata_t std_meta) {
  Departure() departure;
  Marking() marking;

  counter<port_t>(MAX_PORTS, CounterType.packets) forwarded;

  apply {
    bit<32> bytes_behind;
    departure.apply(meta, std_meta, bytes_behind);
    marking.apply(hdr, meta, std_meta, bytes_behind);
    forwarded.count(std_meta.egress_port);
  }
}

// The IPv4 checksum is adjusted where a field changes, which keeps it right under
// options too.
control SwitchComputeChecksum(inout switch_headers_t hdr,
                              inout switch_metadata_t meta) {
  apply {}
}

@pkginfo(name="switch.p4", version="1.0.0")
@brief("ECN marking, packet trimming and a priority header queue")
V1Switch(SwitchParser(), SwitchVerifyChecksum(), SwitchIngress(), SwitchEgress(),
         SwitchComputeChecksum(), SwitchDeparser()) main;
