// SPDX-License-Identifier: Apache-2.0
// What the language allows but the target cannot do.
#include "common.h"
#define OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    bit<512> wide;
    table t { actions = { NoAction; } }
    action shift() { meta.y = hdr.h.c >> hdr.h.c; }  // E041: a shift amount of 16 bits
    action far() { wide = wide << 300; }  // E041: shift by 300
    action copy() { clone(CloneType.E2E, 1); }  // E040: clone(E2E, ...) can only be called in egress
    apply {
        shift();
        far();
        copy();
        if (meta.flag) {
            t.apply();
            meta.x = 1;
        } else {
            t.apply();  // E040: is applied in several places
        }
    }
}
#include "tail.h"
