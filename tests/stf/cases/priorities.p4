// SPDX-License-Identifier: Apache-2.0
// Overlapping ternary entries, entries of the program, and default actions from outside.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
    bit<8> first;
    bit<8> second;
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
    action first(bit<8> v) { hdr.h.first = v; }
    action second(bit<8> v) { hdr.h.second = v; }

    table overlapping {
        key = { hdr.h.a: ternary; hdr.h.b: ternary; }
        actions = { first; }
        default_action = first(0xee);
    }
    table fixed {
        key = { hdr.h.a: ternary; }
        actions = { second; NoAction; }
        default_action = NoAction();
        const entries = {
            0x10 &&& 0xf0: second(1);
            0x11: second(2);
            0x20: second(3);
            _: second(4);
        }
    }

    apply {
        overlapping.apply();
        fixed.apply();
        std.egress_spec = std.ingress_port;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
