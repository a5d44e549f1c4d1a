# SPDX-License-Identifier: Apache-2.0
"""budget-exhausted: forgiven + outstanding + one packet > budget; set, cleared, and never latched."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import GENEROUS, MTU, OWNER, SLOT, NicTest
from tests.support import wire
from tests.support.nic import NEVER, NEVER_ENDS
from tests.support.wire import BLOCK


class ExhaustedAtTheExactByte(NicTest):
    """outstanding + packet = budget: not exhausted. One byte less of budget: exhausted."""

    step = replace(GENEROUS, budget=2 * MTU)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, exhausted=0)
        self.change(budget=2 * MTU - 1)
        self.expect_requested(self.header(0), 0, exhausted=1)
        self.expect_counters(exhausted_set=1, exhausted_cleared=0)
        self.expect_state(exhausted=1, outstanding=MTU)


class ClearedByAnArrival(NicTest):
    """The arrival of what is outstanding clears the flag: it is no latch."""

    step = replace(GENEROUS, budget=2 * MTU, forgive_threshold=0)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, exhausted=0)
        self.expect_requested(self.header(MTU), 0, exhausted=1)
        self.expect_delivered(self.data(0), MTU, exhausted=0)
        self.expect_requested(self.header(2 * MTU), MTU, exhausted=1)
        self.expect_delivered(self.data(MTU), 2 * MTU, exhausted=0)
        self.expect_counters(exhausted_set=2, exhausted_cleared=2)
        self.expect_state(exhausted=0, outstanding=MTU)


class ForgivingDoesNotClear(NicTest):
    """A forgiveness moves bytes from outstanding to forgiven: the flag stays as it is."""

    step = replace(GENEROUS, budget=2 * MTU)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, exhausted=0)
        self.expect_requested(self.header(MTU), 0, exhausted=1)
        self.expect_delivered(self.data(2 * MTU), 0, exhausted=1)
        self.expect_forgiven(self.header(0), MTU, exhausted=1)
        self.expect_delivered(self.data(MTU), 3 * MTU, exhausted=0)
        self.expect_state(forgiven=MTU, outstanding=0)


class ExhaustedFromTheStart(NicTest):
    """A budget below one packet is exhausted from the first report."""

    step = replace(GENEROUS, budget=MTU - 1)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, exhausted=1)
        self.expect_counters(exhausted_set=1)


class PacketSizeIsAParameter(NicTest):
    """`packet_bytes` is the packet of the formula."""

    step = replace(GENEROUS, budget=1024, packet_bytes=1024)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, exhausted=0)
        self.change(packet_bytes=1025)
        self.expect_acknowledged(self.data(0), MTU, exhausted=1)


class FlowsShareTheFlag(NicTest):
    """Outstanding bytes of one flow set the flag in the feedback of every other flow of the step."""

    step = replace(GENEROUS, budget=2 * MTU - 1)

    def runTest(self) -> None:
        other = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0, qp=other), MTU, exhausted=0)
        self.expect_requested(self.header(0, 2 * MTU), 0, exhausted=1)
        self.expect_acknowledged(self.data(0, qp=other), MTU, exhausted=1)
        self.expect_delivered(self.data(0, 2 * MTU), 2 * MTU, exhausted=0)


class ForgivenNeverExceedsTheBudget(NicTest):
    """Run a step to its end with a trim for every packet: forgiven stays at floor(p x expected)."""

    expected = 40 * BLOCK
    step = replace(GENEROUS, p_ppm=100_000, budget=expected // 10, packet_bytes=BLOCK)

    def runTest(self) -> None:
        for block in range(40):
            header = self.header(block * BLOCK, BLOCK)
            self.send(wire_port := 2, header)
            answer = wire.decode(self.next_frame(wire_port) or b"")
            assert answer.feedback is not None
            if answer.feedback.syndrome == wire.NAK:
                self.receive(self.data(block * BLOCK, BLOCK))
            else:
                self.next_frame(1)
        self.expect_state(received=36 * BLOCK, forgiven=4 * BLOCK, outstanding=0)
        self.expect_counters(forgiven=4)


class ExemptionNever(NicTest):
    """exemption = 1: the eligible flag is never sent; forgiveness goes on."""

    step = replace(GENEROUS, exemption=NEVER)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=0)
        self.expect_forgiven(self.header(MTU), 2 * MTU, eligible=0)
        self.expect_state(received=MTU, forgiven=MTU)


class ExemptionNeverEnds(NicTest):
    """exemption = 2: the exhausted flag is never sent."""

    step = replace(GENEROUS, exemption=NEVER_ENDS, budget=0)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, exhausted=0)
        self.expect_delivered(self.data(0), MTU, exhausted=0)
        self.expect_counters(exhausted_set=0, exhausted_cleared=0)
