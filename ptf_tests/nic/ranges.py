# SPDX-License-Identifier: Apache-2.0
"""Bounded state: bad ranges, the window, owners of a flow slot."""

from __future__ import annotations

from ptf_tests.common.nic_test import FLOW, MTU, OWNER, SLOT, NicTest
from tests.support import wire
from tests.support.nic import WIRE
from tests.support.wire import BLOCK


class BadRanges(NicTest):
    """A range off the blocks, empty, too long, or beyond 32 bits is dropped and counted, trimmed or not."""

    def runTest(self) -> None:
        bad = [
            self.data(1, BLOCK),
            self.data(BLOCK - 1, BLOCK, end=True),
            self.data(0, BLOCK + 1),
            self.data(0, BLOCK - 1),
            self.header(0, wire.MAX_RANGE + BLOCK),
            self.header(0, wire.MAX_RANGE + 1, end=True),
            self.header(0, 0, end=True),
            self.header(2**32 - BLOCK, BLOCK),
            self.header(2**32 - BLOCK, 1, end=True),
            self.header(3, BLOCK),
        ]
        for number, packet in enumerate(bad, 1):
            self.send(WIRE, packet)
            self.expect_counters(bad_range=number)
        self.expect_nothing_else()
        self.expect_state(received=0, outstanding=0, trimmed=0)
        self.expect_counters(malformed=0, stale=0, beyond_window=0)


class WindowEdge(NicTest):
    """The last block of the window is accepted, the next one dropped and counted; the window moves by
    words."""

    def runTest(self) -> None:
        edge = wire.WINDOW
        self.expect_delivered(self.data(edge - BLOCK, BLOCK), 0)
        self.expect_dropped(self.data(edge, BLOCK))
        self.expect_dropped(self.data(edge - BLOCK, 2 * BLOCK))
        self.expect_dropped(self.header(edge, BLOCK))
        self.expect_counters(beyond_window=3)
        for start in range(0, 63, 9):
            self.receive(self.data(start * BLOCK, 9 * BLOCK))
        self.expect_dropped(self.data(edge, BLOCK))
        self.expect_delivered(self.data(63 * BLOCK, BLOCK), 64 * BLOCK)
        self.expect_delivered(self.data(edge, BLOCK), 64 * BLOCK)
        self.expect_counters(beyond_window=4, bad_range=0)


class RecoveredAfterTheWindow(NicTest):
    """A packet that was dropped beyond the window is accepted when it comes again inside it."""

    def runTest(self) -> None:
        far = wire.WINDOW + 10 * MTU
        self.expect_dropped(self.data(far))
        for start in range(0, 128, 16):
            self.receive(self.data(start * BLOCK, 16 * BLOCK))
        self.expect_delivered(self.data(far), 128 * BLOCK)


class NewOwnerStartsAfresh(NicTest):
    """The next owner of a slot has an empty scoreboard: nothing of the flow before is settled for it."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_delivered(self.data(2 * MTU), MTU)
        new = wire.queue_pair(SLOT, OWNER + 1, FLOW)
        self.expect_delivered(self.data(MTU, qp=new), 0)
        self.expect_delivered(self.data(0, qp=new), 2 * MTU)
        self.expect_delivered(self.data(2 * MTU, qp=new), 3 * MTU)
        self.expect_state(received=5 * MTU)


class FirstPacketBeyondTheWindow(NicTest):
    """A new owner whose first packet is dropped beyond the window has an empty scoreboard all the same."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        self.expect_delivered(self.data(2 * MTU), MTU)
        new = wire.queue_pair(SLOT, OWNER + 1, FLOW)
        self.expect_dropped(self.data(wire.WINDOW, BLOCK, qp=new))
        self.expect_delivered(self.data(2 * MTU, qp=new), 0)
        self.expect_delivered(self.data(0, qp=new), MTU)
        self.expect_counters(beyond_window=1)


class StaleOwnerIsDropped(NicTest):
    """A packet of an owner behind the slot's is dropped and counted; 1,024 and more behind or ahead
    likewise."""

    def runTest(self) -> None:
        self.expect_delivered(self.data(0), MTU)
        for number, behind in enumerate((1, 2, 1023, 1024), 1):
            qp = wire.queue_pair(SLOT, (OWNER - behind) % wire.OWNERS, FLOW)
            packet = self.data(MTU, qp=qp) if behind & 1 else self.header(MTU, qp=qp)
            self.send(WIRE, packet)
            self.expect_counters(stale=number)
        self.expect_nothing_else()
        self.expect_delivered(self.data(MTU), 2 * MTU)


class OwnersWrap(NicTest):
    """Owner 0 follows 2,047, and a jump of 1,023 is still ahead."""

    def runTest(self) -> None:
        for owner, qp_flow in ((2047, 40), (0, 40), (1023, 40)):
            self.expect_delivered(self.data(0, qp=wire.queue_pair(SLOT, owner, qp_flow)), MTU)
        self.send(WIRE, self.data(0, qp=wire.queue_pair(SLOT, 2047, 40)))
        self.expect_counters(stale=1)


class LongMessage(NicTest):
    """A message longer than the ring of words: every word is used again, and nothing of the lap before is
    left."""

    def runTest(self) -> None:
        chunk = 16 * BLOCK
        end = wire.WINDOW + 4 * 64 * BLOCK
        for offset in range(0, end, chunk):
            self.send(WIRE, self.data(offset, chunk))
            self.next_frame(1)
            answer = wire.decode(self.next_frame(WIRE) or b"")
            assert answer.feedback is not None
            self.assertEqual(answer.feedback.rcv_nxt, offset + chunk)
        self.expect_state(received=end, outstanding=0)
        self.expect_forgiven(self.header(end, BLOCK), end + BLOCK, accept=1)
