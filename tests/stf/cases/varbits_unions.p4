// SPDX-License-Identifier: Apache-2.0
// A field of variable length, and headers of which one is there at a time.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind;
    bit<8> bytes;
}

header options_t {
    bit<8>      code;
    varbit<160> data;
    bit<8>      end;
}

header byte_t {
    bit<8> v;
}

header word_t {
    bit<32> v;
}

header_union value_t {
    byte_t b;
    word_t w;
}

struct headers_t {
    h_t       h;
    options_t options;
    value_t   value;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.kind) {
            0 .. 3: options;
            4: one_byte;
            5: one_word;
            default: accept;
        }
    }
    state options {
        pkt.extract(hdr.options, (bit<32>) hdr.h.bytes * 8);
        transition accept;
    }
    state one_byte {
        pkt.extract(hdr.value.b);
        transition accept;
    }
    state one_word {
        pkt.extract(hdr.value.w);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (std.parser_error != error.NoError) {
            hdr.h.kind = 0xee;
        } else if (hdr.options.isValid()) {
            hdr.options.code = hdr.options.code + 1;
            hdr.options.end = 0xed;
            if (hdr.h.kind == 1) {
                hdr.options.setInvalid();
            }
        } else if (hdr.value.b.isValid()) {
            // The byte becomes a word, and so the byte is gone.
            bit<8> v = hdr.value.b.v;
            hdr.value.w.setValid();
            hdr.value.w.v = 0xaabbcc00 | (bit<32>) v;
        } else if (hdr.value.w.isValid()) {
            hdr.value.w.v = hdr.value.w.v + 1;
        }
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
        pkt.emit(hdr.options);
        pkt.emit(hdr.value);
    }
}

V1Switch(MyParse(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparse()) main;
