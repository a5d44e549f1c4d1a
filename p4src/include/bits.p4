// SPDX-License-Identifier: Apache-2.0
// Counting bits in a constant number of steps. Each changes its argument in place,
// so that no compiler copies a growing expression along.
#ifndef _BITS_P4_
#define _BITS_P4_

// The number of ones.
action count_ones(inout bit<32> value) {
  value = value - ((value >> 1) & 0x55555555);
  value = (value & 0x33333333) + ((value >> 2) & 0x33333333);
  value = (value + (value >> 4)) & 0x0f0f0f0f;
  value = (value * 0x01010101) >> 24;
}

// The number of ones below the lowest zero.
action count_trailing_ones(inout bit<64> value) {
  value = value & ~(value + 1);
  value = value - ((value >> 1) & 0x5555555555555555);
  value = (value & 0x3333333333333333) + ((value >> 2) & 0x3333333333333333);
  value = (value + (value >> 4)) & 0x0f0f0f0f0f0f0f0f;
  value = (value * 0x0101010101010101) >> 56;
}

#endif  // _BITS_P4_
