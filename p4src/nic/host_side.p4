// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_HOST_SIDE_P4_
#define _NIC_HOST_SIDE_P4_

#include "metadata.p4"
#include "../include/hash.p4"

// Data from the host on its way to the wire: gets its path entropy, from both queue
// pairs, so that a flow keeps its path and flows spread.
control HostSide(inout nic_headers_t hdr, inout standard_metadata_t std_meta) {
  Mix() mix;

  @hidden action set_source_port(in bit<32> draw) {
    hdr.udp.src_port = 2w3 ++ draw[13:0];
    hdr.udp.checksum = 0;
  }

  apply {
    bit<32> draw;
    hash(draw, HashAlgorithm.crc32, 32w0,
         { DRAW_SOURCE_PORT, hdr.bth.dest_qp, hdr.reth.source_qp }, HASH_RANGE);
    mix.apply(draw);
    set_source_port(draw);
    std_meta.egress_spec = WIRE_PORT;
  }
}  // control HostSide

#endif  // _NIC_HOST_SIDE_P4_
