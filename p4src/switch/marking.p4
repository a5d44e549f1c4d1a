// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_MARKING_P4_
#define _SWITCH_MARKING_P4_

#include "metadata.p4"
#include "../include/checksum.p4"
#include "../include/hash.p4"

// In egress, after Departure. Marks ECN-capable packets of the data queue by what
// they leave behind in it: never up to kmin, always above kmax, between them with
// a probability that rises from 0 to pmax / 2^32.
control Marking(inout switch_headers_t hdr,
                in switch_metadata_t meta,
                in standard_metadata_t std_meta,
                in bit<32> bytes_behind) {
  Mix() mix;
  AdjustChecksum() adjust_checksum;

  counter<port_t>(MAX_PORTS, CounterType.packets) marked;

  bit<32> threshold_min = 0;
  bit<32> threshold_max = 0;
  bit<32> probability_max = 0;

  @name(".SwitchEgress.mark_between")
  action mark_between(bit<32> kmin, bit<32> kmax, bit<32> pmax) {
    threshold_min = kmin;
    threshold_max = kmax;
    probability_max = pmax;
  }

  @name(".SwitchEgress.ecn_thresholds")
  table ecn_thresholds {
    key = {
      std_meta.egress_port : exact @name("egress_port");
    }
    actions = {
      mark_between;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_PORTS;
  }

  apply {
    if (meta.queued_bytes != 0 && hdr.ipv4.isValid() &&
        (hdr.ipv4.ecn == ECN_ECT0 || hdr.ipv4.ecn == ECN_ECT1) &&
        ecn_thresholds.apply().hit) {
      bool chosen = bytes_behind > threshold_max;
      if (!chosen && bytes_behind > threshold_min) {
        bit<32> packet_id = (bit<32>)hdr.ipv4.identification;
        if (hdr.bth.isValid()) {
          packet_id = (bit<32>)hdr.bth.psn;
        }
        bit<32> draw;
        hash(draw, HashAlgorithm.crc32, 32w0,
             { DRAW_MARK, meta.seed, meta.flow.src_addr, meta.flow.dst_addr,
               meta.flow.protocol, meta.flow.src_port, meta.flow.dst_port,
               packet_id },
             HASH_RANGE);
        mix.apply(draw);
        // draw / 2^32 < pmax / 2^32 * (q - kmin) / (kmax - kmin), multiplied out.
        chosen = (bit<64>)draw * (bit<64>)(threshold_max - threshold_min) <
                 (bit<64>)probability_max * (bit<64>)(bytes_behind - threshold_min);
      }
      if (chosen) {
        adjust_checksum.apply(hdr.ipv4.hdr_checksum, (bit<32>)hdr.ipv4.ecn,
                              (bit<32>)ECN_CE);
        hdr.ipv4.ecn = ECN_CE;
        marked.count(std_meta.egress_port);
      }
    }
  }
}  // control Marking

#endif  // _SWITCH_MARKING_P4_
