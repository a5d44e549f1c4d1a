# SPDX-License-Identifier: Apache-2.0
"""The state query: a PacketOut asks, one PacketIn answers."""

from __future__ import annotations

from ptf_tests.common.nic_test import GENEROUS, MTU, SLOT, NicTest
from tests.support import nic


class StateQuery(NicTest):
    """Slot and nonce come back, with the step's bytes; nothing leaves at the ports."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_forgiven(self.header(MTU), 2 * MTU)
        self.expect_requested(self.header(2 * MTU), 2 * MTU)
        self.assertEqual(
            nic.query(self.control, SLOT, nonce=0xDEADBEEF),
            {
                "step_slot": SLOT,
                "nonce": 0xDEADBEEF,
                "step_tag": GENEROUS.tag,
                "installed": 1,
                "open": 1,
                "exhausted": 0,
                "received": MTU,
                "forgiven": MTU,
                "outstanding": MTU,
                "trimmed": 2 * MTU,
            },
        )
        self.expect_nothing_else()
        self.assertIsNone(self.control.packet_in(0.2))


class FreshAndEmptySlots(NicTest):
    """All 0 when no packet of the installed step came; and where nothing is installed."""

    def runTest(self) -> None:
        self.expect_state(installed=1, open=1, exhausted=0, received=0, forgiven=0, outstanding=0, trimmed=0)
        self.expect_state(slot=7, step_tag=0, installed=0, open=0, received=0, forgiven=0, outstanding=0)


class ManyQueries(NicTest):
    """Each query has its own answer, in order."""

    def runTest(self) -> None:
        for nonce in range(20):
            self.control.packet_out(step_slot=SLOT, nonce=nonce)
        answers = [self.control.packet_in() for _ in range(20)]
        self.assertEqual([answer and answer[0]["nonce"] for answer in answers], list(range(20)))
