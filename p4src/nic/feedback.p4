// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_FEEDBACK_P4_
#define _NIC_FEEDBACK_P4_

#include "metadata.p4"
#include "../include/checksum.p4"

// In egress: turns the packet that Receiver has answered into what its replica is
// for: the host's copy, the acknowledgement or retransmission request, or the
// congestion notification. A packet turned around without copies is feedback.
// Reads meta.reply, meta.outcome, meta.range.
control Feedback(inout nic_headers_t hdr,
                 inout nic_metadata_t meta,
                 in standard_metadata_t std_meta) {
  AdjustChecksum() adjust_checksum;

  bit<32> before;
  bit<32> after;

  // What changes of the IPv4 header; swapping the addresses changes no sum.
  @hidden action sum_before() {
    before = (bit<32>)hdr.ipv4.total_len + (bit<32>)(hdr.ipv4.dscp ++ hdr.ipv4.ecn) +
             (bit<32>)(hdr.ipv4.ttl ++ 8w0);
  }

  @hidden action sum_after() {
    after = (bit<32>)hdr.ipv4.total_len + (bit<32>)(hdr.ipv4.dscp ++ hdr.ipv4.ecn) +
            (bit<32>)(hdr.ipv4.ttl ++ 8w0);
  }

  // The original packet with the delivery header; a forgiven range has no payload.
  @hidden action deliver() {
    hdr.delivery.setValid();
    hdr.delivery.event = DELIVERY_DATA;
    if (meta.outcome == OUTCOME_FORGIVEN) {
      hdr.delivery.event = DELIVERY_FORGIVEN;
    }
    hdr.delivery.reserved = 0;
    hdr.delivery.accept = meta.range.missing;
    hdr.ipv4.total_len = hdr.ipv4.total_len + DELIVERY_BYTES;
    hdr.udp.length = hdr.udp.length + DELIVERY_BYTES;
    hdr.udp.checksum = 0;
  }

  // Back to the sender: addresses swapped, the path entropy of the flow kept.
  @hidden action turn_around() {
    bit<48> mac = hdr.ethernet.dst_addr;
    hdr.ethernet.dst_addr = hdr.ethernet.src_addr;
    hdr.ethernet.src_addr = mac;
    bit<32> address = hdr.ipv4.dst_addr;
    hdr.ipv4.dst_addr = hdr.ipv4.src_addr;
    hdr.ipv4.src_addr = address;
    hdr.ipv4.dscp = meta.control_dscp;
    hdr.ipv4.ecn = ECN_NOT_ECT;
    hdr.ipv4.ttl = FEEDBACK_TTL;
    hdr.udp.checksum = 0;
    hdr.bth.solicited = 0;
    hdr.bth.pad_count = 0;
    hdr.bth.fecn = 0;
    hdr.bth.ack_req = 0;
    hdr.bth.dest_qp = hdr.reth.source_qp;
  }

  // ACK: all of the range is settled. NAK: it is to be sent again.
  @hidden action acknowledge() {
    hdr.ipv4.total_len = FEEDBACK_IPV4_BYTES;
    hdr.udp.length = FEEDBACK_UDP_BYTES;
    hdr.bth.opcode = OPCODE_ACKNOWLEDGE;
    hdr.bth.becn = meta.reply.ecn_echo;
    hdr.bth.exemption_eligible = meta.reply.exemption_eligible;
    hdr.bth.budget_exhausted = meta.reply.budget_exhausted;
    hdr.aeth.setValid();
    hdr.aeth.syndrome = meta.reply.syndrome;
    hdr.aeth.msn = 0;
    hdr.feedback.setValid();
    hdr.feedback.rcv_nxt = meta.reply.rcv_nxt;
    hdr.feedback.range_start = hdr.reth.virtual_addr;
    hdr.feedback.range_len = hdr.reth.dma_len;
    hdr.reth.setInvalid();
    truncate((bit<32>)FEEDBACK_FRAME_BYTES);
  }

  @hidden action notify() {
    hdr.ipv4.total_len = CNP_IPV4_BYTES;
    hdr.udp.length = CNP_UDP_BYTES;
    hdr.bth.opcode = OPCODE_CNP;
    hdr.bth.becn = 1;
    hdr.bth.exemption_eligible = 0;
    hdr.bth.budget_exhausted = 0;
    hdr.cnp_pad.setValid();
    hdr.cnp_pad.zero = 0;
    hdr.reth.setInvalid();
    truncate((bit<32>)CNP_FRAME_BYTES);
  }

  apply {
    if (meta.reply.due) {
      sum_before();
      if (std_meta.egress_rid == RID_HOST) {
        deliver();
      } else {
        turn_around();
        if (std_meta.egress_rid == RID_NOTIFICATION) {
          notify();
        } else {
          acknowledge();
        }
      }
      sum_after();
      adjust_checksum.apply(hdr.ipv4.hdr_checksum, before, after);
    }
  }
}  // control Feedback

#endif  // _NIC_FEEDBACK_P4_
