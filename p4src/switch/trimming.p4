// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_TRIMMING_P4_
#define _SWITCH_TRIMMING_P4_

#include "metadata.p4"
#include "../include/checksum.p4"

// For a packet that was not admitted. Cuts it to its headers, which the trimmed
// priority then carries past the full queue; what can't be trimmed is dropped.
// RETH keeps the offset and the original length. Both IP and UDP length follow
// the trim, or the kernel of the receiver would throw the packet away.
control Trimming(inout switch_headers_t hdr,
                 in switch_metadata_t meta,
                 inout standard_metadata_t std_meta) {
  AdjustChecksum() adjust_checksum;

  counter<port_t>(MAX_PORTS, CounterType.packets) trimmed;
  counter<port_t>(MAX_PORTS, CounterType.packets) dropped;

  bit<32> before;
  bit<32> after;

  @hidden action trim() {
    before = (bit<32>)(hdr.ipv4.dscp ++ hdr.ipv4.ecn) + (bit<32>)hdr.ipv4.total_len;
    after = (bit<32>)(meta.trimmed_dscp ++ hdr.ipv4.ecn) + (bit<32>)TRIMMED_IPV4_BYTES;
    hdr.ipv4.dscp = meta.trimmed_dscp;
    hdr.ipv4.total_len = TRIMMED_IPV4_BYTES;
    hdr.udp.length = TRIMMED_UDP_BYTES;
    hdr.udp.checksum = 0;
    std_meta.priority = PRIORITY_TRIMMED;
    truncate((bit<32>)TRIMMED_FRAME_BYTES);
  }

  apply {
    if (meta.trimmable == 1 && hdr.reth.isValid()) {
      trimmed.count(std_meta.egress_spec);
      trim();
      adjust_checksum.apply(hdr.ipv4.hdr_checksum, before, after);
    } else {
      dropped.count(std_meta.egress_spec);
      mark_to_drop(std_meta);
    }
  }
}  // control Trimming

#endif  // _SWITCH_TRIMMING_P4_
