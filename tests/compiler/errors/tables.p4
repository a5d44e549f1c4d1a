// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action set(bit<8> v) { meta.x = v; }
    table none { key = { hdr.h.a : exact; } }  // E031: table none has no 'actions'
    table t {
        key = { hdr.h.a : exact; hdr.h.b : ternary; hdr.h.c : lpm; }
        actions = { set; @defaultonly NoAction; }
        default_action = set(hdr.h.a);  // E025: must be known at compile time
        size = 2;
        size = 3;  // E011: property 'size' is given twice
        const entries = {
            (1, 2) : set(1);  // E032: table t has 3 keys, this entry 2
            (_, 2, 3) : set(1);  // E032: '_' cannot be used for an exact key
            (1 &&& 1, 2, 3) : set(1);  // E032: a mask cannot be used for a key of kind exact
            (1, 2, 3 &&& 5) : set(1);  // E032: the mask of an lpm key must be a prefix
            (1, 2, 3) : NoAction();  // E032: action NoAction is @defaultonly
            (1, true, 3) : set(1);  // E020: expected bit<8> in this entry
            (1, 2, 3) : set();  // E021: 'v' is missing
        }
    }
    table headers { key = { hdr.h : exact; } actions = { set; } }  // E032: a key cannot have type h_t
    table size { actions = { set; } size = hdr.h.a; }  // E031: 'size' must be an integer
    apply { t.apply(); }
}
#include "tail.h"
