# SPDX-License-Identifier: Apache-2.0
"""Forwarding between two veth pairs, by the engine and by a bare forwarder, in one run."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi

from target import build
from target.benchmark.state import install
from target.engine import Engine

_CDEF = """
int64_t bench_send(const char *interface, const uint8_t *frame, uint32_t length, uint64_t pps,
                   const volatile int *stop);
int64_t bench_receive(const char *interface, const volatile int *stop);
int64_t bench_forward(const char *from, const char *to, const volatile int *stop);
"""


class _Load:
    def __init__(self) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(_CDEF)
        source = (Path(__file__).parent / "bench_io.c").read_text()
        self.lib: Any = self.ffi.dlopen(str(build.library("bench", [("bench_io.c", source)], ["-O2"], [])))

    def run(self, frame: bytes, seconds: float, forward: bool) -> int:
        """Frames that come out of h2 while h1 is flooded; `forward`: the bare forwarder is in between."""
        stop = self.ffi.new("int *", 0)
        received: list[int] = []
        jobs: list[Callable[[], Any]] = [
            lambda: received.append(int(self.lib.bench_receive(b"h2", stop))),
            lambda: self.lib.bench_send(b"h1", frame, len(frame), 0, stop),
        ]
        if forward:
            jobs.append(lambda: self.lib.bench_forward(b"s1", b"s2", stop))
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop[0] = 1
        for thread in threads:
            thread.join()
        if not received or received[0] < 0:
            raise OSError("the benchmark's sockets could not be opened")
        return received[0]


def measure_veth(
    program: str, frame: bytes, state: dict[str, Any], port: int, egress: int, seconds: float
) -> dict[str, float]:
    """Frames a second. Runs in a network namespace of its own, which it fills with two veth pairs."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for i in (1, 2):
        subprocess.run(
            ["ip", "link", "add", f"s{i}", "type", "veth", "peer", "name", f"h{i}"], check=True, timeout=30
        )
        for end in (f"s{i}", f"h{i}"):
            subprocess.run(["ip", "link", "set", end, "up"], check=True, timeout=30)
    load = _Load()
    bare = load.run(frame, seconds, True)
    with Engine() as engine:
        device = engine.add_device("bench", 1, priority_queues=8)
        device.add_port(port, "s1")
        device.add_port(egress, "s2")
        device.load_pipeline(program)
        install(device, state)
        engine.start()
        ours = load.run(frame, seconds, False)
    return {
        "bare_pps": round(bare / seconds),
        "target_pps": round(ours / seconds),
        "share_of_bare": round(ours / max(1, bare), 3),
    }
