# SPDX-License-Identifier: Apache-2.0
"""The forgiveness draw: fresh for each trimmed header, and only for a range that passed the vesting rule."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import FLOW, GENEROUS, MTU, QP, SLOT, NicTest
from tests.model import draws
from tests.support import wire
from tests.support.nic import ALWAYS, SEED
from tests.support.wire import BLOCK

QUARTER = ALWAYS // 4


class NeverForgives(NicTest):
    """P = 0: what vests is requested, outstanding, and charged to no budget."""

    step = replace(GENEROUS, forgive_threshold=0)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_requested(self.header(MTU), MTU)
        self.expect_counters(refused_draw=1, refused_vesting=0, forgiven=0)
        self.expect_state(forgiven=0, outstanding=MTU)


class FreshForEachHeader(NicTest):
    """P = 1/4: the same range, trimmed again and again, is forgiven at the draw that the hash predicts."""

    step = replace(GENEROUS, forgive_threshold=QUARTER)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        base = next(
            offset
            for offset in range(MTU, 1000 * BLOCK, BLOCK)
            if [draws.forgive(SEED, QP, offset, n) < QUARTER for n in range(4)] == [False, False, False, True]
        )
        for _ in range(3):
            self.expect_requested(self.header(base), MTU)
        self.expect_forgiven(self.header(base), MTU if base > MTU else 2 * MTU)
        self.expect_counters(refused_draw=3, forgiven=1)


class DrawsAreCountedByFlow(NicTest):
    """A draw's number is that of its flow; headers that draw nothing do not count; a new owner starts
    again."""

    step = replace(GENEROUS, forgive_threshold=QUARTER)

    def runTest(self) -> None:
        self.receive(self.data(0, 16 * BLOCK))
        count = 0
        for owner in (10, 11):
            qp = wire.queue_pair(SLOT, owner, FLOW + 1)
            self.receive(self.data(0, qp=qp))
            for number in range(8):
                header = self.header((number + 8) * BLOCK, BLOCK, qp=qp)
                wins = draws.forgive(SEED, qp, (number + 8) * BLOCK, number) < QUARTER
                count += wins
                answer = self.expect_forgiven if wins else self.expect_requested
                self.send(2, self.header(0, qp=qp))
                self.next_frame(2)
                if wins:
                    in_order = all(
                        draws.forgive(SEED, qp, (n + 8) * BLOCK, n) < QUARTER for n in range(number)
                    )
                    answer(header, (number + 9) * BLOCK if in_order else self._first(qp), accept=1)
                else:
                    answer(header, self._first(qp, number))
        self.expect_counters(forgiven=count, refused_draw=16 - count)

    @staticmethod
    def _first(qp: int, before: int = 8) -> int:
        """rcv_nxt: the first block whose draw lost, or the first that has not drawn yet."""
        for number in range(before):
            if draws.forgive(SEED, qp, (number + 8) * BLOCK, number) >= QUARTER:
                return (number + 8) * BLOCK
        return (before + 8) * BLOCK


class SeedChangesTheDraws(NicTest):
    """Another seed draws otherwise."""

    step = replace(GENEROUS, forgive_threshold=QUARTER)

    def runTest(self) -> None:
        other = 1
        offset = next(
            at
            for at in range(2 * MTU, 4000 * BLOCK, BLOCK)
            if draws.forgive(SEED, QP, at, 0) >= QUARTER > draws.forgive(other, QP, at, 0)
        )
        self.control.set_default(
            "nic_config",
            "configure",
            seed=other,
            control_dscp=wire.DSCP_CONTROL,
            notification_interval_us=0,
        )
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(offset), MTU)
