# SPDX-License-Identifier: Apache-2.0
"""Leads the hosts of a run through its steps, and their NICs through their budgets.

The order that the protocol needs is kept here: a rank's detector speaks, its
NIC's step entry is installed, and only when every rank's is, the senders are let
go. When a rank's last byte is settled its step is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hosts.coordination import (
    Bye,
    Go,
    Hello,
    Message,
    ReceiveDone,
    StepBegin,
    StepDone,
    Trouble,
    decode,
    encode,
)

HANG_UP_SECONDS = 1.0
"""What a host that hung up is given to be reported with its reason, before it is reported without one."""


class RunError(Exception):
    """The run can't go on: one line that says why."""


@dataclass(frozen=True, slots=True)
class StepBytes:
    """A rank's byte state and the events of a step, as its NIC reports them."""

    received: int
    forgiven: int
    outstanding: int
    trimmed: int
    events: dict[str, int]


class Budgets(Protocol):
    """What the coordinator asks of the control plane, for one host's NIC."""

    async def open_step(self, begin: StepBegin) -> tuple[int, int]:
        """Install the step; returns (p in ppm, budget in bytes)."""

    async def close_step(self, host: str, step: int) -> None:
        """OnAllReduceComplete."""

    async def end_step(self, host: str, step: int) -> StepBytes:
        """Read the step's state and events, and remove its entry: no flow of it is left."""


class Progress(Protocol):
    """Told after each step."""

    def step_done(self, step: int, begins: Iterable[StepBegin], dones: Iterable[StepDone]) -> None: ...


@dataclass(slots=True)
class StepOutcome:
    """Everything known of one host's step."""

    begin: StepBegin
    done: StepDone
    p_ppm: int
    budget: int
    state: StepBytes | None


@dataclass(slots=True)
class _Running:
    """A step that some hosts have begun."""

    begins: dict[str, StepBegin] = field(default_factory=dict)
    dones: dict[str, StepDone] = field(default_factory=dict)
    installed: dict[str, asyncio.Task[tuple[int, int]]] = field(default_factory=dict)
    closing: list[asyncio.Task[None]] = field(default_factory=list)


@dataclass(slots=True)
class _Peer:
    host: str
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class Coordinator:
    """Serves the hosts' socket until all have said Bye. hosts: every host that takes part."""

    hosts: frozenset[str]
    ranks: frozenset[str]
    budgets: Budgets
    progress: Progress
    outcomes: list[StepOutcome] = field(default_factory=list)
    byes: dict[str, Bye] = field(default_factory=dict)
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _inbox: asyncio.Queue[Message | Exception] = field(default_factory=asyncio.Queue)

    async def serve(self, path: Path) -> asyncio.Server:
        """Listen on a Unix socket; hosts may connect from then on."""
        return await asyncio.start_unix_server(self._connection, str(path), limit=1 << 22)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = "?"
        try:
            while line := await reader.readline():
                message = decode(line)
                if isinstance(message, Hello):
                    host = message.host
                    self._peers[host] = _Peer(host, writer)
                await self._inbox.put(message)
            if host not in self.byes:
                await asyncio.sleep(HANG_UP_SECONDS)
                await self._inbox.put(RunError(f"{host}: its process ended in the middle of the run"))
        except (ValueError, ConnectionError) as problem:  # a line that is no message, or has no end
            await self._inbox.put(RunError(f"{host}: {problem}"))

    def failed(self, problem: str) -> None:
        """Report from outside that the run can't go on."""
        self._inbox.put_nowait(RunError(problem))

    async def run(self, timeout_s: float) -> None:
        """Lead the run. timeout_s: longest silence of all hosts. Raises RunError, and what budgets raise."""
        running: dict[int, _Running] = {}
        try:
            await self._lead(running, timeout_s)
        finally:
            tasks = [t for now in running.values() for t in (*now.installed.values(), *now.closing)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _lead(self, running: dict[int, _Running], timeout_s: float) -> None:
        while len(self.byes) < len(self.hosts):
            try:
                message = await asyncio.wait_for(self._inbox.get(), timeout_s)
            except TimeoutError:
                waiting = sorted(self._waited_for(running))
                raise RunError(
                    f"nothing was heard for {timeout_s:.0f} s from {', '.join(waiting)}: traffic is stuck"
                ) from None
            if isinstance(message, StepBegin | ReceiveDone | StepDone):
                self._check_order(message, running)
            match message:
                case Exception():
                    raise message
                case Trouble(host, why):
                    raise RunError(f"{host}: {why}")
                case StepBegin(step=step):
                    now = running.setdefault(step, _Running())
                    now.begins[message.host] = message
                    if message.host in self.ranks:
                        now.installed[message.host] = asyncio.create_task(self.budgets.open_step(message))
                    # Whoever begins a step is done with the one before, so that one is settled by now.
                    if now.begins.keys() == self.hosts:
                        await asyncio.gather(*now.installed.values())
                        self._let_go(step, now.begins)
                case ReceiveDone(host, step):
                    if host in self.ranks:
                        running[step].closing.append(asyncio.create_task(self.budgets.close_step(host, step)))
                case StepDone(step=step):
                    running[step].dones[message.host] = message
                    if running[step].dones.keys() == self.hosts:
                        await asyncio.gather(*running[step].closing)
                        await self._settle(step, running.pop(step))
                case Bye(host):
                    self.byes[host] = message
                case Hello() | Go():
                    pass

    def _check_order(self, message: StepBegin | ReceiveDone | StepDone, running: dict[int, _Running]) -> None:
        """A host begins a step once, and says the rest in the middle of it."""
        host, step = message.host, message.step
        began = step in running and host in running[step].begins
        if host not in self.hosts or began == isinstance(message, StepBegin):
            raise RunError(f"{host}: said {message.kind} of step {step} out of order")

    def _waited_for(self, running: dict[int, _Running]) -> frozenset[str]:
        for now in running.values():
            if now.begins.keys() == self.hosts:
                return self.hosts - now.dones.keys()
        return self.hosts - self.byes.keys()

    def _let_go(self, step: int, begins: dict[str, StepBegin]) -> None:
        for host in self.hosts:
            pairs = {o.key: o.qp for b in begins.values() for o in b.offers.get(host, ())}
            self._peers[host].writer.write(encode(Go(step, pairs)))

    async def _settle(self, step: int, now: _Running) -> None:
        order = sorted(self.ranks)
        states = await asyncio.gather(*(self.budgets.end_step(host, step) for host in order))
        by_host = dict(zip(order, states, strict=True))
        for host in sorted(self.hosts):
            p_ppm, budget = now.installed[host].result() if host in now.installed else (0, 0)
            self.outcomes.append(
                StepOutcome(now.begins[host], now.dones[host], p_ppm, budget, by_host.get(host))
            )
        self.progress.step_done(step, now.begins.values(), now.dones.values())

    async def close(self) -> None:
        """Hang up on every host."""
        for peer in self._peers.values():
            peer.writer.close()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()
