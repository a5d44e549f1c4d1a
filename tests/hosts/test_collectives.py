# SPDX-License-Identifier: Apache-2.0
"""The collectives over endpoints in simulated time: sums, forgiven ranges, order of sends, shedding."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.collectives import (
    AllReduceResult,
    DirectAllReduce,
    ForgivenPolicy,
    RingAllReduce,
    expected_gradient_bytes,
    shard_bounds,
)
from hosts.endpoint import Endpoint, Event, OutgoingPacket, Range, Received, Sent, TrafficClass
from hosts.messages import Arrival, CollectiveError, FloatArray, MessageKey, Phase, TransportMessages
from hosts.shedding import PLACEHOLDER_BYTES, Shedding, draw, splitmix64
from tests.hosts.harness import Fate, Host, Simulation, address_of, config_for


class SimulatedMessages:
    """The message layer of one rank of a simulation. Queue pairs are exchanged by looking."""

    def __init__(self, sim: Simulation, rank: int, directory: dict[MessageKey, int]) -> None:
        self.sim = sim
        self.host = sim.hosts[rank]
        self.directory = directory
        self.keys: dict[int, MessageKey] = {}
        self.log: list[MessageKey] = []

    @property
    def endpoint(self) -> Endpoint:
        return self.host.endpoint

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        qp = self.endpoint.alloc_receive_qp()
        length = length_bytes if buffer is None else None
        message = self.endpoint.post_receive(self.sim.now_ns, qp=qp, buffer=buffer, length_bytes=length)
        self.keys[message] = key
        assert key not in self.directory
        self.directory[key] = qp

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        if data is not None:
            assert data.nbytes == length_bytes
        message = self.endpoint.post_send(
            self.sim.now_ns,
            destination=address_of(key.destination),
            dst_qp=self.directory[key],
            data=data,
            length_bytes=length_bytes if data is None else None,
            traffic_class=traffic_class,
        )
        self.keys[message] = key
        self.log.append(key)


def run(
    sim: Simulation, make: Callable[[SimulatedMessages, int], DirectAllReduce | RingAllReduce]
) -> list[DirectAllReduce | RingAllReduce]:
    """One collective per host, to the end."""
    directory: dict[MessageKey, int] = {}
    layers = [SimulatedMessages(sim, rank, directory) for rank in range(len(sim.hosts))]
    collectives = [make(layer, rank) for rank, layer in enumerate(layers)]
    ranks = {host.address: rank for rank, host in enumerate(sim.hosts)}

    def on_event(host: Host, event: Event) -> None:
        rank = ranks[host.address]
        key = layers[rank].keys[event.message]
        if isinstance(event, Received):
            shed = event.length_bytes < event.posted_bytes
            missing = (Range(0, event.posted_bytes),) if shed else event.forgiven
            collectives[rank].on_received(Arrival(key, event.posted_bytes, missing, shed))
        else:
            assert isinstance(event, Sent)
            collectives[rank].on_sent(key)
        sim.at(sim.now_ns, lambda: sim.kick(host))

    sim.on_event = on_event
    for collective in collectives:
        collective.expect()
    for host, collective in zip(sim.hosts, collectives, strict=True):
        collective.start()
        sim.kick(host)
    sim.run()
    assert all(collective.finished for collective in collectives), [c.waiting_for() for c in collectives]
    return collectives


def gradients(ranks: int, elements: int, seed: int = 0) -> list[FloatArray]:
    """Small integers, so that sums are exact in any order."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-1000, 1000, elements).astype(np.float32) for _ in range(ranks)]


def results(collectives: list[DirectAllReduce | RingAllReduce]) -> list[AllReduceResult]:
    found = [collective.result() for collective in collectives]
    assert all(isinstance(item, AllReduceResult) for item in found)
    return found  # type: ignore[return-value]


