// SPDX-License-Identifier: Apache-2.0
// Multicast groups: a copy a replica, told apart by replica id; egress prunes the port of arrival.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<16> group;
    bit<16> rid;
    bit<16> port;
}

struct headers_t {
    h_t h;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        // A group has precedence over a port.
        std.egress_spec = 8;
        std.mcast_grp = hdr.h.group;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == std.ingress_port) {
            mark_to_drop(std);
        }
        hdr.h.rid = std.egress_rid;
        hdr.h.port = (bit<16>) std.egress_port;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.h);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
