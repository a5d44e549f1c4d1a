# SPDX-License-Identifier: Apache-2.0
"""One conversation with a target as a process: writes, frames and what comes of them, for comparing targets.

As a script, in a network namespace of its own: python both.py WORKDIR, where WORKDIR/job.json holds the kind
of target, the config and the steps. A step's answer is what came between it and the next one.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4r

from tests.target.p4runtime.client import Client, RpcError
from tests.target.p4runtime.processes import BMV2, embedded_command, process, wait_until_answering

PORTS = 4
SETTLE_S = 0.3


def unavailable(kind: str) -> str | None:
    """Why such a target can't run here, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    if kind == "bmv2" and shutil.which(BMV2) is None:
        return f"{BMV2} is not on PATH"
    return None


@dataclass(frozen=True, slots=True)
class Step:
    """Updates to write, a frame to send, messages for the stream, or entities to read."""

    write: Sequence[p4r.Update] = ()
    frame: tuple[int, bytes] | None = None
    stream: p4r.StreamMessageRequest | None = None
    read: Sequence[p4r.Entity] = ()
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`codes`: of failed updates; `frames`: by port; `stream`: messages; `read`: entities."""

    codes: list[int]
    frames: dict[int, list[bytes]]
    stream: list[p4r.StreamMessageResponse]
    read: list[p4r.Entity]


def converse(
    kind: str, work: Path, config: p4r.ForwardingPipelineConfig, steps: Sequence[Step]
) -> list[Answer]:
    """What a target of this kind (embedded, bmv2) answers to the steps."""
    work.mkdir(parents=True, exist_ok=True)
    job = {"kind": kind, "config": _pack(config), "steps": [_pack_step(step) for step in steps]}
    (work / "job.json").write_text(json.dumps(job))
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run(
        ["unshare", "--net", sys.executable, __file__, str(work)], check=True, timeout=200, env=environment
    )
    return [_unpack_answer(item) for item in json.loads((work / "result.json").read_text())]


def _pack(message: Any) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def _pack_step(step: Step) -> dict[str, Any]:
    return {
        "write": [_pack(u) for u in step.write],
        "frame": None if step.frame is None else [step.frame[0], step.frame[1].hex()],
        "stream": None if step.stream is None else _pack(step.stream),
        "read": [_pack(e) for e in step.read],
        "wait_s": step.wait_s,
    }


def _unpack_answer(item: dict[str, Any]) -> Answer:
    return Answer(
        item["codes"],
        {int(port): [bytes.fromhex(f) for f in frames] for port, frames in item["frames"].items()},
        [p4r.StreamMessageResponse.FromString(base64.b64decode(m)) for m in item["stream"]],
        [p4r.Entity.FromString(base64.b64decode(m)) for m in item["read"]],
    )


# --- inside the namespace


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
    sock.bind((interface, 0))
    sock.setblocking(False)
    return sock


def _frames(sockets: dict[int, socket.socket]) -> dict[int, list[str]]:
    result: dict[int, list[str]] = {}
    for port, sock in sockets.items():
        while True:
            try:
                result.setdefault(port, []).append(sock.recv(65536).hex())
            except BlockingIOError:
                break
    return result


def _decode(kind: Any, text: str) -> Any:
    return kind.FromString(base64.b64decode(text))


def _run(work: Path) -> None:
    job: dict[str, Any] = json.loads((work / "job.json").read_text())
    _ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    interfaces: list[str] = []
    for port in range(1, PORTS + 1):
        _ip("link", "add", f"s{port}", "type", "veth", "peer", "name", f"h{port}")
        for end in (f"s{port}", f"h{port}"):
            _ip("link", "set", end, "up")
        interfaces += ["-i", f"{port}@s{port}"]
    address = "127.0.0.1:9559"
    last = ("--", "--grpc-server-addr", address, "--cpu-port", "255")
    if job["kind"] == "bmv2":
        command = [BMV2, "--no-p4", "--device-id", "1", *interfaces, *last]
    else:
        command = embedded_command("--no-p4", "--device-id", "1", *interfaces, *last)
    log = work / "target.log"
    with process(command, log) as running:
        wait_until_answering(address, running, log)
        client = Client(address)
        messages = client.primary().background()
        client.set_config(_decode(p4r.ForwardingPipelineConfig, job["config"]))
        sockets = {port: _open(f"h{port}") for port in range(1, PORTS + 1)}
        answers = [_step(client, messages, sockets, step) for step in job["steps"]]
        client.close()
    (work / "result.json").write_text(json.dumps(answers))


def _step(
    client: Client, messages: list[p4r.StreamMessageResponse], sockets: dict[int, socket.socket], step: Any
) -> dict[str, Any]:
    codes: list[int] = []
    found: list[p4r.Entity] = []
    if step["write"]:
        try:
            client.write(*(_decode(p4r.Update, u) for u in step["write"]))
        except RpcError as error:
            codes = [d.canonical_code for d in error.details or ()]
    if step["frame"] is not None:
        port, data = step["frame"]
        sockets[port].send(bytes.fromhex(data))
    if step["stream"] is not None:
        client.streams[-1].send(_decode(p4r.StreamMessageRequest, step["stream"]))
    time.sleep(step["wait_s"])
    if step["read"]:
        found = client.read(*(_decode(p4r.Entity, e) for e in step["read"]))
    frames: dict[int, list[str]] = {}
    if step["frame"] is not None:
        until = time.monotonic() + SETTLE_S
        while not frames and time.monotonic() < until:
            time.sleep(0.01)
            frames = _frames(sockets)
    heard = [_pack(m) for m in messages]
    messages.clear()
    return {"codes": codes, "frames": frames, "stream": heard, "read": [_pack(e) for e in found]}


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
