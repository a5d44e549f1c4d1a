# SPDX-License-Identifier: Apache-2.0
"""Admission to the data queue: what would exceed a limit is trimmed, or dropped if it can't be trimmed."""

from __future__ import annotations

from ptf.testutils import simple_udp_packet

from ptf_tests.common.switch_test import FRAME, PAYLOAD, SLOW_PORT, SwitchTest
from tests.support import wire


class AdmissionTest(SwitchTest):
    """Counts at the slow port."""

    def expect_admission(self, forwarded: int, trimmed: int = 0, dropped: int = 0) -> None:
        self.expect_counters(index=SLOW_PORT, forwarded=forwarded, trimmed=trimmed, dropped=dropped)


class QueueLimitFits(AdmissionTest):
    """Queue bytes + frame = limit: the frame is admitted whole."""

    def runTest(self) -> None:
        self.limit_queue(2 * FRAME)
        first = self.occupy()
        packets = [self.data(psn) for psn in (1, 2)]
        for packet in packets:
            self.send(1, packet)
        self.expect(SLOW_PORT, first, *map(self.forwarded, packets))
        self.expect_nothing_else()
        self.expect_admission(forwarded=3)


class QueueLimitExceeded(AdmissionTest):
    """One byte less and the second frame is trimmed: DSCP of the class, lengths rewritten, RETH as it was."""

    def runTest(self) -> None:
        self.limit_queue(2 * FRAME - 1)
        first = self.occupy()
        packets = [self.data(1), self.data(2)]
        for packet in packets:
            self.send(1, packet)
        self.expect(SLOW_PORT, first, self.trimmed(packets[1]), self.forwarded(packets[0]))
        self.expect_nothing_else()
        self.expect_admission(forwarded=3, trimmed=1)


class TrimmedClassesKeepTheirDscp(AdmissionTest):
    """Each class has its own trimmed DSCP."""

    def runTest(self) -> None:
        self.limit_queue(FRAME - 1)
        gradient, other = self.data(1), self.data(2, dscp=wire.DSCP_DATA)
        self.exchange(1, gradient, p5=(self.trimmed(gradient),))
        self.exchange(1, other, p5=(self.trimmed(other, wire.DSCP_DATA_TRIMMED),))
        self.expect_admission(forwarded=2, trimmed=2)


class OccupancyFallsOnDeparture(AdmissionTest):
    """What has left the queue counts no more: a full queue that drained admits again."""

    def runTest(self) -> None:
        self.limit_queue(2 * FRAME)
        for start in (0, 10):
            first = self.occupy(start + 9)
            packets = [self.data(start + psn) for psn in (1, 2, 3)]
            for packet in packets:
                self.send(1, packet)
            self.expect(SLOW_PORT, first, self.trimmed(packets[2]), *map(self.forwarded, packets[:2]))
        self.expect_nothing_else()
        self.expect_admission(forwarded=8, trimmed=2)


class SmallerFrameStillFits(AdmissionTest):
    """The limit is in bytes, not packets: a shorter frame fits where a full one did not."""

    def runTest(self) -> None:
        self.limit_queue(2 * FRAME - 1)
        first = self.occupy()
        full, refused, short = self.data(1), self.data(2), self.data(3, payload=PAYLOAD - 1)
        for packet in (full, refused, short):
            self.send(1, packet)
        self.expect(SLOW_PORT, first, self.trimmed(refused), self.forwarded(full), self.forwarded(short))
        self.expect_nothing_else()
        self.expect_admission(forwarded=4, trimmed=1)


class NoLimitNeverTrims(AdmissionTest):
    """Without an entry in `queue_limits` nothing is trimmed."""

    def runTest(self) -> None:
        first = self.occupy()
        packets = [self.data(psn) for psn in range(1, 6)]
        for packet in packets:
            self.send(1, packet)
        self.expect(SLOW_PORT, first, *map(self.forwarded, packets))
        self.expect_admission(forwarded=6)


class LimitIsPerPort(AdmissionTest):
    """A limit of one port says nothing about another."""

    def runTest(self) -> None:
        self.limit_queue(0, SLOW_PORT)
        packet = self.data(to=2)
        self.exchange(1, packet, p2=(self.forwarded(packet),))


class IngressLimitFits(AdmissionTest):
    """Ingress bytes + frame = reserve: admitted."""

    def runTest(self) -> None:
        self.control.insert(
            "ingress_limits", {"ingress_port": 1}, "limit_ingress", reserve=2 * FRAME, shared=0, alpha_shift=0
        )
        first = self.occupy()
        packets = [self.data(1), self.data(2)]
        for packet in packets:
            self.send(1, packet)
        self.expect(SLOW_PORT, first, *map(self.forwarded, packets))
        self.expect_nothing_else()
        self.expect_admission(forwarded=3)


