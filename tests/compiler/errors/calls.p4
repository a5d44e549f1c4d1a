// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
bit<8> one(in bit<8> x) { return x; }
bit<8> none(in bit<8> x) { if (x == 0) { return 1; } }  // E030: does not return a value on every path
bit<8> loop(in bit<8> x) { return loop(x); }  // E010: 'loop' is not declared
void change(inout bit<8> x) { x = 1; }
control Sub(in bit<8> x)(bit<8> n) { apply { } }
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    Sub(hdr.h.a) sub;  // E025: must be known at compile time
    Sub() few;  // E021: 'n' is missing
    register<bit<8>>(16) r;
    action a(in bit<8> x, bit<8> y) { }
    action b(bit<8> y, in bit<8> x) { }  // E024: 'x' has a direction but follows one without
    action c(in bit<8> x) { x = 1; }  // E024: 'x' is an 'in' parameter
    table t { actions = { a(1); } default_action = a(1); }  // E021: 'y' is missing
    apply {
        meta.x = one();  // E021: 'x' is missing
        meta.x = one(1, 2);  // E021: one takes 1 arguments, got 2
        meta.x = one(y = 1);  // E021: one has no parameter 'y'
        change(meta.x + 1);  // E024: this is no variable
        change(meta.y);  // E020: expected bit<8>, found bit<16>
        r.read(meta.y, 0);  // E020: expected bit<8>, found bit<16>
        r.fetch(0);  // E012: extern register has no method 'fetch'
        a(1, 2, 3);  // E021: a takes 2 arguments, got 3
        return 1;  // E030: does not return a value
        mark_to_drop(meta);  // E020: expected standard_metadata_t
    }
}
#include "tail.h"
