// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_OCCUPANCY_P4_
#define _SWITCH_OCCUPANCY_P4_

#include "metadata.p4"

// Bytes of frame in the data queues, exact: admitted, which only ingress writes,
// minus departed, which only egress writes. Both only grow, modulo 2^32. One
// register for both would lose updates, because ingress and egress are different
// threads; and whoever reads, changes and writes one does so in one action,
// which locks it.

// Per egress port.
register<bit<32>, port_t>(MAX_PORTS) queue_admitted;
register<bit<32>, port_t>(MAX_PORTS) queue_departed;
// Per ingress port.
register<bit<32>, port_t>(MAX_PORTS) ingress_admitted;
register<bit<32>, port_t>(MAX_PORTS) ingress_departed;
// In the whole switch.
register<bit<32>, bit<1>>(1) buffer_admitted;
register<bit<32>, bit<1>>(1) buffer_departed;

#endif  // _SWITCH_OCCUPANCY_P4_