@settings(max_examples=30, deadline=None)
@given(
    ranks=st.integers(1, 6),
    elements=st.integers(6, 4000),
    width=st.integers(1, 5),
    release=st.sampled_from(["received", "sent"]),
    operation=st.sampled_from(["sum", "mean"]),
    seed=st.integers(0, 1000),
)
def test_direct_all_reduce_is_the_sum_on_every_rank(
    ranks: int, elements: int, width: int, release: Any, operation: Any, seed: int
) -> None:
    draws = random.Random(seed)
    fate = lambda packet: Fate(  # noqa: E731
        delays_ns=(draws.randrange(500, 30_000),), trimmed=draws.random() < 0.1
    )
    values = gradients(ranks, elements, seed)
    sim = Simulation(ranks, lambda n: config_for(n, payload_bytes=512), fate)
    done = run(
        sim,
        lambda layer, rank: DirectAllReduce(
            layer,
            list(range(ranks)),
            rank,
            step=3,
            values=values[rank],
            width=min(width, max(1, ranks - 1)),
            release=release,
            operation=operation,
        ),
    )
    total = np.sum(values, axis=0, dtype=np.float32)
    expected = total if operation == "sum" else total / np.float32(ranks)
    for item in results(done):
        np.testing.assert_array_equal(item.reduced, expected)
        assert item.missing == {}
        assert item.missing_bytes == 0


@settings(max_examples=15, deadline=None)
@given(ranks=st.integers(2, 6), elements=st.integers(6, 4000), seed=st.integers(0, 1000))
def test_ring_all_reduce_is_the_sum_on_every_rank(ranks: int, elements: int, seed: int) -> None:
    draws = random.Random(seed)
    fate = lambda packet: Fate(delays_ns=(draws.randrange(500, 30_000),))  # noqa: E731
    values = gradients(ranks, elements, seed)
    sim = Simulation(ranks, lambda n: config_for(n, payload_bytes=512), fate)
    done = run(
        sim, lambda layer, rank: RingAllReduce(layer, list(range(ranks)), rank, step=0, values=values[rank])
    )
    for collective in done:
        np.testing.assert_array_equal(collective.result(), np.sum(values, axis=0))
    dscp = {packet.dscp for _, packet in sim.sent}
    assert dscp == {sim.hosts[0].endpoint.config.data_dscp}


def forgiving_run(
    ranks: int, elements: int, share: float, policy: ForgivenPolicy, operation: str, seed: int = 5
) -> tuple[list[FloatArray], list[AllReduceResult], Simulation]:
    draws = random.Random(seed)
    fate = lambda packet: Fate(trimmed=draws.random() < share, forgive=True)  # noqa: E731
    values = gradients(ranks, elements, seed)
    sim = Simulation(ranks, lambda n: config_for(n, payload_bytes=512), fate)
    done = run(
        sim,
        lambda layer, rank: DirectAllReduce(
            layer,
            list(range(ranks)),
            rank,
            step=1,
            values=values[rank],
            policy=policy,
            operation=operation,  # type: ignore[arg-type]
        ),
    )
    return values, results(done), sim


