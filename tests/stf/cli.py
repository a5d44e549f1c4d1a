# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.stf FOLDER`: run the STF cases of a folder.

Exit status: 0 all passed, 1 some failed, 2 bad usage.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.stf.cases import Found, find_cases
from tests.stf.compiling import CompileFailure, choose
from tests.stf.workers import Outcome, Settings, run_cases

LOG_EVERY = 10
"""Cases, for a line of progress where there is no terminal."""

_OWN_CASES = Path(__file__).resolve().parent / "cases"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.stf",
        description="Compile the v1model programs of a folder that have an STF file beside them, run their "
        "packets, and print the names of those that fail, a reason each, and 'N passed, M failed'.",
        epilog="exit status: 0 all passed, 1 some failed, 2 bad usage",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=_OWN_CASES, help="default: the project's own")
    parser.add_argument("--target", default="embedded", help="embedded (default) or bmv2, the simple_switch")
    parser.add_argument("--compiler", default="auto", help="p4c, own, or auto (default): p4c where it is")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names to run, as for a shell")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default 1)")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds a case (120)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.jobs < 1 or options.timeout <= 0:
        parser.error("--jobs and --timeout must be positive")
    if options.target not in ("embedded", "bmv2"):
        parser.error(f"--target {options.target}: give embedded or bmv2")
    if options.target == "bmv2":
        from tests.stf.bmv2_process import missing

        reason = missing()
        if reason is not None:
            parser.error(f"--target bmv2: {reason}; install BMv2, or use --target embedded")
    try:
        compiler = choose(options.compiler)
    except CompileFailure as error:
        parser.error(str(error))
    folder: Path = options.folder
    if not folder.is_dir():
        parser.error(f"{folder} is no folder")
    found = find_cases(folder)
    cases = [case for case in found.cases if _wanted(case.name, options.only)]
    if not cases:
        parser.error(f"{folder} has no {_described(options.only)} for v1model with an .stf file beside it")
    outcomes: list[Outcome] = []
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("stf", total=len(cases))
        settings = Settings(options.target, compiler, options.timeout)
        failed = 0
        for outcome in run_cases(cases, settings, min(options.jobs, len(cases))):
            outcomes.append(outcome)
            failed += not outcome.passed
            progress.update(task, advance=1, description=f"{failed} failed" if failed else "stf")
            if not console.is_terminal and len(outcomes) % LOG_EVERY == 0:
                console.print(f"{len(outcomes)} of {len(cases)}, {failed} failed", highlight=False)
    return _report(outcomes, found, settings)


def _wanted(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _described(patterns: Sequence[str] | None) -> str:
    return "program" if patterns is None else f"program {' or '.join(patterns)}"


def _report(outcomes: Sequence[Outcome], found: Found, settings: Settings) -> int:
    failures = sorted((o for o in outcomes if not o.passed), key=lambda o: o.name)
    lines = [f"{failure.name}: {failure.stage}: {failure.reason}" for failure in failures]
    if found.others:
        lines.append(f"left out, not for v1model: {len(found.others)}")
    lines.append(f"compiler {settings.compiler}, target {settings.target}")
    lines.append(f"{len(outcomes) - len(failures)} passed, {len(failures)} failed")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failures else 0
