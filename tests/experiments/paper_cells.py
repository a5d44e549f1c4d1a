# SPDX-License-Identifier: Apache-2.0
"""Cells made by hand, and the settings of a fabric so small that a cell takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.experiments.paper import rows

SMALL = (
    "fabric.leaves=2", "fabric.hosts_per_leaf=2", "fabric.spines=1", "study.tensor_parallel=2",
    "study.data_parallel=2", "study.dp_width=1", "study.tp_bytes=1_048_576", "study.dp_bytes=2_000_003",
    "study.compute_ns=100_000", "study.steps=4", "study.critical_steps=[1]", "study.burst.step=3",
    "study.burst.sources=3", "study.burst.receiver=2", "study.burst.message_bytes=1_000_000",
)  # fmt: skip
"""Two leaves of two hosts, one spine, four steps."""

ARM, SEED = "forgive", 7

STUDY: dict[str, Any] = {
    "tensor_parallel": 2, "data_parallel": 2, "steps": 4, "critical_steps": [1], "compute_ns": 100,
    "dp_bytes": 1_000_000, "burst": {"step": 3},
}  # fmt: skip


def collective(step: int, rank: int, start_ns: int, end_ns: int, kind: str = "dp", **more: int) -> Any:
    values: dict[str, Any] = {"index": 0, "missing_bytes": 0, "shed_bytes": 0} | more
    return rows.CollectiveRow(
        arm=ARM, seed=SEED, rank=rank, step=step, kind=kind, start_ns=start_ns, end_ns=end_ns, **values
    )


def step(number: int, rank: int, **more: int) -> Any:
    """A rank's step with a budget of 100,000 bytes, or 5,000 if it is critical."""
    values: dict[str, Any] = dict.fromkeys(rows.StepRow.__dataclass_fields__, 0)
    critical = number in STUDY["critical_steps"]
    values |= {
        "arm": ARM, "seed": SEED, "rank": rank, "step": number, "critical": critical,
        "expected_bytes": 1_000_000, "budget_bytes": 5_000 if critical else 100_000,
    }  # fmt: skip
    return rows.StepRow(**(values | more))


def flow(kind: str, number: int, **more: int) -> Any:
    values: dict[str, Any] = dict.fromkeys(rows.FlowRow.__dataclass_fields__, 0)
    values |= {"arm": ARM, "seed": SEED, "kind": kind, "step": number, "messages": 10}
    return rows.FlowRow(**(values | more))


def totals(**more: int) -> Any:
    values: dict[str, Any] = dict.fromkeys(rows.TotalsRow.__dataclass_fields__, 0)
    return rows.TotalsRow(**(values | {"arm": ARM, "seed": SEED, "steps": 4, "ranks": 4} | more))


def cell(directory: Path, tables: dict[str, list[Any]], **manifest: Any) -> rows.CellFiles:
    """Written and read again."""
    directory.mkdir(parents=True, exist_ok=True)
    full: dict[str, list[Any]] = {name: [] for name in rows.FILES}
    described: dict[str, Any] = {
        "arm": ARM, "seed": SEED, "study": STUDY, "whole_study": STUDY, "payload_bytes": 4096,
        "rate_control": True, "violations": [], "fingerprint": "0", "seconds": {"wall": 1.0, "cpu": 1.0},
    }  # fmt: skip
    rows.save(directory, full | tables, described | manifest)
    return rows.load(directory)
