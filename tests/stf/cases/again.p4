// SPDX-License-Identifier: Apache-2.0
// Packets that enter ingress again: the packet as it came (resubmit) or as it left (recirculate).
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<8>  rounds;
    bit<8>  kept;
    bit<8>  lost;
    bit<32> instance;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> kept;
    @field_list(2)
    bit<8> rounds;
    bit<8> lost;
}

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 3;
        hdr.h.instance = std.instance_type;
        if (hdr.h.what == 1) {
            // A resubmitted packet has the header that it came with.
            if (std.instance_type == 0) {
                hdr.h.rounds = 0x99;
                meta.kept = 0x11;
                meta.lost = 0x22;
                resubmit_preserving_field_list(1);
            } else {
                hdr.h.kept = meta.kept;
                hdr.h.lost = meta.lost;
            }
        } else if (hdr.h.what == 3 && meta.rounds < 3) {
            meta.rounds = meta.rounds + 1;
            meta.kept = meta.kept + 0x10;
            resubmit_preserving_field_list(2);
        } else if (hdr.h.what == 3) {
            hdr.h.kept = meta.kept;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.what == 2) {
            if (hdr.h.rounds < 2) {
                hdr.h.rounds = hdr.h.rounds + 1;
                meta.kept = meta.kept + 0x21;
                meta.lost = 0x77;
                recirculate_preserving_field_list(1);
            } else {
                hdr.h.kept = meta.kept;
                hdr.h.lost = meta.lost;
            }
        }
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
