# SPDX-License-Identifier: Apache-2.0
"""How much this machine can forward, and the link rate that follows.

Three steps of the job's own traffic run without rate limits. What crosses the
devices in that time, packets times devices, is the machine's capacity; the link
rate is set so that the job, with its slowest links busy all the time, asks for a
share of it. The rest is room for bursts, captures and the training itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from controller import Fabric, Programs
from controller.experiments.training_run import Placement, run_arm, run_file
from profiles import Configuration, Profile
from topologies import Tier, Topology
from topologies.mininet_net import MininetFabric

NOMINAL_BPS = 1_000_000_000
STEPS = 3
WINDOW_PACKETS = 2
"""Per flow: enough to keep the devices busy, too little to overflow a socket or a capture ring."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """hops_per_second: packets through a device, all devices together. link_rate_bps: what follows."""

    hops_per_second: float
    share: float
    link_rate_bps: int


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step of the job asks of the network, without retransmissions.

    hops: packets times devices, data and an answer to each. slowest_frames: full data frames on the link that
    needs longest, over its rate in units of the link rate.
    """

    hops: float
    slowest_frames: float


def step_load(topology: Topology, configuration: Configuration, placement: Placement) -> StepLoad:
    """Count over all messages of a step; equal-cost paths share alike."""
    plan = run_file(topology, configuration, placement, Path(), 0, 1, None, False)
    payload = configuration.wire.payload_bytes
    shard = -(-configuration.workload.gradient_bytes // len(placement.ranks) // payload)
    ring = placement.ring
    messages = [(a, b, 2 * shard) for a in placement.ranks for b in placement.ranks if a != b]
    ring_packets = 2 * (len(ring) - 1) * plan.ring_bytes // payload
    messages += [(a, ring[(i + 1) % len(ring)], ring_packets) for i, a in enumerate(ring)]
    rates = {
        Tier.HOST: float("inf"),
        Tier.ACCESS: 1.0,
        Tier.FABRIC: configuration.links.core_rate_bps / configuration.links.rate_bps,
    }
    hops = 0.0
    frames: dict[tuple[str, str], float] = {}
    seconds: dict[tuple[str, str], float] = {}
    for source, destination, packets in messages:
        distance = _distances(topology, destination)
        hops += 2 * packets * (distance[source] - 1)
        share = {source: float(packets)}
        for node in sorted(distance, key=lambda n: -distance[n]):
            if node not in share or node == destination:
                continue
            links = [x for x in topology.links_of(node) if distance[x.other(node).node] < distance[node]]
            for link in links:
                here, there = node, link.other(node).node
                share[there] = share.get(there, 0.0) + share[node] / len(links)
                frames[here, there] = frames.get((here, there), 0.0) + share[node] / len(links)
                seconds[here, there] = frames[here, there] / rates[link.tier]
    return StepLoad(hops, max(seconds.values()))


def _distances(topology: Topology, destination: str) -> dict[str, int]:
    """Links from every node to a host."""
    distance, front = {destination: 0}, [destination]
    for node in front:
        for link in topology.links_of(node):
            other = link.other(node).node
            if other not in distance:
                distance[other] = distance[node] + 1
                front.append(other)
    return distance


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
    load = step_load(topology, nominal, placement)
    capacity = load.hops / (min(spans) / 1e9)
    step_seconds = load.hops / (share * capacity)
    rate = round(load.slowest_frames * nominal.wire.frame_bytes * 8 / step_seconds)
    return Calibration(capacity, share, rate)
