# SPDX-License-Identifier: Apache-2.0
"""An experiment from boot to result files: the library under every script here."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controller import ControllerError, compile_programs
from controller.experiments import records
from controller.experiments.arms import Arm
from controller.experiments.calibration import NOMINAL_BPS, Calibration
from controller.experiments.captures import CaptureError as UnreadableCapture
from controller.experiments.coordinator import RunError
from controller.experiments.place import PLACES, Job, Place, place_of
from controller.experiments.tables import side_by_side
from controller.experiments.training_run import Placement
from controller.experiments.verdict import Verdict, judge
from profiles import Family, Profile, ProfileError, load
from topologies import Topology, TopologyError, build
from topologies.capture import CaptureError
from topologies.isolate import IsolationError
from topologies.mininet_path import MininetMissing
from topologies.targets import TargetError, find
from topologies.veth import VethError

DEFAULT_SHARE = 1.0

_KNOWN = (
    ControllerError, RunError, ProfileError, TopologyError, CaptureError, UnreadableCapture, IsolationError,
    MininetMissing, TargetError, VethError, records.ResultsError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What every script lets its user choose."""

    profile: Profile
    target: str
    where: str
    seed: int
    steps: int
    results: Path
    share: float
    link_rate_bps: int
    keep: bool


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog.rpartition('.')[2]}: {message}; --help lists the options\n")


def parser(program: str, question: str) -> argparse.ArgumentParser:
    """The common command line. question: what the experiment asks and what to expect."""
    made = _Parser(
        prog=f"python -m controller.experiments.{program}",
        description=question,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--target", default=os.environ.get("TARGET") or "embedded", metavar="NAME",
                      help="embedded, or bmv2: simple_switch_grpc (default: TARGET or embedded)")  # fmt: skip
    made.add_argument("--where", default=os.environ.get("WHERE") or "auto", choices=PLACES,
                      help="mininet (needs root), virtual (a simulated clock), or auto: mininet where it can "
                      "run, else virtual (default: WHERE or auto)")  # fmt: skip
    made.add_argument("--profile", metavar="FILE", help="a profile's name or file (default: the target's)")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
                      help="override one profile key, for example budget.p_high_ppm=50000")  # fmt: skip
    made.add_argument("--seed", type=int, help="of training, paths and draws (default: the profile's first)")
    made.add_argument("--steps", type=int, help="training steps (default: the profile's)")
    made.add_argument("--results", type=Path, metavar="DIR", help=f"default: results/run-{program}")
    made.add_argument("--share", type=float, default=DEFAULT_SHARE, metavar="X",
                      help="share of the machine's capacity to use (default: %(default)s)")  # fmt: skip
    made.add_argument(
        "--link-rate", type=int, default=0, metavar="BPS", help="bits per second; skips calibration"
    )
    made.add_argument("--keep", action="store_true", help="keep captures and gradients of every arm")
    return made


def options(arguments: argparse.Namespace, program: str) -> Options:
    """Checked as far as it can be without the network. Raises one of the known errors."""
    if arguments.where == "virtual" and arguments.target != "embedded":
        raise RunError(
            f"--where virtual runs on the embedded target, not on {arguments.target}; leave one of them out"
        )
    target = find(arguments.target)
    profile = load(arguments.profile or target.default_profile).override_text(arguments.settings)
    seed = profile.workload.seeds[0] if arguments.seed is None else arguments.seed
    steps = profile.workload.steps if arguments.steps is None else arguments.steps
    if steps < 1:
        raise RunError(f"--steps {steps}: give 1 or more")
    if not 0 <= seed < 2**31:
        raise RunError(f"--seed {seed}: give 0 to {2**31 - 1}")
    if not 0 < arguments.share <= 1:
        raise RunError(f"--share {arguments.share}: give a number above 0, at most 1")
    if arguments.link_rate < 0:
        raise RunError(f"--link-rate {arguments.link_rate}: give bits per second, or 0 to calibrate")
    if arguments.seed is not None:
        profile = profile.override({"fabric.seed": seed}, "--seed")
    Placement.of(topology_of(profile), profile.at_rate(arguments.link_rate or NOMINAL_BPS))
    results = (arguments.results or Path("results") / f"run-{program}").resolve()
    records.check_directory(results)
    return Options(
        profile,
        arguments.target,
        arguments.where,
        seed,
        steps,
        results,
        arguments.share,
        arguments.link_rate,
        arguments.keep,
    )


def topology_of(profile: Profile) -> Topology:
    """The topology that a profile asks for. Raises TopologyError."""
    fabric = profile.fabric
    names = ("k",) if fabric.family is Family.FAT_TREE else ("leaves", "spines", "hosts_per_leaf")
    return build(str(fabric.family), **{name: getattr(fabric, name) for name in names})


