# SPDX-License-Identifier: Apache-2.0
"""Hosts and the whole protocol: endpoints over frames, the reference model of the NIC in front of each, and a
fabric that marks, trims and loses at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hosts.collectives import AllReduceResult, DirectAllReduce
from hosts.config import DcqcnConfig
from hosts.endpoint import Event, OutgoingPacket, Received, Sent, Status, TrafficClass
from hosts.messages import Arrival, FloatArray, MessageKey
from tests.hosts.harness import Fate, Host, Simulation, address_of, config_for
from tests.model.reference import NicModel
from tests.support import wire
from tests.support.nic import CLASSES, HOST, NEVER, PAPER, WIRE, Step

LINE = 100_000_000_000
TRIMMED = {wire.DSCP_GRADIENT: wire.DSCP_GRADIENT_TRIMMED, wire.DSCP_DATA: wire.DSCP_DATA_TRIMMED}
PAYLOAD = 512


class Fabric(Simulation):
    """Hosts behind reference NICs. Of a `Fate`: a delay there, one for feedback; none is a loss."""

    def __init__(self, hosts: int, fate: Callable[[OutgoingPacket], Fate], **changes: object) -> None:
        values: dict[str, object] = {
            "payload_bytes": PAYLOAD,
            "gradient_dscp": wire.DSCP_GRADIENT,
            "data_dscp": wire.DSCP_DATA,
            "dcqcn": DcqcnConfig.for_line_rate(LINE),
            "rto_ns": 300_000,
        }
        super().__init__(hosts, lambda n: config_for(n, **(values | changes)), fate)
        self.nics = [NicModel(CLASSES, seed=7) for _ in range(hosts)]

    def _transmit(self, packet: OutgoingPacket) -> None:
        fate = self.fate(packet)
        frame = packet.frame_header + (packet.payload or b"")
        source = int.from_bytes(frame[26:30], "big") - address_of(0)
        ((port, frame),) = self.nics[source].receive(HOST, frame, self.now_ns // 1000)
        assert port == WIRE
        seen = wire.decode(frame, checksum=False)
        if fate.trimmed:
            seen = seen.trimmed(TRIMMED[seen.dscp])
        if fate.marked:
            seen = replace(seen, ecn=wire.CE)
        for delay in fate.delays_ns:
            self._deliver(packet.destination, delay, seen.encode(), fate)

    def _deliver(self, address: int, delay: int, frame: bytes, fate: Fate) -> None:
        self.at(self.now_ns + delay, lambda: self._arrived(address - address_of(0), frame, fate))

    def _arrived(self, number: int, frame: bytes, fate: Fate) -> None:
        for port, output in self.nics[number].receive(WIRE, frame, self.now_ns // 1000):
            if port == WIRE:
                for delay in fate.feedback_delays_ns:
                    self._deliver(int.from_bytes(output[30:34], "big"), delay, output, Fate())
                continue
            assert port == HOST
            host = self.hosts[number]
            status = host.endpoint.receive_frame(self.now_ns, output)
            # Feedback may come after the last of its message.
            is_data = output[42] == wire.WRITE_ONLY
            assert status is Status.ACCEPTED or (status is Status.UNKNOWN_QP and not is_data)
            self.kick(host)


def fates(
    seed: int, trimmed: float, marked: float, lost: float = 0, in_order: bool = False
) -> Callable[[OutgoingPacket], Fate]:
    draw = random.Random(seed)

    def fate(packet: OutgoingPacket) -> Fate:
        spread = 1 if in_order else 7_000
        there, back = ((2_000 + draw.randrange(spread),) if draw.random() >= lost else () for _ in range(2))
        return Fate(
            delays_ns=there,
            trimmed=draw.random() < trimmed,
            marked=draw.random() < marked,
            feedback_delays_ns=back,
        )

    return fate


class Layer:
    """Messages over a fabric, queue pairs exchanged by looking."""

    def __init__(self, fabric: Fabric, rank: int, directory: dict[MessageKey, int], step_slot: int) -> None:
        self.fabric, self.endpoint = fabric, fabric.hosts[rank].endpoint
        self.directory, self.step_slot = directory, step_slot
        self.keys: dict[int, MessageKey] = {}

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        qp = self.directory[key] = self.endpoint.alloc_receive_qp(self.step_slot)
        self.keys[self.endpoint.post_receive(self.fabric.now_ns, qp=qp, buffer=buffer)] = key

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        message = self.endpoint.post_send(
            self.fabric.now_ns,
            destination=address_of(key.destination),
            dst_qp=self.directory[key],
            data=data,
            traffic_class=traffic_class,
        )
        self.keys[message] = key


def all_reduce(
    fabric: Fabric,
    values: list[FloatArray],
    number: int,
    install: Callable[[DirectAllReduce], Step | None],
    traffic_class: TrafficClass = TrafficClass.GRADIENT,
) -> list[AllReduceResult]:
    """One step, from installed budgets to the last acknowledgement."""
    ranks = len(values)
    slot = number % 7
    directory: dict[MessageKey, int] = {}
    layers = [Layer(fabric, rank, directory, slot) for rank in range(ranks)]
    group = list(range(ranks))
    parts = [
        DirectAllReduce(layers[rank], group, rank, number, values=values[rank], traffic_class=traffic_class)
        for rank in group
    ]

    def on_event(host: Host, event: Event) -> None:
        rank = host.address - address_of(0)
        key = layers[rank].keys[event.message]
        if isinstance(event, Received):
            parts[rank].on_received(Arrival(key, event.posted_bytes, event.forgiven))
        else:
            assert isinstance(event, Sent)
            parts[rank].on_sent(key)
        fabric.at(fabric.now_ns, lambda: fabric.kick(host))

    fabric.on_event = on_event
    for rank in group:
        parts[rank].expect()
        if (step := install(parts[rank])) is not None:
            fabric.nics[rank].install(slot, step)
    for rank in group:
        parts[rank].start()
        fabric.kick(fabric.hosts[rank])
    fabric.run()
    assert all(part.finished for part in parts), [part.waiting_for() for part in parts]
    return [part.result() for part in parts]


def gradients(ranks: int, elements: int) -> list[FloatArray]:
    return [
        np.random.default_rng(rank).integers(-999, 999, elements).astype(np.float32) for rank in range(ranks)
    ]


def install(p_ppm: int, tag: int, **policy: object) -> Callable[[DirectAllReduce], Step]:
    """The entry of a step, by what it brings the rank."""

    def entry(part: DirectAllReduce) -> Step:
        budget = p_ppm * part.expected_bytes // 1_000_000
        return Step(tag, p_ppm, budget, packet_bytes=PAYLOAD, **policy)  # type: ignore[arg-type]

    return entry


@pytest.mark.parametrize("lost", [0.0, 0.02])
def test_steps_stay_in_their_budgets_and_every_byte_is_settled_once(lost: float) -> None:
    ranks, p_ppm = 4, 100_000
    values = gradients(ranks, 20_000)
    fabric = Fabric(ranks, fates(1, trimmed=0.1, marked=0.1, lost=lost))
    total = np.sum(values, axis=0)
    for number in range(3):
        before = [host.endpoint.stats() for host in fabric.hosts]
        results = all_reduce(fabric, values, number, install(p_ppm, number + 1))
        for rank, result in enumerate(results):
            report = fabric.nics[rank].query(number % 7)
            stats = fabric.hosts[rank].endpoint.stats()
            assert result.missing_bytes == report.forgiven
            assert 0 < report.forgiven <= p_ppm * result.expected_bytes // 1_000_000
            assert report.received + report.forgiven == result.expected_bytes
            assert report.outstanding == 0
            assert stats.received_bytes - before[rank].received_bytes == report.received
            assert stats.forgiven_bytes - before[rank].forgiven_bytes == report.forgiven
            assert stats.double_settlements == stats.malformed == stats.unknown_qp == stats.bad_feedback == 0
            reduced = result.reduced
            assert reduced is not None
            # Wrong values lie where somebody reported something missing, nowhere else.
            wrong = np.count_nonzero(reduced != total) * 4
            assert 0 < wrong <= sum(each.missing_bytes for each in results)
    counters = sum((nic.counters for nic in fabric.nics), start=fabric.nics[0].counters.__class__())
    for name in ("beyond_window", "bad_range", "malformed", "stale"):
        assert counters[name] == 0
    if lost == 0:
        assert counters["data_duplicate"] == counters["data_late"] == 0


def test_without_a_budget_every_byte_arrives() -> None:
    values = gradients(4, 10_000)
    fabric = Fabric(4, fates(2, trimmed=0.2, marked=0.1))
    for result in all_reduce(fabric, values, 0, lambda part: None):
        np.testing.assert_array_equal(result.reduced, np.sum(values, axis=0))
        assert result.missing == {}


def test_traffic_that_is_no_gradient_is_never_forgiven() -> None:
    values = gradients(4, 10_000)
    fabric = Fabric(4, fates(3, trimmed=0.2, marked=0.1))
    results = all_reduce(fabric, values, 0, install(400_000, 1), TrafficClass.DATA)
    for result in results:
        np.testing.assert_array_equal(result.reduced, np.sum(values, axis=0))
    assert sum(nic.counters["refused_class"] for nic in fabric.nics) > 0


def test_signals_that_reach_the_rate_control_are_those_that_the_nic_let_through() -> None:
    """Exempt senders see fewer; what they do see is counted alike by the NIC and the host."""
    cuts = {}
    for exemption in (PAPER, NEVER):
        values = gradients(4, 40_000)
        fabric = Fabric(4, fates(4, trimmed=0.02, marked=0.3, in_order=True))
        all_reduce(fabric, values, 0, install(400_000, 1, exemption=exemption))
        for host, nic in zip(fabric.hosts, fabric.nics, strict=True):
            delivered = nic.counters["notification_delivered"] + nic.counters["request_obeyed"]
            assert host.endpoint.stats().signals == delivered
        cuts[exemption] = sum(host.endpoint.stats().rate_cuts for host in fabric.hosts)
    assert 2 * cuts[PAPER] < cuts[NEVER]
