// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_PARSER_P4_
#define _SWITCH_PARSER_P4_

#include "metadata.p4"

const bit<8> PROTO_TCP = 6;

// Accepts anything: a header that is cut short stays invalid, and Validation
// judges what is left.
parser SwitchParser(packet_in packet,
                    out switch_headers_t hdr,
                    inout switch_metadata_t meta,
                    inout standard_metadata_t std_meta) {
  state start {
    packet.extract(hdr.ethernet);
    transition select(hdr.ethernet.ether_type) {
      ETHERTYPE_IPV4: parse_ipv4;
      ETHERTYPE_ARP: parse_arp;
      default: accept;
    }
  }

  state parse_arp {
    packet.extract(hdr.arp);
    transition accept;
  }

  // Fragments but the first have no ports; so that all of them take one path,
  // none is looked at for ports. Options would need a second length.
  state parse_ipv4 {
    packet.extract(hdr.ipv4);
    transition select(hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset,
                      hdr.ipv4.protocol) {
      (5, 0 &&& 1, 0, PROTO_UDP): parse_udp;
      (5, 0 &&& 1, 0, PROTO_TCP): parse_tcp_ports;
      default: accept;
    }
  }

  state parse_tcp_ports {
    packet.extract(hdr.tcp_ports);
    transition accept;
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
      default: accept;
    }
  }

  state parse_reth {
    packet.extract(hdr.reth);
    transition accept;
  }
}

control SwitchDeparser(packet_out packet, in switch_headers_t hdr) {
  apply {
    packet.emit(hdr.ethernet);
    packet.emit(hdr.arp);
    packet.emit(hdr.ipv4);
    packet.emit(hdr.tcp_ports);
    packet.emit(hdr.udp);
    packet.emit(hdr.bth);
    packet.emit(hdr.reth);
  }
}

#endif  // _SWITCH_PARSER_P4_
