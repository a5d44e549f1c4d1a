# SPDX-License-Identifier: Apache-2.0
"""The checker finds nothing wrong with a NIC that keeps its promises, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hosts import wire as host_wire
from tests.hosts.checked_nic import CheckedNic, lengths
from tests.model import traffic
from tests.model.reference import NicModel, Output, State
from tests.model.traffic import CONTROL_KINDS, RECEIVER_KINDS, SENDER_KINDS, WAIT_KINDS
from tests.support import wire
from tests.support.memory import MemoryDut
from tests.support.nic import (
    ALWAYS,
    CLASSES,
    HOST,
    NEVER,
    NEVER_ENDS,
    SEED,
    WIRE,
    Step,
    configure,
    install,
    modify,
    remove,
)
from tests.support.programs import compile_program

BLOCK = wire.BLOCK
KINDS = RECEIVER_KINDS * 3 + CONTROL_KINDS + ("stale", "bad_range") + SENDER_KINDS

LAGS = st.sampled_from([(0, 0), (0, 0), (0, 3), (2, 5), (6, 1)])


def check(nic: CheckedNic) -> None:
    """No violation, and the books are the model's."""
    violations = [v.text for v in nic.checker.violations()]
    assert violations == []
    assert not nic.broken
    counted = nic.checker.stats()
    counters = nic.model.counters
    assert counted.reports == sum(
        counters[name] for name in ("data_received", "data_duplicate", "trimmed_received", "unknown_flow")
    )
    assert counted.data_packets == counters["data_received"] + counters["data_duplicate"]
    assert counted.trimmed_packets == counters["trimmed_received"] + counters["unknown_flow"]
    assert counted.unknown_packets == counters["unknown_flow"]
    refused = ("refused_class", "refused_closed", "refused_vesting", "refused_draw", "unknown_flow")
    assert counted.requests == sum(counters[name] for name in refused)
    assert counted.notifications == counters["notification_sent"]
    assert counted.malformed == counters["malformed"]
    # What is dropped goes unnoticed until something later has its report.
    dropped = sum(counters[name] for name in ("stale", "bad_range", "beyond_window"))
    assert counted.dropped_packets + counted.pending == dropped
    assert counted.deliveries == counters["data_received"] + counters["forgiven"]
    for slot, state in nic.model.step_states.items():
        books = nic.checker.step(slot)
        if books.step_tag != state.tag:
            continue  # installed, and no packet has met it
        assert books.received_bytes == state.received
        assert books.forgiven_bytes == state.forgiven
        assert books.outstanding_bytes == state.outstanding
        assert books.trimmed_bytes == state.trimmed + books.unknown_bytes
        assert sum(books.trimmed_by_fifth) == books.trimmed_bytes
        assert sum(books.forgiven_by_fifth) == state.forgiven
        assert books.forgiven_bytes <= books.limit_bytes


@settings(max_examples=60, deadline=None)
@given(plan=traffic.plans(KINDS + ("run",) * 10), lags=LAGS, plain=st.booleans())
def test_any_traffic(plan: traffic.Plan, lags: tuple[int, int], plain: bool) -> None:
    """Steps that close, go and come, slots that are used again, every policy; reports and deliveries at once
    or some packets later."""
    nic = CheckedNic(lengths(plan), host_lag=lags[0], wire_lag=lags[1], plain=plain)
    nic.run_plan(plan)
    check(nic)


@settings(max_examples=50, deadline=None)
@given(plan=traffic.tight_plans(), lags=LAGS)
def test_bounds_met_exactly(plan: traffic.Plan, lags: tuple[int, int]) -> None:
    nic = CheckedNic(lengths(plan), host_lag=lags[0], wire_lag=lags[1])
    nic.run_plan(plan)
    check(nic)


@settings(max_examples=40, deadline=None)
@given(
    plan=traffic.plans(RECEIVER_KINDS + WAIT_KINDS, intervals=(0, 50, 200)), interval=st.sampled_from([0, 70])
)
def test_notification_intervals(plan: traffic.Plan, interval: int) -> None:
    nic = CheckedNic(lengths(plan), NicModel(CLASSES, seed=SEED, notification_interval_us=interval))
    nic.run_plan(plan)
    check(nic)


@settings(max_examples=10, deadline=None)
@given(plan=traffic.plans(RECEIVER_KINDS, max_ops=45, prefixes=(127 * 64 - 70, 127 * 64 + 1)))
def test_long_messages(plan: traffic.Plan) -> None:
    nic = CheckedNic(lengths(plan), plain=True)
    nic.run_plan(plan)
    check(nic)


# --- a message from its first packet to its last


def complete(nic: CheckedNic) -> None:
    """Sends every flow's missing blocks, so that all messages end; each flow slot has had one flow."""
    for qp in sorted(nic.expecting):
        length = nic.length_of[qp & 1023]
        flow = nic.model.receivers.get(qp & 1023)
        scoreboard = {} if flow is None else flow.scoreboard
        for block in range(host_wire.block_count(length)):
            if scoreboard.get(block) not in (State.RECEIVED, State.FORGIVEN):
                size = min(BLOCK, length - block * BLOCK)
                end = block * BLOCK + size == length
                nic.packet(WIRE, wire.data(qp, block * BLOCK, size, end=end, udp_src=0xC001))


