// SPDX-License-Identifier: Apache-2.0
control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }
control Compute(inout headers_t hdr, inout meta_t meta) { apply {} }
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }
#ifndef OWN_PARSER
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}
#endif
#ifndef OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
#endif
V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
