// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_SCOREBOARD_P4_
#define _NIC_SCOREBOARD_P4_

#include "metadata.p4"
#include "forgiveness.p4"
#include "../include/bits.p4"

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
  register<bit<32>, flow_slot_t>(FLOW_SLOTS) flow_epoch;
  register<block_t, flow_slot_t>(FLOW_SLOTS) flow_next;   // rcv_nxt
  register<block_t, flow_slot_t>(FLOW_SLOTS) flow_top;
  register<bit<RING_WORDS>, flow_slot_t>(FLOW_SLOTS) flow_full;

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
  bit<8> offset;
  bit<64> low_received = 0;
  bit<64> low_forgiven = 0;
  bit<64> low_charged = 0;
  bit<64> high_received = 0;
  bit<64> high_forgiven = 0;
  bit<64> high_charged = 0;

  range_mask_t range_forgiven;
  range_mask_t missing_charged;
  bit<RING_WORDS> full;

  action start_flow() {
    flow_epoch.read(epoch, meta.flow.slot);
    epoch = epoch + 1;
    next = 0;
    top = 0;
    flow_epoch.write(meta.flow.slot, epoch);
    flow_next.write(meta.flow.slot, 0);
    flow_top.write(meta.flow.slot, 0);
    flow_full.write(meta.flow.slot, 0);
  }

  action load_flow() {
    flow_epoch.read(epoch, meta.flow.slot);
    flow_next.read(next, meta.flow.slot);
    flow_top.read(top, meta.flow.slot);
  }

  action locate_range() {
    end = meta.range.first + (bit<32>)meta.range.blocks;
    current_word = next >> WORD_SHIFT;
    low_word = meta.range.first >> WORD_SHIFT;
    high_word = (end - 1) >> WORD_SHIFT;
    offset = meta.range.first[7:0] & WORD_MASK;
  }

  action load_low_word() {
    word_index_t index = meta.flow.slot ++ low_word[RING_SHIFT - 1:0];
    bit<64> tag;
    word_tag.read(tag, index);
    if (tag == epoch ++ low_word) {
      word_received.read(low_received, index);
      word_forgiven.read(low_forgiven, index);
      word_charged.read(low_charged, index);
    }
  }

  action load_high_word() {
    word_index_t index = meta.flow.slot ++ high_word[RING_SHIFT - 1:0];
    bit<64> tag;
    word_tag.read(tag, index);
    if (tag == epoch ++ high_word) {
      word_received.read(high_received, index);
      word_forgiven.read(high_forgiven, index);
      word_charged.read(high_charged, index);
    }
  }

  action store_low_word() {
    word_index_t index = meta.flow.slot ++ low_word[RING_SHIFT - 1:0];
    word_tag.write(index, epoch ++ low_word);
    word_received.write(index, low_received);
    word_forgiven.write(index, low_forgiven);
    word_charged.write(index, low_charged);
  }

  action store_high_word() {
    word_index_t index = meta.flow.slot ++ high_word[RING_SHIFT - 1:0];
    word_tag.write(index, epoch ++ high_word);
    word_received.write(index, high_received);
    word_forgiven.write(index, high_forgiven);
    word_charged.write(index, high_charged);
  }

  // Without holes nothing is marked above rcv_nxt: all of the range is missing.
  action take_in_order() {
    meta.range.missing = meta.range.all;
    meta.range.missing_bytes = hdr.reth.dma_len;
    meta.range.charged_bytes = 0;
  }

  // Unsettled(flow, range): at or above rcv_nxt, neither Received nor Forgiven.
  action find_missing() {
    range_mask_t below_next = 0;
    if (meta.range.first < next) {
      below_next = meta.range.all;
      if (next < end) {
        below_next = ~(~(range_mask_t)0 << (next - meta.range.first)[7:0]);
      }
    }
    range_forgiven = meta.range.all &
        (range_mask_t)((low_forgiven >> offset) | (high_forgiven << (WORD_BLOCKS - offset)));
    bit<64> range_received =
        (low_received >> offset) | (high_received << (WORD_BLOCKS - offset));
    bit<64> range_charged =
        (low_charged >> offset) | (high_charged << (WORD_BLOCKS - offset));
    meta.range.missing = meta.range.all & ~below_next & ~range_forgiven &
                         ~(range_mask_t)range_received;
    missing_charged = meta.range.missing & (range_mask_t)range_charged;
  }

  // Blocks to bytes: the last block of the range may end its message early.
  action weigh(in bit<32> blocks, in range_mask_t mask, out bit<32> bytes) {
    bytes = blocks << BLOCK_SHIFT;
    if ((mask >> (meta.range.blocks - 1)) & 1 == 1) {
      bytes = bytes - meta.range.tail_gap;
    }
  }

  action mark_missing() {
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
  action note_full_words() {
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
  action load_current(out bit<64> settled) {
    settled = high_received | high_forgiven;
    if (current_word == low_word) {
      settled = low_received | low_forgiven;
    }
    settled = settled | ~(ALL_ONES << (next[7:0] & WORD_MASK));
  }

  action pass_words(in bit<64> words) {
    current_word = current_word + 1 + (bit<32>)words;
    full = full >> (words[7:0] + 1);
    flow_full.write(meta.flow.slot, full);
  }

  action load_after_full(out bit<64> settled) {
    word_index_t index = meta.flow.slot ++ current_word[RING_SHIFT - 1:0];
    bit<64> tag;
    word_tag.read(tag, index);
    settled = 0;
    if (tag == epoch ++ current_word) {
      bit<64> received;
      bit<64> forgiven;
      word_received.read(received, index);
      word_forgiven.read(forgiven, index);
      settled = received | forgiven;
    }
  }

  action set_next(in block_t value) {
    next = value;
    flow_next.write(meta.flow.slot, next);
  }

  apply {
    if (meta.flow.is_new == 1) {
      start_flow();
    } else {
      load_flow();
    }
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
        find_missing();
        meta.range.missing_bytes = hdr.reth.dma_len;
        meta.range.charged_bytes = 0;
        if (meta.range.missing != meta.range.all) {
          bit<32> ones = meta.range.missing;
          count_ones(ones);
          weigh(ones, meta.range.missing, meta.range.missing_bytes);
        }
        if (missing_charged != 0) {
          bit<32> ones = missing_charged;
          count_ones(ones);
          weigh(ones, missing_charged, meta.range.charged_bytes);
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
            bit<64> ones;
            load_current(ones);
            count_trailing_ones(ones);
            if (ones == WORD_BLOCKS) {
              bit<64> words = full[63:0];
              count_trailing_ones(words);
              if (words == WORD_BLOCKS) {
                words = full[127:64];
                count_trailing_ones(words);
                words = words + WORD_BLOCKS;
              }
              pass_words(words);
              load_after_full(ones);
              count_trailing_ones(ones);
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
