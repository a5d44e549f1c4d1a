# SPDX-License-Identifier: Apache-2.0
"""Loss budgets of ranks and steps, over the controller, while the simulated clock stands still.

A rank's NIC is told of a step before any peer sends to it, again when the rank has everything, and for the
last time when the step's last flow has ended (the paper: OnStepBegin, OnAllReduceComplete).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from controller import Fabric, InstalledStep, NicCounters, StepPolicy, StepState
from hosts.messages import STEP_SLOTS

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepReport:
    """A rank's step as its NIC saw it, since its last restart if that was in the step. events: of the NIC
    since its last report, all its flows.
    """

    installed: InstalledStep
    state: StepState
    events: NicCounters


class StepBudgets:
    """Installs, closes, reads and removes steps. Each call may name several hosts: they go side by side.

    Raises ControllerError. Step s uses slot s modulo 7, so at most seven steps of a rank are installed.
    """

    def __init__(self, controller: Fabric, policy: StepPolicy) -> None:
        self._fabric = controller
        self._nic = controller.controller.nic
        self._policy = policy
        self._counted: dict[tuple[str, int], NicCounters] = {}

    def open(self, hosts: Collection[str], step: int, p_ppm: int, expected_bytes: int) -> None:
        """OnStepBegin: a budget of floor(p x expected) bytes for each. Peers may send once this returns."""
        slot = step % STEP_SLOTS
        self._all(
            [self._nic(host).install_step(step, p_ppm, expected_bytes, self._policy, slot) for host in hosts]
        )

    def close(self, hosts: Collection[str], step: int) -> None:
        """OnAllReduceComplete: nothing more is forgiven."""
        self._all([self._nic(host).close_step(step) for host in hosts])

    def finish(self, hosts: Sequence[str], step: int) -> dict[str, StepReport]:
        """Read the step's bytes and events and remove it: its last flow has ended."""
        return dict(zip(hosts, self._all([self._finish(host, step) for host in hosts]), strict=True))

    async def _finish(self, host: str, step: int) -> StepReport:
        nic = self._nic(host)
        installed = nic.steps[step]
        state = await nic.step_state(step)
        counters = await nic.counters()
        await nic.remove_step(step)
        life = (host, nic.restarts)
        before = self._counted.get(life)
        self._counted[life] = counters
        return StepReport(installed, state, counters - before if before else counters)

    def _all(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        async def together() -> list[T]:
            return list(await asyncio.gather(*work))

        return self._fabric.run(together())
