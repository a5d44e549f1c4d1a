# SPDX-License-Identifier: Apache-2.0
"""Runs frames through the real simple_switch, for comparison.

As a script, in a network namespace of its own: unshare --net python bmv2_run.py WORKDIR, where
WORKDIR/job.json holds {json, ports, queues, commands, frames}. Frames are [port, hex]; the result,
{port: [hex, ...]} in order of sending, goes to WORKDIR/result.json.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_SETTLE_S = 1.0


def available() -> str | None:
    """Why the real switch can't run here, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    if shutil.which("simple_switch") is None:
        return "simple_switch is not on PATH"
    return None


def compare_run(
    work: Path,
    program: str,
    frames: list[tuple[int, bytes]],
    ports: int = 4,
    queues: int = 8,
    commands: str = "",
) -> dict[int, list[bytes]]:
    """What simple_switch sends, by port, for frames injected one after the other."""
    job = {
        "json": program,
        "ports": ports,
        "queues": queues,
        "commands": commands,
        "frames": [[port, data.hex()] for port, data in frames],
    }
    (work / "job.json").write_text(json.dumps(job))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(
        ["unshare", "--net", sys.executable, __file__, str(work)], check=True, timeout=120, env=environment
    )
    result = json.loads((work / "result.json").read_text())
    return {int(port): [bytes.fromhex(f) for f in found] for port, found in result.items()}


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
    sock.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    sock.bind((interface, 0))
    sock.settimeout(_SETTLE_S)
    return sock


def _run(work: Path) -> None:
    job: dict[str, Any] = json.loads((work / "job.json").read_text())
    (work / "program.json").write_text(job["json"])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    arguments: list[str] = []
    for port in range(1, job["ports"] + 1):
        pair = [f"s{port}", f"h{port}"]
        subprocess.run(
            [
                "ip",
                "link",
                "add",
                pair[0],
                "mtu",
                "9500",
                "type",
                "veth",
                "peer",
                "name",
                pair[1],
                "mtu",
                "9500",
            ],
            check=True,
        )
        for end in pair:
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        arguments += ["-i", f"{port}@s{port}"]
    log = (work / "switch.log").open("w")
    switch = subprocess.Popen(
        [
            "simple_switch",
            *arguments,
            *("--thrift-port", "9090"),
            *("--notifications-addr", f"ipc://{work}/n"),
            str(work / "program.json"),
            "--",
            *("--priority-queues", str(job["queues"])),
        ],
        stdout=log,
        stderr=log,
    )
    try:
        _wait_port(9090)
        if job["commands"]:
            subprocess.run(
                ["simple_switch_CLI", "--thrift-port", "9090"],
                input=job["commands"], text=True, check=True, stdout=log, stderr=log,
            )  # fmt: skip
        sockets = {port: _open(f"h{port}") for port in range(1, job["ports"] + 1)}
        for port, data in job["frames"]:
            sockets[port].send(bytes.fromhex(data))
            time.sleep(0.002)
        result: dict[int, list[str]] = {}
        for port, sock in sockets.items():
            found: list[str] = []
            while True:
                try:
                    found.append(sock.recv(65536).hex())
                except TimeoutError:
                    break
            result[port] = found
        if switch.poll() is not None:
            raise SystemExit(f"simple_switch ended with status {switch.returncode}")
        (work / "result.json").write_text(json.dumps(result))
    finally:
        switch.send_signal(signal.SIGKILL)
        switch.wait()


def _wait_port(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("simple_switch did not start")


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
