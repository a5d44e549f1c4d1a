# SPDX-License-Identifier: Apache-2.0
"""The side-by-side table of a run's arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from rich.table import Table

from controller.experiments.records import StepRecord
from controller.experiments.verdict import Verdict


def _time(value: float) -> str:
    """Four digits that count, whatever the link rate: Mininet's times are seconds, a simulated fabric's
    microseconds.
    """
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _spans(rows: Sequence[StepRecord]) -> list[float]:
    """Per step, first start to last end over ranks, ms."""
    steps = sorted({r.step for r in rows})
    return [
        (max(r.end_ns for r in rows if r.step == s) - min(r.start_ns for r in rows if r.step == s)) / 1e6
        for s in steps
    ]


def _shared(rows: Sequence[StepRecord], critical: bool) -> str:
    """Forgiven against budget on critical or other steps."""
    chosen = [r for r in rows if r.critical == critical]
    budget = sum(r.budget_bytes for r in chosen)
    if not budget:
        return "-"
    forgiven = sum(r.forgiven_bytes for r in chosen)
    return f"{forgiven:,} of {budget:,} ({forgiven / budget:.0%})"


def _total(field: str) -> Callable[[Verdict], str]:
    return lambda v: f"{sum(getattr(r, field) for r in v.steps):,}"


_ROWS: list[tuple[str, Callable[[Verdict], str]]] = [
    ("all-reduce, all steps (s)", lambda v: _time(v.arm.training_ns / 1e9)),
    ("all-reduce, median step (ms)", lambda v: _time(median(_spans(v.steps)))),
    ("all-reduce, slowest step (ms)", lambda v: _time(max(_spans(v.steps)))),
    ("ring message, median from step start (ms)", lambda v: (
        _time(median(r.completion_ns for r in v.tp) / 1e6) if v.tp else "-")),
    ("trim rate, all traffic", lambda v: f"{v.arm.trim_rate:.2%}"),
    ("trim rate, gradient", lambda v: f"{v.arm.gradient_trim_rate:.2%}"),
    ("rank-steps called critical", lambda v: f"{sum(r.critical for r in v.steps)} of {len(v.steps)}"),
    ("forgiven of budget, critical (bytes)", lambda v: _shared(v.steps, True)),
    ("forgiven of budget, other (bytes)", lambda v: _shared(v.steps, False)),
    ("shed by senders (bytes)", lambda v: f"{v.arm.shed_bytes:,}"),
    ("retransmitted (bytes)", lambda v: (
        f"{v.arm.retransmitted_bytes:,} ({v.arm.retransmitted_bytes / max(1, v.arm.sent_bytes):.2%})")),
    ("timeouts", _total("timeouts")),
    ("echoes sent by receivers", _total("echoes_sent")),
    ("notifications obeyed", _total("notifications_taken")),
    ("notifications ignored", _total("notifications_ignored")),
    ("budget-exhausted flag set / cleared", lambda v: (
        f"{sum(r.exhausted_set for r in v.steps)} / {sum(r.exhausted_cleared for r in v.steps)}")),
    ("flows became exempt / obeying again", lambda v: (
        f"{sum(r.became_exempt for r in v.steps)} / {sum(r.became_obeying for r in v.steps)}")),
    ("marked, trimmed, dropped at switches (packets)", lambda v: (
        f"{v.arm.marked:,}, {v.arm.trimmed:,}, {v.arm.dropped:,}")),
    ("training loss, last batch", lambda v: f"{v.arm.training_loss:.4f}"),
    ("test accuracy", lambda v: f"{v.arm.test_accuracy:.2%}"),
    ("drift between replicas", lambda v: f"{v.arm.drift:.2e}"),
    ("promises broken", lambda v: str(v.arm.violations)),
]  # fmt: skip


def side_by_side(verdicts: Sequence[Verdict]) -> Table:
    """One column per arm."""
    table = Table(title=f"{verdicts[0].arm.steps} steps, seed {verdicts[0].arm.seed}", title_justify="left")
    table.add_column("")
    for verdict in verdicts:
        table.add_column(verdict.arm.arm, justify="right")
    for label, value in _ROWS:
        table.add_row(label, *(value(v) for v in verdicts))
    return table
