# SPDX-License-Identifier: Apache-2.0
"""The sender: the mode follows the latest report, and decides what congestion signals reach the host."""

from __future__ import annotations

from ptf_tests.common.nic_test import NicTest
from tests.support import wire
from tests.support.nic import HOST, WIRE
from tests.support.wire import ACK, NAK, Roce

QP = wire.queue_pair(1, 20, 300)


class SenderTest(NicTest):
    """Feedback arrives from the wire for a flow that the host sends."""

    step = None

    @staticmethod
    def report(
        eligible: int, exhausted: int, becn: int = 0, syndrome: int = ACK, qp: int = QP, psn: int = 7
    ) -> Roce:
        return Roce(
            wire.ACKNOWLEDGE,
            qp,
            dscp=wire.DSCP_CONTROL,
            ecn=wire.NOT_ECT,
            psn=psn,
            becn=becn,
            exemption_eligible=eligible,
            budget_exhausted=exhausted,
            feedback=wire.Feedback(syndrome, 512, 1024, 512),
        )

    @staticmethod
    def notification(qp: int = QP) -> Roce:
        return Roce(wire.CNP, qp, dscp=wire.DSCP_CONTROL, ecn=wire.NOT_ECT, becn=1)

    def expect_at_host(self, packet: Roce, **changes: int) -> None:
        """It reaches the host, with these fields changed, and nothing else happens."""
        self.send(WIRE, packet)
        self.expect(HOST, packet.but(**changes))
        self.expect_nothing_else()


class StartsObeying(SenderTest):
    """Before the first report every signal reaches the host."""

    def runTest(self) -> None:
        self.expect_at_host(self.notification())
        self.expect_counters(notification_delivered=1, notification_ignored=0)


class NotificationsIgnored(SenderTest):
    """While exempt, BECN towards the host is cleared and notifications are dropped, both counted."""

    def runTest(self) -> None:
        self.expect_at_host(self.report(1, 0))
        self.expect_at_host(self.report(1, 0, becn=1), becn=0)
        self.expect_dropped(self.notification())
        self.expect_counters(
            notification_ignored=2, notification_delivered=0, became_exempt=1, became_obeying=0
        )


class NotificationsObeyed(SenderTest):
    """Not eligible, or exhausted: every signal reaches the host."""

    def runTest(self) -> None:
        for eligible, exhausted in ((0, 0), (1, 1), (0, 1)):
            self.expect_at_host(self.report(eligible, exhausted, becn=1), becn=1)
            self.expect_at_host(self.notification())
        self.expect_counters(
            notification_delivered=6, notification_ignored=0, became_exempt=0, became_obeying=0
        )


class FlagsComeBeforeTheSignal(SenderTest):
    """Corner 2, both ways within one packet: a report's own echo is judged by the mode that it sets."""

    def runTest(self) -> None:
        self.expect_at_host(self.report(1, 0, becn=1), becn=0)
        self.expect_at_host(self.report(1, 1, becn=1), becn=1)
        self.expect_at_host(self.report(1, 0, becn=1), becn=0)
        self.expect_at_host(self.report(0, 0, becn=1), becn=1)
        self.expect_counters(
            became_exempt=2, became_obeying=2, notification_ignored=2, notification_delivered=2
        )


class RequestReducesOnlyWhenObeying(SenderTest):
    """A retransmission request is marked 'reduce' exactly when obeying; its own flags come first."""

    def runTest(self) -> None:
        self.expect_at_host(self.report(0, 0, syndrome=NAK), becn=1)
        self.expect_at_host(self.report(1, 0, syndrome=NAK), becn=0)
        self.expect_at_host(self.report(1, 0, syndrome=NAK), becn=0)
        self.expect_at_host(self.report(1, 1, syndrome=NAK), becn=1)
        self.expect_counters(
            request_obeyed=2,
            request_exempt=2,
            became_exempt=1,
            became_obeying=1,
            notification_delivered=0,
            notification_ignored=0,
        )


class LatestReportWins(SenderTest):
    """The mode ends and begins again within a step; a repeated report changes nothing."""

    def runTest(self) -> None:
        for eligible, exhausted in ((1, 0), (1, 0), (1, 1), (1, 1), (1, 0)):
            self.expect_at_host(self.report(eligible, exhausted))
        self.expect_dropped(self.notification())
        self.expect_counters(became_exempt=2, became_obeying=1, notification_ignored=1)


class ModesArePerFlow(SenderTest):
    """One flow's exemption is not another's."""

    def runTest(self) -> None:
        other = wire.queue_pair(1, 20, 301)
        self.expect_at_host(self.report(1, 0))
        self.expect_at_host(self.notification(other))
        self.expect_dropped(self.notification())


class NewOwnerStartsObeying(SenderTest):
    """The next flow in the slot starts obeying; that is no change of a mode."""

    def runTest(self) -> None:
        self.expect_at_host(self.report(1, 0))
        self.expect_at_host(self.notification(wire.queue_pair(1, 21, 300)))
        self.expect_counters(became_exempt=1, became_obeying=0, notification_delivered=1)


class StaleFeedbackChangesNoMode(SenderTest):
    """Feedback of a slot's earlier flow is delivered as it is, and changes no mode (`stale` counts the
    receiver's packets)."""

    def runTest(self) -> None:
        old = wire.queue_pair(1, 19, 300)
        self.expect_at_host(self.report(1, 0))
        self.expect_at_host(self.report(0, 0, becn=1, qp=old))
        self.expect_at_host(self.report(0, 0, syndrome=NAK, qp=old))
        self.expect_at_host(self.notification(old))
        self.expect_dropped(self.notification())
        self.expect_counters(
            stale=0,
            became_obeying=0,
            notification_delivered=2,
            notification_ignored=1,
            request_obeyed=0,
            request_exempt=0,
        )
