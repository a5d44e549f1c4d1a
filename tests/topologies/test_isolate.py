# SPDX-License-Identifier: Apache-2.0
"""The private namespace: whatever happens to its processes, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from topologies.attach import AttachError, find_run
from topologies.isolate import clean_stale, live_runs, run_base

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]

PROGRAM = """
import os, subprocess, sys, time
from topologies.isolate import enter_private_namespace
run = enter_private_namespace()
subprocess.run(["ip", "link", "add", "name", "leak0", "type", "veth", "peer", "name", "leak1"], check=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"], start_new_session=True)
open("{ready}", "w").write(str(run.directory))
try:
    {body}
finally:
    open("{ended}", "w").write("ended")
"""


class Running:
    """A program in a namespace. `mark` is on the command line of a daemon that it left behind on purpose."""

    def __init__(self, tmp_path: Path, body: str) -> None:
        self.mark = f"mark-{uuid.uuid4()}"
        self.ready, self.ended = tmp_path / "ready", tmp_path / "ended"
        code = PROGRAM.format(mark=self.mark, ready=self.ready, ended=self.ended, body=body)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: self.ready.exists() and self.ready.read_text() != "", self.process)
        self.directory = Path(self.ready.read_text())

    def processes(self) -> list[int]:
        """Its processes, as seen from outside."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if self.mark.encode() in words and state != "Z":
                    found.append(int(entry.name))
        return found


def wait_for(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 60
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        assert process is None or process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def go(body: str) -> Running:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Running(folder, body))
        return started[-1]

    yield go
    for one in started:
        one.process.kill()
        one.process.communicate()
        wait_for(lambda one=one: not one.processes())  # type: ignore[misc]
    clean_stale()


def interfaces() -> str:
    return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout


def test_status_passes_through(start: Callable[[str], Running]) -> None:
    running = start("sys.exit(7)")
    assert running.process.wait(30) == 7
    assert running.ended.exists()
    assert running.processes() == []
    assert not running.directory.exists()


def test_interfaces_stay_inside(start: Callable[[str], Running]) -> None:
    running = start("time.sleep(600)")
    assert len(running.processes()) == 4  # supervisor, init, program (the mark is in their text), daemon
    assert "leak0" not in interfaces()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_asked_to_end(start: Callable[[str], Running], number: signal.Signals) -> None:
    running = start("time.sleep(600)")
    running.process.send_signal(number)
    assert running.process.wait(30) == 128 + number
    assert running.ended.exists()
    assert running.processes() == []
    assert not running.directory.exists()


def test_interrupted_from_the_terminal(start: Callable[[str], Running]) -> None:
    running = start("time.sleep(600)")
    os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does: to everybody in the foreground
    assert running.process.wait(30) == 128 + signal.SIGINT
    assert running.ended.exists()
    assert running.processes() == []
    assert not running.directory.exists()


def cleared(directory: Path) -> None:
    """Every run clears away what killed ones left: one beside this test may be first."""
    clean_stale()
    wait_for(lambda: not directory.exists())


def test_supervisor_killed(start: Callable[[str], Running]) -> None:
    running, other = start("time.sleep(600)"), start("time.sleep(600)")
    running.process.kill()
    running.process.wait()
    wait_for(lambda: not running.processes())
    assert not running.ended.exists()
    assert "leak0" not in interfaces()
    cleared(running.directory)  # nobody was left to remove it
    assert other.directory.exists()
    assert other.processes() != []


def test_program_killed(start: Callable[[str], Running]) -> None:
    running = start("os.kill(os.getpid(), 9)")
    assert running.process.wait(30) == 128 + signal.SIGKILL
    wait_for(lambda: not running.processes())
    assert not running.directory.exists()


def test_init_killed(start: Callable[[str], Running]) -> None:
    running = start("time.sleep(600)")
    (run,) = (r for r in live_runs() if r.directory == running.directory)
    os.kill(run.init, signal.SIGKILL)
    assert running.process.wait(30) == 128 + signal.SIGKILL
    assert running.processes() == []
    assert not running.directory.exists()


def test_inside_already(start: Callable[[str], Running]) -> None:
    running = start("sys.exit(0 if enter_private_namespace() == run else 1)")
    assert running.process.wait(30) == 0


def test_attach(start: Callable[[str], Running]) -> None:
    running = start("time.sleep(600)")
    run = find_run(running.process.pid)
    assert run.directory == running.directory
    command = [sys.executable, "-m", "topologies.attach", "--run", str(run.supervisor)]
    shown = subprocess.run(
        [*command, "--", "ip", "-br", "link"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "leak0" in shown.stdout
    listed = subprocess.run(
        [*command, "--list"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert str(run.supervisor) in listed.stdout
    refused = subprocess.run(
        [*command, "--node", "h1"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (refused.returncode, refused.stderr) == (
        2,
        "the fabric has no hosts yet; try again when it is up\n",
    )


def test_nothing_to_attach_to() -> None:
    with pytest.raises(AttachError, match=r"^no fabric 999999999 is running here; start one"):
        find_run(999_999_999)


def test_without_root() -> None:
    code = "import os; from topologies.isolate import *; os.setuid(65534); enter_private_namespace()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(
        "IsolationError: network namespaces need root: run it as root, with sudo for example"
    )


def test_stale_directories_of_others_stay() -> None:
    """A run that is just starting has no record yet: not stale."""
    fresh = run_base() / f"fresh-{uuid.uuid4()}"
    fresh.mkdir(parents=True)
    try:
        assert fresh not in clean_stale()
        assert fresh.exists()
        os.utime(fresh, (1, 1))
        cleared(fresh)
    finally:
        if fresh.exists():
            fresh.rmdir()
