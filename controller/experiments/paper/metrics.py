# SPDX-License-Identifier: Apache-2.0
"""Every figure of a cell, from its files alone.

`METRICS` has each figure's unit and definition. In a run of fewer steps, sums over a run are put together
from the mean critical step and the mean other step, as many of each as the whole study has; all else is of
the steps that were run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import polars as pl

from controller.experiments.paper.rows import CellFiles

Figures = dict[str, float]

METRICS: Mapping[str, tuple[str, str]] = {
    "training_ms": ("ms", "from the start to the last rank's end of the last step"),
    "reduction_percent": ("%", "training time saved against the tight baseline of the same seed"),
    "dp_median_ms": ("ms", "gradient all-reduce of a rank, from its start until it has received everything; "
                     "median over ranks and non-critical steps"),
    "dp_p99_ms": ("ms", "the same, 99th percentile"),
    "dp_critical_median_ms": ("ms", "the same, median over ranks and critical steps"),
    "dp_span_median_ms": ("ms", "first start to last end of a step's gradient all-reduce over all ranks; "
                          "median over the non-critical steps before the burst's"),
    "dp_span_burst_step_ms": ("ms", "the same, the step of the burst"),
    "dp_span_after_burst_ms": ("ms", "the same, the step after it"),
    "goodput_gb_per_s": ("GB/s", "gradient bytes of all ranks before the all-reduce, less the share that was "
                         "forgiven or shed, over the spans; non-critical steps"),
    "tp_median_ms": ("ms", "first start to last end of a tensor-parallel all-reduce over its ranks; median"),
    "tp_mean_ms": ("ms", "the same, mean"),
    "tp_p99_ms": ("ms", "the same, 99th percentile"),
    "tp_max_ms": ("ms", "the same, longest"),
    "tp_change_percent": ("%", "the mean against the tight baseline's of the same seed"),
    "trimmed_percent": ("%", "W: payload bytes that switches trimmed, of all bytes first sent"),
    "unforgiven_percent": ("%", "W': the same less forgiven bytes"),
    "lost_percent": ("%", "gradient bytes forgiven or shed, of all gradient bytes of the schedule"),
    "late_percent": ("%", "of the same: arrived after they were forgiven"),
    "retransmitted_percent": ("%", "payload bytes sent again, of all bytes of the schedule"),
    "timeouts": ("", "retransmission timeouts with data outstanding"),
    "signals_taken_million": ("10^6", "congestion signals that reached rate control, all flows"),
    "signals_ignored_million": ("10^6", "congestion signals withheld from exempt flows"),
    "rate_cuts_million": ("10^6", "rate decreases, all flows"),
    "exempt_flows_percent": ("%", "gradient flows that were exempt at some time"),
    "exempt_time_percent": ("%", "of gradient flows' time, non-critical steps: exempt"),
    "flag_changes_per_exempt_flow": ("", "changes of the exhausted flag as the sender sees it"),
    "obeying_again_flows_percent": ("%", "of the flows that were exempt: obeyed again later"),
    "obeying_again_ms_each": ("ms", "for how long, mean over those that did"),
    "obeying_again_ms_per_exempt_flow": ("ms", "for how long, mean over all that were exempt"),
    "budget_used_percent": ("%", "forgiven of the loss budget, non-critical steps"),
    "budget_used_critical_percent": ("%", "the same, critical steps"),
    "first_fifth_trimmed_gb": ("GB", "gradient bytes trimmed before a fifth of the step had settled"),
    "last_fifth_trimmed_gb": ("GB", "the same, the last fifth"),
    "first_fifth_forgiven_percent": ("%", "forgiven of what was trimmed in the first fifth"),
    "last_fifth_forgiven_percent": ("%", "the same, the last fifth"),
    "burst_drain_ms": ("ms", "from the burst's start until its last sender has its last acknowledgement"),
}  # fmt: skip


@dataclass(frozen=True)
class _Steps:
    """Which steps a cell ran, and how often each counts in a whole run."""

    steps: tuple[int, ...]
    critical: frozenset[int]
    weights: Mapping[int, float]
    burst: int | None
    compute_ns: int
    dp_bytes: int

    @classmethod
    def of(cls, cell: CellFiles) -> _Steps:
        study, whole = cell.manifest["study"], cell.manifest["whole_study"]
        steps = tuple(range(1, study["steps"] + 1))
        critical = frozenset(s for s in study["critical_steps"] if s in steps)
        wholly = sum(s <= whole["steps"] for s in whole["critical_steps"])
        counts = {True: wholly, False: whole["steps"] - wholly}
        ran = {True: len(critical), False: len(steps) - len(critical)}
        if not all(ran.values()):  # one kind stands for both
            share = whole["steps"] / len(steps)
            weights = dict.fromkeys(steps, share)
        else:
            weights = {s: counts[s in critical] / ran[s in critical] for s in steps}
        burst = study["burst"]["step"] if study["burst"] else None
        return cls(steps, critical, weights, burst, study["compute_ns"], study["dp_bytes"])

    @property
    def others(self) -> list[int]:
        return [s for s in self.steps if s not in self.critical]

    def whole(self, by_step: Mapping[int, float]) -> float:
        """A sum over the whole study's steps."""
        return sum(self.weights[step] * value for step, value in by_step.items())


