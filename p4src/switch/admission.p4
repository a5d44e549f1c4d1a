// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_ADMISSION_P4_
#define _SWITCH_ADMISSION_P4_

#include "metadata.p4"
#include "occupancy.p4"

// Last in ingress, with the egress port known. Admits a packet to the data queue
// if it fits by both limits; sets meta.queued_bytes then.
// Packets of other priorities are not its business: those queues have no limit.
control Admission(inout switch_metadata_t meta,
                  in standard_metadata_t std_meta,
                  out bool admitted) {
  // No entry, no limit.
  bit<32> queue_limit = 0xffffffff;
  bit<32> ingress_reserve = 0xffffffff;
  bit<32> ingress_shared = 0;
  bit<8> ingress_alpha_shift = 0;

  @name(".SwitchIngress.limit_queue")
  action limit_queue(bit<32> bytes) {
    queue_limit = bytes;
  }

  @brief("The most that the data queue of a port may hold.")
  @name(".SwitchIngress.queue_limits")
  table queue_limits {
    key = {
      std_meta.egress_spec : exact @name("egress_port");
    }
    actions = {
      limit_queue;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_PORTS;
  }

  @name(".SwitchIngress.limit_ingress")
  action limit_ingress(bit<32> reserve, bit<32> shared, bit<8> alpha_shift) {
    ingress_reserve = reserve;
    ingress_shared = shared;
    ingress_alpha_shift = alpha_shift;
  }

  @brief("How much of the shared buffer what came in by a port may take.")
  @name(".SwitchIngress.ingress_limits")
  table ingress_limits {
    key = {
      std_meta.ingress_port : exact @name("ingress_port");
    }
    actions = {
      limit_ingress;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_PORTS;
  }

  // The dynamic limit shrinks as the buffer fills. 64 bits, because the reserve
  // alone may be all 32.
  @hidden action admit_if_it_fits() {
    bit<32> frame = std_meta.packet_length;

    bit<32> queue_in;
    bit<32> queue_out;
    queue_admitted.read(queue_in, std_meta.egress_spec);
    queue_departed.read(queue_out, std_meta.egress_spec);
    bit<64> queue_bytes = (bit<64>)(queue_in - queue_out + frame);

    bit<32> ingress_in;
    bit<32> ingress_out;
    ingress_admitted.read(ingress_in, std_meta.ingress_port);
    ingress_departed.read(ingress_out, std_meta.ingress_port);
    bit<64> ingress_bytes = (bit<64>)(ingress_in - ingress_out + frame);

    bit<32> buffer_in;
    bit<32> buffer_out;
    buffer_admitted.read(buffer_in, 0);
    buffer_departed.read(buffer_out, 0);
    bit<32> free = 0;
    if (buffer_in - buffer_out < ingress_shared) {
      free = ingress_shared - (buffer_in - buffer_out);
    }
    bit<64> ingress_limit =
        (bit<64>)ingress_reserve + (bit<64>)(free >> ingress_alpha_shift);

    if (queue_bytes <= (bit<64>)queue_limit && ingress_bytes <= ingress_limit) {
      queue_admitted.write(std_meta.egress_spec, queue_in + frame);
      ingress_admitted.write(std_meta.ingress_port, ingress_in + frame);
      buffer_admitted.write(0, buffer_in + frame);
      meta.queued_bytes = frame;
    }
  }

  apply {
    admitted = true;
    if (std_meta.priority == PRIORITY_DATA) {
      queue_limits.apply();
      ingress_limits.apply();
      admit_if_it_fits();
      admitted = meta.queued_bytes != 0;
    }
  }
}  // control Admission

#endif  // _SWITCH_ADMISSION_P4_
