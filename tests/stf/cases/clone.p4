// SPDX-License-Identifier: Apache-2.0
// Clones of the packet as it came and of the packet as it leaves, with and without metadata.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  what;
    bit<8>  kept;
    bit<8>  lost;
    bit<8>  rid;
    bit<32> instance;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    @field_list(1)
    bit<8> kept;
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
        meta.kept = 0x11;
        meta.lost = 0x22;
        if (hdr.h.what == 1) {
            clone_preserving_field_list(CloneType.I2E, 100, 1);
        } else if (hdr.h.what == 2) {
            clone(CloneType.I2E, 200);
        } else if (hdr.h.what == 4) {
            clone(CloneType.I2E, 300);
        } else if (hdr.h.what == 5) {
            // The original is dropped, its clone is not.
            clone(CloneType.I2E, 100);
            mark_to_drop(std);
            exit;
        }
        // An ingress clone does not see this.
        hdr.h.kept = 0xcc;
        std.egress_spec = 1;
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.instance = std.instance_type;
        if (std.instance_type == 1 || std.instance_type == 2) {
            hdr.h.kept = meta.kept;
            hdr.h.lost = meta.lost;
            hdr.h.rid = (bit<8>) std.egress_rid;
        } else if (hdr.h.what == 3) {
            meta.kept = 0x33;
            hdr.h.lost = 0x44;
            clone_preserving_field_list(CloneType.E2E, 100, 1);
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
