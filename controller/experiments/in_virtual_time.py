# SPDX-License-Identifier: Apache-2.0
"""Arms on a fabric in this process, by a simulated clock: the same job, programs, controller and recount."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from controller import Fabric, Programs
from controller.experiments.calibration import Calibration
from controller.experiments.coordinator import RunError, StepOutcome
from controller.experiments.place import Job
from controller.experiments.training_run import (
    ArmRun,
    NicBudgets,
    Placement,
    Watcher,
    nic_interfaces,
    run_file,
)
from hosts.coordination import Bye
from hosts.job import RunningStep, job_of
from hosts.messages import CollectiveError, MessageKey
from hosts.training import Digits
from profiles import FaultKind, Profile
from topologies import Topology
from virtual import Exchange, FaultPlan, VirtualError, VirtualFabric

LINK_RATE_BPS = 400_000_000_000
"""The paper's, for a profile that leaves the rate to the machine: here the machine does not matter."""

SNAP_BYTES = 128
"""Kept of a captured frame: all headers."""

T = TypeVar("T")


class InVirtualTime:
    """A fresh fabric for every arm."""

    name = "virtual"
    calibration: Calibration | None = None

    def __enter__(self) -> InVirtualTime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check(self, profile: Profile) -> None:
        if any(fault.kind is FaultKind.NIC_RESTART for fault in profile.faults):
            raise RunError(
                f"{profile.name}: a NIC that restarts forgets what it promised, and a recount can't follow; "
                "leave nic_restart out of the faults"
            )

    def boot(self, topology: Topology, programs: Programs) -> str:
        self._topology = topology
        self._programs = programs
        return f"{len(topology.hosts)} hosts, {len(topology.devices)} P4 devices, {len(topology.links)} links"

    def link_rate(self, profile: Profile, share: float) -> int:
        return profile.fabric.rate_bps or LINK_RATE_BPS

    def run(self, job: Job) -> ArmRun:
        job.directory.mkdir(parents=True, exist_ok=True)
        try:
            with (
                VirtualFabric(
                    self._topology, job.configuration, directory=job.directory, seed=job.seed
                ) as net,
                Fabric(self._topology, net.devices, self._programs) as fabric,
            ):
                fabric.install(job.configuration, seed=job.seed)
                agreed = fabric.verify()
                job.said(f"{agreed} entities installed and read back")
                return _Lead(net, fabric, job).run()
        except (CollectiveError, VirtualError) as problem:
            raise RunError(str(problem)) from None


class _Lead:
    """Leads the hosts of one arm through its steps, and their NICs through their budgets."""

    def __init__(self, net: VirtualFabric, fabric: Fabric, job: Job) -> None:
        self._net, self._fabric, self._job = net, fabric, job
        self._placement = Placement.of(net.topology, job.configuration)
        self._hosts = [*self._placement.ranks, *self._placement.ring]
        plan = run_file(
            net.topology,
            job.configuration,
            self._placement,
            job.directory,
            job.seed,
            job.steps,
            job.sheds,
            True,
        )
        plan.save(job.directory / "run.json")
        Digits.load(job.seed).save(Path(plan.data))
        self._jobs = {host: job_of(plan, host) for host in self._hosts}
        self._numbers = {name: number for name, (number, _) in plan.hosts.items()}
        self._names = {number: name for name, number in self._numbers.items()}
        self._exchange = Exchange(net, self._names)
        self._queue_pairs: dict[str, dict[MessageKey, int]] = {}
        self._exchange.on_posted = self._posted
        self._budgets = NicBudgets(fabric.controller, job.configuration)
        self._outcomes: list[StepOutcome] = []

    def run(self) -> ArmRun:
        net, job = self._net, self._job
        captures = {
            interface: net.capture(interface, job.directory / "pcaps", SNAP_BYTES)
            for _, *both in nic_interfaces(net.topology, self._hosts)
            for interface in both
        }
        FaultPlan(net, self._fabric, job.configuration.faults, job.seed)
        self._fabric.run(self._budgets.start(self._placement.ranks))
        for step in range(1, job.steps + 1):
            self._step(step)
        net.clock.run()  # late duplicates arrive, and are answered
        net.end_captures()
        byes: dict[str, Bye] = {host: each.bye() for host, each in self._jobs.items()}
        switches = self._fabric.switch_counters()
        return ArmRun(self._outcomes, byes, switches, captures, job.directory, self._placement)

    def _posted(self, key: MessageKey, qp: int) -> None:
        self._queue_pairs.setdefault(self._names[key.destination], {})[key] = qp

    def _all(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        async def together() -> list[T]:
            return list(await asyncio.gather(*work))

        return self._fabric.run(together())

    def _step(self, step: int) -> None:
        """Compute, install every budget, let go, and settle."""
        clock, ranks = self._net.clock, self._placement.ranks
        layers = {host: self._exchange.layer(self._numbers[host]) for host in self._hosts}
        works = {host: self._jobs[host].begin(layers[host], step) for host in self._hosts}
        begins = {host: works[host].begin({}, self._names) for host in self._hosts}
        installed = dict(
            zip(ranks, self._all(self._budgets.open_step(begins[host]) for host in ranks), strict=True)
        )

        def received_all(host: str) -> None:
            if host in installed:
                self._fabric.run(self._budgets.close_step(host, step))

        running = {
            host: RunningStep(
                works[host],
                lambda: clock.now_ns,
                lambda _now, host=host: received_all(host),  # type: ignore[misc]
                self._net.stats(host),
            )
            for host in self._hosts
        }
        waiting = set(self._hosts)

        def check(host: str) -> None:
            if running[host].finished:
                waiting.discard(host)
                if not waiting:
                    clock.stop()

        for host in self._hosts:
            layers[host].serve(running[host], then=lambda host=host: check(host))  # type: ignore[misc]
        for host in self._hosts:
            running[host].start()
        if not clock.run():
            stuck = "; ".join(running[host].waiting_for() for host in sorted(waiting))
            raise RunError(f"nothing is left to happen, and hosts wait for {stuck}")
        dones = {host: running[host].report(self._net.stats(host)) for host in self._hosts}
        states = dict(
            zip(ranks, self._all(self._budgets.end_step(host, step) for host in ranks), strict=True)
        )
        for host in sorted(self._hosts):
            p_ppm, budget = installed.get(host, (0, 0))
            offers = works[host].begin(self._queue_pairs.pop(host, {}), self._names).offers
            begin = replace(begins[host], offers=offers)
            self._outcomes.append(StepOutcome(begin, dones[host], p_ppm, budget, states.get(host)))
            self._jobs[host].end(works[host])
        Watcher(self._job.report).step_done(step, begins.values(), dones.values())
