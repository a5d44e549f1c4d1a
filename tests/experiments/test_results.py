# SPDX-License-Identifier: Apache-2.0
"""Result files and what is made from them; the scripts' command lines."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from controller.experiments import figures, records
from controller.experiments.records import ArmRecord, StepRecord, TpRecord
from controller.experiments.training_run import hidden_width

REPOSITORY = Path(__file__).parents[2]


def step_record(arm: str, step: int, rank: int) -> StepRecord:
    values: dict[str, object] = {
        f.name: {"int": 1, "float": 1.0, "bool": False}.get(str(f.type)) for f in fields(StepRecord)
    }
    values |= {
        "arm": arm,
        "step": step,
        "rank": rank,
        "start_ns": 0,
        "end_ns": 5_000_000 * step,
        "critical": step == 1,
    }
    return StepRecord(**values)  # type: ignore[arg-type]


def arm_record(arm: str) -> ArmRecord:
    values: dict[str, object] = {
        f.name: {"int": 1, "float": 0.5}.get(str(f.type), arm) for f in fields(ArmRecord)
    }
    return ArmRecord(**values)  # type: ignore[arg-type]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    rows = [step_record(arm, s, r) for arm in ("a", "b") for s in (1, 2, 3) for r in (0, 1)]
    tp = [TpRecord("a", "h2", 1, 0, 7)]
    described = records.manifest({"seed": 1}, {"boot": 1.5})
    records.save(tmp_path, rows, [arm_record("a"), arm_record("b")], tp, described)
    return tmp_path


def test_records_come_back_as_they_were(finished: Path) -> None:
    steps, arms, tp = records.load(finished)
    assert StepRecord(**steps.row(3, named=True)) == step_record("a", 2, 1)
    assert [ArmRecord(**row) for row in arms.iter_rows(named=True)] == [arm_record("a"), arm_record("b")]
    assert tp["completion_ns"].to_list() == [7]
    described = json.loads((finished / "manifest.json").read_text())
    assert described["configuration"] == {"seed": 1} and described["seconds"] == {"boot": 1.5}


def test_the_picture_is_made_from_the_files_alone(finished: Path) -> None:
    assert figures.main([str(finished)]) == 0
    assert (finished / "steps.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_run_that_did_not_finish_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert figures.main([str(tmp_path)]) == 2
    assert "no steps.parquet" in capsys.readouterr().err


def test_the_model_is_about_as_large_as_asked_for() -> None:
    def parameters(h: int) -> int:
        return 64 * h + h + h * h + h + 10 * h + 10

    for wanted in (4096, 100_000, 1_048_576):
        width = hidden_width(wanted)
        assert 4 * parameters(width) <= wanted < 4 * parameters(width + 1)


SCRIPTS = ("demo", "forgive_probability", "no_vesting", "shedding")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"controller.experiments.{script}", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_says_what_to_expect(script: str) -> None:
    answer = run(script, "--help")
    assert answer.returncode == 0 and "xpect" in answer.stdout and "--seed" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "0"], "--steps 0: give 1 or more"),
        (["--share", "2"], "--share 2.0"),
        (["--seed", "-1"], "--seed -1"),
        (["--profile", "nothing"], "profile nothing"),
        (["--set", "budget.p_high_ppm=-1"], "p_high_ppm"),
        (["--target", "nothing"], "no target nothing"),
    ],
)
def test_bad_options_are_one_line_and_status_2(arguments: list[str], words: str) -> None:
    answer = run("demo", *arguments)
    assert answer.returncode == 2
    assert words in answer.stderr and answer.stderr.count("\n") == 1
