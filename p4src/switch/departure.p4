// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_DEPARTURE_P4_
#define _SWITCH_DEPARTURE_P4_

#include "metadata.p4"
#include "occupancy.p4"

// First in egress. Takes a packet off the books of the data queue, and says how
// many bytes it leaves behind there.
control Departure(in switch_metadata_t meta,
                  in standard_metadata_t std_meta,
                  out bit<32> bytes_behind) {
  // One action: the egress threads of all ports write the last two registers.
  @hidden action depart() {
    bit<32> out_bytes;
    queue_departed.read(out_bytes, std_meta.egress_port);
    queue_departed.write(std_meta.egress_port, out_bytes + meta.queued_bytes);
    bit<32> in_bytes;
    queue_admitted.read(in_bytes, std_meta.egress_port);
    bytes_behind = in_bytes - (out_bytes + meta.queued_bytes);

    bit<32> ingress_bytes;
    ingress_departed.read(ingress_bytes, std_meta.ingress_port);
    ingress_departed.write(std_meta.ingress_port, ingress_bytes + meta.queued_bytes);

    bit<32> buffer_bytes;
    buffer_departed.read(buffer_bytes, 0);
    buffer_departed.write(0, buffer_bytes + meta.queued_bytes);
  }

  apply {
    bytes_behind = 0;
    if (meta.queued_bytes != 0) {
      depart();
    }
  }
}  // control Departure

#endif  // _SWITCH_DEPARTURE_P4_
