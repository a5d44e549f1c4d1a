// SPDX-License-Identifier: Apache-2.0
// v1model's externs: registers, counters, meters, hashes, checksums, digests, clones and the like.
#include <core.p4>
#include <v1model.p4>

header ipv4_t {
    bit<8> vihl;
    bit<8> tos;
    bit<16> length;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}
struct headers_t { ipv4_t ipv4; }
struct meta_t {
    @field_list(1, 2) bit<32> kept;
    @field_list(2) bit<8> also;
    bit<32> index;
    bit<8> color;
}
struct report_t {
    bit<32> src;
    bit<16> size;
    bit<8> reason;
}

#define OWN_EGRESS
control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.vihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.src, 8w0 },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum_with_payload(true, { hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum,
                                     HashAlgorithm.csum16);
    }
}
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.ipv4); } }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.ipv4);
        log_msg("src {}", { hdr.ipv4.src });
        transition accept;
    }
}

register<bit<64>>(256) totals;

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<2048>>(1) board;
    meter(16, MeterType.packets) police;
    counter(256, CounterType.bytes) flows;

    @brief("One read-modify-write, so that it stays one action")
    action account(bit<8> reason) {
        bit<64> sum;
        hash(meta.index, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src, hdr.ipv4.dst, 8w6 }, 32w256);
        totals.read(sum, meta.index);
        if (sum > 1000) {
            totals.write(meta.index, 0);
            digest<report_t>(1, { hdr.ipv4.src, hdr.ipv4.length, reason });
            return;
        }
        sum = sum + (bit<64>)hdr.ipv4.length;
        totals.write(meta.index, sum);
        flows.count(meta.index & 0xff);
    }
    action scan() {
        bit<2048> word;
        board.read(word, 0);
        for (bit<8> i = 0; i < 4; i = i + 1) {
            if (word[31:0] == 0) {
                break;
            }
            word = word >> 32;
        }
        board.write(0, word);
    }
    table t {
        key = { hdr.ipv4.dst : exact; }
        actions = { account; scan; NoAction; }
    }
    apply {
        police.execute_meter(meta.index, meta.color);
        t.apply();
        random(meta.also, 1, 6);
        assert(meta.also != 0);
        if (meta.color == V1MODEL_METER_COLOR_RED) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        } else if (meta.color == V1MODEL_METER_COLOR_YELLOW) {
            resubmit_preserving_field_list(2);
        }
        std.mcast_grp = 1;
    }
}

control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            truncate(64);
        } else if (hdr.ipv4.tos == 9) {
            recirculate_preserving_field_list(2);
        }
        clone(CloneType.E2E, 7);
    }
}

V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
