# SPDX-License-Identifier: Apache-2.0
"""What a host of a training run does in each step, whoever carries its messages and whatever clock runs.

A data-parallel rank computes gradients of a real model, lets its detector speak, and all-reduces them; the
other hosts carry ring traffic that is never eligible. `hosts.rank` is a process around this, on a real
network; a simulated fabric runs all hosts of a run in one process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

# One thread each: many ranks share few cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from hosts.collectives import DirectAllReduce, ForgivenPolicy, RingAllReduce
from hosts.config import DcqcnConfig, TransportConfig
from hosts.coordination import Bye, Offer, StepBegin, StepDone
from hosts.detector import NormChangeDetector, Verdict
from hosts.messages import Arrival, FloatArray, MessageKey, MessageLayer
from hosts.shedding import Shedding
from hosts.training import Batches, Digits, Mlp, Sgd

NO_CHANGE_KNOWN = 1e308
"""Stands for infinity in JSON."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """The run's file. hosts: name -> (number, IPv4 address); numbers name messages' ends.

    group, ring: names of the data-parallel ranks and of the hosts with ring traffic, in order.
    ring_bytes: of one ring message. transport: fields of TransportConfig but the address.
    shed_low_ppm, shed_high_ppm: sender-side shedding on critical and other steps; 0: none.
    keep_arrays: save every gradient and every result for recounting.
    """

    hosts: dict[str, tuple[int, str]]
    group: list[str]
    ring: list[str]
    ring_bytes: int
    steps: int
    seed: int
    hidden: int
    batch: int
    learning_rate: float
    momentum: float
    detector_threshold: float
    detector_window: int
    reduce_scatter_fill: str
    all_gather_fill: str
    shed_low_ppm: int
    shed_high_ppm: int
    transport: dict[str, Any]
    dcqcn: dict[str, Any] | None
    data: str
    socket: str
    directory: str
    keep_arrays: bool

    @classmethod
    def load(cls, path: Path) -> RunFile:
        """Raises ValueError naming the file, OSError."""
        try:
            fields = json.loads(path.read_text())
            fields["hosts"] = {name: (int(n), str(ip)) for name, (n, ip) in fields["hosts"].items()}
            run = cls(**fields)
            strangers = sorted(({*run.group, *run.ring}) - run.hosts.keys())
            if strangers:
                raise ValueError(f"{', '.join(strangers)}: in group or ring, but not in hosts")
        except KeyError as problem:
            raise ValueError(f"{path}: no {problem.args[0]}") from None
        except (ValueError, TypeError, AttributeError) as problem:
            raise ValueError(f"{path}: {problem}") from None
        return run

    def save(self, path: Path) -> None:
        """Read by `load`."""
        path.write_text(json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__}))

    def transport_config(self, host: str) -> TransportConfig:
        """Of one host. Raises ValueError."""
        try:
            dcqcn = DcqcnConfig(**self.dcqcn) if self.dcqcn is not None else None
            return TransportConfig(address=self.hosts[host][1], dcqcn=dcqcn, **self.transport)
        except TypeError as problem:
            raise ValueError(f"transport or dcqcn: {problem}") from None

    def numbers(self, names: Sequence[str]) -> list[int]:
        """Of hosts, as they stand in message keys."""
        return [self.hosts[name][0] for name in names]


StepCollective: TypeAlias = DirectAllReduce | RingAllReduce


@dataclass(frozen=True)
class Work:
    """A host's part in a step, its receives posted. gradient: as computed, of a training rank.

    lengths: of the messages it expects, by key.
    """

    host: str
    step: int
    collective: StepCollective
    lengths: Mapping[MessageKey, int]
    gradient: FloatArray | None = None
    verdict: Verdict | None = None
    loss: float = 0.0

    def begin(self, queue_pairs: Mapping[MessageKey, int], names: Mapping[int, str]) -> StepBegin:
        """What the host says before the step. names: of hosts by number."""
        direct = isinstance(self.collective, DirectAllReduce)
        offers: dict[str, list[Offer]] = {}
        for key, qp in queue_pairs.items():
            offer = Offer(str(key), qp, self.lengths[key], direct)
            offers.setdefault(names[key.source], []).append(offer)
        verdict = self.verdict
        return StepBegin(
            host=self.host,
            step=self.step,
            critical=verdict.critical if verdict else False,
            norm=verdict.norm if verdict else -1.0,
            change=min(verdict.change, NO_CHANGE_KNOWN) if verdict else 0.0,
            expected_bytes=self.collective.expected_bytes
            if isinstance(self.collective, DirectAllReduce)
            else 0,
            offers=offers,
        )


class HostCounts(Protocol):
    """What a step's report takes from a host's statistics."""

    @property
    def first_bytes(self) -> int: ...
    @property
    def retransmitted_bytes(self) -> int: ...
    @property
    def rtos(self) -> int: ...
    @property
    def rate_cuts(self) -> int: ...
    @property
    def signals(self) -> int: ...


class RunningStep:
    """A step between its start and its report: passes completions on to the collective, and keeps count.

    now_ns: the clock. on_received_all(time): the last byte that the step brings this host is settled.
    """

    def __init__(
        self,
        work: Work,
        now_ns: Callable[[], int],
        on_received_all: Callable[[int], None],
        before: HostCounts,
    ) -> None:
        self.work = work
        self._collective = work.collective
        self._now_ns = now_ns
        self._on_received_all = on_received_all
        self._before = before
        self._completions: list[int] = []
        self._shed: list[str] = []
        self._forgiven = self._shed_bytes = self._end_ns = 0
        self.start_ns = now_ns()

    def start(self) -> None:
        """Send what may be sent."""
        self._collective.start()

    @property
    def finished(self) -> bool:
        return self._collective.finished

    def waiting_for(self) -> str:
        return self._collective.waiting_for()

    def on_sent(self, key: MessageKey) -> None:
        self._collective.on_sent(key)

    def on_received(self, arrival: Arrival) -> None:
        now = self._now_ns()
        self._completions.append(now - self.start_ns)
        if arrival.shed:
            self._shed.append(str(arrival.key))
            self._shed_bytes += arrival.missing_bytes
        else:
            self._forgiven += arrival.missing_bytes
        self._collective.on_received(arrival)
        if self._collective.received_all:
            self._end_ns = now
            self._on_received_all(now)

    def report(self, after: HostCounts) -> StepDone:
        """Once finished. after: the host's counts now."""
        before = self._before
        return StepDone(
            host=self.work.host,
            step=self.work.step,
            start_ns=self.start_ns,
            end_ns=self._end_ns,
            completions_ns=self._completions,
            forgiven_bytes=self._forgiven,
            shed_bytes=self._shed_bytes,
            shed=self._shed,
            sent_bytes=after.first_bytes - before.first_bytes,
            retransmitted_bytes=after.retransmitted_bytes - before.retransmitted_bytes,
            timeouts=after.rtos - before.rtos,
            rate_cuts=after.rate_cuts - before.rate_cuts,
            signals=after.signals - before.signals,
            loss=self.work.loss,
        )


