# SPDX-License-Identifier: Apache-2.0
"""What of a run is kept in the repository: its table, its plots, and the manifest of every cell.

    python -m controller.experiments.paper.publish results/run-paper-full results/paper

The Parquet files stay with the run: anybody can make them again, to the byte.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from controller.experiments.paper.cell import finished
from controller.experiments.paper.session import FILES
from controller.experiments.records import ResultsError

MANIFESTS = "manifests"


def publish(run: Path, target: Path, plots: bool = True) -> list[str]:
    """The names of the files in `target`, all of them written anew. Raises ResultsError, OSError."""
    cells = sorted(p for p in run.glob("cells/*") if not p.name.startswith(".")) if run.is_dir() else []
    manifests = {cell.name: cell / "manifest.json" for cell in cells if finished(cell) is not None}
    if not manifests or not (run / FILES[0]).is_file():
        raise ResultsError(
            f"{run}: no results of controller.experiments.paper; give a directory that has them"
        )
    if (target / "cells").exists():
        raise ResultsError(f"{target}: has a run's own results; give another directory")
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / MANIFESTS, ignore_errors=True)
    (target / MANIFESTS).mkdir()
    kept = FILES if plots else FILES[:1]
    written = {name: run / name for name in kept if (run / name).is_file()}
    written |= {f"{MANIFESTS}/{name}.json": path for name, path in manifests.items()}
    for name, source in written.items():
        shutil.copyfile(source, target / name)
    for name in FILES:
        if name not in written:
            (target / name).unlink(missing_ok=True)
    return sorted(written)


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 good, 2 it can't."""
    options = argparse.ArgumentParser(
        prog="python -m controller.experiments.paper.publish", description=__doc__.split("\n")[0]
    )
    options.add_argument("run", type=Path, help="the results directory of a run")
    options.add_argument("target", type=Path, help="where to: results/paper, for example")
    options.add_argument("--table-only", action="store_true", help="without plots")
    given = options.parse_args(arguments)
    try:
        written = publish(given.run, given.target, not given.table_only)
    except (ResultsError, OSError) as problem:
        sys.stderr.write(f"publish: {problem}\n")
        return 2
    sys.stdout.write(f"{given.target}: {len(written)} files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
