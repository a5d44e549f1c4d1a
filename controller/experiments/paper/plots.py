# SPDX-License-Identifier: Apache-2.0
"""Pictures of a directory of cells, from their files alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from controller.experiments.paper.arms import ARMS
from controller.experiments.paper.metrics import step_spans
from controller.experiments.paper.rows import CellFiles

_COLOURS = ("#0b6e99", "#c8553d", "#588157", "#7b5ea7", "#b08900", "#444444", "#00a896", "#e07a9f", "#8d6e63",
            "#9aa5b1")  # fmt: skip

Cells = Mapping[tuple[str, int], CellFiles]


def draw(cells: Cells, directory: Path) -> None:
    """completion.png, budgets.png and queues.png. One seed each: the first that has most arms."""
    import matplotlib as mpl  # slow import, and it talks on machines without a home

    mpl.use("Agg")
    seeds = [seed for _, seed in cells]
    if not seeds:
        return
    seed = max(dict.fromkeys(seeds), key=seeds.count)
    chosen = {arm.key: cells[arm.key, seed] for arm in ARMS if (arm.key, seed) in cells}
    if not chosen:
        return
    _completion(chosen, directory / "completion.png", seed)
    _budgets(chosen, directory / "budgets.png", seed)
    _queues(chosen, directory / "queues.png", seed)


def _completion(cells: Mapping[str, CellFiles], path: Path, seed: int) -> None:
    """Gradient all-reduce over all ranks, per step."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    for (key, cell), colour in zip(cells.items(), itertools.cycle(_COLOURS), strict=False):
        spans = step_spans(cell)
        axes.plot(list(spans), list(spans.values()), marker="o", ms=3, color=colour, label=key)
    study = next(iter(cells.values())).manifest["study"]
    for step in study["critical_steps"]:
        axes.axvspan(step - 0.5, step + 0.5, color="#000000", alpha=0.1, lw=0)
    if study["burst"]:
        axes.axvline(study["burst"]["step"], color="#000000", lw=0.8, ls=":")
    axes.set(xlabel="step (grey: critical; dotted: burst)", ylabel="gradient all-reduce, ms", ylim=(0, None))
    axes.set_title(f"First start to last end over all ranks, seed {seed}", loc="left")
    axes.legend(ncols=2, fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _middle_step(cell: CellFiles) -> int:
    """A step without burst, not critical if there is one."""
    study = cell.manifest["study"]
    steps = range(1, study["steps"] + 1)
    others = [s for s in steps if s not in study["critical_steps"]] or list(steps)
    return others[len(others) // 2]


def _budgets(cells: Mapping[str, CellFiles], path: Path, seed: int) -> None:
    """Budget, forgiven, trimmed over one step, sums over ranks, per arm that has a budget."""
    import matplotlib.pyplot as plt

    having = {key: cell for key, cell in cells.items() if cell.steps["budget_bytes"].sum() > 0}
    if not having:
        return
    figure, axes = plt.subplots(
        1, len(having), figsize=(3.2 * len(having), 3.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (key, cell) in zip(axes[0], having.items(), strict=True):
        step = _middle_step(cell)
        rows = cell.timeline.filter(pl.col("step") == step).sort("time_ns")
        times = (rows["time_ns"] - (rows["time_ns"].min() or 0)) / 1e6
        for column, colour in (("budget", "#444444"), ("trimmed", "#c8553d"), ("forgiven", "#0b6e99"),
                               ("outstanding", "#b08900")):  # fmt: skip
            axis.plot(times, rows[f"{column}_bytes"] / 1e6, color=colour, label=column)
        axis.set_title(f"{key}, step {step}", loc="left", fontsize=9)
        axis.set_xlabel("ms since the step opened")
    axes[0][0].set_ylabel(f"MB, all ranks (seed {seed})")
    axes[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _queues(cells: Mapping[str, CellFiles], path: Path, seed: int) -> None:
    """Largest data queue by kind of port over the run."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(cells), 1, figsize=(9, 1.4 * len(cells) + 1), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (key, cell) in zip(axes[:, 0], cells.items(), strict=True):
        for ports, colour in zip(cell.queues["ports"].unique().sort(), _COLOURS, strict=False):
            rows = cell.queues.filter(pl.col("ports") == ports).sort("time_ns")
            axis.plot(rows["time_ns"] / 1e6, rows["largest_bytes"] / 1e6, color=colour, lw=0.6, label=ports)
        axis.set_title(key, loc="left", fontsize=8)
        axis.set_ylabel("MB", fontsize=8)
    if axes[0, 0].lines:
        axes[0, 0].legend(fontsize=7, ncols=3)
    axes[-1, 0].set_xlabel(f"ms (seed {seed}); largest data queue of its kind")
    figure.savefig(path, dpi=130)
    plt.close(figure)
