// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        In.apply(hdr, meta, std);  // E010: 'In' is not declared
        static_assert(8w1 == 8w2, "one is not two");  // E037: one is not two
    }
}
#include "tail.h"
