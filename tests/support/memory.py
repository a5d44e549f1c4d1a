# SPDX-License-Identifier: Apache-2.0
"""A device of the embedded target in this process, with ports in memory and the clock in the test's hands."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from controller.programs import Program
from target.engine import Engine
from tests.support.direct import DirectControl

NS_PER_S = 1_000_000_000
QUEUE_BYTES = 16 << 20


class MemoryDut:
    """`dut.Dut` in memory. One engine for a program, used again by many tests through `control.reset`."""

    in_memory = True

    def __init__(
        self, program: Program, ports: Iterable[int], rates_bps: Mapping[int, int] | None = None
    ) -> None:
        """`rates_bps`: ports with a limited rate, bits per second; at the others nothing queues."""
        self._engine = Engine()
        self._device = self._engine.add_device(program.name, 1, cpu_port=255, priority_queues=3)
        self._ports = tuple(ports)
        for port in self._ports:
            rate = (rates_bps or {}).get(port, 0)
            self._device.add_port(port, rate_bps=rate, queue_bytes=QUEUE_BYTES)
        self._left: dict[int, deque[bytes]] = {port: deque() for port in self._ports}
        self.control = DirectControl(self._device, program.p4info, program.json)

    def send(self, port: int, frame: bytes) -> None:
        self._device.inject(port, frame)
        self._engine.run_until(self._engine.now_ns)

    def poll(self, port: int | None, timeout_s: float) -> tuple[int, bytes] | None:
        deadline = self._engine.now_ns + int(timeout_s * NS_PER_S)
        while True:
            self._collect()
            for at in self._ports if port is None else (port,):
                if self._left[at]:
                    return at, self._left[at].popleft()
            due = self._engine.next_event_ns
            if due is None or due > deadline:
                self._engine.run_until(deadline)
                return None
            self._engine.run_until(due)

    def drain(self) -> dict[int, list[bytes]]:
        """Everything that has left and was not fetched, by port."""
        self._collect()
        got = {port: list(left) for port, left in self._left.items() if left}
        for left in self._left.values():
            left.clear()
        return got

    def _collect(self) -> None:
        for port in self._ports:
            self._left[port].extend(self._device.collect(port))

    def advance(self, microseconds: int) -> None:
        self._engine.run_until(self._engine.now_ns + microseconds * 1000)

    def flush(self) -> None:
        """Forget every frame that has left or waits."""
        while self.poll(None, 3600) is not None:
            pass

    def close(self) -> None:
        self.control.close()
        self._engine.close()
