// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_CLASSIFICATION_P4_
#define _SWITCH_CLASSIFICATION_P4_

#include "metadata.p4"

// What the DSCP says about a packet: may it be trimmed, which queue it takes,
// may its flow be sprayed. Plain traffic is none of it.
control Classification(in switch_headers_t hdr,
                       inout switch_metadata_t meta,
                       inout standard_metadata_t std_meta) {
  @name(".SwitchIngress.classify")
  action classify(bit<1> trimmable, bit<6> trimmed_dscp, bit<3> priority,
                  bit<1> spray) {
    meta.trimmable = trimmable;
    meta.trimmed_dscp = trimmed_dscp;
    meta.spray = spray;
    std_meta.priority = priority;
  }

  @name(".SwitchIngress.traffic_class")
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

  apply {
    if (hdr.ipv4.isValid()) {
      traffic_class.apply();
    }
  }
}  // control Classification

#endif  // _SWITCH_CLASSIFICATION_P4_
