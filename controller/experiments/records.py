# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: one row per arm, step and rank, and a summary per arm.

Files in a results directory:
    steps.parquet     StepRecord rows
    arms.parquet      ArmRecord rows
    tp.parquet        TpRecord rows: the tensor-parallel-like messages
    manifest.json     configuration, seeds, versions, times; enough to run it again
    steps.png         the picture, made from the files above
    arms/             per arm: what its hosts were told and wrote; captures and gradients when kept
    unfinished        there from the start of a run until its files are written
Bytes are payload bytes, times are nanoseconds, counts are packets unless said.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
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
    """One rank's step.

    What a rank does as a receiver (budget, received ... outstanding, echoes_sent, exhausted_*, refused_*,
    late) and as a sender (sent ... rate_cuts, notifications_*, became_*) stands in one row: the latter went
    to all other ranks, whose steps need not be critical when this rank's is. Event counts are differences
    from the end of the step before, when every message was settled; a late duplicate counts in the step
    after.
    """

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


_FILES = ("steps.parquet", "arms.parquet", "tp.parquet", "manifest.json", "steps.png", "unfinished")
_OURS = frozenset((*_FILES, "arms"))
_UNFINISHED = "unfinished"


class ResultsError(RuntimeError):
    """A directory that can't take results. One line."""


def check_directory(directory: Path) -> None:
    """Only what a run left may be replaced by another's results. Raises ResultsError."""
    try:
        found = {entry.name for entry in directory.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ResultsError(f"{directory}: not a directory; give --results another one") from None
    except OSError as error:
        raise ResultsError(f"{directory}: {error.strerror}; give --results another directory") from None
    foreign = sorted(found - _OURS)
    if foreign or (found and not found & {"manifest.json", _UNFINISHED}):
        raise ResultsError(
            f"{directory}: not the results of a run (it has {(foreign or sorted(found))[0]}), and nothing "
            "here is deleted; give --results a new or empty directory"
        )


def prepare_directory(directory: Path) -> None:
    """Empty it of an earlier run's results, or make it. Raises ResultsError."""
    check_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _UNFINISHED).touch()  # first: what is half deleted stays recognisable
        for name in sorted(_OURS - {_UNFINISHED}):
            entry = directory / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
    except OSError as error:
        raise ResultsError(
            f"{error.filename or directory}: {error.strerror}; give --results another directory"
        ) from None


def _frame(rows: Sequence[Any], kind: type) -> pl.DataFrame:
    types = {"str": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    schema = {f.name: types[str(f.type)] for f in fields(kind)}
    return pl.DataFrame([asdict(r) for r in rows], schema=schema)


def manifest(configuration: Mapping[str, Any], timings: Mapping[str, float]) -> dict[str, Any]:
    """The exact configuration and where it ran. timings in seconds."""
    return {
        "configuration": dict(configuration),
        "seconds": dict(timings),
        "commit": _commit(),
        "versions": {"python": sys.version.split()[0]}
        | {name: version(name) for name in ("finsy", "grpcio", "numpy", "polars", "protobuf")},
        "machine": {"system": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count()},
    }


def _commit() -> str | None:
    """Of the sources that ran; None when they are no git checkout."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:  # no git here
        return None
    return answer.stdout.strip() or None


def save(
    directory: Path,
    steps: Sequence[StepRecord],
    arms: Sequence[ArmRecord],
    tp: Sequence[TpRecord],
    described: Mapping[str, Any],
) -> None:
    """Write the four files; the manifest last, so that its presence says the rest is whole.

    Raises ResultsError.
    """
    try:
        _save(directory, steps, arms, tp, described)
    except OSError as error:
        raise ResultsError(
            f"{error.filename or directory}: {error.strerror}; results were not written"
        ) from None


def _save(
    directory: Path,
    steps: Sequence[StepRecord],
    arms: Sequence[ArmRecord],
    tp: Sequence[TpRecord],
    described: Mapping[str, Any],
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    _frame(steps, StepRecord).write_parquet(directory / "steps.parquet")
    _frame(arms, ArmRecord).write_parquet(directory / "arms.parquet")
    _frame(tp, TpRecord).write_parquet(directory / "tp.parquet")
    (directory / "manifest.json").write_text(json.dumps(described, indent=2, sort_keys=True) + "\n")
    (directory / _UNFINISHED).unlink(missing_ok=True)


def load(directory: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(steps, arms, tp) of a results directory. Raises FileNotFoundError, ResultsError."""
    for name in ("steps", "arms", "tp"):
        if not (directory / f"{name}.parquet").is_file():
            raise FileNotFoundError(f"{directory}: no {name}.parquet; give the directory of a finished run")
    try:
        steps, arms, tp = (pl.read_parquet(directory / f"{n}.parquet") for n in ("steps", "arms", "tp"))
    except (pl.exceptions.PolarsError, OSError) as problem:
        why = str(problem).strip().splitlines()[0]
        raise ResultsError(f"{directory}: unreadable ({why}); give the directory of a finished run") from None
    return steps, arms, tp
