# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of switch.p4."""

from __future__ import annotations

import time
from typing import Any

from ptf_tests.common.device_test import DeviceTest
from tests.support import wire
from tests.support.wire import Roce

SEED = 0x5EED0001

FAST_PORTS = (1, 2, 3, 4)
SLOW_PORT = 5
"""The port whose data queue is served slowly enough for a test to fill it (tests/support/devices.py)."""

SPRAYED = 26
"""DSCP of a class like gradient, but sprayed."""

DATA_QUEUE, TRIMMED_QUEUE, FEEDBACK_QUEUE = 0, 1, 2

PAYLOAD = 1024 - wire.TRIMMED_BYTES
"""Payload bytes of a frame of 1024 bytes: one of those takes half a second at the slow port."""
FRAME = 1024


def host_ip(port: int) -> int:
    """Address of the host behind a port."""
    return 0x0A000000 | port


class SwitchTest(DeviceTest):
    """A switch with one host route per port and the classes of the tests' profile."""

    def configure(self) -> None:
        self.control.set_default("switch_config", "configure", seed=SEED)
        for dscp, trimmed_dscp, spray in (
            (wire.DSCP_GRADIENT, wire.DSCP_GRADIENT_TRIMMED, 0),
            (wire.DSCP_DATA, wire.DSCP_DATA_TRIMMED, 0),
            (SPRAYED, wire.DSCP_GRADIENT_TRIMMED, 1),
        ):
            self.classify(dscp, trimmable=1, trimmed_dscp=trimmed_dscp, spray=spray)
        for dscp in (wire.DSCP_GRADIENT_TRIMMED, wire.DSCP_DATA_TRIMMED):
            self.classify(dscp, priority=TRIMMED_QUEUE)
        self.classify(wire.DSCP_CONTROL, priority=FEEDBACK_QUEUE)
        for port in (*FAST_PORTS, SLOW_PORT):
            self.route(host_ip(port), 32, port)

    def classify(self, dscp: int, **params: int) -> None:
        defaults = {"trimmable": 0, "trimmed_dscp": 0, "priority": 0, "spray": 0}
        self.control.insert("traffic_class", {"dscp": dscp}, "classify", **{**defaults, **params})

    def route(self, address: int, prefix_len: int, port: int) -> None:
        self.control.insert("ipv4_routes", {"dst_addr": (address, prefix_len)}, "forward", port=port)

    def limit_queue(self, limit: int, port: int = SLOW_PORT) -> None:
        """Limit of a port's data queue, bytes."""
        # The parameter is called `bytes`.
        self.control.insert("queue_limits", {"egress_port": port}, "limit_queue", **{"bytes": limit})

    def data(self, psn: int = 0, to: int = SLOW_PORT, payload: int = PAYLOAD, **fields: Any) -> Roce:
        """Gradient data from the host at port 1."""
        fields = {"src_ip": host_ip(1), "dst_ip": host_ip(to), **fields}
        return wire.data(0x010203, 0, payload, psn=psn, end=True, **fields)

    @staticmethod
    def forwarded(packet: Roce) -> Roce:
        return packet.but(ttl=packet.ttl - 1)

    @staticmethod
    def trimmed(packet: Roce, dscp: int = wire.DSCP_GRADIENT_TRIMMED) -> Roce:
        """A trimmed packet as it leaves: IP and UDP length rewritten, RETH as it was, TTL one down."""
        return packet.trimmed(dscp).but(ttl=packet.ttl - 1)

    def occupy(self, psn: int = 0xFFFF00, **fields: Any) -> Roce:
        """Send one frame to the slow port and wait until its queue has let it go.

        From then on the queue is empty, and what comes waits for half a second at least. Returns the frame as
        it leaves, which is the next one at the port.
        """
        before = self.control.counter("forwarded", SLOW_PORT)
        packet = self.data(psn, **fields)
        self.send(1, packet)
        deadline = time.monotonic() + 5
        while self.control.counter("forwarded", SLOW_PORT) == before:
            if time.monotonic() > deadline:
                self.fail("the first frame did not leave the slow port")
        return self.forwarded(packet)

    def settle(self, port: int) -> None:
        """Wait until everything sent at `port` has been admitted: a marker behind it has come out at port 4.

        A switch may look at its ports in any order, so frames at two ports need this between them.
        """
        marker = self.data(0xFFFFFE, to=4, dscp=wire.DSCP_CONTROL)
        self.send(port, marker)
        self.expect(4, self.forwarded(marker))
