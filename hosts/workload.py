# SPDX-License-Identifier: Apache-2.0
"""The steps of a training job as the paper's study ran them: a chain of computing and all-reduces per rank,
without payload and without a barrier. Driven by a clock and by completions of messages, so it runs over
anything that has both.

    job = TrainingJob(clock, messages, study, observer=..., shedding=...)
    job.start()
    clock.run()
    job.finished, job.records

`profiles.Study` says what a step is made of. A rank goes on as soon as it has received all of an all-reduce;
its own last messages may still be on their way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from hosts.collectives import DirectAllReduce, RingAllReduce
from hosts.endpoint import TrafficClass
from hosts.messages import Arrival, Collective, CollectiveError, MessageKey, MessageLayer
from hosts.shedding import Shedding, splitmix64
from profiles import Burst, Study

Action: TypeAlias = Callable[[], object]

REDUCING_PASSES = 3
"""What is reduced is written once and read twice."""

_DP_SEQUENCE = 1 << 16
_BURST_SEQUENCE = 1 << 20


class Clock(Protocol):
    """Simulated or real time, ns."""

    @property
    def now_ns(self) -> int: ...
    def after(self, delay_ns: int, callback: Action) -> object:
        """Call back later, once whoever asks has returned."""


class Layer(MessageLayer, Protocol):
    """A rank's end of the messages, for one collective."""

    def serve(self, collective: Collective) -> None:
        """From now on, completions of what goes through this layer are told to `collective`."""


class Messages(Protocol):
    """Of all ranks. A message may be sent before its receiver expects it, and waits there."""

    def layer(self, rank: int) -> Layer: ...


class Kind(enum.StrEnum):
    """What a message or an all-reduce is part of."""

    TENSOR = "tp"
    GRADIENT = "dp"
    BURST = "burst"


def kind_of(key: MessageKey) -> Kind:
    """By the numbers that a `TrainingJob` gives its messages."""
    if key.sequence < _DP_SEQUENCE:
        return Kind.TENSOR
    return Kind.GRADIENT if key.sequence < _BURST_SEQUENCE else Kind.BURST


class Observer:
    """Told of what the control plane must do, before it is too late. Ranks from 0, steps from 1.

    All of it at a standing clock. This one does nothing.
    """

    def step_opens(self, ranks: Sequence[int], step: int, expected_bytes: int) -> None:
        """Gradient messages of the step will now come to these ranks, `expected_bytes` to each (the paper:
        OnStepBegin). Once per rank and step, before the rank sends or is sent anything of it.
        """

    def step_closes(self, rank: int, step: int) -> None:
        """The rank has all its gradient bytes (OnAllReduceComplete)."""

    def step_ends(self, rank: int, step: int) -> None:
        """None of the step's gradient messages to this rank is in flight; after `step_closes`."""

    def rank_done(self, rank: int) -> None:
        """The rank has finished its last step."""


@dataclass(frozen=True, slots=True)
class Record:
    """One all-reduce of one rank, or one flow of the burst (rank: its source).

    index: which of its kind in the step. start: its first message could be sent. end: everything had come; of
    a burst's flow, its sender had the last acknowledgement. missing: bytes forgiven or given up by senders;
    shed: those given up by senders.
    """

    rank: int
    step: int
    kind: Kind
    index: int
    start_ns: int
    end_ns: int
    missing_bytes: int = 0
    shed_bytes: int = 0


