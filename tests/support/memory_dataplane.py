# SPDX-License-Identifier: Apache-2.0
"""ptf's dataplane over a device in this process: the packet tests without root, veth or waiting.

Only what the packet tests use of `ptf.dataplane.DataPlane`. Timeouts are of the device's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.control import Control
from tests.support.dut import Dut


class MemoryDataplane:
    """Ports of one device."""

    @dataclass
    class PollSuccess:
        device: int
        port: int
        packet: bytes

        def format(self) -> str:
            return f"{len(self.packet)} bytes at port {self.port}: {self.packet[:96].hex()}"

    @dataclass
    class PollFailure:
        reason: str = "no packet left in time"

        def format(self) -> str:
            return self.reason

    def __init__(self, dut: Dut) -> None:
        assert dut.in_memory
        self._dut = dut

    @property
    def control(self) -> Control:
        return self._dut.control

    def send(self, device_number: int, port_number: int, packet: bytes) -> int:
        self._dut.send(port_number, packet)
        return len(packet)

    def poll(
        self,
        device_number: int = 0,
        port_number: int | None = None,
        timeout: float | None = None,
        exp_pkt: bytes | None = None,
        filters: Sequence[object] = (),
    ) -> PollSuccess | PollFailure:
        """The next frame; with `exp_pkt` the next that equals it, and those before are forgotten, as in
        ptf."""
        while (left := self._dut.poll(port_number, timeout or 0)) is not None:
            if exp_pkt is None or left[1] == bytes(exp_pkt):
                return self.PollSuccess(device_number, *left)
        return self.PollFailure()

    def flush(self) -> None:
        """Forget every frame that has left or waits."""
        while self._dut.poll(None, 3600) is not None:
            pass
