// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; int<8> s; }
struct headers_t { h_t h; h_t[2] stack; }
struct meta_t { bit<8> x; bit<16> y; bool flag; }