class Session:
    """A place that arms run on, one after the other."""

    def __init__(self, chosen: Options, console: Console) -> None:
        self.chosen = chosen
        self.console = console
        self.seconds: dict[str, float] = {}

    def _timed(self, what: str, since: float) -> None:
        self.seconds[what] = round(time.monotonic() - since, 3)

    def run(self, arms: Sequence[Arm]) -> list[Verdict]:
        """Boot, calibrate, run every arm, write the results. Raises one of the known errors."""
        chosen, console = self.chosen, self.console
        with place_of(chosen.where, chosen.target, console) as place:
            place.check(chosen.profile)
            records.prepare_directory(chosen.results)
            since = time.monotonic()
            programs = compile_programs()
            self._timed("compile", since)
            console.print(f"P4 programs compiled by {programs.compiler}")
            topology = topology_of(chosen.profile)
            since = time.monotonic()
            console.print(place.boot(topology, programs))
            self._timed("boot", since)
            since = time.monotonic()
            rate = chosen.link_rate_bps or place.link_rate(chosen.profile, chosen.share)
            if place.calibration is not None:
                self._timed("calibration", since)
            verdicts = [self._arm(place, topology, arm, rate) for arm in arms]
            calibration = place.calibration
        self._save(verdicts, arms, rate, place.name, calibration)
        return verdicts

    def _arm(self, place: Place, topology: Topology, arm: Arm, rate: int) -> Verdict:
        chosen = self.chosen
        configuration = chosen.profile.override(arm.overrides, arm.name).at_rate(rate)
        schedule = chosen.profile.at_rate(rate).budget
        directory = chosen.results / "arms" / arm.name.replace(" ", "")
        since = time.monotonic()
        with self._progress() as bars:
            task = bars.add_task(arm.name, total=chosen.steps)
            run = place.run(
                Job(
                    configuration=configuration,
                    sheds=schedule if arm.sheds else None,
                    directory=directory,
                    seed=chosen.seed,
                    steps=chosen.steps,
                    said=lambda line: bars.console.print(f"{arm.name}: {arm.meaning}; {line}"),
                    report=lambda _step, _span: bars.advance(task),
                )
            )
        self._timed(f"{arm.name}: run", since)
        since = time.monotonic()
        with self.console.status(f"{arm.name}: recounting every byte from the captures"):
            verdict = judge(arm.name, chosen.seed, run, topology, configuration)
        self._timed(f"{arm.name}: recount", since)
        (directory / "configuration.json").write_text(configuration.to_json())
        if not chosen.keep and not verdict.violations:
            shutil.rmtree(directory / "pcaps", ignore_errors=True)
            for array in directory.glob("*.npy"):
                array.unlink()
        return verdict

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"),
            TimeElapsedColumn(), console=self.console,
        )  # fmt: skip

    def _save(
        self,
        verdicts: Sequence[Verdict],
        arms: Sequence[Arm],
        rate: int,
        where: str,
        calibration: Calibration | None,
    ) -> None:
        chosen = self.chosen
        varied = {a.name: dict(a.overrides) | ({"sheds": True} if a.sheds else {}) for a in arms}
        described = records.manifest(
            {
                "command": sys.argv,
                "target": chosen.target,
                "where": where,
                "seed": chosen.seed,
                "steps": chosen.steps,
                "link_rate_bps": rate,
                "calibration": asdict(calibration) if calibration else None,
                "arms": varied,
                "profile": asdict(chosen.profile),
            },
            self.seconds,
        )
        records.save(
            chosen.results,
            [row for v in verdicts for row in v.steps],
            [v.arm for v in verdicts],
            [row for v in verdicts for row in v.tp],
            described,
        )
        from controller.experiments import figures  # slow import, and it talks on machines without a home

        figures.draw(chosen.results)


def main(
    program: str, question: str, arms: Callable[[], Sequence[Arm]] | Sequence[Arm],
    arguments: list[str] | None = None,
) -> int:  # fmt: skip
    """Run a script's arms and print its table. Exit status: 0 good, 1 a promise broken, 2 can't run."""
    given = parser(program, question).parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        chosen = options(given, program)
        session = Session(chosen, console)
        verdicts = session.run(arms() if callable(arms) else arms)
    except _KNOWN as problem:
        sys.stderr.write(f"{program}: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: interrupted\n")
        return 130
    table: Table = side_by_side(verdicts)
    console.print(table)
    console.print(
        f"results: {chosen.results} (steps.parquet, arms.parquet, tp.parquet, manifest.json, steps.png)"
    )
    violations = [line for v in verdicts for line in v.violations]
    if not violations:
        console.print("every byte recounted from the captures: no promise was broken")
        return 0
    for line in violations[:20]:
        sys.stderr.write(f"{program}: {line}\n")
    sys.stderr.write(f"{program}: {len(violations)} broken promises; captures and gradients are kept\n")
    return 1
