// SPDX-License-Identifier: Apache-2.0
// Header stacks: next and last in the parser, push and pop, an index that overflows.
#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
}

header label_t {
    bit<7> value;
    bit<1> bottom;
}

struct headers_t {
    op_t       op;
    label_t[3] labels;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.op);
        transition labels;
    }
    state labels {
        pkt.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) {
            0: labels;
            1: accept;
        }
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action push() {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].value = 0x7f;
        hdr.labels[0].bottom = 0;
    }
    action pop_two() {
        hdr.labels.pop_front(2);
    }
    action clear_middle() {
        hdr.labels[1].setInvalid();
    }
    action swap() {
        label_t old = hdr.labels[0];
        hdr.labels[0] = hdr.labels[2];
        hdr.labels[2] = old;
    }
    table ops {
        key = { hdr.op.op: exact; }
        actions = { push; pop_two; clear_middle; swap; NoAction; }
        const entries = {
            1: push();
            2: pop_two();
            3: clear_middle();
            4: swap();
        }
        default_action = NoAction();
    }
    apply {
        if (std.parser_error == error.StackOutOfBounds) {
            hdr.op.op = 0xff;
        }
        ops.apply();
        std.egress_spec = 7;
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
