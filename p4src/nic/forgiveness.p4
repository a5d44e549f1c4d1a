// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_FORGIVENESS_P4_
#define _NIC_FORGIVENESS_P4_

#include "metadata.p4"
#include "flow_state.p4"
#include "step_state.p4"
#include "../include/hash.p4"

// Every decision over the byte state of a step: the paper's OnTrimmedHeader, the
// count of what arrives, and the two flags. Sits between the scoreboard's look-up,
// which measures what is missing, and its marking.
// Reads meta.range, meta.flow, meta.step; writes meta.outcome and meta.reply.
control Forgiveness(in nic_headers_t hdr, inout nic_metadata_t meta) {
  Mix() mix;

  counter<cell_t>(1, CounterType.packets) trimmed_settled;
  counter<cell_t>(1, CounterType.packets) forgiven;
  counter<cell_t>(1, CounterType.packets) refused_class;
  counter<cell_t>(1, CounterType.packets) refused_closed;
  counter<cell_t>(1, CounterType.packets) refused_vesting;
  counter<cell_t>(1, CounterType.packets) refused_draw;
  counter<cell_t>(1, CounterType.packets) exhausted_set;
  counter<cell_t>(1, CounterType.packets) exhausted_cleared;

  step_slot_t slot;
  bit<32> tag;
  bit<64> received = 0;
  bit<64> forgiven_bytes = 0;
  bit<64> outstanding = 0;

  @hidden action load_tag() {
    slot = meta.qp[QP_STEP_SLOT];
    state_tag.read(tag, slot);
  }

  @hidden action load_bytes() {
    state_received.read(received, slot);
    state_forgiven.read(forgiven_bytes, slot);
    state_outstanding.read(outstanding, slot);
  }

  // OnStepBegin, on the first packet that meets the new entry.
  @hidden action begin_step() {
    tag = meta.step.tag;
    state_tag.write(slot, tag);
    state_received.write(slot, 0);
    state_forgiven.write(slot, 0);
    state_outstanding.write(slot, 0);
    state_trimmed.write(slot, 0);
    state_exhausted.write(slot, 0);
  }

  // What was charged and has arrived is not outstanding any more. Saturating, here
  // and below: a peer that tells two tales about where its message ends can't make
  // outstanding underflow.
  @hidden action count_data() {
    if (meta.flow.exemption_eligible == 1) {
      received = received + (bit<64>)meta.range.missing_bytes;
      state_received.write(slot, received);
    }
    if (meta.range.charged_bytes != 0) {
      outstanding = outstanding |-| (bit<64>)meta.range.charged_bytes;
      state_outstanding.write(slot, outstanding);
    }
  }

  @hidden action count_trimmed() {
    bit<64> trimmed;
    state_trimmed.read(trimmed, slot);
    state_trimmed.write(slot, trimmed + (bit<64>)hdr.reth.dma_len);
  }

  // A range trimmed again is already outstanding. Counts only its new bytes.
  @hidden action charge() {
    meta.outcome = OUTCOME_CHARGED;
    outstanding = outstanding +
        (bit<64>)(meta.range.missing_bytes - meta.range.charged_bytes);
    state_outstanding.write(slot, outstanding);
  }

  // Keeps forgiven bytes within a fraction p of the bytes received or forgiven so
  // far; exact in 64 bits for steps up to 2^40 bytes.
  @hidden action vest(out bool vested) {
    bit<64> after = forgiven_bytes + (bit<64>)meta.range.missing_bytes;
    if (meta.step.vesting == 1) {
      vested = after * 1000000 <= (bit<64>)meta.step.p_ppm * (received + after);
    } else {
      vested = after <= meta.step.budget;
    }
  }

  // Fresh for every trimmed header: the count of the flow's draws goes up.
  @hidden action draw_fresh(out bit<32> draw) {
    bit<32> draws;
    flow_draws.read(draws, meta.flow.slot);
    flow_draws.write(meta.flow.slot, draws + 1);
    hash(draw, HashAlgorithm.crc32, 32w0,
         { DRAW_FORGIVE, meta.seed, meta.qp, hdr.reth.virtual_addr, draws },
         HASH_RANGE);
  }

  // Charges the budget once.
  @hidden action forgive() {
    meta.outcome = OUTCOME_FORGIVEN;
    forgiven_bytes = forgiven_bytes + (bit<64>)meta.range.missing_bytes;
    outstanding = outstanding |-| (bit<64>)meta.range.missing_bytes;
    state_forgiven.write(slot, forgiven_bytes);
    state_outstanding.write(slot, outstanding);
  }

  @hidden action note_exhausted(in bit<1> last) {
    state_exhausted.write(slot, meta.reply.budget_exhausted);
    if (last == 0) {
      exhausted_set.count(0);
    } else {
      exhausted_cleared.count(0);
    }
  }

  apply {
    load_tag();
    if (meta.step.tag != 0 && meta.step.tag != tag) {
      begin_step();
    }
    bool in_step = meta.flow.step_tag != 0 && meta.flow.step_tag == tag;
    bool has_entry = in_step && meta.step.tag == tag;
    if (in_step) {
      load_bytes();
    }

    meta.outcome = OUTCOME_NONE;
    meta.reply.syndrome = SYNDROME_ACK;
    if (meta.kind == KIND_DATA) {
      if (meta.range.missing != 0) {
        meta.outcome = OUTCOME_RECEIVED;
        if (in_step) {
          count_data();
        }
      }
    } else {
      if (in_step) {
        count_trimmed();
      }
      if (meta.range.missing == 0) {
        trimmed_settled.count(0);
      } else if (meta.gradient == 0 || (has_entry && meta.step.eligible == 0)) {
        refused_class.count(0);
        meta.reply.syndrome = SYNDROME_NAK;
      } else if (!has_entry || meta.step.open == 0) {
        refused_closed.count(0);
        meta.reply.syndrome = SYNDROME_NAK;
      } else {
        bool vested;
        charge();
        vest(vested);
        if (!vested) {
          refused_vesting.count(0);
          meta.reply.syndrome = SYNDROME_NAK;
        } else {
          bit<32> draw;
          draw_fresh(draw);
          mix.apply(draw);
          if ((bit<33>)draw >= meta.step.forgive_threshold) {
            refused_draw.count(0);
            meta.reply.syndrome = SYNDROME_NAK;
          } else {
            forgive();
            forgiven.count(0);
          }
        }
      }
    }

    // Flags(flow), after the packet's own changes. A flow whose step has no
    // entry any more has no budget either.
    meta.reply.exemption_eligible = meta.flow.exemption_eligible;
    meta.reply.budget_exhausted = meta.flow.exemption_eligible;
    if (has_entry && meta.flow.exemption_eligible == 1) {
      if (meta.step.exemption == EXEMPTION_NEVER) {
        meta.reply.exemption_eligible = 0;
      }
      if (meta.step.exemption == EXEMPTION_NEVER_ENDS ||
          forgiven_bytes + outstanding + (bit<64>)meta.step.packet_bytes <=
              meta.step.budget) {
        meta.reply.budget_exhausted = 0;
      }
      bit<1> last;
      state_exhausted.read(last, slot);
      if (last != meta.reply.budget_exhausted) {
        note_exhausted(last);
      }
    }
  }
}  // control Forgiveness

#endif  // _NIC_FORGIVENESS_P4_
