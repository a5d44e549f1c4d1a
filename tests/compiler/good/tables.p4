// SPDX-License-Identifier: Apache-2.0
// Tables: every match kind, entries, priorities, hit and miss, switch, profiles, direct resources,
// annotations the control plane sees.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", string)
type bit<9> port_id_t;

@controller_header("packet_in")
header packet_in_t {
    @id(2) bit<9> ingress_port;
    bit<7> pad;
}
@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}
header h_t {
    bit<32> a;
    bit<32> b;
    bit<16> c;
    bit<8> d;
    bit<8> e;
}
struct headers_t {
    packet_out_t packet_out;
    h_t h;
    packet_in_t packet_in;
}
struct meta_t {
    port_id_t port;
    bit<2> color;
    bool known;
}

#include "skeleton.p4"

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.bytes) rate;
    counter(64, CounterType.packets) seen;
    @max_group_size(16) action_selector(HashAlgorithm.crc16, 128, 16) members;

    @brief("Sends a packet out") @id(0x0100abcd)
    action forward(@id(5) @format(PORT) port_id_t port, bit<8> tag) {
        meta.port = port;
        std.egress_spec = (bit<9>)port;
        hdr.h.e = tag;
        hits.count();
    }
    action police() {
        rate.read(meta.color);
        hits.count();
    }
    action drop() { mark_to_drop(std); }
    action set(bit<32> value) { hdr.h.a = value; }

    @description("Exact and ternary") @entry_restriction("a != 0")
    table acl {
        key = {
            hdr.h.a : exact @name("alpha") @id(3);
            hdr.h.b : ternary;
            hdr.h.c : range;
            hdr.h.d : optional;
            hdr.h.isValid() : exact;
        }
        actions = { forward; @tableonly police; @defaultonly drop; }
        const default_action = drop;
        counters = hits;
        meters = rate;
        size = 2048;
    }
    table routes {
        key = { hdr.h.b : lpm; hdr.h.a[7:0] : exact @name("low"); }
        actions = { set; NoAction; }
        default_action = set(7);
        const entries = {
            (10 &&& 0xffffff00, 1) : set(1);
            (_, 2) : NoAction();
        }
    }
    table ranked {
        key = { hdr.h.c : ternary; }
        actions = { set; drop; }
        default_action = drop();
        largest_priority_wins = false;
        entries = {
            const priority = 10 : 0x1 &&& 0xf : set(1);
            priority = 20 : 0x2 &&& 0xf : set(2);
            _ : drop();
        }
    }
    table spread {
        key = { hdr.h.a : exact; hdr.h.b : selector; hdr.h.c : selector; }
        actions = { set; drop; NoAction; }
        implementation = members;
    }
    @hidden
    table inner {
        actions = { set; }
        const default_action = set(3);
    }
    apply {
        if (acl.apply().hit) {
            seen.count((bit<32>)hdr.h.d);
        }
        if (!routes.apply().miss) {
            switch (ranked.apply().action_run) {
                set: { meta.known = true; }
                drop: { exit; }
            }
        } else {
            meta.known = spread.apply().hit;
        }
        inner.apply();
    }
}

@pkginfo(name = "tables.p4", version = "1.2")
@brief("Tables of every kind")
V1Switch(P(), Verify(), In(), Eg(), Compute(), Deparse()) main;
