# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.stf`: what it runs, prints and returns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stf.cases import find_cases
from tests.stf.cli import main
from tests.stf.workers import Settings, Worker

CASES = Path(__file__).parent / "cases"
REPOSITORY = CASES.parent.parent.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one case that passes."""
    for name in ("truncate.p4", "truncate.stf"):
        (tmp_path / name).write_bytes((CASES / name).read_bytes())
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    status = main([str(a) for a in arguments])
    return status, capsys.readouterr().out.splitlines()


def test_all_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = run(capsys, folder, "--compiler", "own")
    assert status == 0
    assert lines == ["compiler own, target embedded", "1 passed, 0 failed"]


def test_failures_have_a_name_and_a_reason_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = (folder / "truncate.p4").read_text()
    for name, source, script in [
        ("bad_program", program.replace("truncate(", "lengthen(", 1), "packet 0 00"),
        ("bad_script", program, "wait\npacket 0 0"),
        ("bad_target", program, "packet 70000 00"),
        ("bad_result", program, "packet 0 00000000\nexpect 1 01"),
    ]:
        (folder / f"{name}.p4").write_text(source)
        (folder / f"{name}.stf").write_text(script)
    # Neither is a case: one for another architecture, one without a script.
    (folder / "other.p4").write_text("#include <core.p4>\n#include <psa.p4>\n")
    (folder / "other.stf").write_text("packet 0 00\n")
    (folder / "alone.p4").write_text(program)
    status, lines = run(capsys, folder, "--compiler", "own", "--jobs", 2)
    assert status == 1
    assert [line.split(": ", 2)[:2] for line in lines[:4]] == [
        ["bad_program", "compile"],
        ["bad_result", "run"],
        ["bad_script", "stf"],
        ["bad_target", "load"],
    ]
    assert "lengthen" in lines[0]
    assert "line 2: packet 1 of port 1: byte 0 differs: expected 01, got 00000004" in lines[1]
    assert "bad_script.stf:2: 1 digits of packet data" in lines[2]
    assert lines[4:] == [
        "left out, not for v1model: 1",
        "compiler own, target embedded",
        "1 passed, 4 failed",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/folder"], "/no/such/folder is no folder"),
        (["--only", "nothing*"], "has no program nothing* for v1model"),
        (["--compiler", "gcc"], "compiler 'gcc': give p4c, own or auto"),
        (["--target", "tofino"], "--target tofino: give embedded or bmv2"),
        (["--jobs", "0"], "--jobs and --timeout must be positive"),
        (["--surprise"], "--surprise"),
    ],
)
def test_bad_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--compiler", "own", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_what_is_not_installed_is_named() -> None:
    for arguments, message in [
        (["--target", "bmv2"], "simple_switch isn't on PATH"),
        (["--compiler", "p4c"], "p4c-bm2-ss isn't on PATH"),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.stf", *arguments],
            cwd=REPOSITORY, env={**os.environ, "PATH": "/nowhere"},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert message in done.stderr


@pytest.fixture
def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A C compiler that never ends. The file that it writes its process's number to."""
    pid = folder / "pid"
    compiler = folder / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$1" in -*version|-dumpmachine) exit;; esac\n'
        f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 300\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return pid


def until(condition: Callable[[], bool]) -> bool:
    """Whether it comes true, however slow the machine."""
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def ended(pid: Path) -> bool:
    """Whether the process is no more, or a zombie that nobody has asked for yet."""
    try:
        stat = Path(f"/proc/{pid.read_text().strip()}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_a_case_that_takes_too_long_fails_alone(folder: Path, hanging: Path) -> None:
    (case,) = find_cases(folder).cases
    worker = Worker(Settings("embedded", "own", 1))
    try:
        outcome = worker.run(case)
        assert (outcome.stage, outcome.reason) == ("timeout", "not done after 1 s")
        assert until(lambda: ended(hanging))
    finally:
        worker.close()


def test_what_runs_ends_with_the_runner(folder: Path, hanging: Path) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-m", "tests.stf", str(folder), "--compiler", "own"], cwd=REPOSITORY
    )
    try:
        assert until(hanging.exists)
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(120) == 128 + signal.SIGTERM
        assert until(lambda: ended(hanging))
    finally:
        runner.kill()
        runner.wait()


def test_a_process_that_dies_fails_its_case_alone(folder: Path) -> None:
    (case,) = find_cases(folder).cases
    worker = Worker(Settings("embedded", "own", 60))
    try:
        assert worker.run(case).passed
        process = worker._process
        assert process is not None
        process.kill()
        process.join()
        outcome = worker.run(case)
        assert (outcome.stage, outcome.reason) == ("crash", "the process died (SIGKILL)")
        assert worker.run(case).passed
    finally:
        worker.close()
