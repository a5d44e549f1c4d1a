// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_VALIDATION_P4_
#define _NIC_VALIDATION_P4_

#include "metadata.p4"

// First in ingress: says what a packet is. A RoCE packet whose lengths don't
// agree, with an opcode the NIC does not know, or with anything in the fields
// the wire format leaves 0, is malformed.
// Reads the parsed headers and meta.trimmed; writes meta.kind and meta.qp.
control Validation(in nic_headers_t hdr,
                   inout nic_metadata_t meta,
                   in standard_metadata_t std_meta) {
  @hidden action judge_data() {
    bit<32> expected_len = (bit<32>)TRIMMED_IPV4_BYTES;
    bit<3> kind = KIND_TRIMMED;
    if (meta.trimmed == 0) {
      expected_len = expected_len + hdr.reth.dma_len;
      kind = KIND_DATA;
    }
    if ((bit<32>)hdr.ipv4.total_len == expected_len &&
        hdr.reth.virtual_addr_high == 0 && hdr.reth.rkey_high == 0) {
      meta.kind = kind;
    }
  }

  @hidden action judge_feedback() {
    if (hdr.ipv4.total_len == FEEDBACK_IPV4_BYTES &&
        (hdr.aeth.syndrome == SYNDROME_ACK || hdr.aeth.syndrome == SYNDROME_NAK)) {
      meta.kind = KIND_FEEDBACK;
    }
  }

  @hidden action judge_notification() {
    if (hdr.ipv4.total_len == CNP_IPV4_BYTES) {
      meta.kind = KIND_NOTIFICATION;
    }
  }

  apply {
    if (hdr.state_query.isValid()) {
      meta.kind = KIND_QUERY;
      meta.qp = hdr.state_query.step_slot[STEP_SLOT_WIDTH - 1:0] ++
                (owner_t)0 ++ (flow_slot_t)0;
    } else if (std_meta.ingress_port == CPU_PORT) {
      meta.kind = KIND_MALFORMED;
    } else if (hdr.udp.isValid() && hdr.udp.dst_port == UDP_PORT_ROCE) {
      meta.kind = KIND_MALFORMED;
      meta.qp = hdr.bth.dest_qp;
      bit<32> frame_bytes = (bit<32>)ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_len;
      bit<32> udp_bytes = (bit<32>)IPV4_BYTES + (bit<32>)hdr.udp.length;
      if (std_meta.packet_length == frame_bytes &&
          (bit<32>)hdr.ipv4.total_len == udp_bytes) {
        if (hdr.reth.isValid()) {
          judge_data();
        } else if (hdr.feedback.isValid()) {
          judge_feedback();
        } else if (hdr.cnp_pad.isValid()) {
          judge_notification();
        }
      }
    }
  }
}  // control Validation

#endif  // _NIC_VALIDATION_P4_
