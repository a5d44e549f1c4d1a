// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#define OWN_INGRESS
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    @id(0x02000001) action a() { }  // E050: has the wrong top byte for a action
    table t { actions = { a; } }
    apply { t.apply(); }
}
#include "tail.h"