class IngressLimitExceeded(AdmissionTest):
    """One byte less and the frame is trimmed; another ingress port is not concerned."""

    def runTest(self) -> None:
        self.control.insert(
            "ingress_limits",
            {"ingress_port": 1},
            "limit_ingress",
            reserve=2 * FRAME - 1,
            shared=0,
            alpha_shift=0,
        )
        first = self.occupy()
        packets = [self.data(1), self.data(2)]
        for packet in packets:
            self.send(1, packet)
        self.settle(1)
        other = self.data(3)
        self.send(2, other)
        self.expect(
            SLOW_PORT, first, self.trimmed(packets[1]), self.forwarded(packets[0]), self.forwarded(other)
        )
        self.expect_nothing_else()
        self.expect_admission(forwarded=4, trimmed=1)


class SharedBufferShrinks(AdmissionTest):
    """The dynamic part is (shared - admitted on all ports) >> alpha_shift, to the byte.

    With one frame from port 2 in the queue, a frame from port 1 needs reserve + (shared - FRAME) / 4 >=
    FRAME.
    """

    def runTest(self) -> None:
        for spare, admitted in ((0, True), (-1, False)):
            self.control.reset()
            self.configure()
            self.control.insert(
                "ingress_limits",
                {"ingress_port": 1},
                "limit_ingress",
                reserve=FRAME // 2,
                shared=FRAME + 4 * (FRAME // 2 + spare),
                alpha_shift=2,
            )
            first = self.occupy()
            other, packet = self.data(1), self.data(2)
            self.send(2, other)
            self.settle(2)
            self.send(1, packet)
            outcome = self.forwarded(packet) if admitted else self.trimmed(packet)
            later = (self.forwarded(other), outcome) if admitted else (outcome, self.forwarded(other))
            self.expect(SLOW_PORT, first, *later)
            self.expect_nothing_else()


class SharedBufferOverdrawn(AdmissionTest):
    """More admitted than `shared`: the dynamic part is 0, and the reserve is still there."""

    def runTest(self) -> None:
        self.control.insert(
            "ingress_limits", {"ingress_port": 1}, "limit_ingress", reserve=FRAME, shared=FRAME, alpha_shift=0
        )
        first = self.occupy()
        others = [self.data(1), self.data(2)]
        for other in others:
            self.send(2, other)
        self.settle(2)
        packets = [self.data(3), self.data(4)]
        for packet in packets:
            self.send(1, packet)
        self.expect(
            SLOW_PORT,
            first,
            self.trimmed(packets[1]),
            *map(self.forwarded, others),
            self.forwarded(packets[0]),
        )
        self.expect_nothing_else()


class NotTrimmableIsDropped(AdmissionTest):
    """Plain traffic, and RoCE of a class that is not trimmable, is dropped when the queue is full, and
    counted."""

    def runTest(self) -> None:
        self.limit_queue(FRAME)
        first = self.occupy()
        filler = self.data(1)
        self.send(1, filler)
        self.send(1, self.data(2, dscp=0))
        self.send(1, simple_udp_packet(ip_src="10.0.0.1", ip_dst="10.0.0.5"))
        self.expect(SLOW_PORT, first, self.forwarded(filler))
        self.expect_nothing_else()
        self.expect_admission(forwarded=2, dropped=2)


class PlainPacketOfATrimmableClassIsDropped(AdmissionTest):
    """A trimmable DSCP on what is no RoCE data packet makes it no more trimmable."""

    def runTest(self) -> None:
        self.limit_queue(0)
        plain = simple_udp_packet(ip_src="10.0.0.1", ip_dst="10.0.0.5", ip_dscp=wire.DSCP_GRADIENT)
        self.send(1, plain)
        self.expect_nothing_else()
        self.expect_admission(forwarded=0, dropped=1)


class HeadersAndFeedbackAreNeverRefused(AdmissionTest):
    """Limits concern the data queue alone: trimmed headers and feedback pass whatever the limit."""

    def runTest(self) -> None:
        self.limit_queue(0)
        self.control.insert(
            "ingress_limits", {"ingress_port": 1}, "limit_ingress", reserve=0, shared=0, alpha_shift=0
        )
        header = self.data(1).trimmed(wire.DSCP_GRADIENT_TRIMMED)
        report = self.data(2, payload=PAYLOAD, dscp=wire.DSCP_CONTROL)
        for packet in (header, report):
            self.exchange(1, packet, p5=(self.forwarded(packet),))
        self.expect_admission(forwarded=2)
