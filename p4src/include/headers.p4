// SPDX-License-Identifier: Apache-2.0
// The wire format: the only place where it is decided. docs/dataplane.md has
// it in words; tests/ and hosts/ check their own encoders against this file.
// Switch and NIC each use a part of it, hence @noWarn.
#ifndef _HEADERS_P4_
#define _HEADERS_P4_

#include "sizes.p4"

@noWarn("unused") typedef bit<9> port_t;
typedef bit<24> qp_t;
typedef bit<32> offset_t;   // bytes from the start of a message

const bit<16> ETHERTYPE_IPV4 = 0x0800;
@noWarn("unused") const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<8> PROTO_UDP = 17;
const bit<16> UDP_PORT_ROCE = 4791;

@noWarn("unused") const bit<2> ECN_NOT_ECT = 0;
@noWarn("unused") const bit<2> ECN_ECT1 = 1;
@noWarn("unused") const bit<2> ECN_ECT0 = 2;
const bit<2> ECN_CE = 3;

// InfiniBand opcodes (linux include/rdma/ib_pack.h). Every data packet is a
// WRITE ONLY with its own RETH, so it can be placed alone.
const bit<8> OPCODE_WRITE_ONLY = 0x0a;
@noWarn("unused") const bit<8> OPCODE_ACKNOWLEDGE = 0x11;
@noWarn("unused") const bit<8> OPCODE_CNP = 0x81;

// AETH syndromes: acknowledge without a credit limit; NAK, PSN sequence error,
// which asks for the retransmission of the range in feedback_t.
@noWarn("unused") const bit<8> SYNDROME_ACK = 0x1f;
@noWarn("unused") const bit<8> SYNDROME_NAK = 0x60;

// What the NIC tells its host about a delivered packet.
@noWarn("unused") const bit<8> DELIVERY_DATA = 1;       // accept the masked blocks of the payload
@noWarn("unused") const bit<8> DELIVERY_FORGIVEN = 2;   // no payload: the masked blocks never come

const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES = 8;
const bit<16> BTH_BYTES = 12;
const bit<16> RETH_BYTES = 16;
@noWarn("unused") const bit<16> AETH_BYTES = 4;
@noWarn("unused") const bit<16> FEEDBACK_BYTES = 12;
@noWarn("unused") const bit<16> DELIVERY_BYTES = 8;
@noWarn("unused") const bit<16> CNP_PAD_BYTES = 16;

header ethernet_t {
  bit<48> dst_addr;
  bit<48> src_addr;
  bit<16> ether_type;
}

// Only the target address matters here: ARP is forwarded by it as IPv4 is by
// its destination, so it crosses the fabric without flooding.
header arp_t {
  bit<16> hardware_type;
  bit<16> protocol_type;
  bit<8> hardware_len;
  bit<8> protocol_len;
  bit<16> operation;
  bit<48> sender_mac;
  bit<32> sender_ip;
  bit<48> target_mac;
  bit<32> target_ip;
}

header ipv4_t {
  bit<4> version;
  bit<4> ihl;
  bit<6> dscp;   // traffic class and trim state; values come from the profile
  bit<2> ecn;
  bit<16> total_len;
  bit<16> identification;
  bit<3> flags;
  bit<13> frag_offset;
  bit<8> ttl;
  bit<8> protocol;
  bit<16> hdr_checksum;
  bit<32> src_addr;
  bit<32> dst_addr;
}

// Checksum always 0: a trim would break any other. The sender's NIC writes the
// source port (path entropy) from the queue pair.
header udp_t {
  bit<16> src_port;
  bit<16> dst_port;
  bit<16> length;
  bit<16> checksum;
}

// Base transport header. The two FORGIVE flags take the reserved bits beside
// FECN and BECN, which the invariant CRC does not cover: the only wire change.
// solicited = 1 marks the packet that ends its message.
header bth_t {
  bit<8> opcode;
  bit<1> solicited;
  bit<1> mig_req;
  bit<2> pad_count;
  bit<4> version;
  bit<16> p_key;
  bit<1> fecn;
  bit<1> becn;                 // ECN echo, on feedback
  bit<1> exemption_eligible;   // on feedback
  bit<1> budget_exhausted;     // on feedback
  bit<4> reserved6;
  qp_t dest_qp;
  bit<1> ack_req;
  bit<7> reserved7;
  bit<24> psn;                 // per flow, one up for every packet sent
}

// Queue pair number, chosen by the receiver of the flow. It carries what the
// NIC needs: the step's slot, the generation of the flow slot, the flow slot.
struct queue_pair_t {
  bit<STEP_SLOT_WIDTH> step_slot;
  bit<OWNER_WIDTH> owner;
  bit<FLOW_SLOT_WIDTH> flow_slot;
}

header reth_t {
  bit<32> virtual_addr_high;   // 0
  offset_t virtual_addr;       // offset of the range in its message
  bit<8> rkey_high;            // 0
  qp_t source_qp;              // in the remote key: where feedback goes
  bit<32> dma_len;             // payload bytes, also of a trimmed packet
}

header aeth_t {
  bit<8> syndrome;
  bit<24> msn;
}

// After AETH: everything below rcv_nxt is settled. ACK: so is the range.
// NAK: the range is to be sent again.
header feedback_t {
  offset_t rcv_nxt;
  offset_t range_start;
  bit<32> range_len;
}

header cnp_pad_t {
  bit<128> zero;
}

// From the NIC to its host only, between RETH and payload. Bit i of accept
// stands for the i-th block of the range.
header delivery_t {
  bit<8> event;
  bit<24> reserved;
  bit<32> accept;
}

// PacketOut: ask for the byte state of the step in a slot.
@controller_header("packet_out")
header state_query_t {
  bit<8> step_slot;
  bit<32> nonce;   // echoed in the report
}

// PacketIn: the answer. Bytes; all 0 when no packet of the installed step came.
@controller_header("packet_in")
header state_report_t {
  bit<8> step_slot;
  bit<32> nonce;
  bit<32> step_tag;
  bit<8> installed;   // 1: the slot has an entry
  bit<8> open;
  bit<8> exhausted;
  bit<64> received;
  bit<64> forgiven;
  bit<64> outstanding;
  bit<64> trimmed;    // payload bytes of trimmed headers that arrived
}

#endif  // _HEADERS_P4_
