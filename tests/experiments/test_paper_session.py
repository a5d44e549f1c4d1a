# SPDX-License-Identifier: Apache-2.0
"""The command on a fabric of four hosts: what it leaves, what it refuses, what it does not run twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from controller.experiments.paper import rows
from controller.experiments.paper.cell import Specification, finished, run
from controller.experiments.paper.session import main
from tests.experiments.paper_cells import SMALL, cell, totals


def command(results: Path, *more: str, settings: Sequence[str] = SMALL) -> list[str]:
    return [
        "--scale", "full", "--seeds", "7", "--results", str(results),
        *(part for setting in settings for part in ("--set", setting)), *more,
    ]  # fmt: skip


def small(arm: str, *more: str) -> Specification:
    return Specification(arm, 7, "full", "paper", (*SMALL, *more))


@pytest.fixture(scope="module")
def forgiving(tmp_path_factory: pytest.TempPathFactory) -> rows.CellFiles:
    """A cell whose queues overflow, run in this process."""
    directory = tmp_path_factory.mktemp("cells") / "forgive-7"
    told: list[Any] = []
    tight = ("queue.data_limit_packets=40", "queue.kmin_packets=10", "queue.kmax_packets=30")
    run(small("forgive", *tight), directory, told.append)
    assert all(0 < state["done"] <= 1 for state in told)
    return rows.load(directory)


def test_a_cell_keeps_every_promise_and_every_byte(forgiving: rows.CellFiles) -> None:
    manifest = forgiving.manifest
    assert manifest["violations"] == []
    totals_row = forgiving.totals.row(0, named=True)
    assert totals_row["trimmed_packets"] > 100 and totals_row["forgiven_bytes"] > 0
    assert totals_row["reports_checked"] >= totals_row["sent_packets"] > 1_000
    steps = forgiving.steps
    assert len(steps) == 4 * 4
    assert steps["forgiven_bytes"].sum() == totals_row["forgiven_bytes"]
    assert (steps["forgiven_bytes"] <= steps["budget_bytes"]).all()
    assert (steps["received_bytes"] + steps["forgiven_bytes"] == steps["expected_bytes"]).all()
    fifths = [f"trimmed_fifth_{i}" for i in range(1, 6)]
    assert steps.select(pl.sum_horizontal(fifths)).to_series().equals(steps["trimmed_bytes"])
    flows = forgiving.flows
    assert flows["messages"].sum() == 4 * 4 * (4 * 4 * 2 + 5 * 2) + 2
    assert flows["forgiven_bytes"].sum() == totals_row["forgiven_bytes"]
    assert flows["bytes"].sum() == totals_row["offered_bytes"]
    assert flows["retransmitted_bytes"].sum() == totals_row["retransmitted_bytes"]
    gradient = forgiving.collectives.filter(pl.col("kind") == "dp")
    assert gradient["missing_bytes"].sum() == totals_row["forgiven_bytes"]
    assert set(forgiving.queues["ports"].unique()) <= {"leaf to host", "leaf to spine", "spine to leaf"}
    assert forgiving.queues["largest_bytes"].max() <= 40 * 4166  # type: ignore[operator]
    last = forgiving.timeline.sort("time_ns").group_by("step").last()
    assert (last["forgiven_bytes"] <= last["budget_bytes"]).all()


def test_a_cell_repeats_exactly(forgiving: rows.CellFiles, tmp_path: Path) -> None:
    specification = forgiving.manifest["configuration"]["specification"]
    again = Specification(**(specification | {"settings": tuple(specification["settings"])}))
    run(again, tmp_path / "cell", lambda state: None)
    repeated = rows.load(tmp_path / "cell")
    for name in rows.FILES:
        assert_frame_equal(getattr(forgiving, name), getattr(repeated, name))


def test_the_command_runs_arms_and_never_a_cell_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path, "--arms", "no_cc", "tight")) == 0
    said = capsys.readouterr().out
    assert "published figures inside" in said
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"cells", "table.csv", "completion.png", "queues.png"}
    assert sorted(p.name for p in (tmp_path / "cells").iterdir()) == ["no_cc-7", "tight-7"]
    before = (tmp_path / "cells" / "tight-7" / "manifest.json").stat().st_mtime_ns

    assert main(command(tmp_path, "--arms", "tight")) == 2
    assert "has 1 finished cells of these; add --resume to go on" in capsys.readouterr().err

    assert main(command(tmp_path, "--arms", "tight", "forgive", "--resume")) == 0
    assert (tmp_path / "cells" / "tight-7" / "manifest.json").stat().st_mtime_ns == before
    assert finished(tmp_path / "cells" / "forgive-7") is not None
    table = pl.read_csv(tmp_path / "table.csv")
    assert list(table["row"].unique(maintain_order=True)) == ["no_cc", "tight", "forgive"]

    other = command(tmp_path, "--arms", "tight", "--resume", "--spray")
    assert main(other) == 2
    assert (
        "of another configuration or other P4 programs; give --results another directory"
        in capsys.readouterr().err
    )

    broken = tmp_path / "cells" / "tight-7" / "manifest.json"
    manifest = json.loads(broken.read_text())
    broken.write_text(json.dumps(manifest | {"violations": ["rank 3: forgave too much"]}))
    assert main(command(tmp_path, "--arms", "tight", "--resume")) == 1
    assert "paper: tight-7: rank 3: forgave too much" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--arms", "forgiving"], "--arms forgiving: there is none; give some of no_cc,"),
        (["--jobs", "0"], "--jobs 0: give 1 or more"),
        (["--hash-seed", "-1"], "seed -1: give 0 to 2147483647"),
        (["--scale", "2"], "--scale 2: give full, or a number above 0 and at most 1"),
        (["--set", "study.dp_wide=3"], "study.dp_wide is not known; did you mean dp_width?"),
        (["--profile", "mininet"], "study is missing"),
        (["--set", "transport.window_packets=2000"], "the NIC's scoreboard holds 4161536"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tmp_path / "r", *more, settings=())) == 2
    error = capsys.readouterr().err
    assert error.startswith("paper: ") and said in error and error.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_a_directory_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    assert main(command(tmp_path)) == 2
    assert "not the results of this command (it has thesis.tex)" in capsys.readouterr().err


def test_a_fabric_that_does_not_fit_its_ranks_fails_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = (*SMALL, "fabric.hosts_per_leaf=3")
    assert main(command(tmp_path / "r", "--arms", "no_cc", settings=settings)) == 2
    assert "the fabric has 6 hosts: give it as many" in capsys.readouterr().err
    assert list((tmp_path / "r" / "cells").iterdir()) == []


def test_a_stalled_run_says_who_waits(tmp_path: Path) -> None:
    """A link goes down for good: the run ends with the ranks that wait."""
    down = 'faults=[{at_ns=100_000, kind="link_down", what="leaf1-spine1"}]'
    with pytest.raises(Exception, match=r"message .* failed after|waiting for rank"):
        run(small("no_cc", down, "study.steps=1"), tmp_path / "cell", lambda state: None)
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_manifest_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell(tmp_path / "cells" / "no_cc-7", {"totals": [totals()]})
    (tmp_path / "cells" / "no_cc-7" / "manifest.json").write_text("{")
    assert main(command(tmp_path, "--arms", "no_cc")) == 2
    assert "manifest.json: unreadable; remove" in capsys.readouterr().err
