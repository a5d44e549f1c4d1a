# SPDX-License-Identifier: Apache-2.0
"""One host of a training run: `python -m hosts.rank RUN.json HOST`.

A data-parallel rank computes gradients of a real model, lets its detector speak,
and all-reduces them; the other hosts carry ring traffic that is never eligible.
The run's file says which is which; `hosts.coordination` is what is said to the
controller meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

# One thread each: many ranks share few cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from hosts.build import BuildError
from hosts.collectives import DirectAllReduce, ForgivenPolicy, RingAllReduce
from hosts.config import DcqcnConfig, TransportConfig
from hosts.coordination import (
    Bye,
    Go,
    Hello,
    Message,
    Offer,
    ReceiveDone,
    StepBegin,
    StepDone,
    Trouble,
    decode,
    encode,
)
from hosts.detector import NormChangeDetector, Verdict
from hosts.messages import Arrival, CollectiveError, MessageKey, TransportMessages
from hosts.shedding import Shedding
from hosts.training import Batches, Digits, Mlp, Sgd
from hosts.transport import Transport, TransportError

NO_CHANGE_KNOWN = 1e308
"""Stands for infinity in JSON."""

STEP_TIMEOUT_S = 120.0

PACING_PRIORITY = 5
"""Of the thread that paces packets: on a busy machine it would be starved otherwise."""


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


class Controller:
    """The line to the controller."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._lines = self._socket.makefile("rb")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def tell(self, message: Message) -> None:
        self._socket.sendall(encode(message))

    def wait_go(self, step: int) -> Go:
        """Blocks until the step may start. EOFError when the controller is gone."""
        line = self._lines.readline()
        if not line:
            raise EOFError
        message = decode(line)
        if not isinstance(message, Go) or message.step != step:
            raise ValueError(f"waited for step {step} to start, was told {message}")
        return message

    def wait_end(self) -> None:
        """Blocks until the controller hangs up."""
        while self._lines.readline():
            pass


C = TypeVar("C", DirectAllReduce, RingAllReduce)


@dataclass
class Host:
    """What both kinds of host share: messages of a step, and the report of it."""

    run: RunFile
    name: str
    controller: Controller
    transport: Transport
    messages: TransportMessages = field(init=False)

    def __post_init__(self) -> None:
        addresses = dict(self.run.hosts.values())
        self.number = self.run.hosts[self.name][0]
        self._names = {number: name for name, (number, _) in self.run.hosts.items()}
        self.messages = TransportMessages(self.transport, self.number, addresses)

    def numbers(self, names: list[str]) -> list[int]:
        return [self.run.hosts[name][0] for name in names]

    def offers(self, step: int, lengths: dict[int, int], gradient: bool) -> dict[str, list[Offer]]:
        """What this host expects in a step, by sender. lengths: by sender, or by sequence for gradient."""
        found: dict[str, list[Offer]] = {}
        for number, name in self._names.items():
            for key, qp in self.messages.offers(number).items():
                if key.step == step:
                    length = lengths[key.sequence if not gradient else self._shard_of(key)]
                    found.setdefault(name, []).append(Offer(str(key), qp, length, gradient))
        return found

    def _shard_of(self, key: MessageKey) -> int:
        return key.destination if key.sequence == 0 else key.source

    def step(
        self, collective: C, step: int, offers: dict[str, list[Offer]], verdict: Verdict | None, loss: float
    ) -> C:
        """Announce, wait for the go, run to the end, report."""
        expected = collective.expected_bytes if isinstance(collective, DirectAllReduce) else 0
        change = min(verdict.change, NO_CHANGE_KNOWN) if verdict else 0.0
        norm, critical = (verdict.norm, verdict.critical) if verdict else (-1.0, False)
        self.controller.tell(StepBegin(self.name, step, critical, norm, change, expected, offers))
        go = self.controller.wait_go(step)
        self.messages.retire(step - 1)
        self.messages.learn({MessageKey.parse(text): qp for text, qp in go.queue_pairs.items()})
        self.messages.sent.clear()
        self.messages.received.clear()
        before = self.transport.stats()
        start_ns = time.monotonic_ns()
        collective.start()
        completions: list[int] = []
        shed: list[str] = []
        forgiven = shed_bytes = end_ns = 0
        while not collective.finished:
            left = STEP_TIMEOUT_S - (time.monotonic_ns() - start_ns) / 1e9
            if left <= 0:
                raise CollectiveError(
                    f"not done in {STEP_TIMEOUT_S:.0f} s, waiting for {collective.waiting_for()}"
                )
            for item in self.messages.poll(left):
                if isinstance(item, MessageKey):
                    collective.on_sent(item)
                    continue
                completions.append(time.monotonic_ns() - start_ns)
                if item.shed:
                    shed.append(str(item.key))
                    shed_bytes += item.missing_bytes
                else:
                    forgiven += item.missing_bytes
                collective.on_received(item)
                end_ns = self._completed(collective, step, item, end_ns)
        after = self.transport.stats()
        self.controller.tell(
            StepDone(
                self.name, step, start_ns, end_ns, completions, forgiven, shed_bytes, shed,
                after.first_bytes - before.first_bytes,
                after.retransmitted_bytes - before.retransmitted_bytes,
                after.rtos - before.rtos,
                after.rate_cuts - before.rate_cuts,
                after.signals - before.signals,
                loss,
            )
        )  # fmt: skip
        return collective

    def _completed(self, collective: C, step: int, item: Arrival, end_ns: int) -> int:
        if not collective.received_all:
            return end_ns
        now = time.monotonic_ns()
        self.controller.tell(ReceiveDone(self.name, step, now))
        return now


