// SPDX-License-Identifier: Apache-2.0
// Counters by index, by entry and of misses; drops count in ingress too.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  kind;
    bit<24> rest;
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
    counter(8, CounterType.packets_and_bytes) by_kind;
    direct_counter(CounterType.packets_and_bytes) by_entry;

    action forward(bit<9> port) {
        by_entry.count();
        std.egress_spec = port;
    }
    action drop() {
        by_entry.count();
        mark_to_drop(std);
    }

    table kinds {
        key = { hdr.h.kind: exact; }
        actions = { forward; drop; }
        counters = by_entry;
        default_action = drop();
    }

    apply {
        by_kind.count((bit<32>) (hdr.h.kind & 7));
        kinds.apply();
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
