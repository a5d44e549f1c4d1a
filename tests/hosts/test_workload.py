# SPDX-License-Identifier: Apache-2.0
"""The study's steps over a network without queues: how many messages and bytes, in which order, how long at
least, and what the control plane is told."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.collectives import DirectAllReduce, RingAllReduce
from hosts.endpoint import TrafficClass
from hosts.messages import Arrival, MessageKey
from hosts.shedding import PLACEHOLDER_BYTES, Shedding
from hosts.workload import Kind, Observer, TrainingJob, kind_of, message_bytes, streams_of
from profiles import Study, load
from tests.hosts.ideal import IdealClock, IdealLayer, IdealMessages, Sending


def study(**changes: Any) -> Study:
    profile = load("paper").override({f"study.{name}": value for name, value in changes.items()})
    assert profile.study is not None
    return profile.study


def small(**changes: Any) -> Study:
    """4 x 4 ranks, 3 steps, short messages, no burst."""
    few = {
        "tensor_parallel": 4, "data_parallel": 4, "steps": 3, "dp_width": 3, "tp_bytes": 1 << 16,
        "dp_bytes": 100_003, "compute_ns": 1_000, "critical_steps": [1], "burst": None,
    }  # fmt: skip
    return study(**(few | changes))


def random_times(seed: int) -> Callable[[MessageKey, int], int]:
    draws = random.Random(seed)
    return lambda key, length: draws.randrange(100, 50_000)


def run(
    what: Study,
    time_ns: Callable[[MessageKey, int], int] = lambda key, length: 1_000,
    *,
    keep: bool = True,
    **job: Any,
) -> tuple[TrainingJob, IdealMessages]:
    clock = IdealClock()
    messages = IdealMessages(clock, time_ns, keep)
    finished: list[int] = []
    workload = TrainingJob(clock, messages, what, on_finished=lambda: finished.append(clock.now_ns), **job)
    workload.start()
    clock.run()
    assert workload.finished and len(finished) == 1, workload.waiting_for()
    assert workload.waiting_for() == "nothing"
    assert not messages.expected and not messages.waiting
    return workload, messages


def of_kind(log: Sequence[Sending], kind: Kind) -> list[Sending]:
    return [item for item in log if kind_of(item.key) is kind]


# --- the table of EXPERIMENT.md, section 2


def test_sizes_of_the_study() -> None:
    paper = study()
    assert streams_of(paper.tp_bytes, paper.streams) == 4
    assert streams_of(paper.dp_bytes, paper.streams) == 5
    assert message_bytes(paper.tp_bytes, 4, 8) == 2_097_152 == 512 * 4096
    assert message_bytes(paper.dp_bytes, 4, 8) == 2_136_230 == 521 * 4096 + 2_214
    messages = IdealMessages(IdealClock(), lambda key, length: 1)
    assert TrainingJob(messages.clock, messages, paper).expected_bytes == 149_536_100


def test_messages_and_bytes_of_a_step_of_a_rank() -> None:
    job, messages = run(study(steps=1))
    tensor, gradient = of_kind(messages.log, Kind.TENSOR), of_kind(messages.log, Kind.GRADIENT)
    assert len(messages.log) == 64 * (224 + 70)
    for end in ("source", "destination"):
        assert set(Counter(getattr(m.key, end) for m in tensor).values()) == {224}
        assert set(Counter(getattr(m.key, end) for m in gradient).values()) == {70}
    assert set(Counter((m.key.source, m.key.destination) for m in gradient).values()) == {10}
    assert sum(m.length_bytes for m in tensor) == 30_064_771_072
    assert sum(m.length_bytes for m in gradient) == 9_570_310_400
    assert {m.traffic_class for m in tensor} == {TrafficClass.DATA}
    assert {m.traffic_class for m in gradient} == {TrafficClass.GRADIENT}
    # Rings stay in a leaf, gradients always leave it.
    assert all(m.key.source // 8 == m.key.destination // 8 for m in tensor)
    assert all(m.key.source % 8 == m.key.destination % 8 for m in gradient)
    assert Counter(r.kind for r in job.records) == {Kind.TENSOR: 64 * 4, Kind.GRADIENT: 64}
    assert job.planned_messages() == len(messages.log)
    assert {(kind_of(m.key), m.length_bytes) for m in messages.log} <= set(job.message_lengths().items())


def test_messages_and_bytes_of_a_run() -> None:
    job, messages = run(study(), keep=False)
    assert messages.messages == 376_327 == job.planned_messages()
    assert messages.bytes == 793_641_153_536
    burst = [r for r in job.records if r.kind is Kind.BURST]
    assert sorted(r.rank for r in burst) == list(range(7))
    first = min(r.start_ns for r in job.records if r.kind is Kind.GRADIENT and r.step == 18)
    assert {r.start_ns for r in burst} == {first + 10}


# --- order


def test_the_chain_of_a_rank_without_a_network_is_as_long_as_its_parts() -> None:
    what = study(steps=2, burst=None)
    job, _ = run(what, lambda key, length: length // 50)  # 400 Gb/s
    tensor, gradient = 2_097_152, 2_136_230
    ring = 10 + 14 * (tensor // 50 + 10) + 7 * 3 * (tensor // 1600)
    direct = 10 + 2 * (gradient // 50 + 10 + 3 * (gradient // 1600))
    step = 5 * 5_376_000 + 4 * 4 * ring + 5 * direct
    assert set(job.rank_end_ns.values()) == {2 * step}
    assert len(job.rank_end_ns) == 64
    for record in job.records:
        length = 5 * direct if record.kind is Kind.GRADIENT else 4 * ring
        assert record.end_ns - record.start_ns == length


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30), counted=st.booleans())
def test_a_rank_does_one_thing_after_the_other(seed: int, counted: bool) -> None:
    what = small(counted_arrivals=counted)
    job, messages = run(what, random_times(seed))
    for rank in range(what.ranks):
        rows = [r for r in job.records if r.rank == rank]
        expected = [
            (step, kind, index)
            for step in (1, 2, 3)
            for kind, index in [(Kind.TENSOR, i) for i in range(4)] + [(Kind.GRADIENT, 0)]
        ]
        assert [(r.step, r.kind, r.index) for r in rows] == expected
        now = 0
        for row in rows:
            now += what.compute_ns
            if row.kind is Kind.GRADIENT:  # follows the last ring at once
                now -= what.compute_ns
            assert row.start_ns == now
            now = row.end_ns
            if row.kind is Kind.GRADIENT:
                now += what.compute_ns  # the optimizer, then the next step's first
        assert job.rank_end_ns[rank] == now
    sent = Counter((m.key.source, kind_of(m.key)) for m in messages.log)
    assert set(sent.values()) == {3 * 4 * 4 * 6, 3 * 5 * 6}


def test_a_rank_goes_on_while_its_own_last_message_is_on_its_way() -> None:
    """Rank 0's all-gather is late at rank 1; rank 0 itself has long finished."""
    what = small(tensor_parallel=1, data_parallel=2, dp_width=1, steps=1, microbatches=0)
    slow = lambda key, length: 90_000 if key.source == 0 and key.sequence % 2 else 1_000  # noqa: E731
    job, _ = run(what, slow)
    first, second = (next(r for r in job.records if r.rank == rank) for rank in (0, 1))
    assert second.end_ns - first.end_ns > 80_000


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30), width=st.integers(1, 5))
def test_no_more_sends_than_the_width_allows(seed: int, width: int) -> None:
    """Posted messages of a phase never exceed the width plus what has come of it; peers in ring order."""
    what = small(
        tensor_parallel=1, data_parallel=6, dp_width=width, steps=2, microbatches=0, counted_arrivals=False,
        endpoint_delay_ns=0, memory_gb_per_second=0,
    )  # fmt: skip
    _, messages = run(what, random_times(seed))
    by_phase: dict[tuple[int, int, int], list[Sending]] = defaultdict(list)
    for message in messages.log:
        by_phase[message.key.source, message.key.step, message.key.sequence].append(message)
    arrived: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for message in messages.log:
        arrived[message.key.destination, message.key.step, message.key.sequence].append(message.done_ns)
    for (rank, step, sequence), sends in by_phase.items():
        assert [m.key.destination for m in sends] == [(rank + k) % 6 for k in range(1, 6)]
        came = sorted(arrived[rank, step, sequence])
        for number, message in enumerate(sends):
            assert number < width + sum(time <= message.sent_ns for time in came)
        if sequence % 2:  # an all-gather: everything of the reduce-scatter has come
            assert sends[0].sent_ns >= max(arrived[rank, step, sequence - 1])
            assert sum(m.sent_ns == sends[0].sent_ns for m in sends) >= min(width, 5)


