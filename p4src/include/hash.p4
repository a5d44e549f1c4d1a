// SPDX-License-Identifier: Apache-2.0
// Draws. Every draw is mix(crc32(fields)), over a seed and the packet's own
// identity, so that a run reproduces on every target and a model can predict
// each packet. docs/dataplane.md ("Draws") lists the fields in their order.
#ifndef _HASH_P4_
#define _HASH_P4_

// Range of crc32, as `hash` wants it.
const bit<64> HASH_RANGE = 0x100000000;

// First field of every draw: no two kinds of draw share their input.
const bit<8> DRAW_MEMBER = 1;
const bit<8> DRAW_MARK = 2;
const bit<8> DRAW_FORGIVE = 3;
const bit<8> DRAW_SOURCE_PORT = 4;

// Finaliser of MurmurHash3. CRC is linear: without it, two seeds would give
// draws that differ by a constant, and hops would choose alike.
action mix(inout bit<32> draw) {
  draw = draw ^ (draw >> 16);
  draw = draw * 0x85ebca6b;
  draw = draw ^ (draw >> 13);
  draw = draw * 0xc2b2ae35;
  draw = draw ^ (draw >> 16);
}

#endif  // _HASH_P4_
