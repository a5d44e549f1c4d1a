// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action a1() {}
    action a1() {}  // E011: 'a1' is declared twice
    bit<8> v;
    table t {
        key = { hdr.h.a : exct; }  // E010: match kind 'exct' is not declared
        actions = { a1; a2; }  // E010: 'a2' is not declared
        default_action = NoAction;  // E031: default action NoAction is not in the list of actions
    }
    apply {
        w = 1;  // E010: 'w' is not declared
        meta.x = a1;  // E013: 'a1' is a action, not a value
        v();  // E013: 'v' is a variable and cannot be called
        unknown_t u;  // E010: 'unknown_t' is not declared
        hdr.h.setvalid();  // E012: has no method 'setvalid'
        if (std.parser_error == error.Nothing) { }  // E012: error.Nothing is not declared
        meta.x = v.y;  // E012: bit<8> has no member 'y'
    }
}
#include "tail.h"
