# SPDX-License-Identifier: Apache-2.0
"""Targets as processes of their own: the embedded one and BMv2, started the same way."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import pytest

from tests.target.p4runtime import program

ROOT = Path(__file__).resolve().parents[3]
START_S = 60
BMV2 = "simple_switch_grpc"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def embedded_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "target", *arguments]


@contextlib.contextmanager
def process(command: Sequence[str], log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running process; it is ended at the end, by force if it must be."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with log.open("wb") as out:
        running = subprocess.Popen(
            command, cwd=log.parent, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def wait_until_answering(address: str, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    with grpc.insecure_channel(address) as channel:
        ready = grpc.channel_ready_future(channel)
        while True:
            try:
                ready.result(timeout=0.2)
                return
            except grpc.FutureTimeoutError:
                assert running.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()


@contextlib.contextmanager
def target(kind: str, directory: Path, device_id: int = 1) -> Iterator[str]:
    """A device without ports, of either kind; its address. Skips if this machine has no such target."""
    address = f"127.0.0.1:{free_port()}"
    log = directory / f"{kind}.log"
    options = ["--no-p4", "--device-id", str(device_id)]
    own = ["--", "--grpc-server-addr", address, "--cpu-port", str(program.CPU_PORT)]
    if kind == "bmv2":
        if shutil.which(BMV2) is None:
            pytest.skip(f"{BMV2} is not on PATH")
        command = [BMV2, *options, "--thrift-port", str(free_port()), "--log-console", *own]
    else:
        if shutil.which("cc") is None:
            pytest.skip("the embedded target needs a C compiler (cc)")
        command = embedded_command(*options, *own)
    with process(command, log) as running:
        wait_until_answering(address, running, log)
        yield address
