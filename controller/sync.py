# SPDX-License-Identifier: Apache-2.0
"""The fabric's controller for programs without asyncio: every call returns when the devices have answered.

An event loop runs in a thread of its own. Calls may come from any thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Collection, Coroutine, Iterable
from types import TracebackType
from typing import Any, TypeVar

from controller import loops
from controller.fabric import DeviceAddress, FabricController
from controller.nic import InstalledStep, NicCounters, StepPolicy, StepState
from controller.programs import Programs
from controller.switch import SwitchCounters
from profiles import Configuration
from topologies import Link, Topology

T = TypeVar("T")

SIGNAL_SECONDS = 0.2
"""Longest that Ctrl-C waits to be seen."""


class Fabric:
    """Connected on creation; a context that closes itself.

    topology, addresses, programs: as for `FabricController`. push: load the programs (devices then start
    empty). Every method raises ControllerError in one line.
    """

    def __init__(
        self, topology: Topology, addresses: Iterable[DeviceAddress], programs: Programs, push: bool = True
    ) -> None:
        self.controller = FabricController(topology, addresses, programs)
        self._loop = loops.borrow("controller")
        self._closed = False
        try:
            self.run(self.controller.connect(push))
        except BaseException:
            self._end_loop()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Any coroutine of `self.controller`, to its end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            # In slices: a signal may reach another thread, and then does not end a wait without limit.
            while not future.done():
                concurrent.futures.wait((future,), SIGNAL_SECONDS)
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Leave all devices. Safe to call twice."""
        if self._closed:
            return
        try:
            self.run(self.controller.close())
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._closed = True
        loops.give_back(self._loop)

    def __enter__(self) -> Fabric:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the fabric
    def install(
        self, configuration: Configuration | None, seed: int = 0, down: Collection[Link] = ()
    ) -> None:
        """Program every switch and NIC; see FabricController.install."""
        self.run(self.controller.install(configuration, seed, down))

    def reroute(self, down: Collection[Link]) -> None:
        """New routes around these links; see FabricController.reroute."""
        self.run(self.controller.reroute(down))

    def restart(self, nic: str, configuration: Configuration, seed: int = 0) -> None:
        """Load a NIC's program again; see FabricController.restart."""
        self.run(self.controller.restart(nic, configuration, seed))

    def verify(self) -> int:
        """Read everything back and compare; returns how many entities agreed."""
        return self.run(self.controller.verify())

    def switch_counters(self) -> dict[str, SwitchCounters]:
        """Counters of every switch by name."""
        return self.run(self.controller.switch_counters())

    def nic_counters(self) -> dict[str, NicCounters]:
        """Counters of every NIC by name."""
        return self.run(self.controller.nic_counters())

    # --- one NIC, by its name or its host's
    def install_step(
        self,
        nic: str,
        step: int,
        p_ppm: int,
        expected_bytes: int,
        policy: StepPolicy,
        slot: int | None = None,
    ) -> InstalledStep:
        """Open a step's loss budget; see Nic.install_step."""
        return self.run(self.controller.nic(nic).install_step(step, p_ppm, expected_bytes, policy, slot))

    def close_step(self, nic: str, step: int) -> InstalledStep:
        """Nothing more is forgiven in this step."""
        return self.run(self.controller.nic(nic).close_step(step))

    def remove_step(self, nic: str, step: int) -> None:
        """Free the step's slot."""
        self.run(self.controller.nic(nic).remove_step(step))

    def step_state(self, nic: str, step: int) -> StepState:
        """Byte state of an installed step."""
        return self.run(self.controller.nic(nic).step_state(step))

    def counters(self, nic: str) -> NicCounters:
        """Event counters of one NIC."""
        return self.run(self.controller.nic(nic).counters())
