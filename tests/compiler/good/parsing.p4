// SPDX-License-Identifier: Apache-2.0
// Parsers: select with masks, ranges, value sets and tuples, lookahead, verify, stacks, unions, varbit,
// sub-parsers with arguments, states that call functions.
#include <core.p4>
#include <v1model.p4>

error { BadVersion }

enum bit<16> EtherType { VLAN = 0x8100, IPV4 = 0x0800, ARP = 0x0806 }

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    EtherType etype;
}
header vlan_t {
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    EtherType etype;
}
header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<64> rest;
    bit<32> src;
    bit<32> dst;
    varbit<320> options;
}
header tcp_t { bit<16> sport; bit<16> dport; }
header udp_t { bit<16> sport; bit<16> dport; bit<32> rest; }
header_union l4_t { tcp_t tcp; udp_t udp; }
header probe_t { bit<8> kind; bit<8> value; }

struct headers_t {
    ethernet_t eth;
    vlan_t[2] vlan;
    ipv4_t ipv4;
    l4_t l4;
    probe_t probe;
}
struct ports_t { bit<16> first; bit<16> second; }
struct meta_t {
    bit<8> depth;
    bit<16> port;
    ports_t ports;
}

#include "skeleton.p4"

bit<32> option_bits(in bit<4> ihl) {
    if (ihl < 5) {
        return 0;
    }
    return ((bit<32>)ihl - 5) << 5;
}

parser Ports(packet_in pkt, out ports_t ports)(bit<16> fallback) {
    state start {
        ports = pkt.lookahead<ports_t>();
        transition select(ports.first) {
            0: nothing;
            default: accept;
        }
    }
    state nothing {
        ports.first = fallback;
        transition accept;
    }
}

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) tunnels;
    Ports(7) ports;
    state start {
        pkt.extract(hdr.eth);
        meta.depth = 0;
        transition select(hdr.eth.etype) {
            EtherType.VLAN: vlan;
            EtherType.IPV4: ipv4;
            EtherType.ARP &&& 0xfff0: accept;
            default: other;
        }
    }
    state vlan {
        pkt.extract(hdr.vlan.next);
        meta.depth = meta.depth + 1;
        transition select(hdr.vlan.last.etype, hdr.vlan.lastIndex) {
            (EtherType.VLAN, 0): vlan;
            (EtherType.IPV4, _): ipv4;
            (_, _): accept;
        }
    }
    state ipv4 {
        pkt.extract(hdr.ipv4, option_bits(pkt.lookahead<bit<8>>()[3:0]));
        verify(hdr.ipv4.version == 4, error.BadVersion);
        ports.apply(pkt, meta.ports);
        transition select(hdr.ipv4.rest[23:16]) {
            6: tcp;
            17: udp;
            100..131: probe;
            _: accept;
        }
    }
    state tcp {
        pkt.extract(hdr.l4.tcp);
        transition select(hdr.l4.tcp.dport) {
            tunnels: probe;
            default: accept;
        }
    }
    state udp {
        pkt.extract(hdr.l4.udp);
        transition accept;
    }
    state probe {
        pkt.advance(16);
        pkt.extract(hdr.probe);
        transition accept;
    }
    state other {
        if (hdr.eth.dst[40:40] == 1) {
            meta.port = 1;
        } else {
            meta.port = 2;
        }
        transition accept;
    }
}

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.parser_error == error.BadVersion) {
            mark_to_drop(std);
        } else if (hdr.l4.tcp.isValid() || hdr.l4.udp.isValid()) {
            std.egress_spec = (bit<9>)meta.ports.second;
        }
        if (hdr.vlan[0].isValid()) {
            hdr.vlan.pop_front(1);
        }
    }
}

V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
