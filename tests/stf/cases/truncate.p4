// SPDX-License-Identifier: Apache-2.0
// Packets cut to a length, in ingress or egress; lengths count what arrived.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  where;
    bit<8>  length;
    bit<16> seen;
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
        std.egress_spec = 1;
        if (hdr.h.where == 1) {
            truncate((bit<32>) hdr.h.length);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.seen = (bit<16>) std.packet_length;
        if (hdr.h.where == 2) {
            truncate((bit<32>) hdr.h.length);
        }
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
