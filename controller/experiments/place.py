# SPDX-License-Identifier: Apache-2.0
"""Where an experiment's arms run: a Mininet network, or a fabric on a simulated clock in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias

from rich.console import Console

from controller import Programs
from controller.experiments.calibration import Calibration
from controller.experiments.training_run import ArmRun
from profiles import BudgetPolicy, Configuration, Profile
from topologies import Topology
from topologies.isolate import IsolationError, enter_private_namespace
from topologies.mininet_path import MininetMissing, require_mininet

Report: TypeAlias = Callable[[int, int], object]
"""Told of every finished step: its number and its span in ns."""

PLACES = ("auto", "mininet", "virtual")


@dataclass(frozen=True, slots=True)
class Job:
    """One arm on a place. sheds: the schedule by which senders shed, if they do. said: told in a line what
    was installed.
    """

    configuration: Configuration
    sheds: BudgetPolicy | None
    directory: Path
    seed: int
    steps: int
    said: Callable[[str], None]
    report: Report


class Place(Protocol):
    """Runs arms one after the other. A context, entered once, before any result is touched."""

    name: str
    calibration: Calibration | None

    def __enter__(self) -> Place: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check(self, profile: Profile) -> None:
        """Raises RunError if the place can't do what the profile asks for."""

    def boot(self, topology: Topology, programs: Programs) -> str:
        """Build what all arms share; returns a line that says what."""

    def link_rate(self, profile: Profile, share: float) -> int:
        """Bits per second, where the user gave none. share: of the machine's capacity."""

    def run(self, job: Job) -> ArmRun:
        """One arm, from fresh devices to what it left."""


def place_of(wanted: str, target: str, console: Console) -> Place:
    """wanted: one of PLACES. "auto" is Mininet where it can run, else virtual time, and says why.

    target: an adapter's name; another than "embedded" leaves Mininet alone. Raises IsolationError,
    MininetMissing.
    """
    from controller.experiments.in_mininet import InMininet
    from controller.experiments.in_virtual_time import InVirtualTime

    why = "as asked for"
    if wanted != "virtual":
        try:
            require_mininet()
            return InMininet(target, enter_private_namespace().directory, console)
        except (IsolationError, MininetMissing) as problem:
            if wanted == "mininet" or target != "embedded":
                raise
            why = "not root" if os.geteuid() != 0 else str(problem)
    console.print(
        f"virtual time ({why}): same programs, controller and hosts, simulated clock; times are simulated",
        soft_wrap=True,
    )
    return InVirtualTime()
