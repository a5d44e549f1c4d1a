// SPDX-License-Identifier: Apache-2.0
#ifndef _SWITCH_FORWARDING_P4_
#define _SWITCH_FORWARDING_P4_

#include "metadata.p4"
#include "../include/hash.p4"

// Finds the egress port: longest prefix, then a member of the group where paths
// are equal. Flows stay on one path; packets of a sprayed class don't.
// Reads meta.flow, meta.spray, meta.seed; writes egress_spec on success, and
// leaves the packet to be dropped otherwise.
//
//   ipv4_routes --forward-------------------------> port
//             \--balance--> draw --> group_members --> port
control Forwarding(in switch_headers_t hdr,
                   inout switch_metadata_t meta,
                   inout standard_metadata_t std_meta,
                   out bool routed) {
  Mix() mix;

  counter<bit<1>>(1, CounterType.packets) no_route;

  bit<16> chosen_group = 0;
  bit<16> group_size = 0;
  bit<16> chosen_member = 0;

  @name(".SwitchIngress.forward")
  action forward(port_t port) {
    std_meta.egress_spec = port;
  }

  @name(".SwitchIngress.balance")
  action balance(bit<16> group, bit<16> members) {
    chosen_group = group;
    group_size = members;
  }

  @brief("Where an address is; ARP is routed by its target address.")
  @name(".SwitchIngress.ipv4_routes")
  table ipv4_routes {
    key = {
      meta.flow.dst_addr : lpm @name("dst_addr") @format(IPV4_ADDRESS);
    }
    actions = {
      forward;
      balance;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_ROUTES;
  }

  @brief("The ports of a group of equal paths.")
  @name(".SwitchIngress.group_members")
  table group_members {
    key = {
      chosen_group : exact @name("group");
      chosen_member : exact @name("member");
    }
    actions = {
      forward;
      @defaultonly NoAction;
    }
    const default_action = NoAction();
    size = MAX_GROUP_MEMBERS;
  }

  @hidden action choose_member(in bit<32> draw) {
    chosen_member = ((bit<48>)draw * (bit<48>)group_size)[47:32];
  }

  apply {
    routed = false;
    switch (ipv4_routes.apply().action_run) {
      forward: {
        routed = true;
      }
      balance: {
        bit<32> psn = 0;
        if (meta.spray == 1 && hdr.bth.isValid()) {
          psn = (bit<32>)hdr.bth.psn;
        }
        bit<32> draw;
        hash(draw, HashAlgorithm.crc32, 32w0,
             { DRAW_MEMBER, meta.seed, meta.flow.src_addr, meta.flow.dst_addr,
               meta.flow.protocol, meta.flow.src_port, meta.flow.dst_port, psn },
             HASH_RANGE);
        mix.apply(draw);
        choose_member(draw);
        routed = group_members.apply().hit;
      }
    }
    if (!routed) {
      no_route.count(0);
    }
  }
}  // control Forwarding

#endif  // _SWITCH_FORWARDING_P4_
