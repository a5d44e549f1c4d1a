// SPDX-License-Identifier: Apache-2.0
// Sub-controls with constructor parameters, copy-in and copy-out, functions, generics, nested structs,
// loops in an apply block, value switches, early returns.
#include <core.p4>
#include <v1model.p4>

typedef bit<16> word_t;
enum Mode { off, on, mixed }
const word_t LIMIT = 4 * 25;

struct pair_t<T> { T first; T second; }
struct inner_t { word_t x; bool set; }
struct outer_t { inner_t in1; inner_t in2; word_t y; }

header h_t { word_t a; word_t b; word_t c; word_t d; }
struct headers_t { h_t h; h_t[2] more; }
struct meta_t {
    outer_t o;
    word_t result;
}

#include "skeleton.p4"

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        pkt.extract(hdr.more.next);
        transition accept;
    }
}

T pick<T>(in bool which, in T yes, in T no) {
    if (which) {
        return yes;
    }
    return no;
}

word_t clamp(in word_t x) {
    return x > LIMIT ? LIMIT : x;
}

void swap(inout word_t x, inout word_t y) {
    word_t keep = x;
    x = y;
    y = keep;
}

control Adder(inout word_t sum, in word_t part)(word_t step, bool wrap) {
    action add(word_t more) {
        sum = sum + part + more + step;
    }
    table extra {
        key = { part : exact; }
        actions = { add; NoAction; }
    }
    apply {
        if (part == 0) {
            return;
        }
        extra.apply();
        if (wrap) {
            sum = clamp(sum);
        }
    }
}

control Twice(inout h_t h) {
    Adder(1, true) low;
    Adder(step = 2, wrap = false) high;
    apply {
        low.apply(h.a, h.b);
        high.apply(h.b, h.c);
    }
}

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    Twice() twice;
    word_t local = 5;
    pair_t<word_t> pair;
    Mode mode = Mode.off;

    action bump(inout word_t x, in word_t by) {
        x = x + by;
    }
    apply {
        twice.apply(hdr.h);
        pair = { hdr.h.a, hdr.h.b };
        pair = { first = pair.second, second = pair.first };
        swap(pair.first, pair.second);
        meta.o = { { clamp(local), true }, { x = 1, set = false }, 2 };
        bump(meta.o.in1.x, pair.first);
        meta.result = pick(meta.o.in1.set, hdr.h.c, hdr.h.d) + pick<word_t>(hdr.h.isValid(), 1, 2);
        for (bit<8> i in 0..2) {
            meta.result = meta.result + (word_t)i;
        }
        switch (hdr.h.d) {
            1:
            2: { mode = Mode.on; }
            3: { mode = Mode.mixed; }
            default: { meta.result = 0; }
        }
        if (mode == Mode.mixed) {
            hdr.more[0] = hdr.h;
            hdr.more[1] = { 1, 2, 3, 4 };
            if (hdr.more[0] == hdr.h) {
                return;
            }
        }
        hdr.more.push_front(1);
    }
}

V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