@pytest.mark.parametrize("operation", ["sum", "mean"])
@pytest.mark.parametrize("scatter", ["zero", "rescale"])
@pytest.mark.parametrize("gather", ["zero", "own"])
def test_forgiven_ranges_are_what_the_result_lacks(operation: str, scatter: str, gather: str) -> None:
    """Recomputed from the reported ranges alone, value by value."""
    ranks, elements = 4, 5003
    policy = ForgivenPolicy(scatter, gather)  # type: ignore[arg-type]
    values, items, sim = forgiving_run(ranks, elements, 0.2, policy, operation)
    bounds = shard_bounds(elements, ranks)
    shards = []
    for owner, (start, end) in enumerate(bounds):
        arrived = np.ones((ranks, end - start), bool)
        for (phase, peer), pieces in items[owner].missing.items():
            for piece in pieces if phase is Phase.REDUCE_SCATTER else ():
                arrived[peer, piece.start // 4 : piece.end // 4] = False
        assert not arrived.all()
        total = sum(values[peer][start:end].astype(np.float64) * arrived[peer] for peer in range(ranks))
        if scatter == "rescale":
            total = total * ranks / arrived.sum(axis=0)
        shards.append(total / (ranks if operation == "mean" else 1))
    for rank, item in enumerate(items):
        expected = np.concatenate(shards)
        lost = 0
        for (phase, peer), pieces in item.missing.items():
            lost += sum(piece.length_bytes for piece in pieces)
            for piece in pieces if phase is Phase.ALL_GATHER else ():
                at = slice(bounds[peer][0] + piece.start // 4, bounds[peer][0] + piece.end // 4)
                own = values[rank][at] * (1 if operation == "mean" else ranks)
                expected[at] = own if gather == "own" else 0
        assert item.reduced is not None
        np.testing.assert_allclose(item.reduced, expected, rtol=1e-6, atol=1e-5)
        assert item.missing_bytes == lost > 0
        assert sim.hosts[rank].endpoint.stats().forgiven_bytes == lost


def test_expected_bytes_are_what_arrives() -> None:
    ranks, elements = 5, 4003
    values, items, sim = forgiving_run(ranks, elements, 0.3, ForgivenPolicy(), "sum")
    assert len(values) == ranks
    for host, item in zip(sim.hosts, items, strict=True):
        stats = host.endpoint.stats()
        assert stats.received_bytes + stats.forgiven_bytes == item.expected_bytes


def test_expected_bytes_of_the_papers_study() -> None:
    """EXPERIMENT.md: five streams of 14 messages of 2,136,230 bytes per rank and step."""
    assert 5 * expected_gradient_bytes([2_136_230] * 8, 3) == 149_536_100


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_width_bounds_the_sends_in_flight_to_distinct_peers_in_ring_order(width: int) -> None:
    ranks = 8
    fate = lambda packet: Fate()  # noqa: E731
    sim = Simulation(ranks, config_for, fate)
    layers: list[SimulatedMessages] = []

    def make(layer: SimulatedMessages, rank: int) -> DirectAllReduce:
        layers.append(layer)
        return DirectAllReduce(
            layer, list(range(ranks)), rank, step=0, shard_bytes=[2000] * ranks, width=width, release="sent"
        )

    in_flight: defaultdict[int, set[int]] = defaultdict(set)
    worst = 0
    original = SimulatedMessages.send

    def send(self: SimulatedMessages, key: MessageKey, **arguments: object) -> None:
        nonlocal worst
        assert key.destination not in in_flight[key.source]
        in_flight[key.source].add(key.destination)
        worst = max(worst, len(in_flight[key.source]))
        original(self, key, **arguments)  # type: ignore[arg-type]

    def sent(self: DirectAllReduce, key: MessageKey) -> None:
        in_flight[key.source].remove(key.destination)
        finish(self, key)

    finish = DirectAllReduce.on_sent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedMessages, "send", send)
        patch.setattr(DirectAllReduce, "on_sent", sent)
        run(sim, make)
    assert worst == width
    for rank, layer in enumerate(layers):
        ring = [(rank + k) % ranks for k in range(1, ranks)]
        assert [key.destination for key in layer.log] == ring + ring


def test_inbound_message_releases_the_next_send() -> None:
    """As in the paper's study: width sends go at once, then one for each message that arrives."""

    class Layer:
        def __init__(self) -> None:
            self.sends: list[MessageKey] = []

        def expect(self, key: MessageKey, **_: object) -> None: ...

        def send(self, key: MessageKey, **_: object) -> None:
            self.sends.append(key)

    layer = Layer()
    collective = DirectAllReduce(layer, [10, 11, 12, 13], 11, 0, shard_bytes=[100] * 4, width=1)
    collective.expect()
    collective.start()
    assert [(k.destination, k.sequence) for k in layer.sends] == [(12, 0)]
    collective.on_sent(layer.sends[0])
    assert len(layer.sends) == 1
    collective.on_received(Arrival(MessageKey(0, 10, 11, 0), 100, ()))
    collective.on_received(Arrival(MessageKey(0, 13, 11, 0), 100, ()))
    assert [k.destination for k in layer.sends] == [12, 13, 10]
    # A faster peer's all-gather message releases nothing before the own all-gather starts.
    collective.on_received(Arrival(MessageKey(0, 13, 11, 1), 100, ()))
    assert len(layer.sends) == 3
    collective.on_received(Arrival(MessageKey(0, 12, 11, 0), 100, ()))
    assert [(k.destination, k.sequence) for k in layer.sends[3:]] == [(12, 1), (13, 1)]
    assert not collective.received_all
    assert "all_gather from ranks [10, 12]" in collective.waiting_for()


@pytest.mark.parametrize("policy", [ForgivenPolicy(), ForgivenPolicy("rescale", "own")])
def test_shed_messages_are_missing_as_a_whole_and_cost_a_placeholder(policy: ForgivenPolicy) -> None:
    ranks, elements = 4, 4000
    values = gradients(ranks, elements)
    shedding = Shedding(seed=1, p_ppm=300_000)
    sim = Simulation(ranks, config_for, lambda packet: Fate())
    done = run(
        sim,
        lambda layer, rank: DirectAllReduce(
            layer,
            list(range(ranks)),
            rank,
            step=2,
            values=values[rank],
            policy=policy,
            shedding=shedding,
        ),
    )
    expected_shed = {
        (destination, Phase.ALL_GATHER if sequence else Phase.REDUCE_SCATTER, source)
        for source in range(ranks)
        for destination in range(ranks)
        for sequence in (0, 1)
        if source != destination and shedding.sheds(MessageKey(2, source, destination, sequence), 4000)
    }
    items = results(done)
    assert {(rank, *name) for rank, item in enumerate(items) for name in item.shed} == expected_shed
    assert 0 < len(expected_shed) < 24
    for rank, item in enumerate(items):
        shed = len(item.shed)
        assert item.missing == {name: (Range(0, 4000),) for name in item.shed}
        assert item.shed_bytes == item.missing_bytes == shed * 4000
        stats = sim.hosts[rank].endpoint.stats()
        assert stats.received_bytes == item.expected_bytes - item.shed_bytes + shed * PLACEHOLDER_BYTES
        start, end = shard_bounds(elements, ranks)[rank]
        arrived = [peer for peer in range(ranks) if (Phase.REDUCE_SCATTER, peer) not in item.shed]
        own = np.sum([values[peer][start:end] for peer in arrived], axis=0)
        if policy.reduce_scatter == "rescale":
            own = own * np.float32(ranks / len(arrived))
        assert item.reduced is not None
        np.testing.assert_allclose(item.reduced[start:end], own, rtol=1e-6)
    placeholders = [p for _, p in sim.sent if p.payload_bytes == PLACEHOLDER_BYTES]
    assert len(placeholders) == len(expected_shed)
    assert {p.dscp for p in placeholders} == {sim.hosts[0].endpoint.config.data_dscp}


def test_shedding_draw_is_uniform_nested_and_depends_on_every_part() -> None:
    keys = [MessageKey(s, a, b, q) for s in range(5) for a in range(8) for b in range(8) for q in range(10)]
    low, high = Shedding(7, 5_000), Shedding(7, 100_000)
    shed_low = {key for key in keys if low.sheds(key, 1000)}
    shed_high = {key for key in keys if high.sheds(key, 1000)}
    assert shed_low < shed_high
    assert len(shed_high) / len(keys) == pytest.approx(0.1, abs=0.015)
    base = MessageKey(1, 2, 3, 4)
    others = [MessageKey(2, 2, 3, 4), MessageKey(1, 3, 2, 4), MessageKey(1, 2, 3, 5), MessageKey(1, 2, 4, 4)]
    assert len({draw(7, key) for key in [base, *others]} | {draw(8, base)}) == 6
    assert not Shedding(7, 1_000_000).sheds(base, PLACEHOLDER_BYTES)
    assert Shedding(7, 1_000_000).sheds(base, PLACEHOLDER_BYTES + 1)


def test_shedding_draw_is_fixed() -> None:
    """Known answers: the generator's published first output, and the draw that runs of all versions share."""
    assert splitmix64(1234567) == 6457827717110365317
    assert [draw(1, MessageKey(1, 0, i, 0)) for i in range(1, 5)] == [41235, 914607, 252011, 285745]


@settings(deadline=None)
@given(st.integers(1, 64), st.integers(0, 1000))
def test_shards_cover_the_values_once(ranks: int, more: int) -> None:
    elements = ranks + more
    bounds = shard_bounds(elements, ranks)
    assert bounds[0][0] == 0 and bounds[-1][1] == elements
    assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))
    sizes = {end - start for start, end in bounds}
    assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1


