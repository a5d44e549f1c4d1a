// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
struct bad_t { int x; }  // E023: field 'x' of struct bad_t cannot have type int
header bad_h { bit<8> a; bit<8> a; }  // E011: field 'a' is declared twice
enum bit<8> E { one = 1, two }  // E025: member 'two' of enum E needs a value
typedef bit<4096> huge_t;  // E041: bit<4096> is wider than the limit
const bit<8> K = { 1, 2 };  // E020: expected bit<8>, found tuple
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        meta.x = hdr.h.c;  // E020: expected bit<8> in this assignment, found bit<16>
        meta.x = hdr.h.a + hdr.h.c;  // E020: '+' needs operands of the same type
        meta.x = hdr.h.a + hdr.h.s;  // E020: found bit<8> and int<8>
        meta.flag = hdr.h.a;  // E020: expected bool
        if (hdr.h.a) { }  // E020: expected a condition of type bool, found bit<8>
        meta.x = !hdr.h.a;  // E020: '!' needs bool
        meta.flag = hdr.h.a < true;  // E020: '<' needs numbers
        meta.x = (bit<8>)hdr.h;  // E028: cannot cast h_t to bit<8>
        meta.y = 5 ++ hdr.h.a;  // E020: '++' needs bit<W>
        meta.x = hdr.h.c[16:9];  // E026: bit 16 is outside bit<16>
        meta.x = hdr.h.c[0:7];  // E026: bounds the wrong way round
        meta.x = hdr.h.a / 0;  // E026: division by zero
        meta.x = hdr.h.a / hdr.h.b;  // E040: '/' at run time is not supported
        meta.x = hdr.h.a << -1;  // E026: a shift amount cannot be negative
        meta.x = hdr.h.nope;  // E012: h_t has no member 'nope'
        hdr.h = { 1, 2, 3 };  // E020: 3 values for h_t, which has 4 fields
        hdr.h = { a = 1, z = 2, c = 3, s = 4 };  // E012: h_t has no field 'z'
        meta.x = hdr.stack[2].a;  // E026: index 2 is outside the stack of 2
        meta.setValid();  // E012: meta_t has no method 'setValid'
        bit<8> t = meta.flag ? 8w1 : 16w2;  // E020: expected bit<8>, found bit<16>
    }
}
#include "tail.h"
