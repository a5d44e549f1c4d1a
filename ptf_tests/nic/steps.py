# SPDX-License-Identifier: Apache-2.0
"""Steps: closed, absent, of another tag; and what makes a flow eligible."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import GENEROUS, MTU, OWNER, SLOT, NicTest
from tests.support import nic, wire


class ClosedStepForgivesNothing(NicTest):
    """After OnAllReduceComplete every trimmed range is requested and none is charged; flags go on."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.close()
        self.expect_requested(self.header(MTU), MTU)
        self.expect_state(open=0, received=MTU, forgiven=0, outstanding=0)
        self.expect_counters(refused_closed=1, forgiven=0)
        self.expect_delivered(self.data(MTU), 2 * MTU)
        self.expect_state(received=2 * MTU)


class OutstandingOutlivesTheClosing(NicTest):
    """What was outstanding when the step closed comes off when it arrives, and clears the flag."""

    step = replace(GENEROUS, budget=MTU)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0, exhausted=1)
        self.close()
        self.expect_requested(self.header(0), 0, exhausted=1)
        self.expect_state(outstanding=MTU)
        self.expect_delivered(self.data(0), MTU, exhausted=0)
        self.expect_state(outstanding=0, received=MTU)


class LateTrimAfterCompletion(NicTest):
    """A header that arrives after completion for a settled range is acknowledged."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.close()
        self.expect_acknowledged(self.header(0), MTU)
        self.expect_counters(trimmed_settled=1, refused_closed=0)


class WithoutAnEntry(NicTest):
    """A step that nobody installed: ordinary loss recovery, both flags 0."""

    step = None

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=0)
        self.expect_requested(self.header(MTU), MTU, eligible=0)
        self.expect_delivered(self.data(MTU), 2 * MTU, eligible=0)
        self.expect_counters(refused_closed=1)


class EligibilityIsFixedAtTheStart(NicTest):
    """A flow that began before its step's entry is never eligible, though its trims are judged by the
    entry."""

    step = None

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=0)
        self.install(GENEROUS)
        self.expect_delivered(self.data(MTU), 2 * MTU, eligible=0)
        self.expect_state(received=0)
        other = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0, qp=other), MTU, eligible=1)
        self.expect_state(received=MTU)
        self.expect_forgiven(self.header(2 * MTU), 3 * MTU, eligible=0)
        self.expect_state(received=MTU, forgiven=MTU)


class EligibilityIsOfTheFlowNotThePacket(NicTest):
    """A later packet with another DSCP changes nothing about the flow's flags."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=1)
        self.expect_delivered(self.data(MTU, dscp=wire.DSCP_DATA), 2 * MTU, eligible=1)
        other = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0, qp=other, dscp=wire.DSCP_DATA), MTU, eligible=0)
        self.expect_delivered(self.data(MTU, qp=other), 2 * MTU, eligible=0)
        self.expect_state(received=2 * MTU)


class RequestedBeforeTheBudgetOpens(NicTest):
    """Corner 1: charged to `outstanding` at its next trim under an open budget, so nothing underflows."""

    step = None

    def runTest(self) -> None:
        self.expect_requested(self.header(0, 2 * MTU), 0, eligible=0)
        self.install(GENEROUS)
        self.expect_state(outstanding=0)
        self.expect_requested(self.header(0), 0, eligible=0)
        self.expect_state(outstanding=MTU)
        self.expect_delivered(self.data(0, 2 * MTU), 2 * MTU, eligible=0)
        self.expect_state(outstanding=0)


class OtherTrafficIsNotForgivable(NicTest):
    """Only gradient traffic by DSCP: the rest takes ordinary loss recovery, charged to nobody."""

    def runTest(self) -> None:
        qp = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0), MTU)
        self.expect_requested(self.header(0, qp=qp, dscp=wire.DSCP_DATA_TRIMMED), 0, eligible=0)
        self.expect_delivered(self.data(0, qp=qp, dscp=wire.DSCP_DATA), MTU, eligible=0)
        self.expect_state(received=MTU, forgiven=0, outstanding=0)
        self.expect_counters(refused_class=1)


class StepThatIsNotEligible(NicTest):
    """eligible = 0: no flow of the step is eligible, and none of its trims is forgiven."""

    step = replace(GENEROUS, eligible=False)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=0)
        self.expect_requested(self.header(MTU), MTU, eligible=0)
        self.expect_state(received=0, forgiven=0, outstanding=0)
        self.expect_counters(refused_class=1)


class RemovedEntry(NicTest):
    """When the entry has gone an eligible flow reports exhausted, and its trims are refused as closed."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        nic.remove(self.control, SLOT)
        self.expect_requested(self.header(MTU), MTU, exhausted=1)
        self.expect_delivered(self.data(MTU), 2 * MTU, exhausted=1)
        self.expect_counters(refused_closed=1, exhausted_set=0)
        self.expect_state(installed=0)


class NewTagStartsAfresh(NicTest):
    """A new tag in the slot starts with zeros; a flow of the old step neither charges nor lowers it."""

    step = replace(GENEROUS, budget=4 * MTU)

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0)
        self.change(tag=2)
        self.expect_state(step_tag=2, received=0, forgiven=0, outstanding=0, trimmed=0, exhausted=0)
        new = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_requested(self.header(0, 2 * MTU, qp=new), 0)
        self.expect_state(outstanding=2 * MTU)
        self.expect_delivered(self.data(0), MTU, exhausted=1)
        self.expect_requested(self.header(MTU), MTU, exhausted=1)
        self.expect_state(step_tag=2, received=0, forgiven=0, outstanding=2 * MTU, trimmed=2 * MTU)


class StepsAreApart(NicTest):
    """Two slots keep two budgets."""

    def runTest(self) -> None:
        other_slot = 5
        self.install(replace(GENEROUS, tag=8), other_slot)
        qp = wire.queue_pair(other_slot, 1, 70)
        self.expect_delivered(self.data(0), MTU)
        self.expect_requested(self.header(0, qp=qp), 0)
        self.expect_state(received=MTU, outstanding=0)
        self.expect_state(slot=other_slot, step_tag=8, received=0, outstanding=MTU)
