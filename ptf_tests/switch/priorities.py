# SPDX-License-Identifier: Apache-2.0
"""Strict priorities: feedback before trimmed headers before data."""

from __future__ import annotations

from ptf_tests.common.switch_test import FRAME, SLOW_PORT, SwitchTest
from tests.support import wire
from tests.support.wire import Roce


class PriorityTest(SwitchTest):
    """A data queue with frames waiting."""

    def fill(self, frames: int = 3) -> list[Roce]:
        """Returns what leaves in the end, the first at once."""
        first = self.occupy()
        packets = [self.data(psn) for psn in range(1, frames + 1)]
        for packet in packets:
            self.send(1, packet)
        return [first, *map(self.forwarded, packets)]

    def overtakes(self, packet: Roce, left: Roce) -> None:
        """`packet`, sent after the data, leaves before all of it that waits."""
        data = self.fill()
        self.send(1, packet)
        self.expect(SLOW_PORT, data[0], left, *data[1:])
        self.expect_nothing_else()


class TrimmedHeaderOvertakesData(PriorityTest):
    """A header that an earlier switch trimmed overtakes a full data queue."""

    def runTest(self) -> None:
        header = self.data(9).trimmed(wire.DSCP_GRADIENT_TRIMMED)
        self.overtakes(header, self.forwarded(header))


class FreshlyTrimmedHeaderOvertakesData(PriorityTest):
    """A packet trimmed here overtakes the queue that it did not fit in."""

    def runTest(self) -> None:
        self.limit_queue(3 * FRAME)
        packet = self.data(9)
        self.overtakes(packet, self.trimmed(packet))


class FeedbackOvertakesData(PriorityTest):
    """Feedback overtakes a full data queue."""

    def runTest(self) -> None:
        report = Roce(
            wire.ACKNOWLEDGE,
            5,
            dscp=wire.DSCP_CONTROL,
            ecn=wire.NOT_ECT,
            dst_ip=self.data().dst_ip,
            feedback=wire.Feedback(wire.ACK, 0, 0, 512),
        )
        self.overtakes(report, self.forwarded(report))


class PlainTrafficWaits(PriorityTest):
    """What has no class waits its turn behind the data."""

    def runTest(self) -> None:
        data = self.fill()
        plain = self.data(9, dscp=0)
        self.send(1, plain)
        self.expect(SLOW_PORT, *data, self.forwarded(plain))
        self.expect_nothing_else()
