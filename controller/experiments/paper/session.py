# SPDX-License-Identifier: Apache-2.0
"""The command: which cells there are, and what is made of their files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from controller import ControllerError, Programs, compile_programs
from controller.experiments.paper import plots, rows, table
from controller.experiments.paper.arms import ARMS, find
from controller.experiments.paper.cell import Specification, finished
from controller.experiments.paper.metrics import Figures, figures
from controller.experiments.paper.plan import Plan
from controller.experiments.paper.runner import FailedError, Runner
from controller.experiments.records import ResultsError
from profiles import ProfileError, load

DEFAULT_SCALE = "0.1"
SHOWN_VIOLATIONS = 20

FILES = ("table.csv", "completion.png", "budgets.png", "queues.png")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"paper: {message}; --help lists the options\n")


def _parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="python -m controller.experiments.paper",
        description="The paper's worst fabric in virtual time: every arm, against the published figures.",
    )
    made.add_argument("--scale", default=os.environ.get("SCALE") or DEFAULT_SCALE, metavar="X",
                      help="full, or a share of the steps (default: SCALE or %(default)s)")  # fmt: skip
    made.add_argument("--arms", nargs="+", default=[], metavar="ARM",
                      help=f"some of {', '.join(arm.key for arm in ARMS)} (default: all)")  # fmt: skip
    made.add_argument("--seeds", nargs="+", type=int, default=[], metavar="N",
                      help="default: the profile's three at full scale, else the first of them")  # fmt: skip
    made.add_argument("--resume", action="store_true", help="go on where an earlier run was ended")
    made.add_argument("--results", type=Path, metavar="DIR",
                      help="default: results/run-paper-X, X the scale")  # fmt: skip
    made.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N",
                      help="cells at once, a core each (default: %(default)s)")  # fmt: skip
    made.add_argument("--profile", default="paper", metavar="FILE", help="a profile's name or file")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
                      help="override one profile key, for example study.dp_width=2")  # fmt: skip
    made.add_argument("--spray", action="store_true", help="packets choose their paths one by one")
    made.add_argument("--hash-seed", type=int, metavar="N",
                      help="of the switches' draws: paths and marks (default: the cell's seed)")  # fmt: skip
    return made


@dataclass(frozen=True)
class Chosen:
    """What the command line asks for."""

    cells: tuple[Specification, ...]
    plan: Plan
    results: Path
    jobs: int
    resume: bool

    def directory(self, cell: Specification) -> Path:
        return self.results / "cells" / cell.name


def options(given: argparse.Namespace) -> Chosen:
    """Checked as far as it can be without running. Raises ProfileError."""
    settings = (*given.settings, *(["fabric.spray=true"] if given.spray else []))
    profile = load(given.profile).override_text(settings)
    if given.jobs < 1:
        raise ProfileError(f"--jobs {given.jobs}: give 1 or more")
    for seed in [*given.seeds, *([] if given.hash_seed is None else [given.hash_seed])]:
        if not 0 <= seed < 2**31:
            raise ProfileError(f"seed {seed}: give 0 to {2**31 - 1}")
    arms = find(given.arms)

    def cell(arm: str, seed: int) -> Specification:
        return Specification(arm, seed, given.scale, given.profile, settings, given.hash_seed)

    planned = cell(arms[0].key, profile.workload.seeds[0]).planned()[2]
    seeds = given.seeds or profile.workload.seeds[: None if planned.is_whole else 1]
    # A seed through all arms before the next: comparisons come early.
    cells = tuple(cell(arm.key, seed) for seed in dict.fromkeys(seeds) for arm in arms)
    for one in cells:
        one.planned()[2].profile.configuration()
    default = Path("results") / f"run-paper-{'full' if planned.is_whole else given.scale}"
    results = (given.results or default).resolve()
    return Chosen(cells, planned, results, given.jobs, given.resume)


def check_results(chosen: Chosen, programs: Programs) -> None:
    """Nothing that is there is run again or overwritten by something else. Raises ResultsError."""
    if chosen.results.exists():
        if not chosen.results.is_dir():
            raise ResultsError(f"{chosen.results}: not a directory; give --results another one")
        foreign = sorted(e.name for e in chosen.results.iterdir() if e.name not in (*FILES, "cells"))
        if foreign and not (chosen.results / "cells").is_dir():
            raise ResultsError(
                f"{chosen.results}: not the results of this command (it has {foreign[0]}); give --results a "
                "new or empty directory"
            )
    done = 0
    for cell in chosen.cells:
        manifest = finished(chosen.directory(cell))
        if manifest is None:
            continue
        done += 1
        if manifest["fingerprint"] != cell.fingerprint(programs):
            raise ResultsError(
                f"{chosen.directory(cell)}: of another configuration or other P4 programs; give --results "
                "another directory"
            )
    if done and not chosen.resume:
        raise ResultsError(
            f"{chosen.results}: has {done} finished cells of these; add --resume to go on, or give --results "
            "another directory"
        )


def evaluate(results: Path) -> tuple[list[table.Line], dict[str, list[str]]]:
    """Every finished cell of a directory: the table, and violations by cell. Writes table.csv and plots."""
    cells: dict[tuple[str, int], Figures] = {}
    read: dict[tuple[str, int], rows.CellFiles] = {}
    violations: dict[str, list[str]] = {}
    for directory in sorted((results / "cells").iterdir()):
        if directory.name.startswith(".") or finished(directory) is None:
            continue
        files = rows.load(directory)
        name = (str(files.manifest["arm"]), int(files.manifest["seed"]))
        read[name], cells[name] = files, figures(files)
        if files.manifest["violations"]:
            violations[directory.name] = list(files.manifest["violations"])
    lines = table.compare(cells)
    table.write(lines, results / "table.csv")
    plots.draw(read, results)
    return lines, violations


def _side_by_side(lines: Sequence[table.Line]) -> Table:
    shown_table = Table(title="measured (published)", title_justify="left")
    keys = list(dict.fromkeys(line.row for line in lines))
    shown_table.add_column("")
    for key in keys:
        shown_table.add_column(key, justify="right")
    by_metric: dict[str, dict[str, str]] = {}
    for line in lines:
        text = _range(line.low, line.high)
        if line.published is not None:
            mark = "" if line.inside else " !"
            text += f" ({_range(line.published.low, line.published.high)}){mark}"
        by_metric.setdefault(line.metric, {})[line.row] = text
    for metric, texts in by_metric.items():
        shown_table.add_row(metric, *(texts.get(key, "") for key in keys))
    return shown_table


def _range(low: float, high: float) -> str:
    return f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"


def _tell(violations: Mapping[str, Sequence[str]]) -> None:
    for cell, lines in violations.items():
        for line in lines[:SHOWN_VIOLATIONS]:
            sys.stderr.write(f"paper: {cell}: {line}\n")
        if len(lines) > SHOWN_VIOLATIONS:
            sys.stderr.write(f"paper: {cell}: {len(lines)} violations in all\n")


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 good, 1 an invariant violated, 2 can't run."""
    given = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    try:
        chosen = options(given)
        programs = compile_programs()
        check_results(chosen, programs)
        for line in chosen.plan.says():
            console.print(f"scale {chosen.plan.scale}: {line}")
        console.print(f"P4 programs compiled by {programs.compiler}")
        Runner({cell: chosen.directory(cell) for cell in chosen.cells}, chosen.jobs, console).run()
        lines, violations = evaluate(chosen.results)
    except (ControllerError, ProfileError, ResultsError, FailedError, OSError) as problem:
        sys.stderr.write(f"paper: {problem}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("paper: interrupted; --resume goes on with the cells that are not finished\n")
        return 130
    console.print(_side_by_side(lines))
    console.print(f"{table.summary(lines)}; {chosen.results / 'table.csv'}")
    _tell(violations)
    return 1 if violations else 0
