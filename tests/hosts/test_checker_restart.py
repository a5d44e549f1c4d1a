# SPDX-License-Identifier: Apache-2.0
"""A NIC that forgets: what the checker holds against it before and after, and that it must be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.checker import Checker
from tests.hosts.checked_nic import CheckedNic, honest, lengths, promise
from tests.model import traffic
from tests.model.traffic import CONTROL_KINDS, RECEIVER_KINDS, Event, Install, resolve
from tests.support import wire
from tests.support.nic import HOST, WIRE, Step

BLOCK = wire.BLOCK
BLOCKS = 40
LENGTH = BLOCKS * BLOCK
QP = wire.queue_pair(3, 5, 7)
AGAIN = wire.queue_pair(3, 1, 8)
"""Where the message of QP starts over."""
STEP = Step(tag=9, p_ppm=250_000, budget=LENGTH // 4, packet_bytes=4 * BLOCK)


def nic_with(**options: object) -> CheckedNic:
    nic = CheckedNic({7: LENGTH, 8: LENGTH}, complete=True, **options)  # type: ignore[arg-type]
    nic.expected = {STEP.tag: LENGTH}
    nic.install(3, STEP)
    return nic


def packet(first: int, blocks: int, *, trim: bool = False, qp: int = QP) -> wire.Roce:
    make = wire.trimmed if trim else wire.data
    return make(qp, first * BLOCK, blocks * BLOCK, end=first + blocks == BLOCKS, udp_src=0xC001)


def data(nic: CheckedNic, first: int, blocks: int, *, trim: bool = False, qp: int = QP) -> None:
    nic.packet(WIRE, packet(first, blocks, trim=trim, qp=qp))


def half(nic: CheckedNic) -> None:
    """Of the message; some of it is forgiven, some refused."""
    for first in (0, 4, 8):
        data(nic, first, 4)
    data(nic, 12, 4, trim=True)
    data(nic, 16, 4, trim=True)


def whole(nic: CheckedNic) -> None:
    """Starts over, and is refused what would have been forgiven."""
    for first in (*range(0, 32, 4), 36):
        data(nic, first, 4, qp=AGAIN)
    for trim in (True, False):
        data(nic, 32, 4, trim=trim, qp=AGAIN)


def kinds(checker: Checker) -> set[str]:
    return {violation.kind for violation in checker.violations()}


def lag_and_looks(test: Callable[..., None]) -> Callable[..., None]:
    both = pytest.mark.parametrize("lag", [0, 3])(test)
    looks: Callable[..., None] = pytest.mark.parametrize("plain", [False, True])(both)
    return looks


@lag_and_looks
def test_message_starts_over(lag: int, plain: bool) -> None:
    nic = nic_with(host_lag=lag, wire_lag=lag, plain=plain)
    half(nic)
    before = nic.checker.step(3)
    assert before.received_bytes > 0
    if not lag:
        assert before.forgiven_bytes == before.outstanding_bytes == 4 * BLOCK
    nic.restart()
    since = nic.checker.step(3)
    assert (since.received_bytes, since.forgiven_bytes, since.outstanding_bytes) == (0, 0, 0)
    assert (since.step_tag, since.expected_bytes, since.limit_bytes) == (9, LENGTH, LENGTH // 4)
    assert nic.checker.stats().pending == 0 and nic.checker.stats().lost_packets == lag
    whole(nic)
    nic.flush()
    assert nic.checker.finish(nic.now_ns) == 0
    books, state = nic.checker.step(3), nic.model.step_states[3]
    assert (books.received_bytes, books.forgiven_bytes) == (state.received, state.forgiven) == (LENGTH, 0)
    assert books.trimmed_bytes == state.trimmed == 4 * BLOCK
    assert nic.model.counters["refused_closed"] == 1
    assert nic.checker.stats().complete_messages == 1


@lag_and_looks
def test_packets_of_before_begin_their_flow_anew(lag: int, plain: bool) -> None:
    """They were on their way; the step's bytes count them, there as here."""
    nic = nic_with(host_lag=lag, wire_lag=lag, plain=plain)
    half(nic)
    nic.restart()
    data(nic, 24, 4)
    data(nic, 28, 4, trim=True)
    whole(nic)
    data(nic, 32, 8)
    nic.flush()
    assert nic.checker.finish(nic.now_ns) == 0
    books, state = nic.checker.step(3), nic.model.step_states[3]
    assert books.received_bytes == state.received == LENGTH + 12 * BLOCK
    assert books.trimmed_bytes == state.trimmed == 8 * BLOCK