def _by_step(table: pl.DataFrame, column: str) -> dict[int, float]:
    return {
        step: float(value) for step, value in table.group_by("step").agg(pl.col(column).sum()).iter_rows()
    }


def _ratio(part: float, all_of_it: float) -> float:
    return 100 * part / all_of_it if all_of_it else 0.0


def step_spans(cell: CellFiles) -> dict[int, float]:
    """First start to last end of each step's gradient all-reduce over all ranks, ms."""
    spans = (
        cell.collectives.filter(pl.col("kind") == "dp")
        .group_by("step")
        .agg((pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e6)
    )
    return dict(sorted(spans.iter_rows()))


def _training_ms(cell: CellFiles, steps: _Steps) -> float:
    total = int(cell.totals["training_ns"][0])
    if all(weight == 1 for weight in steps.weights.values()):
        return total / 1e6
    gradient = cell.collectives.filter(pl.col("kind") == "dp")
    ends = dict(sorted(gradient.group_by("step").agg(pl.col("end_ns").max()).iter_rows()))
    # From optimizer to optimizer.
    marks = [0, *(end + steps.compute_ns for end in ends.values())]
    return steps.whole({s: marks[i + 1] - marks[i] for i, s in enumerate(ends)}) / 1e6


def _times(cell: CellFiles, steps: _Steps) -> Figures:
    gradient = cell.collectives.filter(pl.col("kind") == "dp").with_columns(
        ((pl.col("end_ns") - pl.col("start_ns")) / 1e6).alias("ms")
    )
    found: Figures = {}
    others = gradient.filter(pl.col("step").is_in(steps.others))["ms"]
    if len(others):
        found["dp_median_ms"] = _quantile(others, 0.5)
        found["dp_p99_ms"] = _quantile(others, 0.99)
    critical = gradient.filter(pl.col("step").is_in(sorted(steps.critical)))["ms"]
    if len(critical):
        found["dp_critical_median_ms"] = _quantile(critical, 0.5)
    spans = step_spans(cell)
    before = [spans[s] for s in steps.others if steps.burst is None or s < steps.burst]
    if before:
        found["dp_span_median_ms"] = median(before)
    if steps.burst in spans:
        found["dp_span_burst_step_ms"] = spans[steps.burst]
        if steps.burst + 1 in spans:
            found["dp_span_after_burst_ms"] = spans[steps.burst + 1]
        flows = cell.collectives.filter(pl.col("kind") == "burst")
        found["burst_drain_ms"] = float((flows["end_ns"] - flows["start_ns"]).max()) / 1e6  # type: ignore[arg-type]
    if steps.others:
        rows = cell.steps.filter(pl.col("step").is_in(steps.others))
        missing = float(gradient.filter(pl.col("step").is_in(steps.others))["missing_bytes"].sum())
        delivered = 1 - missing / max(1.0, float(rows["expected_bytes"].sum()))
        seconds = sum(spans[s] for s in steps.others) / 1e3
        found["goodput_gb_per_s"] = len(rows) * steps.dp_bytes * delivered / seconds / 1e9
    return found


def _quantile(values: pl.Series, share: float) -> float:
    found = values.quantile(share, "nearest")
    assert found is not None
    return float(found)


def tensor_spans(cell: CellFiles) -> pl.Series:
    """First start to last end of every tensor-parallel all-reduce over its ranks, ms."""
    width = cell.manifest["study"]["tensor_parallel"]
    return (
        cell.collectives.filter(pl.col("kind") == "tp")
        .group_by(pl.col("rank") // width, "step", "index", maintain_order=True)
        .agg(((pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e6).alias("ms"))["ms"]
    )


def _tensor(cell: CellFiles) -> Figures:
    spans = tensor_spans(cell)
    if not len(spans):
        return {}
    return {
        "tp_median_ms": _quantile(spans, 0.5),
        "tp_mean_ms": float(spans.mean()),  # type: ignore[arg-type]
        "tp_p99_ms": _quantile(spans, 0.99),
        "tp_max_ms": float(spans.max()),  # type: ignore[arg-type]
    }


def _bytes(cell: CellFiles, steps: _Steps) -> Figures:
    flows, rows = cell.flows, cell.steps
    gradient = flows.filter(pl.col("kind") == "dp")
    others = flows.filter(pl.col("kind") != "dp")
    payload = cell.manifest["payload_bytes"]
    offered = steps.whole(_by_step(flows, "bytes"))
    shed = steps.whole(_by_step(cell.collectives, "shed_bytes"))
    forgiven = steps.whole(_by_step(gradient, "forgiven_bytes"))
    # Of traffic outside any step a NIC keeps no bytes; every trimmed packet of it is requested, and full.
    trimmed = steps.whole(_by_step(rows, "checked_trimmed_bytes"))
    trimmed += payload * steps.whole(_by_step(others, "repair_requests"))
    share = sum(steps.weights.values()) / len(steps.steps)
    totals = cell.totals.row(0, named=True)
    trimmed += share * payload * totals["lost_headers"]
    schedule = steps.whole(_by_step(rows, "expected_bytes"))
    return {
        "trimmed_percent": _ratio(trimmed, offered),
        "unforgiven_percent": _ratio(trimmed - forgiven, offered),
        "lost_percent": _ratio(shed + forgiven, schedule),
        "late_percent": _ratio(share * totals["late_bytes"], schedule),
        "retransmitted_percent": _ratio(steps.whole(_by_step(flows, "retransmitted_bytes")), offered + shed),
    }


def _signals(cell: CellFiles, steps: _Steps) -> Figures:
    flows, rows = cell.flows, cell.steps
    gradient = flows.filter(pl.col("kind") == "dp")
    exempt = float(gradient["exempt_flows"].sum())
    again = float(gradient["obeying_again_flows"].sum())
    again_ms = float(gradient["obeying_again_ns"].sum()) / 1e6
    taken = steps.whole(_by_step(flows, "signals")) if cell.manifest["rate_control"] else 0.0
    found = {
        "timeouts": steps.whole(_by_step(flows, "timeouts")),
        "signals_taken_million": taken / 1e6,
        "signals_ignored_million": steps.whole(_by_step(rows, "signals_ignored")) / 1e6,
        "rate_cuts_million": steps.whole(_by_step(flows, "rate_cuts")) / 1e6,
        "exempt_flows_percent": _ratio(exempt, float(gradient["messages"].sum())),
    }
    if exempt:
        found["flag_changes_per_exempt_flow"] = float(gradient["flag_changes"].sum()) / exempt
        found["obeying_again_flows_percent"] = _ratio(again, exempt)
        found["obeying_again_ms_each"] = again_ms / again if again else 0.0
        found["obeying_again_ms_per_exempt_flow"] = again_ms / exempt
        slack = gradient.filter(pl.col("step").is_in(steps.others))
        found["exempt_time_percent"] = _ratio(
            float(slack["exempt_ns"].sum()), float(slack["duration_sum_ns"].sum())
        )
    return found


def _budgets(cell: CellFiles, steps: _Steps) -> Figures:
    rows = cell.steps
    found: Figures = {}
    for name, chosen in (("", steps.others), ("critical_", sorted(steps.critical))):
        table = rows.filter(pl.col("step").is_in(chosen))
        if budget := float(table["budget_bytes"].sum()):
            found[f"budget_used_{name}percent"] = _ratio(float(table["forgiven_bytes"].sum()), budget)
    if not found:  # without eligible flows nothing is counted as received, and all is in the first fifth
        return found
    for name, fifth in (("first", 1), ("last", 5)):
        trimmed = steps.whole(_by_step(rows, f"trimmed_fifth_{fifth}"))
        forgiven = steps.whole(_by_step(rows, f"forgiven_fifth_{fifth}"))
        found[f"{name}_fifth_trimmed_gb"] = trimmed / 1e9
        found[f"{name}_fifth_forgiven_percent"] = _ratio(forgiven, trimmed)
    return found


def figures(cell: CellFiles) -> Figures:
    """All figures that a cell has by itself; which there are depends on the arm and on the steps."""
    steps = _Steps.of(cell)
    found = {"training_ms": _training_ms(cell, steps)}
    found |= _times(cell, steps) | _tensor(cell) | _bytes(cell, steps)
    return found | _signals(cell, steps) | _budgets(cell, steps)


def against(found: Figures, baseline: Figures) -> Figures:
    """With the figures that compare a cell with the tight baseline of its seed."""
    reduction = 100 * (1 - found["training_ms"] / baseline["training_ms"])
    more = {"reduction_percent": reduction}
    if "tp_mean_ms" in found:
        more["tp_change_percent"] = 100 * (found["tp_mean_ms"] / baseline["tp_mean_ms"] - 1)
    return found | more
