// SPDX-License-Identifier: Apache-2.0
#ifndef _NIC_STATE_QUERY_P4_
#define _NIC_STATE_QUERY_P4_

#include "metadata.p4"
#include "step_state.p4"

// Answers the controller's question for the byte state of a step, because BMv2's
// registers can't be read over P4Runtime. All 0 without an entry; no bytes while no
// packet has met the entry.
control StateQuery(inout nic_headers_t hdr,
                   in nic_metadata_t meta,
                   inout standard_metadata_t std_meta) {
  step_slot_t slot;
  bit<32> tag;
  bit<64> received = 0;
  bit<64> forgiven = 0;
  bit<64> outstanding = 0;
  bit<64> trimmed = 0;

  @hidden action load_tag() {
    slot = meta.qp[QP_STEP_SLOT];
    state_tag.read(tag, slot);
  }

  @hidden action load_bytes() {
    state_received.read(received, slot);
    state_forgiven.read(forgiven, slot);
    state_outstanding.read(outstanding, slot);
    state_trimmed.read(trimmed, slot);
  }

  @hidden action report() {
    hdr.state_report.setValid();
    hdr.state_report.step_slot = hdr.state_query.step_slot;
    hdr.state_report.nonce = hdr.state_query.nonce;
    hdr.state_report.step_tag = meta.step.tag;
    hdr.state_report.installed = 0;
    hdr.state_report.open = (bit<8>)meta.step.open;
    hdr.state_report.exhausted = 0;
    hdr.state_report.received = received;
    hdr.state_report.forgiven = forgiven;
    hdr.state_report.outstanding = outstanding;
    hdr.state_report.trimmed = trimmed;
    if (meta.step.tag != 0) {
      hdr.state_report.installed = 1;
      if (forgiven + outstanding + (bit<64>)meta.step.packet_bytes > meta.step.budget) {
        hdr.state_report.exhausted = 1;
      }
    }
    truncate(STATE_REPORT_BYTES);
    std_meta.egress_spec = CPU_PORT;
  }

  apply {
    load_tag();
    if (meta.step.tag != 0 && meta.step.tag == tag) {
      load_bytes();
    }
    report();
  }
}  // control StateQuery

#endif  // _NIC_STATE_QUERY_P4_
