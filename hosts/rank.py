# SPDX-License-Identifier: Apache-2.0
"""One host of a training run: `python -m hosts.rank RUN.json HOST`.

A process around `hosts.job`, on a real network. The run's file says what the host does; `hosts.coordination`
is what is said to the controller meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from hosts.build import BuildError
from hosts.config import TransportConfig
from hosts.coordination import Go, Hello, Message, ReceiveDone, Trouble, decode, encode
from hosts.job import Job, RunFile, RunningStep, Work, job_of
from hosts.messages import CollectiveError, MessageKey, TransportMessages
from hosts.transport import Transport, TransportError

STEP_TIMEOUT_S = 120.0

PACING_PRIORITY = 5
"""Of the thread that paces packets: on a busy machine it would be starved otherwise."""


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


class Host:
    """Leads a job through its steps."""

    def __init__(self, run: RunFile, name: str, controller: Controller, transport: Transport) -> None:
        self.run = run
        self.name = name
        self.controller = controller
        self.transport = transport
        self._names = {number: host for host, (number, _) in run.hosts.items()}
        self.messages = TransportMessages(transport, run.hosts[name][0], dict(run.hosts.values()))

    def take_part(self, make: Callable[[RunFile, str], Job]) -> None:
        """All steps, and the last words."""
        job = make(self.run, self.name)
        for step in range(1, self.run.steps + 1):
            work = job.begin(self.messages, step)
            self._step(work)
            job.end(work)
        self.controller.tell(job.bye())

    def _step(self, work: Work) -> None:
        """Announce, wait for the go, run to the end, report."""
        self.controller.tell(work.begin(self._offers(work.step), self._names))
        go = self.controller.wait_go(work.step)
        self.messages.retire(work.step - 1)
        self.messages.learn({MessageKey.parse(text): qp for text, qp in go.queue_pairs.items()})
        self.messages.sent.clear()
        self.messages.received.clear()
        running = RunningStep(
            work,
            time.monotonic_ns,
            lambda now: self.controller.tell(ReceiveDone(self.name, work.step, now)),
            self.transport.stats(),
        )
        running.start()
        while not running.finished:
            left = STEP_TIMEOUT_S - (time.monotonic_ns() - running.start_ns) / 1e9
            if left <= 0:
                raise CollectiveError(
                    f"not done in {STEP_TIMEOUT_S:.0f} s, waiting for {running.waiting_for()}"
                )
            for item in self.messages.poll(left):
                if isinstance(item, MessageKey):
                    running.on_sent(item)
                else:
                    running.on_received(item)
        self.controller.tell(running.report(self.transport.stats()))

    def _offers(self, step: int) -> dict[MessageKey, int]:
        """Queue pairs of what this host expects in a step, by sender."""
        each = (self.messages.offers(number) for number in self._names)
        return {key: qp for offers in each for key, qp in offers.items() if key.step == step}


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
            host.take_part(job_of)
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
