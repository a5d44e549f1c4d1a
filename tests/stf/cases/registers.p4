// SPDX-License-Identifier: Apache-2.0
// Registers of several widths: read, changed, written; from outside too.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>   index;
    bit<8>   amount;
    bit<8>   narrow;
    bit<64>  sum;
    bit<128> product;
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
    register<bit<64>>(4) sums;
    register<bit<128>>(2) products;
    register<bit<3>>(1) narrow;

    action accumulate() {
        bit<64> sum;
        sums.read(sum, (bit<32>) hdr.h.index);
        sum = sum + (bit<64>) hdr.h.amount;
        sums.write((bit<32>) hdr.h.index, sum);
        hdr.h.sum = sum;

        bit<128> product;
        products.read(product, 1);
        product = (product << 8) + (bit<128>) hdr.h.amount;
        products.write(1, product);
        hdr.h.product = product;

        bit<3> few;
        narrow.read(few, 0);
        few = few + 3;
        narrow.write(0, few);
        hdr.h.narrow = (bit<8>) few;
    }

    apply {
        accumulate();
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
        pkt.emit(hdr);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