def test_an_arrival_counts_for_the_phase_that_waits_for_its_peer() -> None:
    """A peer's all-gather overtakes its reduce-scatter: counted, it stands for it; by name, it does not."""

    class Log:
        def __init__(self) -> None:
            self.sent: list[MessageKey] = []

        def expect(self, key: MessageKey, **_: Any) -> None: ...

        def send(self, key: MessageKey, **_: Any) -> None:
            self.sent.append(key)

    for counted, gathers in ((True, 2), (False, 0)):
        log = Log()
        rank = DirectAllReduce(log, (0, 1, 2), 0, 1, shard_bytes=[8] * 3, counted=counted)
        rank.expect()
        rank.start()
        for source, sequence in ((1, 1), (2, 0)):
            rank.on_received(Arrival(MessageKey(1, source, 0, sequence), 8, ()))
        assert sum(key.sequence == 1 for key in log.sent) == gathers
        for source, sequence in ((1, 0), (2, 1)):
            rank.on_received(Arrival(MessageKey(1, source, 0, sequence), 8, ()))
        assert rank.received_all
        assert sum(key.sequence == 1 for key in log.sent) == 2
    with pytest.raises(ValueError, match="counted: only without values"):
        DirectAllReduce(Log(), (0, 1), 0, 1, values=np.zeros(4, np.float32), counted=True)


