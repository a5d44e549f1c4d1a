# SPDX-License-Identifier: Apache-2.0
"""What starts a flow: any packet as in the paper, or data alone (`trimmed_starts_flow` = 0)."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import FLOW, GENEROUS, MTU, OWNER, SLOT, NicTest
from tests.support import wire
from tests.support.wire import BLOCK, CE

DATA_STARTS = replace(GENEROUS, trimmed_starts_flow=False)
NEWER = wire.queue_pair(SLOT, OWNER + 1, FLOW)
"""The next flow of the tests' flow slot."""


class TrimmedHeaderStartsItsFlow(NicTest):
    """trimmed_starts_flow = 1: the first header is charged, and its request carries the flow's flags."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, eligible=1)
        self.expect_state(outstanding=MTU, trimmed=MTU)
        self.expect_counters(unknown_flow=0, trimmed_received=1, refused_vesting=1)


class UnknownFlowIsOnlyRequested(NicTest):
    """trimmed_starts_flow = 0: such a header gets a bare request and changes nothing; data starts the
    flow."""

    step = DATA_STARTS

    def runTest(self) -> None:
        self.expect_requested(self.header(MTU, 3 * BLOCK), 0, eligible=0)
        self.expect_requested(self.header(MTU, ecn=CE), 0, eligible=0, becn=0)
        self.expect_state(received=0, outstanding=0, trimmed=0)
        self.expect_counters(unknown_flow=2, trimmed_received=0, refused_vesting=0, forgiven=0, echo_sent=0)
        self.expect_delivered(self.data(0), MTU, eligible=1)
        self.expect_forgiven(self.header(MTU), 2 * MTU, eligible=1)
        self.expect_state(received=MTU, forgiven=MTU, outstanding=0, trimmed=MTU)
        self.expect_counters(unknown_flow=2, trimmed_received=1)


class UnknownFlowBeyondTheWindow(NicTest):
    """A flow that has not started has no window: the header is requested, not dropped."""

    step = DATA_STARTS

    def runTest(self) -> None:
        self.expect_requested(self.header(wire.WINDOW, BLOCK), 0, eligible=0)
        self.expect_counters(unknown_flow=1, beyond_window=0)


class UnknownFlowMeetsNoStep(NicTest):
    """The step's byte state starts with the packet that starts a flow, not with such a header."""

    step = replace(DATA_STARTS, budget=2 * MTU)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_requested(self.header(2 * MTU, 2 * MTU), MTU, exhausted=1)
        self.expect_requested(self.header(0, qp=NEWER), 0, eligible=0, exhausted=0)
        self.expect_state(received=MTU, outstanding=2 * MTU, trimmed=2 * MTU, exhausted=1)
        self.expect_counters(exhausted_set=1, exhausted_cleared=0)


class EarlierFlowStays(NicTest):
    """A header of the slot's next flow leaves the flow there as it is; data takes the slot over."""

    step = DATA_STARTS

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_delivered(self.data(2 * MTU), MTU)
        self.expect_requested(self.header(0, qp=NEWER), 0, eligible=0)
        self.expect_delivered(self.data(MTU), 3 * MTU)
        self.expect_delivered(self.data(MTU, qp=NEWER), 0)
        self.expect_dropped(self.header(0))
        self.expect_counters(unknown_flow=1, stale=1)


class DataFixesEligibility(NicTest):
    """Eligibility is that of the data packet that starts the flow, whatever came trimmed before."""

    step = DATA_STARTS

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, eligible=0)
        self.expect_delivered(self.data(0, dscp=wire.DSCP_DATA), MTU, eligible=0)
        self.expect_requested(self.header(0, qp=NEWER, dscp=wire.DSCP_DATA_TRIMMED), 0, eligible=0)
        self.expect_delivered(self.data(0, qp=NEWER), MTU, eligible=1)
        self.expect_counters(unknown_flow=2, refused_class=0)


class WithoutAnEntryAnyPacketStarts(NicTest):
    """Outside any step the parameter is nobody's: a trimmed header starts its flow."""

    step = None

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, eligible=0)
        self.expect_counters(unknown_flow=0, trimmed_received=1, refused_closed=1)
        self.expect_dropped(self.header(0, qp=wire.queue_pair(SLOT, OWNER - 1, FLOW)))
        self.expect_counters(stale=1)
