# SPDX-License-Identifier: Apache-2.0
"""The device under test of the model, packet and mutation tests: one program, frames in and frames out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from tests.support.control import Control

ANSWER_TIMEOUT_S = 10.0
"""How long a device that runs by itself may take for an answer."""


class Dut(Protocol):
    """One device with its ports in the test's hands."""

    @property
    def control(self) -> Control: ...

    @property
    def in_memory(self) -> bool:
        """Its clock is the test's: it does everything it can do now before a call returns."""

    def send(self, port: int, frame: bytes) -> None:
        """The frame comes in at `port`."""

    def poll(self, port: int | None, timeout_s: float) -> tuple[int, bytes] | None:
        """The next frame that left at `port` (None: at any), or None if none leaves within the timeout.

        In memory the device's clock moves as far as needed, at most by the timeout.
        """

    def drain(self) -> dict[int, list[bytes]]:
        """The frames that have left and were not polled, by port."""

    def advance(self, microseconds: int) -> None:
        """Let this much time pass for the device."""

    def close(self) -> None: ...


def exchange(dut: Dut, port: int, frame: bytes, expected: Mapping[int, int]) -> dict[int, list[bytes]]:
    """Send one frame; what leaves because of it, by port.

    `expected`: how many frames ought to leave at each. In memory that is not needed: whatever leaves is
    returned. With a device that runs by itself the call returns when those have come, and what comes in
    excess shows later.
    """
    dut.send(port, frame)
    if dut.in_memory:
        return dut.drain()
    got: dict[int, list[bytes]] = {}
    for out, number in expected.items():
        for _ in range(number):
            left = dut.poll(out, ANSWER_TIMEOUT_S)
            if left is not None:
                got.setdefault(out, []).append(left[1])
    return got


def target_name() -> str:
    """`embedded` or `bmv2`, by TARGET."""
    name = os.environ.get("TARGET", "embedded")
    if name not in ("embedded", "bmv2"):
        raise ValueError(f"TARGET={name}: give embedded or bmv2")
    return name
