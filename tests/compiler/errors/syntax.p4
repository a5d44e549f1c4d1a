// SPDX-License-Identifier: Apache-2.0
#include "common.h"
header missing_t { bit<8> a }  // E004: expected ';' after a field, found '}'
const bit<8> X = 5  // E004: expected ';' after a constant declaration
const bit<8> Y = 08x;  // E003: malformed number '08x'
const bit<8> Z = 3 $ 4;  // E003: character '$' is not part of P4
bit<8> global;  // E030: variables are not allowed at the top level
struct control { }  // E004: expected a name
const bit<8> W = (1 + ;  // E004: expected an expression, found ';'
#include "tail.h"
