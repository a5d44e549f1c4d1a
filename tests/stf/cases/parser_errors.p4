// SPDX-License-Identifier: Apache-2.0
// Every parser error ends the parser where it is; ingress sees which one.
#include <core.p4>
#include <v1model.p4>

error {
    BadVersion
}

header code_t {
    bit<8> code;
}

header h_t {
    bit<8> version;
    bit<8> next;
}

header word_t {
    bit<32> word;
}

struct headers_t {
    code_t    code;
    h_t       h;
    word_t[2] words;
}

struct metadata_t { }

parser MyParse(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        verify(hdr.h.version == 4, error.BadVersion);
        transition select(hdr.h.next) {
            0: accept;
            1: words;
            2: skip;
            3: peek;
        }
    }
    state words {
        pkt.extract(hdr.words.next);
        transition words;
    }
    state skip {
        pkt.advance(16);
        transition accept;
    }
    state peek {
        transition select(pkt.lookahead<bit<16>>()) {
            0xbeef: accept;
            default: words;
        }
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.code.setValid();
        if (std.parser_error == error.NoError) {
            hdr.code.code = 0xa0;
        } else if (std.parser_error == error.PacketTooShort) {
            hdr.code.code = 0xa1;
        } else if (std.parser_error == error.StackOutOfBounds) {
            hdr.code.code = 0xa3;
        } else if (std.parser_error == error.BadVersion) {
            hdr.code.code = 0xa4;
        } else {
            hdr.code.code = 0xaf;
        }
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
