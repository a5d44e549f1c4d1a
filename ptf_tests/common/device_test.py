# SPDX-License-Identifier: Apache-2.0
"""A packet test against one running device."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsBytes

import ptf
from ptf import testutils
from ptf.base_tests import BaseTest

from tests.support import wire
from tests.support.control import Control
from tests.support.memory_dataplane import MemoryDataplane
from tests.support.p4rt import P4RuntimeControl

COUNTER_TIMEOUT_S = 5.0
"""How long counters may lag behind the packets that they count."""


def describe(frame: bytes | None) -> str:
    """A frame in words where it is RoCE, else its length and first bytes."""
    if frame is None:
        return "nothing"
    for delivered in (True, False):
        try:
            packet = wire.decode(frame, delivered=delivered)
        except wire.WireError:
            continue
        if packet.delivery is None or packet.delivery.event in (wire.EVENT_DATA, wire.EVENT_FORGIVEN):
            payload = f"{len(packet.payload)} bytes"
            return repr(packet.but(payload=b"")).replace("payload=b''", f"payload={payload}")
    return f"{len(frame)} bytes {frame[:64].hex()}"


class DeviceTest(BaseTest):  # type: ignore[misc]  # ptf is not typed
    """Pushes the pipeline afresh before each test, so that every table, register and counter starts empty."""

    control: Control

    def setUp(self) -> None:
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.control = self.connect()
        self.control.reset()
        self.dataplane.flush()
        self.configure()

    def connect(self) -> Control:
        """The device's control plane: by P4Runtime, unless the dataplane is one that brings its own."""
        if isinstance(self.dataplane, MemoryDataplane):
            return self.dataplane.control
        control = P4RuntimeControl(
            testutils.test_param_get("address"),
            testutils.test_param_get("device_id"),
            Path(testutils.test_param_get("p4info")),
            Path(testutils.test_param_get("json")),
        )
        self.addCleanup(control.close)
        return control

    def configure(self) -> None:
        """What the controller installs before the test."""

    def send(self, port: int, packet: SupportsBytes) -> None:
        testutils.send_packet(self, port, bytes(packet))

    def expect(self, port: int, *packets: SupportsBytes, timeout: float | None = None) -> None:
        """The next frames at `port` are exactly these, in this order.

        (`verify_packet` takes the first that matches and forgets what came before it.)
        """
        for packet in packets:
            got = self.next_frame(port, timeout)
            if got != bytes(packet):
                self.fail(f"port {port}: expected\n  {describe(bytes(packet))}\ngot\n  {describe(got)}")

    def expect_any_order(self, port: int, *packets: SupportsBytes) -> None:
        """The next frames at `port` are these, in any order."""
        left = sorted(bytes(packet) for packet in packets)
        for _ in packets:
            got = self.next_frame(port)
            if got is None or got not in left:
                self.fail(
                    f"port {port}: expected one of\n  "
                    + "\n  ".join(map(describe, left))
                    + f"\ngot\n  {describe(got)}"
                )
            assert got is not None
            left.remove(got)

    def next_frame(self, port: int, timeout: float | None = None) -> bytes | None:
        """The next frame at `port`, or None after the timeout (seconds; ptf's default)."""
        result = testutils.dp_poll(
            self, port_number=port, timeout=timeout or ptf.ptfutils.default_timeout, exp_pkt=None
        )
        return bytes(result.packet) if isinstance(result, self.dataplane.PollSuccess) else None

    def expect_nothing_else(self) -> None:
        """No frame at any port."""
        testutils.verify_no_other_packets(self)

    def expect_counters(self, index: int = 0, **expected: int) -> None:
        """These counters' cells become equal to what is expected, in packets."""
        got: Mapping[str, int] = {}
        deadline = time.monotonic() + COUNTER_TIMEOUT_S
        while time.monotonic() < deadline:
            got = {name: self.control.counter(name, index) for name in expected}
            if got == expected:
                return
        self.fail(f"counters [{index}]: expected {expected}, got {dict(got)}")

    def exchange(self, port: int, packet: SupportsBytes, **ports: tuple[SupportsBytes, ...]) -> None:
        """Send one packet; then exactly these frames come: `p1=(...)`, `p2=(...)`, and nothing else."""
        self.send(port, packet)
        for name, packets in ports.items():
            self.expect(int(name[1:]), *packets)
        self.expect_nothing_else()