def test_packet_of_before_that_its_slot_is_through_with() -> None:
    """The slot's next flow is expected when the NIC restarts: packets of both may come, of others not."""
    nic = nic_with()
    data(nic, 0, BLOCKS // 2)
    data(nic, BLOCKS // 2, BLOCKS // 2)
    later = wire.queue_pair(3, 6, 7)
    nic.checker.expect(later, LENGTH)
    nic.expecting.add(later)
    nic.restart()
    data(nic, 4, 4)
    data(nic, 0, 4, qp=later)
    data(nic, 8, 4)  # behind its slot: dropped by rule
    assert nic.checker.finish(nic.now_ns) == 0
    never = wire.queue_pair(3, 7, 7)
    nic.expecting.add(never)
    data(nic, 0, 4, qp=never)
    assert kinds(nic.checker) == {"unknown_flow"}


def test_header_of_before_where_data_alone_starts_flows() -> None:
    nic = CheckedNic({7: LENGTH, 8: LENGTH}, complete=True)
    nic.expected = {STEP.tag: LENGTH}
    nic.install(3, replace(STEP, trimmed_starts_flow=False))
    half(nic)
    nic.restart()
    data(nic, 16, 4, trim=True)
    whole(nic)
    assert nic.checker.finish(nic.now_ns) == 0
    assert nic.checker.step(3).unknown_bytes == 4 * BLOCK


def test_changes_of_a_step_behind_lost_packets_are_made() -> None:
    nic = nic_with(wire_lag=9, host_lag=9)
    data(nic, 0, 4, trim=True)
    nic.install(3, replace(STEP, open=False))
    nic.remove(3)
    nic.expected[10] = LENGTH
    nic.install(3, replace(STEP, tag=10))
    nic.restart()
    assert nic.checker.step(3).step_tag == 10
    whole(nic)
    nic.flush()
    assert nic.checker.finish(nic.now_ns) == 0
    assert nic.checker.step(3).received_bytes == LENGTH


def test_next_step_forgives_again() -> None:
    nic = nic_with()
    half(nic)
    nic.restart()
    nic.remove(3)
    nic.expected[10] = LENGTH
    nic.install(3, replace(STEP, tag=10))
    for first in range(0, 36, 4):
        data(nic, first, 4, qp=AGAIN)
    data(nic, 36, 4, trim=True, qp=AGAIN)
    assert nic.checker.finish(nic.now_ns) == 0
    assert nic.checker.step(3).forgiven_bytes == nic.model.step_states[3].forgiven == 4 * BLOCK


def test_restarts_may_follow_each_other() -> None:
    nic = nic_with(plain=True)
    half(nic)
    nic.restart()
    nic.restart()
    data(nic, 20, 4)
    data(nic, 0, 4, qp=AGAIN)
    nic.restart()
    data(nic, 4, 4, qp=AGAIN)
    data(nic, 24, 4)
    assert nic.checker.finish(nic.now_ns) == 0


def test_what_was_broken_before_stays_so() -> None:
    nic = nic_with(change=lambda port, frame: [] if port == HOST else [frame])
    data(nic, 0, 4)
    data(nic, 4, 4)
    nic.checker.host(0, True, wire.data(AGAIN, 0, 4 * BLOCK).encode() + bytes(8))
    assert kinds(nic.checker) == {"stray_delivery"}
    nic.restart()
    assert nic.checker.finish(0) == 1  # what was not delivered yet is lost


# --- what a NIC may not do


class Remembering(CheckedNic):
    """The NIC goes on as if nothing had happened, but for its steps, which are closed."""

    def restart(self) -> None:
        for slot, step in list(self.model.steps.items()):
            self.model.install(slot, replace(step, open=False))
        self.checker.restart(self.now_ns)


class Unclosed(CheckedNic):
    """Its steps are still open."""

    def restart(self) -> None:
        steps = dict(self.model.steps)
        super().restart()
        self.model.steps = steps


class Untold(CheckedNic):
    """It restarts, and the checker does not know."""

    def restart(self) -> None:
        self.model.restart()


def begun(make: type[CheckedNic], **options: object) -> CheckedNic:
    nic = make({7: LENGTH, 8: LENGTH}, complete=True, **options)  # type: ignore[arg-type]
    nic.expected = {STEP.tag: LENGTH}
    nic.install(3, STEP)
    half(nic)
    nic.restart()
    return nic


def test_report_that_still_counts_what_was_received_before() -> None:
    nic = begun(Remembering)
    data(nic, 20, 4)  # rcv_nxt says 16 blocks, of which nothing came since
    assert kinds(nic.checker) >= {"acknowledged_hole"}
    (first, *_) = nic.checker.violations()
    assert (first.qp, first.expected, first.seen) == (QP, 0, 16 * BLOCK)


def test_flags_that_still_count_what_was_forgiven_before() -> None:
    nic = begun(Remembering)
    data(nic, 0, 4, qp=AGAIN)  # 4 blocks forgiven and 4 outstanding, of 10
    assert kinds(nic.checker) == {"exhausted_flag"}


def test_step_that_is_open_again() -> None:
    nic = begun(Unclosed)
    for first in range(0, 12, 4):
        data(nic, first, 4, qp=AGAIN)
    data(nic, 12, 4, trim=True, qp=AGAIN)
    assert kinds(nic.checker) == {"forgave_closed"}
    nic.checker.set_step(0, 3, promise(STEP, LENGTH))
    assert kinds(nic.checker) == {"forgave_closed", "reopened"}


def test_what_was_inside_does_not_leave_any_more() -> None:
    nic = begun(CheckedNic)
    late = packet(20, 4).but(psn=900)
    answers = nic.model.receive(WIRE, late.encode())
    nic.checker.wire(0, False, late.encode())
    nic.checker.restart(0)
    for port, frame in answers:
        see = nic.checker.host if port == HOST else nic.checker.wire
        assert see(0, True, frame)
    assert kinds(nic.checker) == {"stray_delivery", "stray_report"}


@lag_and_looks
def test_a_restart_that_the_checker_is_not_told_of(lag: int, plain: bool) -> None:
    nic = begun(Untold, wire_lag=lag, host_lag=lag, plain=plain)
    data(nic, 20, 4)
    whole(nic)
    nic.flush()
    nic.checker.finish(0)
    assert kinds(nic.checker) & {"rcv_nxt", "requested_settled", "not_forgiven", "exhausted_flag"}
    assert "not_settled" in kinds(nic.checker)


# --- any traffic, a restart anywhere in it


def after(
    steps: dict[int, Step], events: list[Event], lengths: dict[int, int]
) -> tuple[list[Event], dict[int, int]]:
    """Honest events behind a restart: the steps of before stay closed, with their budgets."""
    known = {step.tag: step for step in steps.values()}
    prefix: list[Event] = [Install(slot, step) for slot, step in steps.items()]
    made, expected = honest([*prefix, *events], lengths)
    left: list[Event] = []
    for event in made[len(prefix) :]:
        if isinstance(event, Install) and event.step.tag in known:
            event = replace(event, step=replace(event.step, budget=known[event.step.tag].budget, open=False))
        left.append(event)
    return left, expected


@settings(max_examples=40, deadline=None)
@given(
    plan=traffic.plans(RECEIVER_KINDS * 3 + CONTROL_KINDS + ("run",) * 10),
    share=st.floats(0, 1),
    lag=st.sampled_from([0, 0, 3]),
    plain=st.booleans(),
)
def test_any_traffic_with_a_restart(plan: traffic.Plan, share: float, lag: int, plain: bool) -> None:
    events = resolve(plan)
    at = round(share * len(events))
    length_of = lengths(plan)
    nic = CheckedNic(length_of, host_lag=lag, wire_lag=lag, plain=plain)
    first, nic.expected = honest(events[:at], length_of)
    nic.run(first)
    nic.restart()
    second, expected = after(nic.model.steps, events[at:], length_of)
    nic.expected = expected | nic.expected
    nic.run(second)
    nic.flush()
    assert [v.text for v in nic.checker.violations()] == [] and not nic.broken
    for slot, state in nic.model.step_states.items():
        books = nic.checker.step(slot)
        if books.step_tag == state.tag:
            assert books.received_bytes == state.received
            assert books.forgiven_bytes == state.forgiven
            assert books.outstanding_bytes == state.outstanding
            assert books.trimmed_bytes == state.trimmed + books.unknown_bytes
