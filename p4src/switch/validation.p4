// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_VALIDATION_P4_
#define _SWITCH_VALIDATION_P4_

#include "metadata.p4"
#include "../include/checksum.p4"

// First in ingress. Counts and refuses what can't be forwarded, lowers the TTL,
// and says who the packet is.
// Reads the parsed headers; writes meta.accepted, meta.flow, TTL and checksum.
control Validation(inout switch_headers_t hdr,
                   inout switch_metadata_t meta,
                   in standard_metadata_t std_meta) {
  AdjustChecksum() adjust_checksum;

  counter<bit<1>>(1, CounterType.packets) malformed;
  counter<bit<1>>(1, CounterType.packets) ttl_expired;

  @hidden action identify_ipv4() {
    meta.flow.src_addr = hdr.ipv4.src_addr;
    meta.flow.dst_addr = hdr.ipv4.dst_addr;
    meta.flow.protocol = hdr.ipv4.protocol;
  }

  @hidden action identify_arp() {
    meta.flow.src_addr = hdr.arp.sender_ip;
    meta.flow.dst_addr = hdr.arp.target_ip;
  }

  @hidden action identify_udp_ports() {
    meta.flow.src_port = hdr.udp.src_port;
    meta.flow.dst_port = hdr.udp.dst_port;
  }

  @hidden action identify_tcp_ports() {
    meta.flow.src_port = hdr.tcp_ports.src_port;
    meta.flow.dst_port = hdr.tcp_ports.dst_port;
  }

  apply {
    if (hdr.ipv4.isValid()) {
      bit<32> frame_bytes = (bit<32>)ETHERNET_BYTES + (bit<32>)hdr.ipv4.total_len;
      bit<16> header_bytes = (bit<16>)hdr.ipv4.ihl << 2;
      if (hdr.ipv4.version != 4 || header_bytes < IPV4_BYTES ||
          hdr.ipv4.total_len < header_bytes ||
          frame_bytes > std_meta.packet_length) {
        malformed.count(0);
      } else if (hdr.ipv4.ttl <= 1) {
        ttl_expired.count(0);
      } else {
        meta.accepted = true;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        adjust_checksum.apply(hdr.ipv4.hdr_checksum, 0x100, 0);
        identify_ipv4();
        if (hdr.udp.isValid()) {
          identify_udp_ports();
        } else if (hdr.tcp_ports.isValid()) {
          identify_tcp_ports();
        }
      }
    } else if (hdr.arp.isValid()) {
      meta.accepted = true;
      identify_arp();
    } else {
      malformed.count(0);
    }
  }
}  // control Validation

#endif  // _SWITCH_VALIDATION_P4_
