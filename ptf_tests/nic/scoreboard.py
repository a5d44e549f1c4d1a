# SPDX-License-Identifier: Apache-2.0
"""Every row of the paper's scoreboard table, for a trimmed header and for data."""

from __future__ import annotations

from ptf_tests.common.nic_test import MTU, NicTest


class AbsentTrimmedIsForgiven(NicTest):
    """absent, trimmed header: OnTrimmedHeader, which forgives what has vested."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(MTU), 2 * MTU)
        self.expect_counters(forgiven=1, trimmed_received=1, refused_vesting=0)
        self.expect_state(received=MTU, forgiven=MTU, outstanding=0, trimmed=MTU)


class AbsentTrimmedIsRequested(NicTest):
    """absent, trimmed header: OnTrimmedHeader, which requests what has not vested."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0)
        self.expect_counters(forgiven=0, trimmed_received=1, refused_vesting=1)
        self.expect_state(received=0, forgiven=0, outstanding=MTU, trimmed=MTU)


class AbsentArrives(NicTest):
    """absent, data: Received, ACK."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_counters(data_received=1, data_duplicate=0)
        self.expect_state(received=MTU, forgiven=0, outstanding=0)


class RequestedTrimmedIsReconsidered(NicTest):
    """Requested, trimmed header: OnTrimmedHeader again; its bytes are already outstanding."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0)
        self.expect_requested(self.header(0), 0)
        self.expect_state(outstanding=MTU, trimmed=2 * MTU)
        self.expect_delivered(self.data(MTU), 0)
        self.expect_forgiven(self.header(0), 2 * MTU)
        self.expect_state(received=MTU, forgiven=MTU, outstanding=0)
        self.expect_counters(refused_vesting=2, forgiven=1)


class RequestedArrives(NicTest):
    """Requested, data: Received, ACK; no longer outstanding."""

    def runTest(self) -> None:
        self.expect_requested(self.header(0), 0)
        self.expect_delivered(self.data(0), MTU)
        self.expect_state(received=MTU, outstanding=0)


class ForgivenTrimmedIsAcknowledged(NicTest):
    """Forgiven, trimmed header: ACK, no charge."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(2 * MTU), MTU)
        self.expect_acknowledged(self.header(2 * MTU), MTU)
        self.expect_state(forgiven=MTU, outstanding=0, trimmed=2 * MTU)
        self.expect_counters(forgiven=1, trimmed_settled=1)


class ForgivenArrivesIsDiscarded(NicTest):
    """Forgiven, data: the payload is discarded, no credit back, ACK; above and below rcv_nxt."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(2 * MTU), MTU)
        self.expect_acknowledged(self.data(2 * MTU), MTU)
        self.expect_delivered(self.data(MTU), 3 * MTU)
        self.expect_acknowledged(self.data(2 * MTU), 3 * MTU)
        self.expect_state(received=2 * MTU, forgiven=MTU, outstanding=0)
        self.expect_counters(data_late=2, data_duplicate=2, data_received=2)


class ReceivedTrimmedIsAcknowledged(NicTest):
    """Received, trimmed header: duplicate ACK, no charge."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(MTU), 0)
        self.expect_acknowledged(self.header(MTU), 0)
        self.expect_state(received=MTU, forgiven=0, outstanding=0)
        self.expect_counters(trimmed_settled=1, forgiven=0)


class ReceivedArrivesAgain(NicTest):
    """Received, data: ACK, counted once, delivered once."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_acknowledged(self.data(0), MTU)
        self.expect_state(received=MTU)
        self.expect_counters(data_received=1, data_duplicate=1, data_late=0)