@settings(max_examples=40, deadline=None)
@given(plan=traffic.plans(RECEIVER_KINDS + ("run",) * 5), lags=LAGS)
def test_completed_messages_leave_nothing_open(plan: traffic.Plan, lags: tuple[int, int]) -> None:
    nic = CheckedNic(lengths(plan), host_lag=lags[0], wire_lag=lags[1], complete=True, plain=True)
    nic.run_plan(plan)
    complete(nic)
    nic.flush()
    assert nic.checker.finish(nic.now_ns) == 0
    check(nic)
    counted = nic.checker.stats()
    assert counted.complete_messages == counted.messages == len(nic.model.receivers)
    expected = sum(nic.length_of[slot] for slot in nic.model.receivers)
    assert counted.received_bytes + counted.forgiven_bytes == expected


# --- one step by hand

QP = wire.queue_pair(3, 5, 7)
LENGTH = 40 * BLOCK
STEP = Step(tag=9, p_ppm=250_000, budget=LENGTH // 4, packet_bytes=4 * BLOCK)


def nic_with(step: Step = STEP, **options: object) -> CheckedNic:
    nic = CheckedNic({7: LENGTH}, complete=True, **options)  # type: ignore[arg-type]
    nic.expected = {step.tag: LENGTH}
    nic.install(3, step)
    return nic


def data(nic: CheckedNic, first: int, blocks: int, *, trim: bool = False, psn: int = 0, ecn: int = 2) -> None:
    make = wire.trimmed if trim else wire.data
    end = first + blocks == LENGTH // BLOCK
    nic.packet(WIRE, make(QP, first * BLOCK, blocks * BLOCK, psn=psn, end=end, ecn=ecn, udp_src=0xC001))


def test_books_of_one_step() -> None:
    nic = nic_with()
    data(nic, 0, 12)
    data(nic, 12, 4, trim=True)  # forgiven: 4 <= 16 / 4
    data(nic, 16, 4, trim=True)  # refused: 8 > 20 / 4
    data(nic, 20, 12)
    data(nic, 16, 4, trim=True)  # forgiven: 8 <= 32 / 4
    data(nic, 32, 8)
    nic.flush()
    assert nic.checker.finish(0) == 0
    books = nic.checker.step(3)
    assert (books.received_bytes, books.forgiven_bytes) == (32 * BLOCK, 8 * BLOCK)
    assert (books.trimmed_bytes, books.requested_bytes) == (12 * BLOCK, 4 * BLOCK)
    assert books.most_outstanding_bytes == 4 * BLOCK
    # Header by header: 12, 16 and 28 of 40 blocks were settled when they came.
    assert books.trimmed_by_fifth == (0, 4 * BLOCK, 4 * BLOCK, 4 * BLOCK, 0)
    assert books.forgiven_by_fifth == (0, 4 * BLOCK, 0, 4 * BLOCK, 0)
    assert books.reports == 6
    assert books.exhausted_reports == 4  # 10 blocks of budget: from the refusal on less than 4 are left
    check(nic)


def test_header_of_a_flow_that_only_data_starts() -> None:
    """Counted as trimmed and requested, and nothing else: not even the step's window or vesting sees it."""
    nic = nic_with(Step(**{**vars(STEP), "trimmed_starts_flow": False}))
    data(nic, 4, 4, trim=True, ecn=3)
    data(nic, 8, 4, trim=True)
    assert nic.checker.stats().messages == 0
    data(nic, 0, 12)
    data(nic, 12, 4, trim=True)  # forgiven: 4 <= 16 / 4
    for first in range(16, 40, 8):
        data(nic, first, 8)
    assert nic.checker.finish(0) == 0
    books = nic.checker.step(3)
    assert (books.unknown_bytes, books.trimmed_bytes) == (8 * BLOCK, 12 * BLOCK)
    assert (books.requested_bytes, books.most_outstanding_bytes) == (8 * BLOCK, 4 * BLOCK)
    assert books.trimmed_by_fifth == (8 * BLOCK, 4 * BLOCK, 0, 0, 0)
    assert nic.checker.stats().unknown_packets == 2
    check(nic)


def test_late_data_is_counted() -> None:
    nic = nic_with()
    data(nic, 0, 12)
    data(nic, 12, 4, trim=True)
    data(nic, 10, 6)
    counted = nic.checker.stats()
    assert (counted.late_bytes, counted.duplicate_bytes) == (4 * BLOCK, 6 * BLOCK)
    check(nic)


def test_message_that_ends_early_is_that_long() -> None:
    nic = nic_with()
    nic.packet(WIRE, wire.data(QP, 0, 64, end=True, udp_src=0xC001))
    nic.flush()
    assert nic.checker.finish(0) == 0
    assert nic.checker.stats().complete_messages == 1


def test_duplicates_of_a_complete_message_are_acknowledged() -> None:
    nic = nic_with()
    for first in range(0, 40, 8):
        data(nic, first, 8)
    for trim in (False, True):
        data(nic, 8, 8, trim=trim)
    nic.remove(3)
    data(nic, 16, 8)
    data(nic, 16, 8, trim=True)
    assert nic.checker.finish(0) == 0
    check(nic)


def test_the_same_packet_twice_is_two_packets() -> None:
    """A copy that the network makes, sequence number and all: refused, then forgiven, then settled."""
    nic = nic_with()
    data(nic, 0, 8)
    header = wire.trimmed(QP, 12 * BLOCK, 4 * BLOCK, psn=77, udp_src=0xC001).encode()
    nic.frame(WIRE, header)
    data(nic, 8, 4)
    nic.frame(WIRE, header)
    nic.frame(WIRE, header)
    assert nic.checker.step(3).forgiven_bytes == 4 * BLOCK
    check(nic)


def test_packets_beyond_the_window_are_dropped_by_rule() -> None:
    nic = CheckedNic({7: 20_000 * BLOCK})
    nic.packet(WIRE, wire.data(QP, 0, BLOCK, udp_src=0xC001))
    nic.packet(WIRE, wire.data(QP, wire.WINDOW, BLOCK, udp_src=0xC001))
    nic.packet(WIRE, wire.data(QP, wire.WINDOW - BLOCK, BLOCK, udp_src=0xC001))
    assert nic.checker.stats().dropped_packets == 1
    check(nic)


def test_no_payload_need_be_carried() -> None:
    """The frames of virtual time: headers, and a length."""
    nic = nic_with()
    packet = wire.data(QP, 0, 8 * BLOCK, udp_src=0xC001)
    nic.checker.expect(QP, LENGTH)
    frame = packet.encode()
    outputs = nic.model.receive(WIRE, frame)
    nic.checker.wire(0, False, frame[:70], len(frame))
    for port, sent in outputs:
        see = nic.checker.host if port == HOST else nic.checker.wire
        assert not see(0, True, sent[:78], len(sent))
    assert nic.checker.stats().reports == 1
    assert nic.checker.stats().violations == 0


def test_changes_of_a_step_take_their_place_among_packets() -> None:
    """A step that closes between a packet and its report does so for later packets only."""
    for lag in (0, 1, 4):
        nic = nic_with(wire_lag=lag, host_lag=lag)
        data(nic, 0, 12)
        data(nic, 12, 4, trim=True)  # forgiven
        nic.model.install(3, Step(**{**vars(STEP), "open": False}))
        nic.checker.close_step(0, 3)
        data(nic, 16, 1, trim=True)  # refused
        nic.remove(3)
        data(nic, 17, 1)
        nic.flush()
        check(nic)
        assert nic.checker.step(3).forgiven_bytes == 4 * BLOCK


def test_either_outcome_of_a_draw_is_right() -> None:
    for threshold in (1, ALWAYS // 2, ALWAYS - 1):
        nic = nic_with(Step(**{**vars(STEP), "forgive_threshold": threshold}))
        data(nic, 0, 36)
        for first in range(36, 40):
            data(nic, first, 1, trim=True)
        check(nic)


def test_exemption_arms() -> None:
    for exemption in (NEVER, NEVER_ENDS):
        nic = nic_with(Step(**{**vars(STEP), "exemption": exemption}))
        data(nic, 0, 12)
        for first in range(12, 36, 4):
            data(nic, first, 4, trim=True)
        check(nic)
        assert bool(nic.checker.step(3).exhausted_reports) is (exemption == NEVER)


# --- the program itself


class OnDevice(NicModel):
    """nic.p4 on a device in memory decides; the model only knows which flows there are."""

    def __init__(self, dut: MemoryDut) -> None:
        super().__init__(CLASSES, seed=SEED)
        self.dut = dut
        dut.control.reset()
        configure(dut.control)

    def install(self, slot: int, step: Step) -> None:
        (modify if slot in self.steps else install)(self.dut.control, slot, step)
        super().install(slot, step)

    def remove(self, slot: int) -> None:
        remove(self.dut.control, slot)
        super().remove(slot)

    def receive(self, port: int, frame: bytes, now_us: int = 0) -> list[Output]:
        super().receive(port, frame, now_us)
        self.dut.send(port, frame)
        left = self.dut.drain()
        return [(out, sent) for out in (HOST, WIRE) for sent in left.get(out, [])]


@pytest.fixture(scope="module")
def dut() -> Iterator[MemoryDut]:
    device = MemoryDut(compile_program("nic"), (HOST, WIRE))
    yield device
    device.close()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=traffic.plans(KINDS + ("run",) * 10), lags=LAGS, plain=st.booleans())
def test_nic_program_keeps_its_promises(
    dut: MemoryDut, plan: traffic.Plan, lags: tuple[int, int], plain: bool
) -> None:
    nic = CheckedNic(lengths(plan), OnDevice(dut), host_lag=lags[0], wire_lag=lags[1], plain=plain)
    nic.run_plan(plan)
    check(nic)
