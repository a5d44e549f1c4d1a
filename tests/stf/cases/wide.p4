// SPDX-License-Identifier: Apache-2.0
// Arithmetic of many widths: carries, borrows, signs, saturation, shifts, slices.
#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
}

header wide_t {
    bit<256> a;
    bit<256> b;
    bit<512> r;
}

header small_t {
    bit<8>  a;
    bit<8>  b;
    bit<16> r;
}

struct headers_t {
    op_t    op;
    wide_t  wide;
    small_t small;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.op);
        transition select(hdr.op.op) {
            0x00 &&& 0x80: wide;
            default: small;
        }
    }
    state wide {
        pkt.extract(hdr.wide);
        transition accept;
    }
    state small {
        pkt.extract(hdr.small);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action wide(bit<8> op) {
        bit<512> a = (bit<512>) hdr.wide.a;
        bit<512> b = (bit<512>) hdr.wide.b;
        bit<512> r = 0;
        if (op == 0) {
            r = a + b;
        } else if (op == 1) {
            r = a - b;
        } else if (op == 2) {
            r = a * b;
        } else if (op == 3) {
            r = (bit<512>) (hdr.wide.a << (bit<8>) hdr.wide.b[7:0]);
        } else if (op == 4) {
            r = (bit<512>) (hdr.wide.a >> (bit<8>) hdr.wide.b[7:0]);
        } else if (op == 5) {
            r = (bit<512>) (bit<256>) ((int<256>) hdr.wide.a >> (bit<8>) hdr.wide.b[7:0]);
        } else if (op == 6) {
            r = hdr.wide.a ++ hdr.wide.b;
        } else if (op == 7) {
            r = (bit<512>) (~hdr.wide.a & hdr.wide.b);
        } else if (op == 8) {
            r = (bit<512>) (hdr.wide.a |+| hdr.wide.b);
        } else if (op == 9) {
            r = (bit<512>) hdr.wide.a[199:56];
        } else if (op == 10) {
            r = a < b ? 512w1 : 512w2;
        } else if (op == 11) {
            r = (int<256>) hdr.wide.a < (int<256>) hdr.wide.b ? 512w1 : 512w2;
        }
        hdr.wide.r = r;
    }
    action small(bit<8> op) {
        int<8> a = (int<8>) hdr.small.a;
        int<8> b = (int<8>) hdr.small.b;
        int<16> r = 0;
        if (op == 0x80) {
            r = (int<16>) (a |+| b);
        } else if (op == 0x81) {
            r = (int<16>) (a |-| b);
        } else if (op == 0x82) {
            r = (int<16>) a * (int<16>) b;
        } else if (op == 0x83) {
            r = (int<16>) (a + b);
        } else if (op == 0x84) {
            r = (int<16>) -a;
        } else if (op == 0x85) {
            r = (int<16>) (bit<16>) (hdr.small.a |-| hdr.small.b);
        } else if (op == 0x86) {
            r = (int<16>) (a >> 2);
        }
        hdr.small.r = (bit<16>) r;
    }
    apply {
        if (hdr.wide.isValid()) {
            wide(hdr.op.op);
        } else {
            small(hdr.op.op);
        }
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
        pkt.emit(hdr);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
