# SPDX-License-Identifier: Apache-2.0
"""ECN marking at departure, by the bytes still queued behind the packet."""

from __future__ import annotations

from ptf_tests.common.switch_test import FRAME, SEED, SLOW_PORT, SwitchTest
from tests.model import draws
from tests.support import wire
from tests.support.wire import Roce

HALF = 1 << 31
"""pmax = 0.5."""


class MarkingTest(SwitchTest):
    """Three frames wait at the slow port: they leave with 2, 1 and 0 frames behind them."""

    waiting = 3

    def threshold(self, kmin: int, kmax: int, pmax: int) -> None:
        self.control.insert(
            "ecn_thresholds", {"egress_port": SLOW_PORT}, "mark_between", kmin=kmin, kmax=kmax, pmax=pmax
        )

    def check(self, packets: list[Roce], marked: list[bool]) -> None:
        """`marked`: which of the packets leave with CE."""
        first = self.occupy()
        for packet in packets:
            self.send(1, packet)
        self.expect(SLOW_PORT, first)
        for packet, mark in zip(packets, marked, strict=True):
            left = self.forwarded(packet)
            self.expect(SLOW_PORT, left.but(ecn=wire.CE) if mark else left)
        self.expect_nothing_else()
        self.expect_counters(index=SLOW_PORT, marked=sum(marked), forwarded=1 + len(packets))


class NotMarkedAtKmin(MarkingTest):
    """At kmin and below nothing is marked, though pmax is 1."""

    def runTest(self) -> None:
        self.threshold(2 * FRAME, 2 * FRAME, 0xFFFFFFFF)
        self.check([self.data(psn) for psn in (1, 2, 3)], [False, False, False])


class MarkedAboveKmax(MarkingTest):
    """Above kmax everything is marked, though pmax is 0; at kmax that is not yet so."""

    def runTest(self) -> None:
        self.threshold(FRAME // 2, FRAME, 0)
        self.check([self.data(psn) for psn in (1, 2, 3)], [True, False, False])


class OneByteAboveKmax(MarkingTest):
    """kmax one byte below the queue: marked."""

    def runTest(self) -> None:
        self.threshold(FRAME // 2, 2 * FRAME - 1, 0)
        self.check([self.data(psn) for psn in (1, 2, 3)], [True, False, False])


class MarkedByDrawBetween(MarkingTest):
    """Between the thresholds each packet draws: pmax (q - kmin) / (kmax - kmin), as the draws predict."""

    def runTest(self) -> None:
        kmin, kmax = FRAME // 2, 4 * FRAME
        self.threshold(kmin, kmax, HALF)

        def marked(packet: Roce, behind: int) -> bool:
            value = draws.mark(SEED, packet.src_ip, packet.dst_ip, src_port=packet.udp_src, psn=packet.psn)
            return draws.is_marked(value, behind * FRAME, kmin, kmax, HALF)

        # PSNs for which the draw falls on either side, at either depth.
        def psn(behind: int, mark: bool) -> int:
            return next(n for n in range(10_000) if marked(self.data(n), behind) == mark)

        wanted = [True, False, True, False, False]
        packets = [self.data(psn(4 - at, mark)) for at, mark in enumerate(wanted)]
        self.check(packets, wanted)


class Ect1IsMarkedToo(MarkingTest):
    """ECT(1) is ECN-capable as ECT(0) is."""

    def runTest(self) -> None:
        self.threshold(0, 1, 0)
        self.check([self.data(1, ecn=wire.ECT1), self.data(2)], [True, False])


class NotEctIsNeverMarked(MarkingTest):
    """A packet that is not ECN-capable is not marked, whatever the queue."""

    def runTest(self) -> None:
        self.threshold(0, 1, 0xFFFFFFFF)
        self.check([self.data(1, ecn=wire.NOT_ECT), self.data(2, ecn=wire.NOT_ECT)], [False, False])


class CeStaysCe(MarkingTest):
    """A mark from upstream goes on."""

    def runTest(self) -> None:
        packet = self.data(1, to=2, ecn=wire.CE)
        self.exchange(1, packet, p2=(self.forwarded(packet),))


class WithoutThresholdsNeverMarked(MarkingTest):
    """A port without an entry marks nothing."""

    def runTest(self) -> None:
        self.check([self.data(psn) for psn in (1, 2, 3)], [False, False, False])


class HeadersAndFeedbackAreNotMarked(MarkingTest):
    """Only the data queue is marked: ECT headers that pass a full one are not."""

    def runTest(self) -> None:
        self.threshold(0, 1, 0xFFFFFFFF)
        first = self.occupy()
        waiting = [self.data(1), self.data(2)]
        header = self.data(3).trimmed(wire.DSCP_GRADIENT_TRIMMED)
        report = self.data(4, payload=100, dscp=wire.DSCP_CONTROL)
        for packet in (*waiting, header, report):
            self.send(1, packet)
        self.expect(SLOW_PORT, first)
        self.expect_any_order(SLOW_PORT, self.forwarded(header), self.forwarded(report))
        self.expect(SLOW_PORT, self.forwarded(waiting[0]).but(ecn=wire.CE), self.forwarded(waiting[1]))
        self.expect_counters(index=SLOW_PORT, marked=1)
