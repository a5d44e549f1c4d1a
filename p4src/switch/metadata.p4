// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_METADATA_P4_
#define _SWITCH_METADATA_P4_

#include "../include/headers.p4"

// Priorities of the queues of a port; the larger is served first.
const bit<3> PRIORITY_DATA = 0;
const bit<3> PRIORITY_TRIMMED = 1;

// First field of each kind of draw (include/hash.p4).
const bit<8> DRAW_MEMBER = 1;
const bit<8> DRAW_MARK = 2;

// What a trimmed packet keeps.
const bit<16> TRIMMED_UDP_BYTES = UDP_BYTES + BTH_BYTES + RETH_BYTES;
const bit<16> TRIMMED_IPV4_BYTES = IPV4_BYTES + TRIMMED_UDP_BYTES;
const bit<16> TRIMMED_FRAME_BYTES = ETHERNET_BYTES + TRIMMED_IPV4_BYTES;

// The first bytes of a TCP header, all that balancing needs of it.
header tcp_ports_t {
  bit<16> src_port;
  bit<16> dst_port;
}

struct switch_headers_t {
  ethernet_t ethernet;
  arp_t arp;
  ipv4_t ipv4;
  tcp_ports_t tcp_ports;
  udp_t udp;
  bth_t bth;
  reth_t reth;
}

// Who a packet is, for hashing. Ports are 0 where there are none.
struct flow_key_t {
  bit<32> src_addr;
  bit<32> dst_addr;
  bit<8> protocol;
  bit<16> src_port;
  bit<16> dst_port;
}

struct switch_metadata_t {
  bool accepted;           // well-formed, and its TTL not used up
  bit<32> seed;            // of this switch
  flow_key_t flow;

  // From the traffic class.
  bit<1> trimmable;
  bit<6> trimmed_dscp;
  bit<1> spray;

  // Bytes this packet takes in the data queue; 0 for packets of other queues.
  bit<32> queued_bytes;
}

#endif  // _SWITCH_METADATA_P4_
