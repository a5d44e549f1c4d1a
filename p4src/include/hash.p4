// SPDX-License-Identifier: Apache-2.0
// Draws. Every draw is Mix of crc32(fields), over a seed and the packet's own
// identity, so that a run reproduces on every target and a model can predict each
// packet. docs/dataplane.md ("Draws") lists the fields in their order; the first
// is the kind of draw, so that no two kinds share their input.
#ifndef _HASH_P4_
#define _HASH_P4_

// Range of crc32, as `hash` wants it.
const bit<64> HASH_RANGE = 0x100000000;

// Finaliser of MurmurHash3. CRC is linear: without it, two seeds would give draws
// that differ by a constant, and hops would choose alike.
// The action works in place on a variable of its control: p4c would inline what is
// passed to it, and a line that uses its argument twice would double each time.
control Mix(inout bit<32> draw) {
  bit<32> h;

  @hidden action mix() {
    h = h ^ (h >> 16);
    h = h * 0x85ebca6b;
    h = h ^ (h >> 13);
    h = h * 0xc2b2ae35;
    h = h ^ (h >> 16);
  }

  apply {
    h = draw;
    mix();
    draw = h;
  }
}  // control Mix

#endif  // _HASH_P4_
