// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_SCOREBOARD_P4_
#define _NIC_SCOREBOARD_P4_

#include "metadata.p4"
#include "flow_state.p4"
#include "forgiveness.p4"

// The scoreboard of a flow, and rcv_nxt: what has arrived, what was forgiven, what
// counts in outstanding. Constant work per packet; the in-order data packet of a
// flow without holes touches no bitmap word.
// Reads meta.range and meta.flow; writes what is missing of the range, has
// Forgiveness decide, marks the outcome, advances rcv_nxt into meta.reply.
//
// Blocks are bits of 64-bit words. A flow has a ring of RING_WORDS words; word w of
// the message is at w modulo RING_WORDS. Nothing can clear a whole ring when a new
// flow takes it over or the window moves on, so each word carries a tag, the flow's
// epoch and w: a word with another tag is all zeros.
//
//    settled, words not kept        the window, RING_WORDS - 1 words
//   |-------------------------|------------------------------------------|
//                             ^ word of rcv_nxt          ^ top
//
// - Below rcv_nxt everything is settled, whatever the words say.
// - At or above top nothing is marked. rcv_nxt >= top: no holes, the fast path.
// - Bit i of `full` says that all of word (word of rcv_nxt) + 1 + i is settled, so
//   rcv_nxt passes any number of full words at once.
control Scoreboard(in nic_headers_t hdr, inout nic_metadata_t meta,
                   out bool is_beyond_window) {
  register<bit<64>, word_index_t>(FLOW_SLOTS * RING_WORDS) word_tag;
  register<bit<64>, word_index_t>(FLOW_SLOTS * RING_WORDS) word_received;
  register<bit<64>, word_index_t>(FLOW_SLOTS * RING_WORDS) word_forgiven;
  register<bit<64>, word_index_t>(FLOW_SLOTS * RING_WORDS) word_charged;

  Forgiveness() forgiveness;

  counter<cell_t>(1, CounterType.packets) data_late;

  bit<32> epoch;
  block_t next;
  block_t top;
  block_t end;
  bit<32> current_word;   // of rcv_nxt

  // The one or two words of the range, and where in the low one it starts.
  bit<32> low_word;
  bit<32> high_word;
  word_index_t low_index;
  word_index_t high_index;
  bit<8> offset;
  bit<64> low_received = 0;
  bit<64> low_forgiven = 0;
  bit<64> low_charged = 0;
  bit<64> high_received = 0;
  bit<64> high_forgiven = 0;
  bit<64> high_charged = 0;

  range_mask_t range_received;
  range_mask_t range_forgiven;
  range_mask_t range_charged;
  bit<RING_WORDS> full;
  range_mask_t blocks;    // to weigh
  bit<64> ones;           // to count

  @hidden action load_flow() {
    flow_epoch.read(epoch, meta.flow.slot);
    flow_next.read(next, meta.flow.slot);
    flow_top.read(top, meta.flow.slot);
  }

  @hidden action locate_range() {
    end = meta.range.first + (bit<32>)meta.range.blocks;
    current_word = next >> WORD_SHIFT;
    low_word = meta.range.first >> WORD_SHIFT;
    high_word = (end - 1) >> WORD_SHIFT;
    low_index = meta.flow.slot ++ low_word[RING_SHIFT - 1:0];
    high_index = meta.flow.slot ++ high_word[RING_SHIFT - 1:0];
    offset = meta.range.first[7:0] & WORD_MASK;
  }

  @hidden action load_low_word() {
    bit<64> tag;
    word_tag.read(tag, low_index);
    if (tag == epoch ++ low_word) {
      word_received.read(low_received, low_index);
      word_forgiven.read(low_forgiven, low_index);
      word_charged.read(low_charged, low_index);
    }
  }

  @hidden action load_high_word() {
    bit<64> tag;
    word_tag.read(tag, high_index);
    if (tag == epoch ++ high_word) {
      word_received.read(high_received, high_index);
      word_forgiven.read(high_forgiven, high_index);
      word_charged.read(high_charged, high_index);
    }
  }

  @hidden action store_low_word() {
    word_tag.write(low_index, epoch ++ low_word);
    word_received.write(low_index, low_received);
    word_forgiven.write(low_index, low_forgiven);
    word_charged.write(low_index, low_charged);
  }

  @hidden action store_high_word() {
    word_tag.write(high_index, epoch ++ high_word);
    word_received.write(high_index, high_received);
    word_forgiven.write(high_index, high_forgiven);
    word_charged.write(high_index, high_charged);
  }

  // Without holes nothing is marked above rcv_nxt: all of the range is missing.
  @hidden action take_in_order() {
    meta.range.missing = meta.range.all;
    meta.range.missing_bytes = hdr.reth.dma_len;
    meta.range.charged_bytes = 0;
  }

  // The marks of the range, its first block in bit 0.
  @hidden action line_up_marks() {
    range_received = (range_mask_t)(
        (low_received >> offset) | (high_received << (WORD_BLOCKS - offset)));
    range_forgiven = meta.range.all & (range_mask_t)(
        (low_forgiven >> offset) | (high_forgiven << (WORD_BLOCKS - offset)));
    range_charged = (range_mask_t)(
        (low_charged >> offset) | (high_charged << (WORD_BLOCKS - offset)));
  }

  // Unsettled(flow, range): at or above rcv_nxt, neither Received nor Forgiven.
  @hidden action find_missing() {
    range_mask_t below_next = 0;
    if (meta.range.first < next) {
      below_next = meta.range.all;
      if (next < end) {
        below_next = ~(~(range_mask_t)0 << (next - meta.range.first)[7:0]);
      }
    }
    meta.range.missing = meta.range.all & ~below_next & ~range_forgiven &
                         ~range_received;
    range_charged = range_charged & meta.range.missing;
  }

  // Bits of `blocks` to the bytes they stand for: the last block of the range may
  // end its message early.
  @hidden action weigh(out bit<32> bytes) {
    bit<32> gap = 0;
    if ((blocks >> (meta.range.blocks - 1)) & 1 == 1) {
      gap = meta.range.tail_gap;
    }
    blocks = blocks - ((blocks >> 1) & 0x55555555);
    blocks = (blocks & 0x33333333) + ((blocks >> 2) & 0x33333333);
    blocks = (blocks + (blocks >> 4)) & 0x0f0f0f0f;
    blocks = (blocks * 0x01010101) >> 24;
    bytes = (blocks << BLOCK_SHIFT) - gap;
  }

  // Bits of `ones` to the number of ones below its lowest zero.
  @hidden action count_trailing_ones() {
    ones = ones & ~(ones + 1);
    ones = ones - ((ones >> 1) & 0x5555555555555555);
    ones = (ones & 0x3333333333333333) + ((ones >> 2) & 0x3333333333333333);
    ones = (ones + (ones >> 4)) & 0x0f0f0f0f0f0f0f0f;
    ones = (ones * 0x0101010101010101) >> 56;
  }

  @hidden action mark_missing() {
    bit<64> low = (bit<64>)meta.range.missing << offset;
    bit<64> high = (bit<64>)meta.range.missing >> (WORD_BLOCKS - offset);
    if (meta.outcome == OUTCOME_RECEIVED) {
      low_received = low_received | low;
      high_received = high_received | high;
    } else if (meta.outcome == OUTCOME_FORGIVEN) {
      low_forgiven = low_forgiven | low;
      high_forgiven = high_forgiven | high;
    } else {
      low_charged = low_charged | low;
      high_charged = high_charged | high;
    }
    if (end > top) {
      flow_top.write(meta.flow.slot, end);
    }
  }

  // Words that the range has filled, above that of rcv_nxt.
  @hidden action note_full_words() {
    flow_full.read(full, meta.flow.slot);
    if (low_word > current_word && (low_received | low_forgiven) == ALL_ONES) {
      full = full | ((bit<RING_WORDS>)1 << (low_word - current_word - 1)[7:0]);
    }
    if (high_word > current_word && high_word != low_word &&
        (high_received | high_forgiven) == ALL_ONES) {
      full = full | ((bit<RING_WORDS>)1 << (high_word - current_word - 1)[7:0]);
    }
    flow_full.write(meta.flow.slot, full);
  }

  // The settled blocks of the word of rcv_nxt, which the range covers.
  @hidden action load_current() {
    ones = high_received | high_forgiven;
    if (current_word == low_word) {
      ones = low_received | low_forgiven;
    }
    ones = ones | ~(ALL_ONES << (next[7:0] & WORD_MASK));
  }

  // The word of rcv_nxt is full, and so are as many after it as `ones` says.
  @hidden action pass_full_words() {
    current_word = current_word + 1 + (bit<32>)ones;
    full = full >> (ones[7:0] + 1);
    flow_full.write(meta.flow.slot, full);
    low_index = meta.flow.slot ++ current_word[RING_SHIFT - 1:0];
  }

  @hidden action load_after_full() {
    bit<64> tag;
    bit<64> received;
    ones = 0;
    word_tag.read(tag, low_index);
    if (tag == epoch ++ current_word) {
      word_forgiven.read(ones, low_index);
      word_received.read(received, low_index);
      ones = ones | received;
    }
  }

  @hidden action set_next(in block_t value) {
    next = value;
    flow_next.write(meta.flow.slot, next);
  }

  apply {
    load_flow();
    locate_range();
    is_beyond_window = high_word > current_word + (RING_WORDS - 2);
    if (!is_beyond_window) {
      bool in_order =
          meta.kind == KIND_DATA && meta.range.first == next && top <= next;
      if (in_order) {
        take_in_order();
      } else {
        load_low_word();
        if (high_word != low_word) {
          load_high_word();
        }
        line_up_marks();
        find_missing();
        meta.range.missing_bytes = hdr.reth.dma_len;
        meta.range.charged_bytes = 0;
        if (meta.range.missing != meta.range.all) {
          blocks = meta.range.missing;
          weigh(meta.range.missing_bytes);
        }
        if (range_charged != 0) {
          blocks = range_charged;
          weigh(meta.range.charged_bytes);
        }
        if (meta.kind == KIND_DATA && range_forgiven != 0) {
          data_late.count(0);
        }
      }

      forgiveness.apply(hdr, meta);

      if (in_order) {
        set_next(end);
      } else if (meta.outcome != OUTCOME_NONE) {
        mark_missing();
        store_low_word();
        if (high_word != low_word) {
          store_high_word();
        }
        if (meta.outcome != OUTCOME_CHARGED) {
          note_full_words();
          // Advance(rcv_nxt, scoreboard): the block at rcv_nxt is always missing,
          // so only a range that covers it moves it.
          if (meta.range.first <= next) {
            load_current();
            count_trailing_ones();
            if (ones == WORD_BLOCKS) {
              ones = full[63:0];
              count_trailing_ones();
              if (ones == WORD_BLOCKS) {
                ones = full[127:64];
                count_trailing_ones();
                ones = ones + WORD_BLOCKS;
              }
              pass_full_words();
              load_after_full();
              count_trailing_ones();
            }
            set_next((current_word << WORD_SHIFT) + (bit<32>)ones);
          }
        }
      }
      meta.reply.rcv_nxt = next << BLOCK_SHIFT;
    }
  }
}  // control Scoreboard

#endif  // _NIC_SCOREBOARD_P4_
