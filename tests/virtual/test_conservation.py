# SPDX-License-Identifier: Apache-2.0
"""Nothing appears and nothing vanishes: bytes of messages, frames on links, bytes in queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy.proto import p4r

from controller import Fabric
from tests.virtual.scenes import SHARD, TWO_LEAVES, Job, crowded, running
from virtual import VirtualFabric

BOTTLENECKS = (("leaf1", 4), ("leaf2", 4))
"""The ports towards the spine, and their number."""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with running(TWO_LEAVES, crowded(), tmp_path) as (net, controller):
        yield Job(net, controller)


def registers(controller: Fabric, switch: str, name: str, ports: list[int]) -> list[int]:
    """Cells of a switch's register, by P4Runtime."""
    device = controller.controller.switch(switch).device
    number = next(r.preamble.id for r in device.schema.p4info.registers if r.preamble.alias == name)
    wanted = [
        p4r.Entity(register_entry=p4r.RegisterEntry(register_id=number, index=p4r.Index(index=port)))
        for port in ports
    ]
    answers = {
        entity.register_entry.index.index: int.from_bytes(entity.register_entry.data.bitstring, "big")
        for entity in controller.run(device.read(wanted))
    }
    return [answers[port] for port in ports]


def queues_agree(net: VirtualFabric, controller: Fabric) -> int:
    """Bytes that the program counts in each port's data queue are those that wait there; their sum."""
    total = 0
    for name, switch in controller.controller.switches.items():
        admitted = registers(controller, name, "queue_admitted", switch.ports)
        departed = registers(controller, name, "queue_departed", switch.ports)
        for port, came, left in zip(switch.ports, admitted, departed, strict=True):
            waiting = net.device(name).port_counters(port).depth_bytes[0]
            assert (came - left) % 2**32 == waiting, f"{name} port {port}"
            total += waiting
    return total


def test_queue_counts_are_those_of_the_programs_registers_at_any_time(job: Job) -> None:
    net = job.net
    job.begin()
    waited = 0
    for now in range(20_000, 400_000, 37_003):
        net.clock.run(now)
        assert net.clock.now_ns == now
        waited += queues_agree(net, job.controller)
    assert waited > 100_000
    job.end()
    assert queues_agree(net, job.controller) == 0


def frames(net: VirtualFabric) -> tuple[int, int]:
    """(on the way, lost) over all links between devices."""
    sent = received = lost = 0
    for link in net.topology.links:
        if net.topology.is_host(link.a.node):
            continue
        for end in (link.a, link.b):
            counters = net.device(end.node).port_counters(end.number)
            sent += sum(counters.sent_packets)
            received += counters.rx_packets
            lost += counters.lost_packets
    return sent - received - lost, lost


@pytest.mark.parametrize("loss_ppm", [0, 3_000])
def test_every_byte_sent_is_received_or_forgiven(job: Job, loss_ppm: int) -> None:
    net = job.net
    net.set_loss("leaf1-spine1", loss_ppm)
    job.begin()
    net.clock.run(60_000)
    assert frames(net)[0] > 0
    left = job.end()
    on_the_way, lost = frames(net)
    assert on_the_way == 0 and (lost > 0) == (loss_ppm > 0)
    assert sum(net.device(d.name).stats()["held_packets"] for d in net.devices) == 0
    # By message: all of it is settled, once.
    assert len(left["messages"]) == 2 * 6 * 5 and not job.exchange.in_flight
    hosts = list(left["hosts"].values())
    settled = sum(h["received_bytes"] + h["forgiven_bytes"] for h in hosts)
    assert settled == sum(h["first_bytes"] for h in hosts) == 2 * 6 * 5 * SHARD
    assert sum(h["double_settlements"] + h["unknown_qp"] + h["malformed"] for h in hosts) == 0
    # The NICs' books, the hosts' and the messages' are the same.
    for host, report in left["reports"].items():
        state, number = report["state"], net.number(host)
        assert state["received"] + state["forgiven"] == report["installed"]["expected_bytes"]
        assert state["forgiven"] == left["hosts"][host]["forgiven_bytes"] <= report["installed"]["budget"]
        assert state["outstanding"] == 0
        done = [c for c in job.completions.values() if c.receiver == number]
        assert sum(c.forgiven_bytes for c in done) == state["forgiven"]
    assert sum(r["state"]["forgiven"] for r in left["reports"].values()) > 0


def test_every_trimmed_packet_arrives_as_a_header(job: Job) -> None:
    job.begin()
    left = job.end()
    ports = [port for switch in left["switches"].values() for port in switch["ports"].values()]
    arrived = sum(report["events"]["trimmed_received"] for report in left["reports"].values())
    assert sum(port["trimmed"] for port in ports) == arrived > 0
    assert sum(port["dropped"] for port in ports) == 0
