// SPDX-License-Identifier: Apache-2.0
#ifndef _CHECKSUM_P4_
#define _CHECKSUM_P4_

// The checksum after one 16-bit word under it has changed (RFC 1624, equation
// 3). Works whatever options the header has, and leaves a wrong checksum wrong.
bit<16> adjust_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
  bit<32> sum = (bit<32>)~checksum + (bit<32>)~before + (bit<32>)after;
  bit<32> folded = (sum & 0xffff) + (sum >> 16);
  return ~((bit<16>)folded + (bit<16>)(folded >> 16));
}

#endif  // _CHECKSUM_P4_
