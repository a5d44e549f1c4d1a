# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of nic.p4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptf_tests.common.device_test import DeviceTest
from tests.support import answers, nic, wire
from tests.support.nic import Step
from tests.support.wire import BLOCK, Roce

HOST, WIRE = nic.HOST, nic.WIRE

SLOT = 2
"""The step slot of these tests."""
OWNER = 9
FLOW = 5
QP = wire.queue_pair(SLOT, OWNER, FLOW)

MTU = 4096
"""Payload of a full packet, bytes: 8 blocks."""
FULL = 0xFF
"""`accept` of a full packet."""

ALWAYS = nic.ALWAYS

GENEROUS = Step(tag=1, p_ppm=500_000, budget=1 << 20, packet_bytes=MTU)
"""A step that forgives as much as it has received, and is never exhausted here."""


class NicTest(DeviceTest):
    """A NIC with the tests' traffic classes and one step installed in SLOT; `step` = None: none."""

    step: Step | None = GENEROUS

    def configure(self) -> None:
        nic.configure(self.control)
        if self.step is not None:
            self.install(self.step)

    # --- the step's entry

    def install(self, step: Step, slot: int = SLOT) -> None:
        nic.install(self.control, slot, step)

    def change(self, slot: int = SLOT, **changes: Any) -> None:
        """Modify the installed entry."""
        assert self.step is not None
        self.step = replace(self.step, **changes)
        nic.modify(self.control, slot, self.step)

    def close(self) -> None:
        """OnAllReduceComplete."""
        self.change(open=False)

    # --- packets

    def data(self, offset: int, length: int = MTU, qp: int = QP, **fields: Any) -> Roce:
        return wire.data(qp, offset, length, **fields)

    def header(self, offset: int, length: int = MTU, qp: int = QP, **fields: Any) -> Roce:
        """A trimmed header."""
        return wire.trimmed(qp, offset, length, **fields)

    def feedback(self, packet: Roce, syndrome: int, rcv_nxt: int, **flags: int) -> Roce:
        """Feedback of an eligible flow with budget left, unless `flags` says otherwise."""
        return answers.feedback(packet, syndrome, rcv_nxt, **{"eligible": 1, **flags})

    # --- what must come out

    def expect_delivered(self, packet: Roce, rcv_nxt: int, accept: int | None = None, **flags: int) -> None:
        """Data that settles the blocks of `accept` (all of them if None): delivered and acknowledged."""
        assert packet.reth is not None
        if accept is None:
            accept = (1 << -(-packet.reth.dma_len // BLOCK)) - 1
        self.send(WIRE, packet)
        self.expect(HOST, answers.delivered(packet, accept))
        self.expect(WIRE, self.feedback(packet, wire.ACK, rcv_nxt, **flags))
        self.expect_nothing_else()

    def expect_acknowledged(self, packet: Roce, rcv_nxt: int, **flags: int) -> None:
        """Acknowledged, and nothing for the host."""
        self.send(WIRE, packet)
        self.expect(WIRE, self.feedback(packet, wire.ACK, rcv_nxt, **flags))
        self.expect_nothing_else()

    def expect_requested(self, packet: Roce, rcv_nxt: int, **flags: int) -> None:
        """A retransmission request for the range, and nothing for the host."""
        self.send(WIRE, packet)
        self.expect(WIRE, self.feedback(packet, wire.NAK, rcv_nxt, **flags))
        self.expect_nothing_else()

    def expect_forgiven(self, packet: Roce, rcv_nxt: int, accept: int = FULL, **flags: int) -> None:
        """The host is told the forgiven blocks, the sender gets an acknowledgement past them."""
        self.send(WIRE, packet)
        self.expect(HOST, answers.forgiven(packet, accept))
        self.expect(WIRE, self.feedback(packet, wire.ACK, rcv_nxt, **flags))
        self.expect_nothing_else()

    def expect_dropped(self, packet: Roce | bytes, port: int = WIRE) -> None:
        self.send(port, packet)
        self.expect_nothing_else()

    def expect_state(self, slot: int = SLOT, **expected: int) -> None:
        """The named fields of the state report."""
        report = nic.query(self.control, slot)
        self.assertEqual({name: report[name] for name in expected}, expected)

    def receive(self, *packets: Roce) -> None:
        """Feed data from the wire that a test has no further interest in."""
        for packet in packets:
            self.send(WIRE, packet)
            self.assertIsNotNone(self.next_frame(HOST))
            self.assertIsNotNone(self.next_frame(WIRE))
