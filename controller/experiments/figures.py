# SPDX-License-Identifier: Apache-2.0
"""Pictures made from result files alone: `python -m controller.experiments.figures DIR`."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes

from controller.experiments.records import ResultsError, load

_COLOURS = ["#0b6e99", "#c8553d", "#588157", "#7b5ea7", "#b08900", "#444444"]


def _per_step(steps: pl.DataFrame) -> pl.DataFrame:
    """Per arm and step, over ranks: span of the all-reduce, sums of bytes, ranks that called it critical."""
    return (
        steps.group_by("arm", "step")
        .agg(
            ((pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e6).alias("span_ms"),
            (pl.col("budget_bytes").sum() / 1e3).alias("budget_kb"),
            (pl.col("forgiven_bytes").sum() / 1e3).alias("forgiven_kb"),
            (pl.col("trimmed_bytes").sum() / 1e3).alias("trimmed_kb"),
            pl.col("critical").sum().alias("critical"),
        )
        .sort("arm", "step")
    )


def _shade(axes: Axes, critical: pl.DataFrame) -> None:
    """Grey behind the steps, as dark as the share of ranks that called the step critical."""
    ranks = max(1, int(critical["critical"].max() or 1))  # type: ignore[arg-type]
    for step, count in critical.select("step", "critical").iter_rows():
        if count:
            axes.axvspan(step - 0.5, step + 0.5, color="#000000", alpha=0.14 * count / ranks, lw=0)


def draw(directory: Path, target: Path | None = None) -> Path:
    """Per step: budget, forgiven, trimmed, completion time of every arm. Returns the PNG's path."""
    steps, arms, _ = load(directory)
    table = _per_step(steps)
    names = list(arms["arm"])
    figure, axes = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
    for name, colour in zip(names, itertools.cycle(_COLOURS), strict=False):
        rows = table.filter(pl.col("arm") == name)
        x = rows["step"]
        axes[0].plot(x, rows["span_ms"], color=colour, marker="o", ms=3, label=name)
        axes[1].plot(x, rows["trimmed_kb"], color=colour, marker="o", ms=3, label=f"{name}: trimmed")
        if rows["budget_kb"].sum() > 0:
            axes[2].step(x, rows["budget_kb"], color=colour, where="mid", label=f"{name}: budget")
            axes[2].bar(x, rows["forgiven_kb"], color=colour, alpha=0.5, label=f"{name}: forgiven")
    reference = table.filter(pl.col("arm") == names[0])
    for axis in axes:
        _shade(axis, reference)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8, frameon=False, loc="upper right")
        axis.set_ylim(bottom=0)
    axes[0].set_ylabel("all-reduce, first to last rank (ms)")
    axes[1].set_ylabel("trimmed, all ranks (kB)")
    axes[2].set_ylabel("loss budget, all ranks (kB)")
    axes[2].set_xlabel("training step (grey: critical; darker = for more ranks)")
    axes[2].xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(", ".join(names))
    path = target or directory / "steps.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Command line: draw the picture of a finished run."""
    parser = argparse.ArgumentParser(prog="figures", description=main.__doc__)
    parser.add_argument("directory", type=Path, help="results directory of a finished run")
    chosen = parser.parse_args(arguments)
    try:
        path = draw(chosen.directory)
    except (FileNotFoundError, ResultsError) as problem:
        sys.stderr.write(f"figures: {problem}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
