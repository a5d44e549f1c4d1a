# SPDX-License-Identifier: Apache-2.0
"""The vesting rule: forgiven + len <= p x (received + forgiven + len), to the byte."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import GENEROUS, MTU, NicTest
from tests.support.nic import Step
from tests.support.wire import BLOCK


class VestedToTheByte(NicTest):
    """p = 1/10: after 9 x 512 bytes received, a block is forgiven: 512 <= 0.1 x 5120."""

    step = Step(tag=3, p_ppm=100_000, budget=1 << 20)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 8 * BLOCK), 8 * BLOCK)
        self.expect_delivered(self.data(8 * BLOCK, BLOCK, end=True), 9 * BLOCK)
        self.expect_forgiven(self.header(9 * BLOCK, BLOCK), 10 * BLOCK, accept=1)
        self.expect_state(received=9 * BLOCK, forgiven=BLOCK)


class OneByteShort(NicTest):
    """With one byte less received, the same block is requested."""

    step = Step(tag=3, p_ppm=100_000, budget=1 << 20)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 8 * BLOCK), 8 * BLOCK)
        self.expect_delivered(self.data(8 * BLOCK, BLOCK - 1, end=True), 9 * BLOCK)
        self.expect_requested(self.header(9 * BLOCK, BLOCK), 9 * BLOCK)
        self.expect_state(received=9 * BLOCK - 1, forgiven=0, outstanding=BLOCK)
        self.expect_counters(refused_vesting=1)


class SecondRangeCountsTheFirst(NicTest):
    """What is already forgiven is in both sides of the inequality."""

    step = Step(tag=3, p_ppm=250_000, budget=1 << 20)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 6 * BLOCK), 6 * BLOCK)
        self.expect_forgiven(self.header(8 * BLOCK, BLOCK), 6 * BLOCK, accept=1)
        self.expect_forgiven(self.header(9 * BLOCK, BLOCK), 6 * BLOCK, accept=1)
        self.expect_requested(self.header(10 * BLOCK, BLOCK), 6 * BLOCK)
        self.expect_delivered(self.data(6 * BLOCK, 2 * BLOCK), 10 * BLOCK)
        self.expect_requested(self.header(10 * BLOCK, BLOCK), 10 * BLOCK)
        self.expect_delivered(self.data(11 * BLOCK, BLOCK), 10 * BLOCK)
        self.expect_forgiven(self.header(10 * BLOCK, BLOCK), 12 * BLOCK, accept=1)
        self.expect_state(received=9 * BLOCK, forgiven=3 * BLOCK, outstanding=0)


class ShortTailVestsWithItsOwnBytes(NicTest):
    """The tail's length is what counts: 100 bytes are forgiven where a block would be refused."""

    step = Step(tag=3, p_ppm=100_000, budget=1 << 20)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0, 900, end=True), 2 * BLOCK)
        self.expect_forgiven(self.header(2 * BLOCK, 100, end=True), 3 * BLOCK, accept=1)
        self.expect_state(received=900, forgiven=100)


class PartsPerMillionAreExact(NicTest):
    """p = 0.005: a block vests with 199 x 512 bytes received (101,888), and not with 198 blocks and 511
    bytes."""

    step = Step(tag=3, p_ppm=5_000, budget=1 << 20)

    def runTest(self) -> None:
        for start in range(0, 198, 18):
            self.receive(self.data(start * BLOCK, 18 * BLOCK))
        self.receive(self.data(198 * BLOCK, BLOCK - 1, end=True))
        self.expect_requested(self.header(199 * BLOCK, BLOCK), 199 * BLOCK)
        self.expect_state(received=199 * BLOCK - 1, forgiven=0)
        self.receive(self.data(201 * BLOCK, 1, end=True))
        self.expect_forgiven(self.header(199 * BLOCK, BLOCK), 200 * BLOCK, accept=1)


class NothingVestsWithoutTolerance(NicTest):
    """p = 0: no flow is eligible, and nothing is forgiven however much arrives."""

    step = Step(tag=3, p_ppm=0, budget=0)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, eligible=0)
        self.expect_requested(self.header(MTU), MTU, eligible=0)
        self.expect_counters(refused_vesting=1)


class FlowsShareTheVestedBudget(NicTest):
    """Bytes of one flow vest for another of the same step."""

    def runTest(self) -> None:
        from ptf_tests.common.nic_test import OWNER, SLOT
        from tests.support import wire

        other = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(0, qp=other), MTU)
        self.expect_requested(self.header(MTU), MTU)
        self.expect_state(received=MTU, forgiven=MTU, outstanding=MTU)


class WithoutVestingTheWholeBudgetIsThere(NicTest):
    """vesting = 0: forgiven + len <= budget, from the first byte on; at the exact byte."""

    step = replace(GENEROUS, vesting=False, budget=MTU + BLOCK, packet_bytes=BLOCK)

    def runTest(self) -> None:
        self.expect_forgiven(self.header(0), MTU)
        self.expect_requested(self.header(MTU, BLOCK + 1, end=True), MTU, exhausted=1)
        self.expect_forgiven(self.header(MTU, BLOCK), MTU + BLOCK, accept=1, exhausted=1)
        self.expect_state(forgiven=MTU + BLOCK, received=0)
