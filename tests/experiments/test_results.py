# SPDX-License-Identifier: Apache-2.0
"""Result files and what is made from them; the scripts' command lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from controller.experiments import figures, records, session
from controller.experiments.arms import FORGIVE
from controller.experiments.records import ArmRecord, ResultsError, StepRecord, TpRecord
from controller.experiments.session import topology_of
from controller.experiments.training_run import hidden_width
from profiles import load

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


def test_a_broken_file_is_one_clear_line(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (finished / "arms.parquet").write_bytes(b"PAR1 and no more")
    assert figures.main([str(finished)]) == 2
    err = capsys.readouterr().err
    assert "unreadable" in err and err.count("\n") == 1


def test_results_replace_results_and_nothing_else(finished: Path) -> None:
    (finished / "arms" / "a").mkdir(parents=True)
    (finished / "arms" / "a" / "h1.log").write_text("x")
    records.prepare_directory(finished)
    assert [p.name for p in finished.iterdir()] == ["unfinished"]
    records.prepare_directory(finished)  # what an interrupted run left
    assert [p.name for p in finished.iterdir()] == ["unfinished"]


@pytest.mark.parametrize("names", [["thesis.tex"], ["arms"], ["manifest.json", "thesis.tex"]])
def test_a_directory_with_anything_else_is_left_alone(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ResultsError, match="nothing here is deleted"):
        records.prepare_directory(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)


def test_a_link_in_old_results_is_not_followed(tmp_path: Path) -> None:
    elsewhere, results = tmp_path / "elsewhere", tmp_path / "r"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    records.prepare_directory(results)
    (results / "arms").symlink_to(elsewhere)
    records.prepare_directory(results)
    assert (elsewhere / "precious").exists() and not (results / "arms").exists()


def test_finished_results_say_so(finished: Path) -> None:
    records.prepare_directory(finished)
    assert (finished / "unfinished").exists()
    records.save(finished, [], [], [], {})
    assert not (finished / "unfinished").exists()


def test_a_leaf_spine_is_built_whatever_k_says() -> None:
    profile = load("mininet").override(
        {"fabric.family": "leaf_spine", "fabric.leaves": 2, "fabric.spines": 2, "fabric.hosts_per_leaf": 3}
    )
    assert len(topology_of(profile).hosts) == 6


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
        (["--steps", "many"], "--steps"),
        (["--link-rate", "-5"], "--link-rate -5"),
        (["--link-rate", "5"], "link rate 5 bit/s"),
        (["--set", "workload.ranks=99"], "99 ranks"),
        (["--set", "fabric.k=3"], "k is 3"),
        (["--set", "nonsense"], "--set nonsense"),
        (["--results", __file__], "not a directory"),
        (["--results", str(REPOSITORY)], "nothing here is deleted"),
    ],
)
def test_bad_options_are_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = session.main("demo", "", (FORGIVE,), arguments)
    except SystemExit as left:  # as argparse leaves
        status = int(str(left.code))
    said = capsys.readouterr()
    assert status == 2
    assert words in said.err and said.err.count("\n") == 1 and said.out == ""


@pytest.mark.parametrize("results", ["/proc/nowhere", "/dev/null/r"])
def test_a_place_that_takes_no_results_is_one_line(results: str) -> None:
    with pytest.raises(ResultsError, match=results.split("/r")[0]):
        records.prepare_directory(Path(results))


def test_mininet_without_root_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    asked = ["--where", "mininet", "--results", str(tmp_path / "r")]
    assert session.main("demo", "", (FORGIVE,), asked) == 2
    said = capsys.readouterr()
    assert "need root" in said.err and said.err.count("\n") == 1 and said.out == ""
    assert not (tmp_path / "r").exists()
