// SPDX-License-Identifier: Apache-2.0
// Ways through a control: hit and miss, the action that ran, exit, return, direct applies in both branches.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
    bit<8> trace;
    bit<8> out_trace;
}

struct headers_t {
    h_t h;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action one() {
        hdr.h.trace = hdr.h.trace | 0x01;
    }
    action two(bit<8> limit) {
        hdr.h.trace = hdr.h.trace | 0x02;
        if (hdr.h.b > limit) {
            hdr.h.trace = hdr.h.trace | 0x80;
        } else {
            hdr.h.trace = hdr.h.trace | 0x40;
        }
    }
    action leave() {
        hdr.h.trace = hdr.h.trace | 0x04;
        exit;
    }
    table chooser {
        key = { hdr.h.a: exact; }
        actions = { one; two; leave; NoAction; }
        default_action = NoAction();
    }
    table seen {
        key = { hdr.h.b: exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply {
        std.egress_spec = 1;
        switch (chooser.apply().action_run) {
            one: {
                hdr.h.trace = hdr.h.trace | 0x08;
            }
            two: {
                if (hdr.h.b == 0) {
                    return;
                }
            }
            default: {
                std.egress_spec = 2;
            }
        }
        if (seen.apply().hit) {
            hdr.h.trace = hdr.h.trace | 0x10;
        } else {
            hdr.h.trace = hdr.h.trace | 0x20;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.out_trace = 0xee;
        if (std.egress_port == 2) {
            exit;
        }
        hdr.h.out_trace = 0xdd;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.h);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
