# SPDX-License-Identifier: Apache-2.0
"""Captures that can be counted on: every packet of chosen interfaces, or an error.

    with capture(["nic1-eth1", "nic1-eth2"], directory) as files:
        ...                                 # files["nic1-eth2"]: a pcap with nanosecond times
    # here every packet is in the files; CaptureError if the kernel dropped one

tcpdump writes the files; what the kernel dropped before tcpdump could read it is counted at the end.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HEADERS = 128
"""Snap length that keeps all headers of a frame: Ethernet to the NIC's delivery header is 78 bytes."""

START_SECONDS = 20.0
STOP_SECONDS = 60.0
BUFFER_KIB = 8192

_SETTLE_SECONDS = 0.1
_CAPTURED, _RECEIVED, _DROPPED = "captured", "received by filter", "dropped by kernel"
_NEVER_SEEN = "dropped by interface"
_SUMMARY = re.compile(rf"(\d+) packets? ({_CAPTURED}|{_RECEIVED}|{_DROPPED}|{_NEVER_SEEN})")


class CaptureError(RuntimeError):
    """A capture that is missing packets, or couldn't run. One line."""


@dataclass(frozen=True, slots=True)
class _Running:
    interface: str
    file: Path
    process: subprocess.Popen[bytes]
    log: Path


@contextlib.contextmanager
def capture(
    interfaces: Sequence[str],
    directory: Path,
    snap_bytes: int = HEADERS,
    filter_expression: str | Mapping[str, str] = "",
    buffer_kib: int = BUFFER_KIB,
) -> Iterator[Mapping[str, Path]]:
    """Record interfaces of this namespace into `directory`/<interface>.pcap while the context is open.

    snap_bytes: bytes kept of each frame, 0 = all; the original length is kept beside them. filter_expression:
    as for tcpdump, one for all or by interface. buffer_kib: kernel buffer of each capture. Yields the files
    by interface. Raises CaptureError.
    """
    if shutil.which("tcpdump") is None:
        raise CaptureError("tcpdump isn't on PATH; install it: apt-get install tcpdump")
    directory.mkdir(parents=True, exist_ok=True)
    expressions: Mapping[str, str] = (
        dict.fromkeys(interfaces, filter_expression)
        if isinstance(filter_expression, str)
        else filter_expression
    )
    running: list[_Running] = []
    try:
        running.extend(
            _start(interface, directory, snap_bytes, expressions.get(interface, ""), buffer_kib)
            for interface in interfaces
        )
        deadline = time.monotonic() + START_SECONDS
        for one in running:
            _wait_listening(one, deadline)
        yield {one.interface: one.file for one in running}
    except BaseException:
        for one in running:
            one.process.kill()
            one.process.wait()
        raise
    problems = _finish(running)
    if problems:
        raise CaptureError(problems[0])


def _start(interface: str, directory: Path, snap_bytes: int, expression: str, buffer_kib: int) -> _Running:
    file, log = directory / f"{interface}.pcap", directory / f"{interface}.tcpdump.log"
    command = ["tcpdump", "-i", interface, "-w", str(file), "-s", str(snap_bytes), "-B", str(buffer_kib)]
    command += ["-n", "--time-stamp-precision=nano", "-Z", "root"]
    command += [expression] if expression else []
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return _Running(interface, file, process, log)


def _wait_listening(one: _Running, deadline: float) -> None:
    while "listening on" not in _text(one.log):
        if one.process.poll() is not None:
            raise CaptureError(f"{one.interface}: tcpdump: {_last(one.log)}")
        if time.monotonic() > deadline:
            raise CaptureError(f"{one.interface}: tcpdump isn't listening after {START_SECONDS:.0f} s")
        time.sleep(0.01)


def _finish(running: Sequence[_Running]) -> list[str]:
    """End all captures once they have read all there is; what went wrong, one line each."""
    _wait_settled(running, time.monotonic() + STOP_SECONDS)
    for one in running:
        with contextlib.suppress(ProcessLookupError):
            one.process.send_signal(signal.SIGINT)
    problems = []
    for one in running:
        try:
            status = one.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            one.process.kill()
            status = one.process.wait()
        counts = _counts(one)
        if status != 0 or not counts:
            problems.append(f"{one.interface}: tcpdump ended with status {status}: {_last(one.log)}")
            continue
        lost = max(counts[_RECEIVED] - counts[_CAPTURED], counts[_DROPPED]) + counts.get(_NEVER_SEEN, 0)
        if lost:
            problems.append(
                f"{one.interface}: {lost} packets are missing from the capture; give it a larger buffer "
                "(buffer_kib), or fewer interfaces"
            )
    return problems


def _wait_settled(running: Sequence[_Running], deadline: float) -> None:
    """tcpdump leaves unread what the kernel still holds when it is told to end: wait until that is nothing.

    On SIGUSR1 it prints its counts.
    """
    waiting = [one for one in running if one.process.poll() is None]
    while waiting and time.monotonic() < deadline:
        for one in waiting:
            with contextlib.suppress(ProcessLookupError):
                one.process.send_signal(signal.SIGUSR1)
        time.sleep(_SETTLE_SECONDS)
        waiting = [one for one in waiting if one.process.poll() is None and not _settled(one)]


def _settled(one: _Running) -> bool:
    counts = _counts(one)
    return bool(counts) and counts[_CAPTURED] + counts[_DROPPED] >= counts[_RECEIVED]


def _counts(one: _Running) -> dict[str, int]:
    """The last counts that tcpdump printed; empty if there are none yet."""
    counts = {what: int(number) for number, what in _SUMMARY.findall(_text(one.log))}
    return counts if {_CAPTURED, _RECEIVED, _DROPPED} <= counts.keys() else {}


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def _last(path: Path) -> str:
    lines = [line.strip() for line in _text(path).splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
