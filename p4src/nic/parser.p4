// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_PARSER_P4_
#define _NIC_PARSER_P4_

#include "metadata.p4"

// Looks into RoCE alone: UDP to its port in an unfragmented IPv4 packet without
// options. A header that is cut short stays invalid; Validation judges.
parser NicParser(packet_in packet,
                 out nic_headers_t hdr,
                 inout nic_metadata_t meta,
                 inout standard_metadata_t std_meta) {
  state start {
    transition select(std_meta.ingress_port) {
      CPU_PORT: parse_state_query;
      default: parse_ethernet;
    }
  }

  state parse_state_query {
    packet.extract(hdr.state_query);
    transition accept;
  }

  state parse_ethernet {
    packet.extract(hdr.ethernet);
    transition select(hdr.ethernet.ether_type) {
      ETHERTYPE_IPV4: parse_ipv4;
      default: accept;
    }
  }

  state parse_ipv4 {
    packet.extract(hdr.ipv4);
    transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags,
                      hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
      (4, 5, 0 &&& 1, 0, PROTO_UDP): parse_udp;
      default: accept;
    }
  }

  state parse_udp {
    packet.extract(hdr.udp);
    transition select(hdr.udp.dst_port) {
      UDP_PORT_ROCE: parse_bth;
      default: accept;
    }
  }

  state parse_bth {
    packet.extract(hdr.bth);
    transition select(hdr.bth.opcode) {
      OPCODE_WRITE_ONLY: parse_reth;
      OPCODE_ACKNOWLEDGE: parse_aeth;
      OPCODE_CNP: parse_cnp_pad;
      default: accept;
    }
  }

  state parse_reth {
    packet.extract(hdr.reth);
    transition accept;
  }

  state parse_aeth {
    packet.extract(hdr.aeth);
    packet.extract(hdr.feedback);
    transition accept;
  }

  state parse_cnp_pad {
    packet.extract(hdr.cnp_pad);
    transition accept;
  }
}

control NicDeparser(packet_out packet, in nic_headers_t hdr) {
  apply {
    packet.emit(hdr.state_report);
    packet.emit(hdr.ethernet);
    packet.emit(hdr.ipv4);
    packet.emit(hdr.udp);
    packet.emit(hdr.bth);
    packet.emit(hdr.reth);
    packet.emit(hdr.delivery);
    packet.emit(hdr.aeth);
    packet.emit(hdr.feedback);
    packet.emit(hdr.cnp_pad);
  }
}

#endif  // _NIC_PARSER_P4_
