// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
#define OWN_PARSER
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {  // E033: parser P has no state 'start'
    state begin {
        pkt.extract(meta);  // E020: extract() needs a header
        exit;  // E030: exit is not allowed in a parser
        transition elsewhere;  // E033: state 'elsewhere' is not declared
    }
    state accept { transition begin; }  // E033: state 'accept' is built in
    state pick {
        transition select(hdr.h.a, hdr.h.c) {
            1: begin;  // E034: expected 2 key sets, found 1
            (1, 2, 3): begin;  // E034: expected 2 key sets, found 3
            (true, 2): begin;  // E020: expected bit<8>
            default: accept;
        }
    }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    table t { actions = { NoAction; } }
    action a() { t.apply(); }  // E030: tables can be applied in the apply block of a control only
    action s() { switch (meta.x) { 1: { } } }  // E030: switch is not allowed in actions
    apply {
        verify(true, error.NoError);  // E030: verify() may only be called in parsers
        hdr.h = hdr.stack.last;  // E030: 'last' of a header stack is only allowed in parsers
        break;  // E030: break outside a loop
        switch (t.apply().action_run) {
            NoAction: { }
            a: { }  // E034: this is no action of table t
        }
        switch (meta.x) {
            1: { }
            1: { }  // E034: this label occurs twice
        }
    }
}
#include "tail.h"