def streams_of(all_reduce_bytes: int, streams: int) -> int:
    """How many streams an all-reduce is run as: one more for a remainder, of full length like the others."""
    return -(-all_reduce_bytes // (all_reduce_bytes // streams))


def message_bytes(all_reduce_bytes: int, streams: int, ranks: int) -> int:
    """Of every message of an all-reduce."""
    return all_reduce_bytes // streams // ranks


class _AllReduce(Protocol):
    """What `RingAllReduce` and `DirectAllReduce` have in common."""

    @property
    def received_all(self) -> bool: ...
    @property
    def finished(self) -> bool: ...
    def expect(self) -> None: ...
    def start(self) -> None: ...
    def on_sent(self, key: MessageKey) -> None: ...
    def on_received(self, arrival: Arrival) -> None: ...
    def waiting_for(self) -> str: ...


class _Stream:
    """Stands between a layer and one stream of an all-reduce: takes arrivals as late as the endpoint does."""

    __slots__ = (
        *("_collective", "_delay", "_free_ns", "_in_turn", "_job", "_reduced", "_then"),
        *("missing_bytes", "shed_bytes"),
    )

    def __init__(
        self,
        job: TrainingJob,
        collective: _AllReduce,
        reduced_messages: int,
        delay: int,
        in_turn: bool,
        then: Action,
    ) -> None:
        self._job = job
        self._collective = collective
        self._reduced = reduced_messages
        """How many of the arrivals, the first ones, are reduced, which takes `delay` ns longer."""
        self._delay = delay
        self._in_turn = in_turn
        """A receive is posted when what the one before released is sent, so that arrivals are taken one after
        the other; else side by side."""
        self._free_ns = job.clock.now_ns + job.study.endpoint_delay_ns  # when the first send goes
        self._then = then
        self.missing_bytes = 0
        self.shed_bytes = 0

    @property
    def finished(self) -> bool:
        return self._collective.finished

    def waiting_for(self) -> str:
        return self._collective.waiting_for()

    def on_sent(self, key: MessageKey) -> None:
        self._collective.on_sent(key)
        if key.sequence >= _DP_SEQUENCE:
            self._job._gradient_settled(key)

    def on_received(self, arrival: Arrival) -> None:
        delay = self._job.study.endpoint_delay_ns
        if self._reduced:
            self._reduced -= 1
            delay += self._delay
        if self._in_turn:
            now = self._job.clock.now_ns
            self._free_ns = max(now, self._free_ns) + delay
            delay = self._free_ns - now
        if delay:
            self._job.clock.after(delay, partial(self._take, arrival))
        else:
            self._take(arrival)

    def _take(self, arrival: Arrival) -> None:
        missing = arrival.missing_bytes
        if missing:
            self.missing_bytes += missing
            if arrival.shed:
                self.shed_bytes += missing
        self._collective.on_received(arrival)
        if self._collective.received_all:
            self._then()


class _Rank:
    """One rank's chain of actions."""

    def __init__(self, job: TrainingJob, rank: int) -> None:
        self.job = job
        self.rank = rank
        width = job.study.tensor_parallel
        first = rank - rank % width
        self.tensor_group = range(first, first + width)
        self.gradient_group = range(rank % width, job.study.ranks, width)
        self.doing = "not started"
        self.running: _Stream | None = None
        self._chain = self._actions()

    def next(self) -> None:
        action = next(self._chain, None)
        if action is None:
            self.doing = "done"
            self.job._rank_done(self.rank)
        else:
            action()

    def _actions(self) -> Iterator[Action]:
        study = self.job.study
        for step in range(1, study.steps + 1):
            for half in range(2 * study.microbatches):
                yield partial(self._compute, step)
                yield partial(self._tensor, step, half)
            yield partial(self._gradient, step)
            yield partial(self._compute, step)

    def _compute(self, step: int) -> None:
        self.doing = f"step {step}: computing"
        self.job.clock.after(self.job.study.compute_ns, self.next)

    def _tensor(self, step: int, index: int) -> None:
        study, group = self.job.study, self.tensor_group
        if len(group) == 1:
            self.next()
            return
        size = message_bytes(study.tp_bytes, study.streams, len(group))
        streams = streams_of(study.tp_bytes, study.streams)
        messages = 2 * (len(group) - 1)

        def make(layer: Layer, stream: int) -> _AllReduce:
            sequence = (index * streams + stream) * messages
            return RingAllReduce(
                layer,
                group,
                self.rank,
                step,
                shard_bytes=size,
                sequence=sequence,
                counted=study.counted_arrivals,
            )

        # Sums are made in the first half only.
        self._run(Kind.TENSOR, step, index, streams, make, len(group) - 1, self.job.reducing_ns(size))

    def _gradient(self, step: int) -> None:
        study, group = self.job.study, self.gradient_group
        size = self.job.gradient_message_bytes
        sizes = [size] * len(group)

        def make(layer: Layer, stream: int) -> _AllReduce:
            return DirectAllReduce(
                layer,
                group,
                self.rank,
                step,
                shard_bytes=sizes,
                width=study.dp_width,
                shedding=self.job.shedding(step),
                sequence=_DP_SEQUENCE + 2 * stream,
                counted=study.counted_arrivals,
            )

        self.job._open(group, step)
        # The study's simulator takes this time for every message of a direct all-reduce.
        reduced = 2 * (len(group) - 1)
        streams = streams_of(study.dp_bytes, study.streams)
        self._run(Kind.GRADIENT, step, 0, streams, make, reduced, self.job.reducing_ns(size))

    def _run(
        self,
        kind: Kind,
        step: int,
        index: int,
        streams: int,
        make: Callable[[Layer, int], _AllReduce],
        reduced: int,
        reducing_ns: int,
    ) -> None:
        """Streams one after another, then the next action."""
        job = self.job
        start_ns = job.clock.now_ns
        missing = shed = 0
        number = 0

        def begin() -> None:
            self.doing = f"step {step}: {kind} all-reduce {index}, stream {number}"
            layer = job.messages.layer(self.rank)
            collective = make(layer, number)
            in_turn = kind is Kind.TENSOR
            self.running = _Stream(job, collective, reduced, reducing_ns, in_turn, done)
            layer.serve(self.running)
            collective.expect()
            if job.study.endpoint_delay_ns:
                job.clock.after(job.study.endpoint_delay_ns, partial(launch, collective))
            else:
                launch(collective)

        def launch(collective: _AllReduce) -> None:
            if kind is Kind.GRADIENT:
                job._first_gradient(step)
            collective.start()

        def done() -> None:
            nonlocal number, missing, shed
            assert self.running is not None
            missing += self.running.missing_bytes
            shed += self.running.shed_bytes
            number += 1
            if number < streams:
                begin()
                return
            self.running = None
            job.records.append(
                Record(self.rank, step, kind, index, start_ns, job.clock.now_ns, missing, shed)
            )
            if kind is Kind.GRADIENT:
                job._gradient_received(self.rank, step)
            self.next()

        begin()


class _BurstFlow:
    """A message of the burst; serves both of its ends."""

    def __init__(self, job: TrainingJob, burst: Burst, index: int, source: int) -> None:
        self._job = job
        self._index = index
        self._start_ns = job.clock.now_ns
        self._settled = self._arrived = False
        self.key = MessageKey(burst.step, source, burst.receiver, _BURST_SEQUENCE + index)
        sender, receiver = job.messages.layer(source), job.messages.layer(burst.receiver)
        for layer in (receiver, sender):
            layer.serve(self)
        size = burst.message_bytes
        receiver.expect(self.key, length_bytes=size, buffer=None, traffic_class=TrafficClass.DATA)
        sender.send(self.key, length_bytes=size, data=None, traffic_class=TrafficClass.DATA)

    @property
    def finished(self) -> bool:
        return self._settled and self._arrived

    def waiting_for(self) -> str:
        return f"burst from rank {self.key.source}"

    def on_sent(self, key: MessageKey) -> None:
        self._settled = True
        self._job.records.append(
            Record(key.source, key.step, Kind.BURST, self._index, self._start_ns, self._job.clock.now_ns)
        )
        self._job._check_finished()

    def on_received(self, arrival: Arrival) -> None:
        if arrival.missing_bytes:
            raise CollectiveError(f"message {arrival.key}: bytes of it are missing: it may not be forgiven")
        self._arrived = True
        self._job._check_finished()


def _sheds_nothing(step: int) -> Shedding | None:
    return None


class TrainingJob:
    """All ranks of a study.

    messages: its layers take a collective each. shedding: by step, what its senders give up. on_finished:
    called once, when every rank has done its last step and the burst has drained.
    """

    def __init__(
        self,
        clock: Clock,
        messages: Messages,
        study: Study,
        *,
        observer: Observer | None = None,
        shedding: Callable[[int], Shedding | None] = _sheds_nothing,
        on_finished: Action = lambda: None,
    ) -> None:
        self.clock = clock
        self.messages = messages
        self.study = study
        self.shedding = shedding
        self.records: list[Record] = []
        """In order of their ends."""
        self.rank_end_ns: dict[int, int] = {}
        """When each rank finished; the largest is the training time of a job started at 0."""
        self.gradient_message_bytes = message_bytes(study.dp_bytes, study.streams, study.data_parallel)
        peers = study.data_parallel - 1
        self._gradient_messages = 2 * peers * streams_of(study.dp_bytes, study.streams)
        self._observer = observer or Observer()
        self._on_finished = on_finished
        self._ranks = [_Rank(self, rank) for rank in range(study.ranks)]
        self._opened: set[tuple[int, int]] = set()
        self._received: set[tuple[int, int]] = set()
        self._unsettled: dict[tuple[int, int], int] = {}
        self._burst: list[_BurstFlow] | None = None

    @property
    def expected_bytes(self) -> int:
        """Gradient bytes that a step brings to each rank (the paper: ExpectedGradientBytes)."""
        return self._gradient_messages * self.gradient_message_bytes

    @property
    def finished(self) -> bool:
        return len(self.rank_end_ns) == len(self._ranks) and all(f.finished for f in self._burst or ())

    def start(self) -> None:
        """All ranks begin their first step now, or within the study's `start_spread_ns`."""
        spread = self.study.start_spread_ns
        for rank in self._ranks:
            if spread:
                self.clock.after(splitmix64(rank.rank) % spread, rank.next)
            else:
                rank.next()

    def reducing_ns(self, size: int) -> int:
        """How long the memory takes to reduce a message, ns."""
        bandwidth = self.study.memory_gb_per_second
        return REDUCING_PASSES * (size // bandwidth) if bandwidth else 0

    def waiting_for(self) -> str:
        """What unfinished ranks and flows are doing, one line."""
        parts = [
            f"rank {r.rank}: {r.doing}" + (f" ({r.running.waiting_for()})" if r.running else "")
            for r in self._ranks
            if r.rank not in self.rank_end_ns
        ]
        parts += [flow.waiting_for() for flow in self._burst or () if not flow.finished]
        return "; ".join(parts) or "nothing"

    def message_lengths(self) -> Mapping[Kind, int]:
        """Bytes of a message of each kind, whole."""
        study = self.study
        tensor = message_bytes(study.tp_bytes, study.streams, study.tensor_parallel)
        burst = study.burst.message_bytes if study.burst else 0
        return {Kind.TENSOR: tensor, Kind.GRADIENT: self.gradient_message_bytes, Kind.BURST: burst}

    def planned_messages(self) -> int:
        """Of a whole run, all ranks."""
        study = self.study
        ring = 2 * (study.tensor_parallel - 1) * streams_of(study.tp_bytes, study.streams)
        step = 2 * study.microbatches * ring + self._gradient_messages
        burst = study.burst
        if burst is None or burst.step > study.steps:
            return study.ranks * study.steps * step
        return study.ranks * study.steps * step + burst.sources - (burst.receiver < burst.sources)

    # --- what ranks report

    def _open(self, group: Sequence[int], step: int) -> None:
        ranks = [rank for rank in group if (rank, step) not in self._opened]
        if ranks:
            self._opened.update((rank, step) for rank in ranks)
            self._unsettled.update(((rank, step), self._gradient_messages) for rank in ranks)
            self._observer.step_opens(ranks, step, self.expected_bytes)

    def _first_gradient(self, step: int) -> None:
        burst = self.study.burst
        if burst is None or self._burst is not None or step != burst.step:
            return
        sources = [rank for rank in range(burst.sources) if rank != burst.receiver]
        self._burst = [_BurstFlow(self, burst, i, source) for i, source in enumerate(sources)]

    def _gradient_received(self, rank: int, step: int) -> None:
        self._received.add((rank, step))
        self._observer.step_closes(rank, step)
        self._check_ended(rank, step)

    def _gradient_settled(self, key: MessageKey) -> None:
        self._unsettled[key.destination, key.step] -= 1
        self._check_ended(key.destination, key.step)

    def _check_ended(self, rank: int, step: int) -> None:
        if not self._unsettled[rank, step] and (rank, step) in self._received:
            self._observer.step_ends(rank, step)

    def _rank_done(self, rank: int) -> None:
        self.rank_end_ns[rank] = self.clock.now_ns
        self._observer.rank_done(rank)
        self._check_finished()

    def _check_finished(self) -> None:
        if self.finished:
            self._on_finished()
