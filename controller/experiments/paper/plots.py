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
    from matplotlib.ticker import MaxNLocator

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for (key, cell), colour in zip(cells.items(), itertools.cycle(_COLOURS), strict=False):
        spans = step_spans(cell)
        exempts = cell.flows["exempt_flows"].sum() > 0
        axes.plot(
            list(spans),
            list(spans.values()),
            marker="o",
            ms=3,
            color=colour,
            ls="-" if exempts else "--",
            label=key,
        )
    study = next(iter(cells.values())).manifest["study"]
    for step in study["critical_steps"]:
        axes.axvspan(step - 0.5, step + 0.5, color="#000000", alpha=0.1, lw=0)
    if study["burst"]:
        axes.axvline(study["burst"]["step"], color="#000000", lw=0.8, ls=":")
    axes.set(ylabel="gradient all-reduce, ms", ylim=(0, None))
    axes.set_xlabel("step (grey: critical; dotted: burst; dashed lines: arms without exemption)")
    axes.set_title(f"First start to last end over all ranks, seed {seed}", loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper", fontsize=8)
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
        2, len(having), figsize=(2.6 * len(having) + 1, 5), sharey="row", sharex="col", squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for (upper, lower), (key, cell) in zip(axes.T, having.items(), strict=True):
        step = _middle_step(cell)
        rows = cell.timeline.filter(pl.col("step") == step).sort("time_ns")
        times = (rows["time_ns"] - (rows["time_ns"].min() or 0)) / 1e6
        for column, colour in (("budget", "#444444"), ("trimmed", "#c8553d"), ("forgiven", "#0b6e99"),
                               ("outstanding", "#b08900")):  # fmt: skip
            axis = upper if column == "trimmed" else lower
            axis.plot(times, rows[f"{column}_bytes"] / 1e6, color=colour, label=column)
        upper.set_title(f"{key}, step {step}", loc="left", fontsize=9)
        lower.set_xlabel("ms since the step opened")
    for axis in axes[:, 0]:
        axis.set_ylabel("MB, all ranks")
        axis.legend(fontsize=8)
    figure.suptitle(
        f"Trimmed above, charged to the budget below; seed {seed}", x=0.01, ha="left", fontsize=10
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _queues(cells: Mapping[str, CellFiles], path: Path, seed: int) -> None:
    """Largest data queue by kind of port: over the run, and over the gradient all-reduce of one step."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(cells), 2, figsize=(10, 1.2 * len(cells) + 1), sharey=True, squeeze=False, layout="constrained",
        width_ratios=(3, 2),
    )  # fmt: skip
    for (whole, one), (key, cell) in zip(axes, cells.items(), strict=True):
        step = _middle_step(cell)
        gradient = cell.collectives.filter((pl.col("kind") == "dp") & (pl.col("step") == step))
        # A moment at which a kind of port had nothing in its queues has no row.
        moments = cell.queues.select("time_ns").unique().sort("time_ns")
        for ports, colour in zip(cell.queues["ports"].unique().sort(), _COLOURS, strict=False):
            rows = cell.queues.filter(pl.col("ports") == ports)
            full = moments.join(rows, on="time_ns", how="left").sort("time_ns")
            times, depths = full["time_ns"] / 1e6, full["largest_bytes"].fill_null(0) / 1e6
            for axis in (whole, one):
                axis.plot(times, depths, color=colour, lw=0.7, alpha=0.85, drawstyle="steps-pre", label=ports)
        starts, ends = gradient["start_ns"].to_list(), gradient["end_ns"].to_list()
        one.set_xlim(min(starts, default=0) / 1e6, max(ends, default=1) / 1e6)
        whole.set_title(key, loc="left", fontsize=8)
        one.set_title(f"step {step}", loc="left", fontsize=8)
        whole.set_ylabel("MB", fontsize=8)
    if axes[0, 0].lines:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside upper right")
    for axis in axes[-1]:
        axis.set_xlabel(f"ms (seed {seed}); largest data queue of its kind", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
