// SPDX-License-Identifier: Apache-2.0
// Every match kind: what a table finds goes to a byte of its own.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  exact_key;
    bit<32> lpm_key;
    bit<16> ternary_key;
    bit<16> range_key;
    bit<16> optional_key;
    bit<8>  found_exact;
    bit<8>  found_lpm;
    bit<8>  found_ternary;
    bit<8>  found_range;
    bit<8>  found_optional;
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
    action put_exact(bit<8> v) { hdr.h.found_exact = v; }
    action put_lpm(bit<8> v) { hdr.h.found_lpm = v; }
    action put_ternary(bit<8> v) { hdr.h.found_ternary = v; }
    action put_range(bit<8> v) { hdr.h.found_range = v; }
    action put_optional(bit<8> v) { hdr.h.found_optional = v; }

    table exacts {
        key = { hdr.h.exact_key: exact; }
        actions = { put_exact; }
        default_action = put_exact(0xff);
    }
    table prefixes {
        key = { hdr.h.lpm_key: lpm; }
        actions = { put_lpm; }
        default_action = put_lpm(0xff);
    }
    table masks {
        key = { hdr.h.ternary_key: ternary; }
        actions = { put_ternary; }
        default_action = put_ternary(0xff);
    }
    table ranges {
        key = { hdr.h.range_key: range; }
        actions = { put_range; }
        default_action = put_range(0xff);
    }
    table options {
        key = { hdr.h.exact_key: exact; hdr.h.optional_key: optional; }
        actions = { put_optional; }
        default_action = put_optional(0xff);
    }

    apply {
        exacts.apply();
        prefixes.apply();
        masks.apply();
        ranges.apply();
        options.apply();
        std.egress_spec = 2;
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