class Job(Protocol):
    """What one host does, step by step."""

    def begin(self, layer: MessageLayer, step: int) -> Work:
        """Compute, and post the step's receives."""

    def end(self, work: Work) -> None:
        """The step's collective is finished."""

    def bye(self) -> Bye:
        """After the last step."""


class TrainingJob:
    """Data-parallel stochastic gradient descent on one rank."""

    def __init__(self, run: RunFile, host: str) -> None:
        """Raises ValueError, OSError."""
        self._run = run
        self._host = host
        self._group = run.numbers(run.group)
        self._number = run.hosts[host][0]
        self._index = run.group.index(host)
        self._data = Digits.open(Path(run.data))
        self._model = Mlp(run.hidden, run.seed)
        self._optimizer = Sgd(run.learning_rate, run.momentum)
        images, labels = self._data.shard(self._index, len(self._group))
        self._batches = Batches(images, labels, min(run.batch, len(labels)), run.seed + 1000 + self._index)
        self._detector = NormChangeDetector(run.detector_threshold, run.detector_window)
        self._policy = ForgivenPolicy(run.reduce_scatter_fill, run.all_gather_fill)  # type: ignore[arg-type]
        self._directory = Path(run.directory)
        self._loss = 0.0

    def begin(self, layer: MessageLayer, step: int) -> Work:
        run = self._run
        self._loss, gradient = self._model.loss_and_gradient(*self._batches.next())
        verdict = self._detector.classify(gradient)
        p_shed = run.shed_low_ppm if verdict.critical else run.shed_high_ppm
        collective = DirectAllReduce(
            layer,
            self._group,
            self._number,
            step,
            values=gradient,
            operation="mean",
            policy=self._policy,
            shedding=Shedding(run.seed, p_shed) if p_shed else None,
        )
        collective.expect()
        shards = dict(zip(self._group, collective.shard_bytes, strict=True))
        lengths = {
            MessageKey(step, peer, self._number, half): shards[peer if half else self._number]
            for peer in self._group
            if peer != self._number
            for half in (0, 1)
        }
        return Work(self._host, step, collective, lengths, gradient, verdict, self._loss)

    def end(self, work: Work) -> None:
        assert isinstance(work.collective, DirectAllReduce)
        reduced = work.collective.result().reduced
        assert reduced is not None and work.gradient is not None
        if self._run.keep_arrays:
            np.save(self._directory / f"gradient-{work.step}-{self._index}.npy", work.gradient)
            np.save(self._directory / f"reduced-{work.step}-{self._index}.npy", reduced)
        self._optimizer.step(self._model.weights, reduced)

    def bye(self) -> Bye:
        np.save(self._directory / f"weights-{self._index}.npy", self._model.weights)
        accuracy = self._model.accuracy(self._data.test_x, self._data.test_y)
        return Bye(self._host, accuracy, self._loss)


class RingJob:
    """Ring traffic: one ring all-reduce's messages per step, without payload of meaning."""

    def __init__(self, run: RunFile, host: str) -> None:
        self._run = run
        self._host = host
        self._group = run.numbers(run.ring)
        self._number = run.hosts[host][0]

    def begin(self, layer: MessageLayer, step: int) -> Work:
        collective = RingAllReduce(layer, self._group, self._number, step, shard_bytes=self._run.ring_bytes)
        collective.expect()
        previous = self._group[(collective.index - 1) % len(self._group)]
        lengths = {
            MessageKey(step, previous, self._number, i): self._run.ring_bytes
            for i in range(collective.messages)
        }
        return Work(self._host, step, collective, lengths)

    def end(self, work: Work) -> None: ...

    def bye(self) -> Bye:
        return Bye(self._host, 0.0, 0.0)


def job_of(run: RunFile, host: str) -> Job:
    """Raises ValueError for a host with nothing to do, and what a job raises."""
    if host in run.group:
        return TrainingJob(run, host)
    if host in run.ring:
        return RingJob(run, host)
    raise ValueError(f"host {host} has nothing to do; it is in neither group nor ring")
