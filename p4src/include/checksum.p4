// SPDX-License-Identifier: Apache-2.0
#ifndef _CHECKSUM_P4_
#define _CHECKSUM_P4_

// The Internet checksum after 16-bit words under it have changed (RFC 1624,
// equation 3): works whatever options the header has, and leaves a wrong checksum
// wrong. before and after: the sum of what changes, each part where it stands in its
// 16-bit word; three words at most.
control AdjustChecksum(inout bit<16> checksum, in bit<32> before, in bit<32> after) {
  bit<32> sum;

  // 4 * 0xffff is 0 in one's complement, and keeps the difference positive.
  @hidden action add_change() {
    sum = (bit<32>)~checksum + (4 * 0xffff - before) + after;
  }

  @hidden action fold() {
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
  }

  apply {
    add_change();
    fold();
    checksum = ~sum[15:0];
  }
}  // control AdjustChecksum

#endif  // _CHECKSUM_P4_
