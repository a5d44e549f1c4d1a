# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: one row per arm, step and rank, and a summary per arm.

Files in a results directory:
    steps.parquet     StepRecord rows
    arms.parquet      ArmRecord rows
    tp.parquet        TpRecord rows: the tensor-parallel-like messages
    manifest.json     configuration, seeds, versions, times; enough to run it again
Bytes are payload bytes, times are nanoseconds, counts are packets unless said.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One rank's step."""

    arm: str
    step: int
    rank: int
    critical: bool
    gradient_norm: float
    norm_change: float
    p_ppm: int
    expected_bytes: int
    budget_bytes: int
    received_bytes: int
    forgiven_bytes: int
    trimmed_bytes: int
    outstanding_bytes: int
    shed_bytes: int
    start_ns: int
    end_ns: int
    sent_bytes: int
    retransmitted_bytes: int
    timeouts: int
    rate_cuts: int
    echoes_sent: int
    notifications_taken: int
    notifications_ignored: int
    exhausted_set: int
    exhausted_cleared: int
    became_exempt: int
    became_obeying: int
    refused_vesting: int
    refused_draw: int
    late: int
    loss: float

    @property
    def completion_ns(self) -> int:
        """The rank's all-reduce, from the first post to the last settled byte."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class TpRecord:
    """One message of the traffic that is never eligible, in order of arrival; from the step's start."""

    arm: str
    host: str
    step: int
    message: int
    completion_ns: int


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """One arm, whole run. trim_rate: payload bytes trimmed at switches / first sent, all traffic.

    drift: largest relative L2 distance of a replica's weights from rank 0's.
    """

    arm: str
    seed: int
    steps: int
    training_ns: int
    trim_rate: float
    gradient_trim_rate: float
    sent_bytes: int
    sent_packets: int
    retransmitted_bytes: int
    forgiven_bytes: int
    shed_bytes: int
    forwarded: int
    marked: int
    trimmed: int
    dropped: int
    lost: int
    training_loss: float
    test_accuracy: float
    drift: float
    violations: int


def _frame(rows: Sequence[Any], kind: type) -> pl.DataFrame:
    types = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    schema = {f.name: types[str(f.type)] for f in fields(kind)}
    return pl.DataFrame([asdict(r) for r in rows], schema=schema)


def manifest(configuration: Mapping[str, Any], timings: Mapping[str, float]) -> dict[str, Any]:
    """The exact configuration and where it ran. timings in seconds."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )  # fmt: skip
    return {
        "configuration": dict(configuration),
        "seconds": dict(timings),
        "commit": git.stdout.strip() or None,
        "versions": {"python": sys.version.split()[0]}
        | {name: version(name) for name in ("finsy", "grpcio", "numpy", "polars", "protobuf")},
        "machine": {"system": platform.platform(), "cpus": os.cpu_count()},
    }


def save(
    directory: Path,
    steps: Sequence[StepRecord],
    arms: Sequence[ArmRecord],
    tp: Sequence[TpRecord],
    described: Mapping[str, Any],
) -> None:
    """Write the four files; the manifest last, so that its presence says the rest is whole."""
    directory.mkdir(parents=True, exist_ok=True)
    _frame(steps, StepRecord).write_parquet(directory / "steps.parquet")
    _frame(arms, ArmRecord).write_parquet(directory / "arms.parquet")
    _frame(tp, TpRecord).write_parquet(directory / "tp.parquet")
    (directory / "manifest.json").write_text(json.dumps(described, indent=2, sort_keys=True) + "\n")


def load(directory: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(steps, arms, tp) of a results directory."""
    for name in ("steps", "arms", "tp"):
        if not (directory / f"{name}.parquet").is_file():
            raise FileNotFoundError(f"{directory}: no {name}.parquet; give the directory of a finished run")
    return (
        pl.read_parquet(directory / "steps.parquet"),
        pl.read_parquet(directory / "arms.parquet"),
        pl.read_parquet(directory / "tp.parquet"),
    )
