# SPDX-License-Identifier: Apache-2.0
"""The main job end to end, small: a real all-reduce across a Mininet fat-tree, recounted from captures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from controller.experiments import records

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="Mininet needs root"),
    pytest.mark.timeout(600),
]

REPOSITORY = Path(__file__).parents[2]
SMALL = [
    *("--link-rate", "16000000"),
    *("--set", "workload.gradient_bytes=262144"),
    *("--set", "fabric.core_rate_ppm=250000"),
    *("--set", "queue.data_limit_packets=160"),
    *("--set", "queue.kmin_packets=40"),
    *("--set", "queue.kmax_packets=120"),
    *("--set", "workload.detector_window=1"),
]


def start(results: Path, *arguments: str, script: str = "demo") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"controller.experiments.{script}", *SMALL, "--results", str(results)]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finished(run: subprocess.Popen[str]) -> str:
    out, err = run.communicate(timeout=500)
    assert run.returncode == 0, out + err
    return out


def test_a_gradient_all_reduce_crosses_the_fabric_and_no_promise_is_broken(tmp_path: Path) -> None:
    out = finished(start(tmp_path / "r", "--steps", "4"))
    assert "no promise was broken" in out
    steps, arms, tp = records.load(tmp_path / "r")
    assert (tmp_path / "r" / "steps.png").stat().st_size > 10_000
    assert steps.height == 2 * 4 * 8 and tp.height > 0
    forgive = steps.filter(pl.col("arm") == "FORGIVE")
    assert forgive["trimmed_bytes"].sum() > 0 and forgive["forgiven_bytes"].sum() > 0
    assert forgive["notifications_ignored"].sum() > 0
    assert (forgive["forgiven_bytes"] <= forgive["budget_bytes"]).all()
    whole = forgive["received_bytes"] + forgive["forgiven_bytes"] == forgive["expected_bytes"]
    assert whole.all()
    plain = steps.filter(pl.col("arm") == "DCQCN")
    assert plain["forgiven_bytes"].sum() == 0 and plain["notifications_ignored"].sum() == 0
    drift = dict(arms.select("arm", "drift").iter_rows())
    assert drift["DCQCN"] == 0.0 and arms["violations"].sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("script", ["forgive_probability", "no_vesting", "shedding"])
def test_every_experiment_runs(tmp_path: Path, script: str) -> None:
    finished(start(tmp_path / "r", "--steps", "3", script=script))
    _, arms, _ = records.load(tmp_path / "r")
    lost = dict(arms.select("arm", pl.col("forgiven_bytes") + pl.col("shed_bytes")).iter_rows())
    if script == "forgive_probability":
        assert lost["P = 0"] == 0 < lost["P = 0.25"]
    if script == "shedding":
        assert lost["shedding"] > 0


def test_a_host_that_dies_is_named(tmp_path: Path) -> None:
    run = start(tmp_path / "r", "--steps", "500")
    told = str(tmp_path / "r" / "arms" / "FORGIVE" / "run.json")
    find = ["pgrep", "-f", f"hosts.rank {told} h3$"]
    deadline = time.monotonic() + 120
    while not (found := subprocess.run(find, capture_output=True, text=True, check=False).stdout.split()):
        assert time.monotonic() < deadline and run.poll() is None, run.communicate()
        time.sleep(0.2)
    os.kill(int(found[0]), signal.SIGKILL)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 2
    assert err == "demo: h3: its process was ended by signal 9\n"
    assert not (Path("/run/forgive") / str(run.pid)).exists()


@pytest.mark.parametrize(
    ("moment", "steps"), [("in a private namespace", 50), ("entities installed", 50), ("2/2", 2)]
)
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str, steps: int) -> None:
    run = start(tmp_path / "r", "--steps", str(steps))
    assert run.stdout is not None
    seen = ""
    while moment not in seen:
        line = run.stdout.readline()
        assert line, (seen, run.stderr and run.stderr.read())
        seen += line
    time.sleep(1.0)
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "Traceback" not in err
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    assert not (Path("/run/forgive") / str(run.pid)).exists()
