// SPDX-License-Identifier: Apache-2.0
// Meters by index and by entry: green, yellow and red, 0, 1 and 2.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> index;
    bit<8> key;
    bit<8> color;
    bit<8> direct_color;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<2> direct;
}

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(4, MeterType.packets) by_index;
    direct_meter<bit<2>>(MeterType.bytes) by_entry;

    action metered() {
        by_entry.read(meta.direct);
    }
    action unmetered() {
        meta.direct = 3;
    }
    table keys {
        key = { hdr.h.key: exact; }
        actions = { metered; unmetered; }
        meters = by_entry;
        default_action = unmetered();
    }
    apply {
        bit<8> color;
        by_index.execute_meter((bit<32>) hdr.h.index, color);
        hdr.h.color = color;
        keys.apply();
        hdr.h.direct_color = (bit<8>) meta.direct;
        std.egress_spec = 1;
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
        pkt.emit(hdr.h);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
