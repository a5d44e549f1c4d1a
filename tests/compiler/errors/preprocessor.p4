// SPDX-License-Identifier: Apache-2.0
#include "common.h"
#include <nowhere.p4>  // E002: nowhere.p4: included file not found
#if 1 +  // E002: malformed expression in #if
#endif
#frobnicate  // E002: unknown directive #frobnicate
#error no good  // E005: #error no good
#else  // E002: #else without #if
#include "tail.h"
