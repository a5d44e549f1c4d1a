# SPDX-License-Identifier: Apache-2.0
"""The receiver's congestion signals: ECN echo on acknowledgements, or notifications."""

from __future__ import annotations

from dataclasses import replace

from ptf_tests.common.nic_test import GENEROUS, MTU, OWNER, SLOT, NicTest
from tests.support import answers, nic, wire
from tests.support.nic import HOST, WIRE
from tests.support.wire import ACK, CE

HOUR_US = 3_600_000_000


class EchoWhetherOrNotExempt(NicTest):
    """The acknowledgement of a CE-marked packet has BECN, of an eligible flow as of any other."""

    def runTest(self) -> None:
        other = wire.queue_pair(SLOT, OWNER, 6)
        self.expect_delivered(self.data(0, ecn=CE), MTU, becn=1)
        self.expect_acknowledged(self.data(0, ecn=CE), MTU, becn=1)
        self.expect_delivered(self.data(MTU), 2 * MTU, becn=0)
        self.expect_delivered(self.data(0, qp=other, dscp=wire.DSCP_DATA, ecn=CE), MTU, becn=1, eligible=0)
        self.expect_counters(echo_sent=3, notification_sent=0)


class ForgivenRangeEchoesItsMark(NicTest):
    """forgiveness_echoes = 0: BECN if the trimmed header was CE."""

    def runTest(self) -> None:
        self.receive(self.data(0, 2 * MTU))
        self.expect_forgiven(self.header(2 * MTU, ecn=CE), 3 * MTU, becn=1)
        self.expect_forgiven(self.header(3 * MTU), 4 * MTU, becn=0)
        self.expect_counters(echo_sent=1)


class ForgivenRangeAlwaysEchoes(NicTest):
    """forgiveness_echoes = 1: BECN whatever the header's ECN field; other acknowledgements as ever."""

    step = replace(GENEROUS, forgiveness_echoes=True)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, becn=0)
        self.expect_forgiven(self.header(MTU), 2 * MTU, becn=1)
        self.expect_acknowledged(self.header(MTU), 2 * MTU, becn=0)
        self.expect_counters(echo_sent=1)


class RequestCarriesNoEcho(NicTest):
    """A retransmission request is a signal by itself: BECN 0, though the header was CE."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0, ecn=CE), 0, becn=0)
        self.expect_counters(echo_sent=0, notification_sent=0)


class SettledHeaderEchoesItsMark(NicTest):
    """The duplicate acknowledgement of a CE-marked header has BECN too."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_acknowledged(self.header(0, ecn=CE), MTU, becn=1)


class OneNotificationPerInterval(NicTest):
    """With an interval: one notification packet beside the first signal, none within the interval, never
    BECN."""

    step = replace(GENEROUS, notification_interval_us=HOUR_US)

    def runTest(self) -> None:
        marked = self.data(0, ecn=CE)
        self.send(WIRE, marked)
        self.expect(HOST, answers.delivered(marked, 0xFF))
        self.expect_any_order(WIRE, self.feedback(marked, ACK, MTU), answers.notification(marked))
        self.expect_nothing_else()
        self.expect_delivered(self.data(MTU, ecn=CE), 2 * MTU, becn=0)
        other = self.data(0, qp=wire.queue_pair(SLOT, OWNER, 6), source_qp=0x888, ecn=CE)
        self.send(WIRE, other)
        self.expect(HOST, answers.delivered(other, 0xFF))
        self.expect_any_order(WIRE, self.feedback(other, ACK, MTU), answers.notification(other))
        self.expect_nothing_else()
        self.expect_counters(notification_sent=2, echo_sent=0)


class NotificationAfterTheInterval(NicTest):
    """An interval of one microsecond has always passed: each marked packet notifies."""

    step = replace(GENEROUS, notification_interval_us=1)

    def runTest(self) -> None:
        for number in range(3):
            marked = self.data(number * MTU, ecn=CE)
            self.send(WIRE, marked)
            self.expect(HOST, answers.delivered(marked, 0xFF))
            self.expect_any_order(
                WIRE, self.feedback(marked, ACK, (number + 1) * MTU), answers.notification(marked)
            )
            self.expect_nothing_else()
        self.expect_counters(notification_sent=3, echo_sent=0)


class ForgivenRangeNotifies(NicTest):
    """With an interval, a forgiven range under forgiveness_echoes is a signal as well."""

    step = replace(GENEROUS, notification_interval_us=HOUR_US, forgiveness_echoes=True)

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU, becn=0)
        header = self.header(MTU)
        self.send(WIRE, header)
        self.expect(HOST, answers.forgiven(header, 0xFF))
        self.expect_any_order(WIRE, self.feedback(header, ACK, 2 * MTU), answers.notification(header))
        self.expect_nothing_else()


class IntervalOfTheNicWithoutAnEntry(NicTest):
    """A flow outside any step takes the interval of `nic_config`."""

    step = None

    def runTest(self) -> None:
        self.control.set_default(
            "nic_config",
            "configure",
            seed=nic.SEED,
            control_dscp=wire.DSCP_CONTROL,
            notification_interval_us=HOUR_US,
        )
        marked = self.data(0, ecn=CE)
        self.send(WIRE, marked)
        self.expect(HOST, answers.delivered(marked, 0xFF))
        self.expect_any_order(WIRE, self.feedback(marked, ACK, MTU, eligible=0), answers.notification(marked))
        self.expect_counters(notification_sent=1, echo_sent=0)


class ControlDscpIsAParameter(NicTest):
    """Feedback has the DSCP that `nic_config` says."""

    def runTest(self) -> None:
        self.control.set_default(
            "nic_config", "configure", seed=0, control_dscp=48, notification_interval_us=0
        )
        packet = self.data(0)
        self.send(WIRE, packet)
        self.expect(HOST, answers.delivered(packet, 0xFF))
        self.expect(WIRE, self.feedback(packet, ACK, MTU).but(dscp=48))