UNUSED: Any = None
UNKNOWN: Any = "mean"
DOUBLES: Any = np.zeros(4)

BAD: dict[str, tuple[Callable[[], object], str]] = {
    "fewer values": (lambda: shard_bounds(3, 4), "3 values for 4 ranks"),
    "rank not in group": (
        lambda: DirectAllReduce(UNUSED, [1, 2], 3, 0, shard_bytes=[4, 4]),
        "rank 3 is not in",
    ),
    "rank twice": (lambda: DirectAllReduce(UNUSED, [1, 1], 1, 0, shard_bytes=[4, 4]), "twice"),
    "width": (lambda: DirectAllReduce(UNUSED, [1, 2], 1, 0, shard_bytes=[4, 4], width=2), "width = 2"),
    "release": (
        lambda: DirectAllReduce(UNUSED, [1, 2], 1, 0, shard_bytes=[4, 4], release=UNKNOWN),
        "release = 'mean'",
    ),
    "shards": (lambda: DirectAllReduce(UNUSED, [1, 2], 1, 0, shard_bytes=[4]), "2 positive lengths"),
    "both": (lambda: DirectAllReduce(UNUSED, [1, 2], 1, 0), "exactly one of"),
    "dtype": (lambda: DirectAllReduce(UNUSED, [1, 2], 1, 0, values=DOUBLES), "float64"),
    "policy": (lambda: ForgivenPolicy(UNKNOWN), "reduce_scatter = 'mean'"),
    "p": (lambda: Shedding(1, 2_000_000), "p_ppm = 2000000"),
    "key": (lambda: MessageKey.parse("1.2.3"), "'1.2.3'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_argument_is_one_line_that_names_it(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_message_key_text_round_trips() -> None:
    key = MessageKey(12, 3, 40, 5)
    assert MessageKey.parse(str(key)) == key


def test_sending_without_an_offer_names_the_rank() -> None:
    messages = TransportMessages(None, 0, {1: "10.0.0.2"})  # type: ignore[arg-type]
    with pytest.raises(CollectiveError, match="rank 1 has not offered"):
        messages.send(MessageKey(0, 0, 1, 0), length_bytes=10, data=None, traffic_class=TrafficClass.DATA)


def packets_of(sim: Simulation) -> list[OutgoingPacket]:
    return [packet for _, packet in sim.sent]


def test_direct_all_reduce_without_payload_moves_the_same_bytes() -> None:
    """2,136,230-byte messages are no whole number of floats: lengths are free where no payload is carried."""
    sim = Simulation(4, lambda n: config_for(n, payload_bytes=4096), lambda packet: Fate())
    run(
        sim,
        lambda layer, rank: DirectAllReduce(
            layer, list(range(4)), rank, 0, shard_bytes=[213_623] * 4, width=2
        ),
    )
    assert sum(p.payload_bytes for p in packets_of(sim)) == 4 * 6 * 213_623
    assert all(p.payload is None for p in packets_of(sim))
