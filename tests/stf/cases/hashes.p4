// SPDX-License-Identifier: Apache-2.0
// Hashes of the same nine bytes, into a range; check values of the algorithms.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<72> data;
    bit<16> crc16;
    bit<32> crc32;
    bit<16> csum16;
    bit<32> identity;
    bit<16> bounded;
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
    apply {
        hash(hdr.h.crc16, HashAlgorithm.crc16, 16w0, { hdr.h.data }, 17w0x10000);
        hash(hdr.h.crc32, HashAlgorithm.crc32, 32w0, { hdr.h.data }, 33w0x100000000);
        hash(hdr.h.csum16, HashAlgorithm.csum16, 16w0, { hdr.h.data }, 17w0x10000);
        hash(hdr.h.identity, HashAlgorithm.identity, 32w0, { hdr.h.data[31:0] }, 33w0x100000000);
        // Base and size: 1000 and what is left of the CRC by 10.
        hash(hdr.h.bounded, HashAlgorithm.crc32, 16w1000, { hdr.h.data }, 16w10);
        std.egress_spec = 1;
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
        pkt.emit(hdr.h);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
