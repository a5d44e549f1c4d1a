# SPDX-License-Identifier: Apache-2.0
"""Unsettled: partly settled, straddling and re-segmented ranges count only the bytes that still lack."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import GENEROUS, MTU, NicTest
from tests.support import answers
from tests.support.nic import HOST, WIRE
from tests.support.wire import ACK, BLOCK


class StraddlingTheCumulativeAcknowledgement(NicTest):
    """A trimmed header that begins below rcv_nxt is charged for what lies above alone."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(MTU - 2 * BLOCK, 4 * BLOCK), MTU + 2 * BLOCK, accept=0b1100)
        self.expect_state(received=MTU, forgiven=2 * BLOCK, outstanding=0, trimmed=4 * BLOCK)


class PartlyReceivedRangeIsRequested(NicTest):
    """A refusal marks only the unsettled part: what was Received stays, and is not outstanding."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(BLOCK, BLOCK), 0)
        self.expect_requested(self.header(0, 4 * BLOCK), 0)
        self.expect_state(received=BLOCK, outstanding=3 * BLOCK)
        self.expect_delivered(self.data(0, 4 * BLOCK), 4 * BLOCK, accept=0b1101)
        self.expect_state(received=4 * BLOCK, outstanding=0)


class PartlyReceivedRangeIsForgiven(NicTest):
    """Forgiving charges the missing bytes alone, not the header's full length."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(2 * BLOCK, 2 * BLOCK), 0)
        self.expect_forgiven(self.header(0, 4 * BLOCK), 4 * BLOCK, accept=0b0011)
        self.expect_state(received=2 * BLOCK, forgiven=2 * BLOCK, outstanding=0)


class LateDataIsMasked(NicTest):
    """Data that covers a forgiven range partly is delivered with those blocks masked."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 2 * BLOCK), 2 * BLOCK)
        self.expect_forgiven(self.header(4 * BLOCK, 2 * BLOCK), 2 * BLOCK, accept=0b11)
        self.expect_delivered(self.data(2 * BLOCK, MTU), 2 * BLOCK + MTU, accept=0b11110011)
        self.expect_state(received=MTU, forgiven=2 * BLOCK)
        self.expect_counters(data_received=2, data_late=1)


class OverlappingTrimsCountOnce(NicTest):
    """Two overlapping headers add each byte to `outstanding` once; re-segmented data takes it off by
    parts."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0, 4 * BLOCK), 0)
        self.expect_requested(self.header(2 * BLOCK, 4 * BLOCK), 0)
        self.expect_state(outstanding=6 * BLOCK, trimmed=8 * BLOCK)
        self.expect_delivered(self.data(3 * BLOCK, BLOCK), 0)
        self.expect_state(outstanding=5 * BLOCK)
        self.expect_delivered(self.data(0, 3 * BLOCK), 4 * BLOCK)
        self.expect_state(outstanding=2 * BLOCK)


class TailOfAMessageIsExact(NicTest):
    """The last, short block counts its own bytes; rcv_nxt then stands at the next block."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 2 * BLOCK), 2 * BLOCK)
        self.expect_forgiven(self.header(2 * BLOCK, BLOCK + 188, end=True), 4 * BLOCK, accept=0b11)
        self.expect_state(received=2 * BLOCK, forgiven=BLOCK + 188)


class TailRequestedAndRepaired(NicTest):
    """A requested tail is outstanding with its own bytes, and no more comes off when it arrives."""

    def runTest(self) -> None:
        self.expect_requested(self.header(8 * BLOCK, 8 * BLOCK), 0)
        self.expect_requested(self.header(BLOCK, 700, end=True), 0)
        self.expect_state(outstanding=8 * BLOCK + 700)
        self.expect_delivered(self.data(BLOCK, 700, end=True), 0)
        self.expect_state(outstanding=8 * BLOCK, received=700)


class TailPartlyThere(NicTest):
    """Of a range with a short tail, what is missing is counted to the byte, whichever part that is."""

    step = replace(GENEROUS, forgive_threshold=0)

    def runTest(self) -> None:
        self.expect_requested(self.header(8 * BLOCK, 8 * BLOCK), 0)
        self.expect_delivered(self.data(BLOCK, BLOCK), 0)
        self.expect_requested(self.header(BLOCK, 700, end=True), 0)
        self.expect_state(outstanding=8 * BLOCK + 188)
        self.expect_delivered(self.data(BLOCK, 700, end=True), 0, accept=0b10)
        self.expect_state(outstanding=8 * BLOCK, received=700)


class OneByteMessage(NicTest):
    """A message of one byte."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 1, end=True), BLOCK)
        self.expect_state(received=1)


class LargestRange(NicTest):
    """A range of 32 blocks that spans two scoreboard words, forgiven and received."""

    def runTest(self) -> None:
        start = 48 * BLOCK
        for offset in range(0, start, 8 * BLOCK):
            self.receive(self.data(offset, 8 * BLOCK))
        # Less than the full range: an interface of 9,500 bytes carries 18 blocks.
        self.expect_delivered(self.data(start, 18 * BLOCK), start + 18 * BLOCK)
        self.expect_forgiven(
            self.header(start + 10 * BLOCK, 32 * BLOCK), start + 42 * BLOCK, accept=0xFFFFFF00
        )
        self.expect_state(received=66 * BLOCK, forgiven=24 * BLOCK)


class HolesFillInAnyOrder(NicTest):
    """rcv_nxt jumps over everything that is settled, across words."""

    def runTest(self) -> None:
        for offset in range(20, 1, -1):
            self.expect_delivered(self.data(offset * MTU), 0)
        self.expect_delivered(self.data(0), MTU)
        self.expect_delivered(self.data(MTU), 21 * MTU)


class BackToBack(NicTest):
    """A burst sent without waiting is answered packet by packet, in order."""

    def runTest(self) -> None:
        packets = [self.data(number * MTU, psn=number) for number in range(12)]
        for packet in packets:
            self.send(WIRE, packet)
        self.expect(HOST, *(answers.delivered(packet, 0xFF) for packet in packets))
        self.expect(
            WIRE,
            *(self.feedback(packet, ACK, (number + 1) * MTU) for number, packet in enumerate(packets)),
        )
        self.expect_nothing_else()
