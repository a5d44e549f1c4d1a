# SPDX-License-Identifier: Apache-2.0
"""A private network and process namespace, so that a run can leave nothing behind.

    from topologies.isolate import enter_private_namespace
    run = enter_private_namespace()     # first thing in main(), before any thread

The call returns in a new process. Interfaces and processes that it makes exist only inside; when it ends in
any way, `kill -9` of any of its processes included, the kernel removes them all. Three processes take part:
the caller stays outside as supervisor (waits, hands signals on, exits with the same status), a small init
reaps inside, and the program goes on below it.

Each run has a directory under /run/forgive (or $XDG_RUNTIME_DIR/forgive) with `run.json`, by which
`python -m topologies.attach` finds it. Directories of runs that were killed are removed at the next start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

INSIDE = "FORGIVE_RUN_DIRECTORY"
"""Environment variable set inside: the run's directory."""

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x04000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


class IsolationError(RuntimeError):
    """No private namespace to be had. One line with the mend."""


@dataclass(frozen=True, slots=True)
class Run:
    """The run this process belongs to. `directory` is removed when the run ends."""

    directory: Path

    def record_nodes(self, pids: dict[str, int]) -> None:
        """Tell `topologies.attach` which process (by its pid in here) stands in each node's namespace."""
        _write(self.directory / "nodes.json", pids)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run seen from outside. init: pid of its first process."""

    directory: Path
    supervisor: int
    init: int
    command: str
    started: float


def run_base() -> Path:
    """Where runs keep their directories."""
    if os.geteuid() == 0:
        return Path("/run/forgive")
    return Path(os.environ.get("XDG_RUNTIME_DIR", f"/tmp/forgive-{os.getuid()}")) / "forgive"


def inside() -> Run | None:
    """The run, if this process is inside one."""
    directory = os.environ.get(INSIDE)
    return Run(Path(directory)) if directory else None


def live_runs() -> list[LiveRun]:
    """Runs of this user that are alive, oldest first. Seen from outside only."""
    return sorted((run for _, run in _runs() if run is not None), key=lambda run: run.started)


def clean_stale() -> list[Path]:
    """Remove what killed runs left: their directories, and a namespace whose supervisor is gone. Never
    others'.
    """
    removed = []
    for directory, run in _runs():
        if run is None:
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
    return removed


def _runs() -> Iterator[tuple[Path, LiveRun | None]]:
    """Each run directory, with its run if alive. An orphaned init is ended here."""
    try:
        directories = sorted(p for p in run_base().iterdir() if p.is_dir())
    except OSError:
        return
    for directory in directories:
        try:
            record = json.loads((directory / "run.json").read_text())
            supervisor, init = record["supervisor"], record["init"]
            alive = _start_ticks(supervisor) == record["supervisor_start"]
            init_alive = _start_ticks(init) == record["init_start"]
            run = LiveRun(directory, supervisor, init, record["command"], record["started"])
        except (OSError, ValueError, KeyError, TypeError):
            if not _starts_or_is_gone(directory):
                yield directory, None
            continue
        if not alive and init_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
        yield directory, run if alive and init_alive else None


def _starts_or_is_gone(directory: Path) -> bool:
    """A run that is starting has no record yet; another run clears away at the same time."""
    try:
        return time.time() - directory.stat().st_mtime < 10
    except FileNotFoundError:
        return True


def _start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot: with the pid, its identity. 0 = no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[19])


def _write(path: Path, value: object) -> None:
    """Whole or not at all."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def set_link_up(interface: str) -> None:
    """Bring an interface of this process's namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", interface.encode(), 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), flags | _IFF_UP))


def enter_private_namespace() -> Run:
    """Go on in a private network, process and mount namespace with `lo` up; see the module's text.

    Does nothing when already inside. Needs root; call it before any thread starts. Raises IsolationError.
    """
    already = inside()
    if already is not None:
        return already
    if os.geteuid() != 0:
        raise IsolationError("network namespaces need root: run it as root, with sudo for example")
    clean_stale()
    directory = run_base() / str(os.getpid())
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise IsolationError(f"{directory}: {error.strerror}; make its parent writable") from None
    sys.stdout.flush()
    sys.stderr.flush()
    ready, go = os.pipe()
    try:
        _call("unshare", _CLONE_NEWPID)
    except OSError as error:
        directory.rmdir()
        raise IsolationError(
            f"no private process namespace: {error.strerror}; run as root, not in a sandbox"
        ) from None
    init = os.fork()
    if init:
        os.close(ready)
        _supervise(init, directory, go)
    os.close(go)
    return _inside(directory, ready)


def _supervise(init: int, directory: Path, go: int) -> NoReturn:
    """Outside: wait for init, hand signals on, exit as the program did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the program as well

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(init, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    record = {
        "supervisor": os.getpid(),
        "supervisor_start": _start_ticks(os.getpid()),
        "init": init,
        "init_start": _start_ticks(init),
        "command": " ".join(sys.argv),
        "started": time.time(),
    }
    status = 1
    try:
        _write(directory / "run.json", record)
        os.write(go, b".")
        _, wait_status = os.waitpid(init, 0)
        status = os.waitstatus_to_exitcode(wait_status)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def _inside(directory: Path, ready: int) -> Run:
    """Init: set the namespaces up, then fork the program. Returns in the program."""
    try:
        _call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.read(ready, 1) != b".":  # the supervisor died before the line above
            os._exit(1)
        os.close(ready)
        _call("unshare", _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWNET)
        _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
        flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        _call("mount", b"proc", b"/proc", b"proc", flags, None)
        set_link_up("lo")
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"no private namespace: {what}{error.strerror}; run as root, not in a sandbox\n")
        sys.stderr.flush()
        os._exit(1)
    program = os.fork()
    if program:
        _reap(program)
    os.environ[INSIDE] = str(directory)
    for number in _FORWARDED:
        signal.signal(number, _leave)
    return Run(directory)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _reap(program: int) -> NoReturn:
    """Init's loop: collect whatever ends; end, and everything with us, when the program does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    while True:
        pid, wait_status = os.wait()
        if pid == program:
            status = os.waitstatus_to_exitcode(wait_status)
            os._exit(status if status >= 0 else 128 - status)
