# SPDX-License-Identifier: Apache-2.0
"""What a hop costs in the engine itself: frames without payload through a leaf-spine of small programs.

Every host has a device of its own in front, which fetches its frames; they cross a leaf, a spine and a leaf.
The program parses one header, looks up one table and sets a priority: what is left is the engine.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import cffi

from target import build
from target.api import TableEntry
from target.engine import Device, Engine

RATE_BPS = 400_000_000_000
ACCESS_NS, FABRIC_NS = 5_000, 12_500
HEADER_BYTES = 70
WIRE_BYTES = 4166
PORTS = 500
FRAME_ADJUST, MIN_FRAME = -34, 48

_CDEF = """
struct bench_host { struct sw_endpoint endpoint; const uint8_t *frame; uint32_t bytes, wire_bytes;
                    uint64_t left, received; };
void bench_host_init(struct bench_host *host);
"""


def forwarding_program() -> str:
    """A header of 70 bytes that begins with the destination, 16 bits: an exact table of ports."""
    standard = [
        *(("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("instance_type", 32)),
        *(
            ("packet_length", 32),
            ("enq_qdepth", 19),
            ("deq_qdepth", 19),
            ("mcast_grp", 16),
            ("egress_rid", 16),
        ),
        *(("checksum_error", 1), ("parser_error", 32), ("priority", 3)),
    ]
    types = [
        {"name": "standard_t", "id": 0, "fields": [[name, width, False] for name, width in standard]},
        {"name": "x_t", "id": 1, "fields": [["to", 16, False], ["rest", 8 * HEADER_BYTES - 16, False]]},
    ]
    headers = [
        {"name": "standard_metadata", "id": 0, "header_type": "standard_t", "metadata": True},
        {"name": "x", "id": 1, "header_type": "x_t", "metadata": False},
    ]
    state = {
        "name": "start",
        "id": 0,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "x"}]}],
        "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
        "transition_key": [],
    }
    spec = {"type": "field", "value": ["standard_metadata", "egress_spec"]}
    action = {
        "name": "port",
        "id": 0,
        "runtime_data": [{"name": "port", "bitwidth": 9}],
        "primitives": [{"op": "assign", "parameters": [spec, {"type": "runtime_data", "value": 0}]}],
    }
    table = {
        "name": "to",
        "id": 0,
        "key": [{"match_type": "exact", "name": "to", "target": ["x", "to"], "mask": None}],
        "match_type": "exact",
        "type": "simple",
        "max_size": 65536,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [0],
        "actions": ["port"],
        "base_default_next": None,
        "next_tables": {"port": None},
    }
    pipelines = [
        {"name": "ingress", "id": 0, "init_table": "to", "tables": [table]},
        {"name": "egress", "id": 1, "init_table": None, "tables": []},
    ]
    intrinsic = [["intrinsic_metadata." + n, ["standard_metadata", n]] for n in ("mcast_grp", "priority")]
    return json.dumps(
        {
            "__meta__": {"version": [2, 23], "compiler": "benchmark"},
            "header_types": types,
            "headers": headers,
            "header_stacks": [],
            "field_lists": [],
            "errors": [],
            "enums": [],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [state]}],
            "deparsers": [{"name": "deparser", "id": 0, "order": ["x"]}],
            "actions": [action],
            "pipelines": [p | {"action_profiles": [], "conditionals": []} for p in pipelines],
            "checksums": [],
            "field_aliases": intrinsic,
        }
    )


class Fabric:
    """A leaf-spine fabric on one engine; all hosts send to the same host of another leaf, evenly."""

    def __init__(self, leaves: int, spines: int, hosts: int) -> None:
        if leaves < 2 or leaves > PORTS or spines + hosts > PORTS or leaves * hosts > 65536:
            raise ValueError(
                f"{leaves} leaves, {spines} spines, {hosts} hosts at each: expected two leaves at least, "
                f"up to {PORTS} ports at a switch and 65536 hosts"
            )
        self.engine = Engine()
        self.ffi: Any = cffi.FFI()
        self.ffi.include(self.engine.ffi)
        self.ffi.cdef(_CDEF)
        source = (Path(__file__).parent / "bench_fabric.c").read_text()
        library = build.library("bench-fabric", [("bench_fabric.c", source)], ["-O2"], [])
        lib: Any = self.ffi.dlopen(str(library))
        self.program = forwarding_program()
        self.links: list[tuple[Device, int]] = []
        count = leaves * hosts
        self._frames: list[Any] = []
        leaf = [self._device(f"leaf{i}") for i in range(leaves)]
        spine = [self._device(f"spine{i}") for i in range(spines)]
        for i, device in enumerate(leaf):
            for j in range(spines):
                self._join(device, hosts + j, spine[j], i, FABRIC_NS)
        for i, device in enumerate(leaf):
            for to in range(count):
                self._route(device, to, to % hosts if to // hosts == i else hosts + to % spines)
        for device in spine:
            for to in range(count):
                self._route(device, to, to // hosts)
        self.hosts: list[tuple[Device, Any]] = []
        for number in range(count):
            nic = self._device(f"nic{number}")
            self._join(nic, 1, leaf[number // hosts], number % hosts, ACCESS_NS)
            nic.add_port(0)
            self._route(nic, number, 0)
            nic.table_set_default("to", "port", (1,))
            host: Any = self.ffi.new("struct bench_host *")
            to = (number + hosts * (1 + number % hosts % max(1, leaves - 1))) % count  # a permutation
            frame = self.ffi.new("uint8_t[]", to.to_bytes(2, "big") + bytes(HEADER_BYTES - 2))
            host.frame, host.bytes, host.wire_bytes = frame, HEADER_BYTES, WIRE_BYTES
            self._frames.append(frame)
            lib.bench_host_init(host)
            nic.attach(0, int(self.ffi.cast("uintptr_t", host)), gate=1)
            self.hosts.append((nic, host))

    def _device(self, name: str) -> Device:
        device = self.engine.add_device(name, len(self.engine.devices) + 1, priority_queues=3)
        device.load_pipeline(self.program)
        return device

    def _join(self, a: Device, port_a: int, b: Device, port_b: int, delay_ns: int) -> None:
        for device, port in ((a, port_a), (b, port_b)):
            device.add_port(
                port,
                rate_bps=RATE_BPS,
                delay_ns=delay_ns,
                frame_adjust=FRAME_ADJUST,
                min_frame=MIN_FRAME,
                queue_bytes=1 << 22,
            )
            self.links.append((device, port))
        a.connect(port_a, b, port_b)

    def _route(self, device: Device, to: int, port: int) -> None:
        device.table_insert("to", TableEntry(((to,),), "port", (port,)))

    def run(self, packets: int) -> dict[str, float]:
        """Every host sends so many packets. Counts, and processor seconds of this thread."""
        for nic, host in self.hosts:
            host.left = packets
            nic.kick(0)
        start = time.thread_time()
        self.engine.run_until(10**15)
        seconds = time.thread_time() - start
        hops = sum(device.port_counters(port).tx_packets for device, port in self.links)
        return {
            "hops": hops,
            "received": sum(int(host.received) for _, host in self.hosts),
            "million_hops_per_cpu_s": round(hops / seconds / 1e6, 3),
            "ns_per_hop": round(seconds / hops * 1e9, 1),
        }

    def close(self) -> None:
        self.engine.close()


def measure_fabric(leaves: int, spines: int, hosts: int, packets: int) -> dict[str, float]:
    """hosts: at each leaf. packets: of each host."""
    fabric = Fabric(leaves, spines, hosts)
    try:
        return fabric.run(packets)
    finally:
        fabric.close()
