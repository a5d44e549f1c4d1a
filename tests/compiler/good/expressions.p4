// SPDX-License-Identifier: Apache-2.0
// Arithmetic of every kind: wrap-around, signs, saturation, shifts, slices, concatenation, casts.
#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8> a;
    bit<8> b;
    bit<16> c;
    int<8> s;
    int<16> t;
    bit<4> n;
    bit<4> m;
    bit<128> wide;
}
struct headers_t { numbers_t n; }
struct meta_t {
    bit<8> u8;
    bit<16> u16;
    int<8> i8;
    int<16> i16;
    bit<2048> big;
    bool flag;
    bit<1> one;
}

#include "skeleton.p4"

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.n);
        transition accept;
    }
}

const bit<64> POPCOUNT = 0x4332322132212110;

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action unsigned_ops() {
        meta.u8 = hdr.n.a + hdr.n.b;
        meta.u8 = meta.u8 - hdr.n.b * 3;
        meta.u8 = -hdr.n.a;
        meta.u8 = ~hdr.n.a & hdr.n.b | hdr.n.a ^ 8w0x0f;
        meta.u8 = hdr.n.a |+| hdr.n.b;
        meta.u8 = hdr.n.a |-| hdr.n.b;
        meta.u8 = hdr.n.a << 3;
        meta.u8 = hdr.n.a >> hdr.n.b;
        meta.u16 = hdr.n.a ++ hdr.n.b;
        meta.u16 = (bit<16>)hdr.n.a;
        meta.u8 = hdr.n.c[11:4];
        meta.u8 = (bit<8>)(POPCOUNT >> ((bit<8>)hdr.n.n << 2)) & 0xf;
        meta.u8 = hdr.n.c / 256 == 1 ? hdr.n.a : hdr.n.b;
    }
    action signed_ops() {
        meta.i8 = hdr.n.s + 1;
        meta.i8 = -hdr.n.s;
        meta.i8 = hdr.n.s |-| (int<8>)hdr.n.a;
        meta.i16 = (int<16>)hdr.n.s;
        meta.u8 = (bit<8>)hdr.n.s;
        meta.i8 = (int<8>)hdr.n.t;
        meta.i8 = hdr.n.s >> 1;
        meta.flag = hdr.n.s < 0;
    }
    action wide_ops() {
        meta.big = (bit<2048>)hdr.n.wide;
        meta.big = meta.big | ((bit<2048>)hdr.n.a << 200);
        meta.big[7:0] = hdr.n.b;
        hdr.n.wide = meta.big[327:200];
        meta.one = (bit<1>)meta.flag;
        meta.flag = (bool)meta.one;
        meta.u8[3:0] = hdr.n.m;
    }
    table t {
        key = { hdr.n.a : exact; }
        actions = { unsigned_ops; signed_ops; wide_ops; NoAction; }
        default_action = unsigned_ops;
    }
    apply {
        t.apply();
        meta.flag = !meta.flag && (hdr.n.a > 3 || hdr.n.isValid());
        if (meta.flag) {
            meta.u8 += 1;
        }
    }
}

V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
