# SPDX-License-Identifier: Apache-2.0
"""How much this machine can forward, and the link rate that follows.

Two steps of the job's own traffic run without rate limits. What crosses the
devices in that time, packets times devices, is the machine's capacity; the link
rate is set so that the job, with every receiving link busy, asks for a share of
it. The rest is room for bursts, captures and the training itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from controller import Fabric, Programs
from controller.experiments.training_run import Placement, run_arm, run_file
from profiles import Configuration, Profile
from topologies import Topology
from topologies.mininet_net import MininetFabric

NOMINAL_BPS = 1_000_000_000
STEPS = 2
WINDOW_PACKETS = 8
"""Per flow: enough to keep the devices busy, too little to overflow a socket."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """hops_per_second: packets through a device, all devices together. link_rate_bps: what follows."""

    hops_per_second: float
    share: float
    link_rate_bps: int


def devices_between(topology: Topology, source: str, destination: str) -> int:
    """Devices on a shortest path between two hosts, both NICs included."""
    front, seen, depth = {source}, {source}, 0
    while destination not in front:
        front = {link.other(n).node for n in front for link in topology.links_of(n)} - seen
        seen |= front
        depth += 1
    return depth - 1


def hops_per_step(topology: Topology, configuration: Configuration, placement: Placement) -> float:
    """Packets times devices of one step of the job: data and an answer to each."""
    plan = run_file(topology, configuration, placement, Path(), 0, 1, None, False)
    payload = configuration.wire.payload_bytes
    shard = -(-configuration.workload.gradient_bytes // len(placement.ranks) // payload)
    total = 0.0
    for source in placement.ranks:
        for destination in placement.ranks:
            if source != destination:
                total += 2 * shard * devices_between(topology, source, destination)
    ring = placement.ring
    for i, source in enumerate(ring):
        packets = 2 * (len(ring) - 1) * plan.ring_bytes // payload
        total += packets * devices_between(topology, source, ring[(i + 1) % len(ring)])
    return 2 * total


def calibrate(
    net: MininetFabric, programs: Programs, profile: Profile, directory: Path, share: float
) -> Calibration:
    """Measure on a running, unlimited network. share: of the capacity, above 0 and at most 1."""
    topology = net.topology
    nominal = profile.at_rate(NOMINAL_BPS)
    window = WINDOW_PACKETS * nominal.wire.payload_bytes
    fast = replace(
        nominal,
        dcqcn=replace(nominal.dcqcn, enabled=False),
        transport=replace(nominal.transport, window_bytes=window, rto_ns=200_000_000),
    )
    placement = Placement.of(topology, fast)
    spans: list[int] = []
    with Fabric(topology, net.devices, programs) as fabric:
        fabric.install(fast)
        run_arm(
            net, fabric, fast, directory,
            seed=0, steps=STEPS, report=lambda _step, span: spans.append(span), capturing=False,
        )  # fmt: skip
    per_step = hops_per_step(topology, nominal, placement)
    capacity = per_step / (min(spans) / 1e9)
    # A rank's inbound link carries this in a step; all of them are busy at the same time.
    ranks = len(placement.ranks)
    frames = 2 * (ranks - 1) * -(-nominal.workload.gradient_bytes // ranks // nominal.wire.payload_bytes)
    step_seconds = per_step / (share * capacity)
    rate = round(frames * nominal.wire.frame_bytes * 8 / step_seconds)
    return Calibration(capacity, share, rate)