# --- the control plane


class Watch(Observer):
    def __init__(self) -> None:
        self.open: dict[tuple[int, int], int] = {}
        self.closed: list[tuple[int, int]] = []
        self.ended: list[tuple[int, int]] = []
        self.done: list[int] = []
        self.settled: Counter[tuple[int, int]] = Counter()

    def step_opens(self, ranks: Sequence[int], step: int, expected_bytes: int) -> None:
        for rank in ranks:
            assert (rank, step) not in self.open
            self.open[rank, step] = expected_bytes

    def step_closes(self, rank: int, step: int) -> None:
        assert (rank, step) in self.open and (rank, step) not in self.closed
        self.closed.append((rank, step))

    def step_ends(self, rank: int, step: int) -> None:
        assert (rank, step) in self.closed and (rank, step) not in self.ended
        self.ended.append((rank, step))

    def rank_done(self, rank: int) -> None:
        self.done.append(rank)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 30), width=st.integers(1, 3))
def test_steps_open_before_their_first_message_and_end_after_their_last(seed: int, width: int) -> None:
    what = small(dp_width=width)
    clock = IdealClock()
    flying: Counter[tuple[int, int]] = Counter()
    draws = random.Random(seed)

    def time_ns(key: MessageKey, length: int) -> int:
        time = draws.randrange(100, 50_000)
        if kind_of(key) is Kind.GRADIENT:
            for rank in (key.source, key.destination):
                assert (rank, key.step) in watch.open and (rank, key.step) not in watch.ended
            assert (key.destination, key.step) not in watch.closed
            flying[key.destination, key.step] += 1
            clock.after(time - 1, lambda: flying.subtract([(key.destination, key.step)]))
        return time

    class Checking(Watch):
        def step_ends(self, rank: int, step: int) -> None:
            super().step_ends(rank, step)
            assert flying[rank, step] == 0

    watch = Checking()
    job = TrainingJob(clock, IdealMessages(clock, time_ns), what, observer=watch)
    job.start()
    clock.run()
    everything = {(rank, step) for rank in range(16) for step in (1, 2, 3)}
    assert set(watch.open) == set(watch.closed) == set(watch.ended) == everything
    assert set(watch.open.values()) == {5 * 2 * 3 * (100_003 // 4 // 4)}
    assert sorted(watch.done) == list(range(16))


# --- what senders give up


def test_shed_messages_are_placeholders_and_what_a_low_probability_sheds_a_high_one_sheds_too() -> None:
    what = small(steps=20, critical_steps=[1, 2, 3, 20])
    shed: dict[str, set[MessageKey]] = {}
    low, high = 5_000, 100_000
    schedules: dict[str, Callable[[int], int]] = {
        "tight": lambda step: low,
        "by phase": lambda step: low if step in what.critical_steps else high,
        "loose": lambda step: high,
    }
    for name, p_ppm in schedules.items():
        job, messages = run(what, shedding=lambda step, p=p_ppm: Shedding(7, p(step)))
        gradient = of_kind(messages.log, Kind.GRADIENT)
        placeholders = {m.key for m in gradient if m.length_bytes == PLACEHOLDER_BYTES}
        assert all(m.traffic_class is TrafficClass.DATA for m in gradient if m.key in placeholders)
        assert len(gradient) == 20 * 16 * 30
        lost = sum(r.missing_bytes for r in job.records)
        assert (
            lost == sum(r.shed_bytes for r in job.records) == len(placeholders) * job.gradient_message_bytes
        )
        shed[name] = placeholders
    assert shed["tight"] < shed["by phase"] < shed["loose"]
    assert shed["by phase"] == {
        k for k in shed["loose"] if k.step not in what.critical_steps or k in shed["tight"]
    }
    share = len(shed["loose"]) / (20 * 16 * 30)
    assert share == pytest.approx(0.1, abs=0.02)


def test_what_is_still_missing_is_said() -> None:
    clock = IdealClock()

    class Losing(IdealMessages):
        def send(self, layer: IdealLayer, key: MessageKey, length: int, traffic_class: TrafficClass) -> None:
            if key.source != 5 or kind_of(key) is not Kind.GRADIENT:
                super().send(layer, key, length, traffic_class)

    messages = Losing(clock, lambda key, length: 1_000)
    job = TrainingJob(clock, messages, small())
    assert "rank 0: not started" in job.waiting_for()
    job.start()
    clock.run()
    assert not job.finished
    waiting = "rank 1: step 1: dp all-reduce 0, stream 0 (step 1: reduce_scatter from ranks [5]"
    assert waiting in job.waiting_for()


def test_a_late_rank_of_a_ring_sends_what_waits_at_once() -> None:
    """A rank that begins late finds its neighbour's messages there, and each of them releases one of its own:
    they leave together. By number, a message waits for those before it; counted, it does not."""

    class Log:
        def __init__(self) -> None:
            self.sent: list[int] = []

        def expect(self, key: MessageKey, **_: Any) -> None: ...

        def send(self, key: MessageKey, **_: Any) -> None:
            self.sent.append(key.sequence)

    for counted, after_one in ((True, 2), (False, 1)):
        log = Log()
        ring = RingAllReduce(log, (0, 1, 2, 3), 0, 1, shard_bytes=8, counted=counted)
        ring.expect()
        ring.start()
        assert log.sent == [0]
        ring.on_received(Arrival(MessageKey(1, 3, 0, 1), 8, ()))  # the second comes first
        assert len(log.sent) == after_one
        for number in (0, 2, 3):
            ring.on_received(Arrival(MessageKey(1, 3, 0, number), 8, ()))
        assert log.sent == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="counted: only without values"):
        RingAllReduce(Log(), (0, 1), 0, 1, values=np.zeros(4, np.float32), counted=True)


def test_a_ring_takes_what_waits_one_after_the_other() -> None:
    """Rank 0 begins its ring late; what it then sends is as far apart as it takes to reduce a message."""
    what = small(
        tensor_parallel=4, steps=1, microbatches=1, streams=1, tp_bytes=4 * 16_000, memory_gb_per_second=16,
        endpoint_delay_ns=10, compute_ns=0,
    )  # fmt: skip
    clock = IdealClock()
    messages = IdealMessages(clock, lambda key, length: 1_000)
    job = TrainingJob(clock, messages, what)
    late = job._ranks[0]
    for rank in job._ranks[1:]:
        rank.next()
    clock.after(1_000_000, late.next)
    clock.run()
    assert job.finished
    sent = [m.sent_ns for m in messages.log if m.key.source == 0 and m.key.sequence < 6]
    # Three of its neighbour's messages were there already: all in the half that is reduced.
    gaps = [b - a for a, b in itertools.pairwise(sent[:4])]
    assert gaps == [10 + 3 * 1_000] * 3


def test_ranks_begin_apart_when_asked_to() -> None:
    begins = []
    for spread in (0, 1_000, 50_000):
        job, _ = run(small(steps=1, start_spread_ns=spread))
        first = [min(r.start_ns for r in job.records if r.rank == rank) for rank in range(16)]
        begins.append([time - 1_000 for time in first])
    assert set(begins[0]) == {0}
    for spread, times in ((1_000, begins[1]), (50_000, begins[2])):
        assert all(0 <= time < spread for time in times)
        assert len(set(times)) > 8
