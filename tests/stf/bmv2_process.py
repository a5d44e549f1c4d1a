# SPDX-License-Identifier: Apache-2.0
"""The processes of the real switch: simple_switch and simple_switch_CLI."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pynng

from tests.stf.dut import DutError

SWITCH, COMMAND_LINE = "simple_switch", "simple_switch_CLI"
START_S = 60.0
ANSWER_S = 30.0
_PROMPT = b"RuntimeCmd: "
_COMPLAINTS = ("Invalid ", "Error:", "Error while", "Traceback", "*** Unknown syntax")


def missing() -> str | None:
    """Why the real switch can't be used, or None."""
    for program in (SWITCH, COMMAND_LINE):
        if shutil.which(program) is None:
            return f"{program} isn't on PATH"
    return None


class Switch:
    """simple_switch with `program.json` of a folder, whose files it uses. Packets go by nanomsg."""

    def __init__(self, folder: Path) -> None:
        """Returns when the switch answers. Raises DutError if it ends."""
        self._log = folder / "switch.log"
        self.thrift_port = _free_port()
        address = f"ipc://{folder}/packets"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    SWITCH,
                    *("--packet-in", address),
                    *("--thrift-port", str(self.thrift_port)),
                    *("--notifications-addr", f"ipc://{folder}/notifications"),
                    str(folder / "program.json"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        self._socket: Any = None
        try:
            self._await_start()
            self._socket = pynng.Pair0(dial=address, block_on_dial=True, send_timeout=int(ANSWER_S * 1000))
        except BaseException:
            self.close()
            raise

    def _await_start(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise DutError(f"{SWITCH} ended: {self._last_words()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.thrift_port)) == 0:
                    return
            time.sleep(0.02)
        raise DutError(f"{SWITCH} did not start in {START_S:.0f} s")

    def _last_words(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return " / ".join(lines[-2:]) or f"status {self._process.returncode}"

    def send(self, message: bytes) -> None:
        self._alive()
        try:
            self._socket.send(message)
        except pynng.exceptions.NNGException as error:
            raise DutError(f"{SWITCH} takes no packet: {error}") from None

    def receive(self, timeout_s: float) -> bytes | None:
        self._alive()
        self._socket.recv_timeout = int(timeout_s * 1000)
        try:
            return bytes(self._socket.recv())
        except pynng.exceptions.Timeout:
            return None
        except pynng.exceptions.NNGException as error:
            raise DutError(f"{SWITCH} gives no packet: {error}") from None

    def _alive(self) -> None:
        if self._process.poll() is not None:
            raise DutError(f"{SWITCH} ended with status {self._process.returncode}: {self._last_words()}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._process.kill()
        self._process.wait()


class CommandLine:
    """simple_switch_CLI, a command at a time."""

    def __init__(self, thrift_port: int) -> None:
        self._process = subprocess.Popen(
            [COMMAND_LINE, "--thrift-port", str(thrift_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            self._answer("the start")
        except BaseException:
            self.close()
            raise

    def command(self, text: str) -> str:
        """What it answered. Raises DutError for a complaint."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise DutError(f"{COMMAND_LINE} ended before {text!r}") from None
        answer = self._answer(repr(text))
        for line in answer.splitlines():
            if line.startswith(_COMPLAINTS):
                raise DutError(f"{text!r}: {line}")
        return answer

    def _answer(self, what: str) -> str:
        assert self._process.stdout is not None
        until, answer = time.monotonic() + ANSWER_S, b""
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while not answer.endswith(_PROMPT):
                if not ready.select(max(0.0, until - time.monotonic())):
                    raise DutError(f"{COMMAND_LINE} did not answer {what}")
                chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    lines = answer.decode(errors="replace").strip().splitlines()
                    raise DutError(f"{COMMAND_LINE} ended after {what}: {lines[-1] if lines else ''}")
                answer += chunk
        return answer[: -len(_PROMPT)].decode(errors="replace")

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
