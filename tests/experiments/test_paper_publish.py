# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.experiments.paper.publish import main
from tests.experiments.paper_cells import cell


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    cell(directory / "cells" / "forgive-7", {})
    (directory / "cells" / ".forgive-8").mkdir()  # not finished
    (directory / "table.csv").write_text("row,metric\n")
    (directory / "completion.png").write_bytes(b"png")
    return directory


def files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_table_plots_and_manifests_are_kept(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert main([str(run), str(kept)]) == 0
    assert files(kept) == ["completion.png", "manifests/forgive-7.json", "table.csv"]
    assert json.loads((kept / "manifests" / "forgive-7.json").read_text())["fingerprint"]


def test_a_variant_may_do_without_plots(run: Path, tmp_path: Path) -> None:
    assert main(["--table-only", str(run), str(tmp_path / "kept")]) == 0
    assert files(tmp_path / "kept") == ["manifests/forgive-7.json", "table.csv"]


def test_what_was_kept_before_is_replaced(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "manifests").mkdir(parents=True)
    for name in ("manifests/other-1.json", "queues.png", "README.md"):
        (kept / name).write_text("old")
    assert main([str(run), str(kept)]) == 0
    assert files(kept) == ["README.md", "completion.png", "manifests/forgive-7.json", "table.csv"]


@pytest.mark.parametrize("what", ["nothing", "unfinished", "a run's own"])
def test_a_wrong_directory_is_one_line(
    what: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = run, tmp_path / "kept"
    if what == "nothing":
        source = tmp_path / "nowhere"
    elif what == "unfinished":
        (run / "cells" / "forgive-7" / "manifest.json").unlink()
    else:
        target = run
    assert main([str(source), str(target)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("publish: ") and said.count("\n") == 1 and "give " in said
    assert not (tmp_path / "kept").exists()
