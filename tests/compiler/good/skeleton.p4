// SPDX-License-Identifier: Apache-2.0
// Included by the small programs here: blocks that do nothing, for a program that has its own ingress.
#ifndef SKELETON_P4
#define SKELETON_P4
control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }
control Compute(inout headers_t hdr, inout meta_t meta) { apply {} }
#ifndef OWN_EGRESS
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
#endif
#ifndef OWN_DEPARSER
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
#endif
#endif
