// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_RANGES_P4_
#define _NIC_RANGES_P4_

#include "metadata.p4"

// The range a data packet or trimmed header reports, in blocks. It starts on a
// block, and ends on one unless it ends its message; a block cut short there is
// one block all the same, and tail_gap corrects its bytes.
// Reads BTH and RETH; writes meta.range.
control Ranges(in nic_headers_t hdr, inout nic_metadata_t meta, out bool is_bad) {
  bit<33> end;

  @hidden action measure() {
    meta.range.first = hdr.reth.virtual_addr >> BLOCK_SHIFT;
    bit<32> blocks = (hdr.reth.dma_len + (BLOCK_BYTES - 1)) >> BLOCK_SHIFT;
    meta.range.blocks = blocks[7:0];
    meta.range.tail_gap = (blocks << BLOCK_SHIFT) - hdr.reth.dma_len;
    meta.range.all = (range_mask_t)(((bit<64>)1 << blocks[7:0]) - 1);
    end = (bit<33>)hdr.reth.virtual_addr + (bit<33>)(blocks << BLOCK_SHIFT);
  }

  apply {
    measure();
    is_bad = hdr.reth.dma_len == 0 ||
             hdr.reth.dma_len > MAX_RANGE_BLOCKS * BLOCK_BYTES ||
             (hdr.reth.virtual_addr & (BLOCK_BYTES - 1)) != 0 ||
             (meta.range.tail_gap != 0 && hdr.bth.solicited == 0) ||
             end > 0x100000000 - BLOCK_BYTES;
  }
}  // control Ranges

#endif  // _NIC_RANGES_P4_
