# SPDX-License-Identifier: Apache-2.0
"""The main job on a simulated fabric: no root, no Mininet; recounted from captures all the same."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from controller.experiments import place, records
from topologies.isolate import IsolationError

pytestmark = pytest.mark.timeout(300)

REPOSITORY = Path(__file__).parents[2]
SMALL = [
    *("--set", "workload.gradient_bytes=262144"),
    *("--set", "queue.data_limit_packets=160"),
    *("--set", "queue.kmin_packets=40"),
    *("--set", "queue.kmax_packets=120"),
    *("--set", "workload.detector_window=1"),
]


def run(results: Path, *arguments: str, script: str = "demo") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"controller.experiments.{script}", *SMALL, "--results", str(results)]
    return subprocess.run(
        [*command, *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip


def test_both_arms_train_in_virtual_time_and_no_promise_is_broken(tmp_path: Path) -> None:
    done = run(tmp_path / "r", "--where", "virtual", "--steps", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("virtual time (as asked for): ")
    assert "no promise was broken" in done.stdout
    steps, arms, tp = records.load(tmp_path / "r")
    assert steps.height == 2 * 3 * 8 and tp.height > 0
    forgive = steps.filter(pl.col("arm") == "FORGIVE")
    assert forgive["trimmed_bytes"].sum() > 0 and forgive["forgiven_bytes"].sum() > 0
    assert forgive["notifications_ignored"].sum() > 0
    assert (forgive["received_bytes"] + forgive["forgiven_bytes"] == forgive["expected_bytes"]).all()
    plain = steps.filter(pl.col("arm") == "DCQCN")
    assert plain["forgiven_bytes"].sum() == 0 and plain["notifications_ignored"].sum() == 0
    assert dict(arms.select("arm", "drift").iter_rows())["DCQCN"] == 0.0
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())["configuration"]
    assert (manifest["where"], manifest["link_rate_bps"]) == ("virtual", 400_000_000_000)


@pytest.mark.parametrize(
    "script",
    [
        "shedding",
        pytest.param("forgive_probability", marks=pytest.mark.slow),
        pytest.param("no_vesting", marks=pytest.mark.slow),
    ],
)
def test_every_experiment_runs(tmp_path: Path, script: str) -> None:
    done = run(tmp_path / "r", "--where", "virtual", "--steps", "3", script=script)
    assert done.returncode == 0, done.stdout + done.stderr
    _, arms, _ = records.load(tmp_path / "r")
    lost = dict(arms.select("arm", pl.col("forgiven_bytes") + pl.col("shed_bytes")).iter_rows())
    if script == "forgive_probability":
        assert lost["P = 0"] == 0 < lost["P = 0.25"]
    if script == "shedding":
        assert lost["shedding"] > 0


def test_faults_of_a_profile_happen(tmp_path: Path) -> None:
    """A link that fails and is taken out of all routes, and losses: repaired, and recounted as lost."""
    faults = (
        '[{at_ns=20000, kind="link_down", what="agg1-core1", reroute=true}, '
        '{at_ns=20000, kind="loss", what="agg3-core2", ppm=5000}]'
    )
    done = run(tmp_path / "r", "--where", "virtual", "--steps", "2", "--set", f"faults={faults}")
    assert done.returncode == 0 and "no promise was broken" in done.stdout, done.stdout + done.stderr
    steps, arms, _ = records.load(tmp_path / "r")
    assert (arms["lost"] > 0).all() and steps["timeouts"].sum() > 0
    restart = 'faults=[{at_ns=1, kind="nic_restart", what="h1"}]'
    done = run(tmp_path / "s", "--where", "virtual", "--set", restart)
    assert done.returncode == 2 and "leave nic_restart out" in done.stderr and done.stderr.count("\n") == 1


def test_a_run_repeats_exactly_and_its_seed_matters(tmp_path: Path) -> None:
    kept: dict[str, pl.DataFrame] = {}
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        done = run(tmp_path / name, "--where", "virtual", "--steps", "1", "--seed", seed)
        assert done.returncode == 0, done.stdout + done.stderr
        kept[name] = records.load(tmp_path / name)[0]
    assert kept["a"].equals(kept["b"]) and not kept["a"].equals(kept["c"])


def test_auto_falls_back_to_virtual_time_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise IsolationError("no namespaces here")

    monkeypatch.setattr(place, "require_mininet", lambda: None)
    monkeypatch.setattr(place, "enter_private_namespace", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    console = Console(file=io.StringIO(), width=60)
    assert place.place_of("auto", "embedded", console).name == "virtual"
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.startswith("virtual time (no namespaces here): ") and said.count("\n") == 1
    for wanted, target in (("mininet", "embedded"), ("auto", "bmv2")):
        with pytest.raises(IsolationError):
            place.place_of(wanted, target, console)


TIMELESS = [
    *("arm", "step", "rank", "critical", "gradient_norm", "norm_change", "p_ppm", "expected_bytes"),
    *("budget_bytes", "received_bytes", "forgiven_bytes", "outstanding_bytes", "shed_bytes", "sent_bytes"),
    "loss",
]
"""Columns that don't depend on timing where every byte arrives."""


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="Mininet needs root")
def test_virtual_and_mininet_runs_agree_on_what_does_not_depend_on_timing(tmp_path: Path) -> None:
    """The arm without loss tolerance: bytes, budgets, norms, verdicts, losses and the trained model."""
    kept = {}
    for where in ("virtual", "mininet"):
        rate = ("--link-rate", "16000000") if where == "mininet" else ()
        done = run(tmp_path / where, "--where", where, "--steps", "4", *rate)
        assert done.returncode == 0, done.stdout + done.stderr
        steps, arms, tp = records.load(tmp_path / where)
        plain = pl.col("arm") == "DCQCN"
        kept[where] = (
            steps.filter(plain).select(TIMELESS).sort("step", "rank"),
            arms.filter(plain).select("steps", "sent_bytes", "training_loss", "test_accuracy", "drift"),
            tp.filter(plain).group_by("host", "step").len().sort("host", "step"),
        )
    for virtual, mininet in zip(kept["virtual"], kept["mininet"], strict=True):
        assert virtual.equals(mininet), (virtual, mininet)
    # Norms depend on what was lost, from the second step on; the first step's gradients are the same.
    first = [records.load(tmp_path / where)[0].filter(pl.col("step") == 1) for where in kept]
    names = ["arm", "rank", "critical", "gradient_norm", "expected_bytes", "budget_bytes", "sent_bytes"]
    assert first[0].select(names).equals(first[1].select(names))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--where", "virtual", "--target", "bmv2"), "bmv2"),
        (("--where", "moon"), "moon"),
        (("--where", "virtual", "--link-rate", "1"), "link rate"),
    ],
)
def test_a_bad_wish_is_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run(tmp_path / "r", *arguments)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1