def run_rank(host: Host) -> None:
    """Train: `steps` steps of data-parallel stochastic gradient descent."""
    run = host.run
    group = host.numbers(run.group)
    index = run.group.index(host.name)
    data = Digits.open(Path(run.data))
    model = Mlp(run.hidden, run.seed)
    optimizer = Sgd(run.learning_rate, run.momentum)
    images, labels = data.shard(index, len(group))
    batches = Batches(images, labels, min(run.batch, len(labels)), run.seed + 1000 + index)
    detector = NormChangeDetector(run.detector_threshold, run.detector_window)
    policy = ForgivenPolicy(run.reduce_scatter_fill, run.all_gather_fill)  # type: ignore[arg-type]
    directory = Path(run.directory)
    loss = 0.0
    for step in range(1, run.steps + 1):
        loss, gradient = model.loss_and_gradient(*batches.next())
        verdict = detector.classify(gradient)
        p_shed = run.shed_low_ppm if verdict.critical else run.shed_high_ppm
        shedding = Shedding(run.seed, p_shed) if p_shed else None
        collective = DirectAllReduce(
            host.messages, group, host.number, step,
            values=gradient, operation="mean", policy=policy, shedding=shedding,
        )  # fmt: skip
        collective.expect()
        lengths = dict(zip(group, collective.shard_bytes, strict=True))
        host.step(collective, step, host.offers(step, lengths, gradient=True), verdict, loss)
        reduced = collective.result().reduced
        assert reduced is not None
        if run.keep_arrays:
            np.save(directory / f"gradient-{step}-{index}.npy", gradient)
            np.save(directory / f"reduced-{step}-{index}.npy", reduced)
        optimizer.step(model.weights, reduced)
    np.save(directory / f"weights-{index}.npy", model.weights)
    host.controller.tell(Bye(host.name, model.accuracy(data.test_x, data.test_y), loss))


def run_ring(host: Host) -> None:
    """Carry ring traffic: one ring all-reduce's messages per step, without payload of meaning."""
    run = host.run
    group = host.numbers(run.ring)
    for step in range(1, run.steps + 1):
        collective = RingAllReduce(host.messages, group, host.number, step, shard_bytes=run.ring_bytes)
        collective.expect()
        lengths = dict.fromkeys(range(collective.messages), run.ring_bytes)
        host.step(collective, step, host.offers(step, lengths, gradient=False), None, 0.0)
    host.controller.tell(Bye(host.name, 0.0, 0.0))


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 2 for a run file that makes no sense, 1 for a run that failed."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 2:
        sys.stderr.write("usage: python -m hosts.rank RUN.json HOST\n")
        return 2
    path, name = Path(given[0]), given[1]
    try:
        run = RunFile.load(path)
        if name not in run.group and name not in run.ring:
            raise ValueError(f"{path}: host {name} has nothing to do; it is in neither group nor ring")
        config = run.transport_config(name)
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"rank: {problem}\n")
        return 2
    try:
        controller = Controller(run.socket)
    except OSError as problem:
        sys.stderr.write(f"rank: {run.socket}: no controller here: {problem.strerror or problem}\n")
        return 1
    with contextlib.closing(controller):
        return _take_part(run, name, config, controller)


def _take_part(run: RunFile, name: str, config: TransportConfig, controller: Controller) -> int:
    """The run itself. What goes wrong is told to the controller; a bug leaves its traceback in the log."""
    try:
        with Transport(config, realtime=PACING_PRIORITY) as transport:
            host = Host(run, name, controller, transport)
            controller.tell(Hello(name))
            (run_rank if name in run.group else run_ring)(host)
            # Peers may still be waiting for answers: stay until the controller hangs up.
            controller.wait_end()
        return 0
    except (EOFError, BrokenPipeError, ConnectionResetError):
        sys.stderr.write("rank: the controller has gone\n")
        return 1
    except (CollectiveError, TransportError, BuildError, OSError, ValueError) as problem:
        why = str(problem)
    except Exception as problem:
        traceback.print_exc()
        why = f"{type(problem).__name__}: {problem}"
    sys.stderr.write(f"rank: {why}\n")
    with contextlib.suppress(OSError):
        controller.tell(Trouble(name, " ".join(why.split())))
    return 1


if __name__ == "__main__":
    sys.exit(main())
