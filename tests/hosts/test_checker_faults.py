# SPDX-License-Identifier: Apache-2.0
"""Every promise that a NIC can break is noticed, and called by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.checker import Checker, StepPromise
from tests.hosts.checked_nic import Change, CheckedNic, lengths, promise
from tests.model import traffic
from tests.model.ranges import Blocks
from tests.model.reference import NicModel, Output, ReceiverFlow, State, StepState
from tests.model.traffic import CONTROL_KINDS, RECEIVER_KINDS
from tests.support import answers, wire
from tests.support.nic import ALWAYS, CLASSES, HOST, SEED, WIRE, Step
from tests.support.wire import Roce

BLOCK = wire.BLOCK
QP = wire.queue_pair(3, 5, 7)
DATA_QP = wire.queue_pair(3, 2, 8)
BLOCKS = 64
STEP = Step(tag=9, p_ppm=250_000, budget=BLOCKS * BLOCK // 4, packet_bytes=4 * BLOCK, forgiveness_echoes=True)


def data(nic: CheckedNic, first: int, blocks: int, *, trim: bool = False, ecn: int = 2, qp: int = QP) -> None:
    make = wire.trimmed if trim else wire.data
    dscp = wire.DSCP_GRADIENT if qp == QP else wire.DSCP_DATA
    if trim:
        dscp = {wire.DSCP_GRADIENT: wire.DSCP_GRADIENT_TRIMMED, wire.DSCP_DATA: wire.DSCP_DATA_TRIMMED}[dscp]
    packet = make(qp, first * BLOCK, blocks * BLOCK, end=first + blocks == BLOCKS, ecn=ecn, udp_src=0xC001)
    nic.packet(WIRE, packet.but(dscp=dscp))


def story(nic: CheckedNic, step: Step = STEP) -> set[str]:
    """A step with everything in it, from its first packet to its last; what was found wrong."""
    nic.length_of = {7: BLOCKS * BLOCK, 8: BLOCKS * BLOCK}
    nic.expected = {step.tag: BLOCKS * BLOCK}
    nic.install(3, step)
    data(nic, 0, 4, trim=True)  # refused: nothing has vested
    data(nic, 4, 8, ecn=3)
    data(nic, 12, 2, trim=True)  # forgiven
    data(nic, 14, 10)
    data(nic, 0, 4)
    data(nic, 14, 10)  # twice
    data(nic, 24, 4, trim=True)  # forgiven
    data(nic, 24, 4)  # late
    data(nic, 28, 4, trim=True)  # refused
    data(nic, 30, 6)
    data(nic, 28, 4)
    data(nic, 0, 8, qp=DATA_QP)
    data(nic, 8, 2, trim=True, qp=DATA_QP)  # refused, not gradient
    data(nic, 8, 8, qp=DATA_QP)
    for first in (16, 32, 48):
        data(nic, first, 16, qp=DATA_QP)
    data(nic, 36, 12)
    data(nic, 44, 8, trim=True)  # forgiven, what is missing of it
    data(nic, 52, 4, trim=True)  # forgiven
    data(nic, 56, 4, trim=True)  # refused
    data(nic, 56, 5)
    nic.install(3, replace(step, open=False))
    data(nic, 61, 1, trim=True)  # refused, closed
    data(nic, 56, 8)
    nic.flush()
    nic.checker.finish(nic.now_ns)
    return {violation.kind for violation in nic.checker.violations()}


def test_nothing_is_wrong_with_the_story() -> None:
    assert story(CheckedNic({}, complete=True), replace(STEP, trimmed_starts_flow=False)) == set()
    nic = CheckedNic({}, complete=True)
    assert story(nic) == set()
    counters = nic.model.counters
    assert counters["forgiven"] == 4
    assert counters["refused_vesting"] == 3
    assert counters["refused_class"] == counters["refused_closed"] == 1
    assert counters["exhausted_set"] > 0
    assert nic.checker.stats().complete_messages == 2


# --- one frame is another


def at(port: int, number: int, change: Callable[[Roce], list[Roce | bytes]]) -> Change:
    """Changes the so-manieth frame that leaves the port."""
    seen = 0

    def apply(out: int, frame: bytes) -> list[bytes]:
        nonlocal seen
        if out != port:
            return [frame]
        seen += 1
        if seen - 1 != number:
            return [frame]
        packet = wire.decode(frame, delivered=port == HOST)
        return [bytes(changed) for changed in change(packet)]

    return apply


def edit(**fields: Callable[[Roce], object]) -> Callable[[Roce], list[Roce | bytes]]:
    return lambda packet: [packet.but(**{name: value(packet) for name, value in fields.items()})]


def feedback(**fields: Callable[[wire.Feedback], int]) -> Callable[[Roce], list[Roce | bytes]]:
    def apply(packet: Roce) -> list[Roce | bytes]:
        assert packet.feedback is not None
        values = {name: value(packet.feedback) for name, value in fields.items()}
        return [packet.but(feedback=replace(packet.feedback, **values))]

    return apply


def delivery(**fields: Callable[[wire.Delivery], int]) -> Callable[[Roce], list[Roce | bytes]]:
    def apply(packet: Roce) -> list[Roce | bytes]:
        assert packet.delivery is not None
        values = {name: value(packet.delivery) for name, value in fields.items()}
        return [packet.but(delivery=replace(packet.delivery, **values))]

    return apply


FRAMES = [
    # reports, by the packets of the story
    (WIRE, 1, edit(exemption_eligible=lambda p: 0), "eligible_flag"),
    (WIRE, 11, edit(exemption_eligible=lambda p: 1), "eligible_flag"),
    (WIRE, 1, edit(budget_exhausted=lambda p: 1), "exhausted_flag"),
    (WIRE, 19, edit(budget_exhausted=lambda p: 0), "exhausted_flag"),
    (WIRE, 1, edit(becn=lambda p: 0), "echo"),
    (WIRE, 2, edit(becn=lambda p: 0), "echo"),
    (WIRE, 3, edit(becn=lambda p: 1), "echo"),
    (WIRE, 0, edit(becn=lambda p: 1), "echo"),
    (WIRE, 0, feedback(syndrome=lambda f: wire.ACK), "acknowledged_hole"),
    (WIRE, 8, feedback(syndrome=lambda f: wire.ACK), "acknowledged_hole"),
    (WIRE, 12, feedback(syndrome=lambda f: wire.ACK), "acknowledged_hole"),
    (WIRE, 3, feedback(syndrome=lambda f: wire.NAK), "requested_settled"),
    (WIRE, 4, feedback(rcv_nxt=lambda f: f.rcv_nxt - BLOCK), "rcv_nxt"),
    (WIRE, 3, feedback(rcv_nxt=lambda f: f.range_start + f.range_len), "acknowledged_hole"),
    (WIRE, 9, feedback(rcv_nxt=lambda f: f.rcv_nxt + BLOCK), "acknowledged_hole"),
    (WIRE, 4, feedback(range_start=lambda f: f.range_start + BLOCK), "range"),
    (WIRE, 8, feedback(range_len=lambda f: f.range_len - BLOCK), "range"),
    (WIRE, 4, feedback(msn=lambda f: 1), "report_field"),
    (WIRE, 4, edit(fecn=lambda p: 1), "report_field"),
    (WIRE, 4, edit(ack_req=lambda p: 1), "report_field"),
    (WIRE, 4, edit(payload=lambda p: b"more"), "report_field"),
    (WIRE, 4, edit(psn=lambda p: p.psn + 999), "stray_report"),
    (WIRE, 4, edit(dest_qp=lambda p: p.dest_qp ^ 1), "stray_report"),
    (WIRE, 4, lambda p: [], "unanswered"),
    (WIRE, 4, lambda p: [p, p], "stray_report"),
    # deliveries
    (HOST, 0, lambda p: [], "not_delivered"),
    (HOST, 1, lambda p: [], "acknowledged_hole"),
    (HOST, 0, lambda p: [p, p], "double_delivery"),
    (HOST, 1, lambda p: [p, p], "double_delivery"),
    (HOST, 6, delivery(accept=lambda d: 0xF), "double_delivery"),
    (HOST, 0, delivery(accept=lambda d: 0x7F), "wrong_delivery"),
    (HOST, 0, delivery(accept=lambda d: 0x1FF), "double_delivery"),
    (HOST, 0, delivery(event=lambda d: 2), "wrong_delivery"),
    (HOST, 1, delivery(event=lambda d: 1), "wrong_delivery"),
    (HOST, 0, edit(payload=lambda p: p.payload[:-1]), "wrong_delivery"),
    (HOST, 1, edit(payload=lambda p: b"x"), "wrong_delivery"),
    (HOST, 0, edit(psn=lambda p: p.psn + 999), "stray_delivery"),
    (HOST, 0, edit(dest_qp=lambda p: p.dest_qp ^ 1), "stray_delivery"),
]


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize(("port", "number", "change", "name"), FRAMES)
def test_changed_frame(
    port: int, number: int, change: Callable[[Roce], list[Roce | bytes]], name: str, lag: int
) -> None:
    nic = CheckedNic(
        {}, change=at(port, number, change), complete=True, host_lag=lag, wire_lag=lag, plain=True
    )
    found = story(nic)
    assert name in found
    assert nic.broken or found <= {"not_delivered", "acknowledged_hole", "unanswered"}  # at the end


UNKNOWN = [
    (edit(exemption_eligible=lambda p: 1), "eligible_flag"),
    (edit(budget_exhausted=lambda p: 1), "exhausted_flag"),
    (edit(becn=lambda p: 1), "echo"),
    (edit(fecn=lambda p: 1), "report_field"),
    (feedback(syndrome=lambda f: wire.ACK), "acknowledged_hole"),
    (feedback(rcv_nxt=lambda f: BLOCK), "acknowledged_hole"),
    (feedback(range_start=lambda f: f.range_start + BLOCK), "range"),
    (feedback(range_len=lambda f: f.range_len - BLOCK), "range"),
    (lambda p: [], "unanswered"),
    (lambda p: [p, p], "stray_report"),
]


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize(("change", "name"), UNKNOWN)
def test_changed_request_of_an_unknown_flow(
    change: Callable[[Roce], list[Roce | bytes]], name: str, lag: int
) -> None:
    nic = CheckedNic({}, change=at(WIRE, 0, change), complete=True, host_lag=lag, wire_lag=lag)
    assert name in story(nic, replace(STEP, trimmed_starts_flow=False))


def test_header_of_an_unknown_flow_is_nothing_for_the_host() -> None:
    nic = CheckedNic({7: BLOCKS * BLOCK})
    nic.install(3, replace(STEP, budget=0, trimmed_starts_flow=False))
    nic.checker.expect(QP, BLOCKS * BLOCK)
    header = wire.trimmed(QP, 0, BLOCK, udp_src=0xC001)
    ((port, request),) = nic.model.receive(WIRE, header.encode())
    nic.checker.wire(0, False, header.encode())
    nic.checker.host(0, True, answers.forgiven(header, 1).encode())
    assert port == WIRE and nic.checker.wire(0, True, request)
    assert kinds(nic.checker) == ["wrong_delivery"]


IN_ORDER = [
    (WIRE, feedback(syndrome=lambda f: wire.NAK), "requested_settled"),
    (WIRE, feedback(rcv_nxt=lambda f: f.rcv_nxt + BLOCK), "acknowledged_hole"),
    (WIRE, feedback(rcv_nxt=lambda f: f.rcv_nxt - BLOCK), "rcv_nxt"),
    (WIRE, feedback(range_start=lambda f: f.range_start + BLOCK), "range"),
    (WIRE, edit(exemption_eligible=lambda p: 0), "eligible_flag"),
    (WIRE, edit(budget_exhausted=lambda p: 1 - p.budget_exhausted), "exhausted_flag"),
    (WIRE, edit(becn=lambda p: 1 - p.becn), "echo"),
    (WIRE, edit(psn=lambda p: p.psn + 2), "unanswered"),
    (WIRE, edit(payload=lambda p: b"x"), "report_field"),
    (WIRE, lambda p: [], "unanswered"),
    (WIRE, lambda p: [p, p], "stray_report"),
    (HOST, delivery(accept=lambda d: 0x7F), "wrong_delivery"),
    (HOST, delivery(accept=lambda d: 0x1FF), "double_delivery"),
    (HOST, delivery(event=lambda d: 2), "wrong_delivery"),
    (HOST, edit(payload=lambda p: p.payload + b"x"), "wrong_delivery"),
    (HOST, edit(psn=lambda p: p.psn + 40), "not_delivered"),
    (HOST, lambda p: [], "not_delivered"),
    (HOST, lambda p: [p, p], "double_delivery"),
]


@pytest.mark.parametrize("lag", [0, 4])
@pytest.mark.parametrize(("port", "change", "name"), IN_ORDER)
def test_changed_frame_of_many_in_order(
    port: int, change: Callable[[Roce], list[Roce | bytes]], name: str, lag: int
) -> None:
    """Packets as like each other as those of a run, of which the checker makes short work."""
    nic = CheckedNic({7: BLOCKS * BLOCK}, change=at(port, 5, change), plain=True, host_lag=lag, wire_lag=lag)
    nic.expected = {9: BLOCKS * BLOCK}
    nic.install(3, STEP)
    for first in range(0, BLOCKS, 8):
        data(nic, first, 8, ecn=3 if first % 16 else 2)
    nic.flush()
    nic.checker.finish(0)
    assert name in kinds(nic.checker)


# --- the NIC decides by other rules


class Unvested(NicModel):
    @staticmethod
    def _vested(step: Step, state: StepState, length: int) -> bool:
        return True


class Generous(NicModel):
    """Takes every header for gradient traffic of an open step."""

    def on_trimmed_header(
        self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int
    ) -> list[Output]:
        slot = self.slot(packet)
        step = self.steps[slot]
        self.steps[slot] = replace(step, open=True)
        answer = super().on_trimmed_header(packet.but(dscp=wire.DSCP_GRADIENT_TRIMMED), flow, blocks, now_us)
        self.steps[slot] = step
        return answer


class Deaf(NicModel):
    """The draw always forgives."""

    def install(self, slot: int, step: Step) -> None:
        super().install(slot, replace(step, forgive_threshold=ALWAYS))


class Stingy(NicModel):
    """The draw never forgives."""

    def install(self, slot: int, step: Step) -> None:
        super().install(slot, replace(step, forgive_threshold=0))


class Silent(NicModel):
    """A forgiveness does not echo."""

    def install(self, slot: int, step: Step) -> None:
        super().install(slot, replace(step, forgiveness_echoes=False))


class Latched(NicModel):
    """Once exhausted, always exhausted."""

    latched = False

    def flags(self, packet: Roce, flow: ReceiverFlow) -> tuple[int, int]:
        eligible, exhausted = super().flags(packet, flow)
        self.latched |= bool(exhausted) and bool(eligible)
        return eligible, int(self.latched) if eligible else exhausted


class NeverLower(NicModel):
    """Arrivals stay in `outstanding`."""

    def on_data(self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int) -> list[Output]:
        flow.charged -= set(blocks)
        return super().on_data(packet, flow, blocks, now_us)


class Forgetful(NicModel):
    """Counts bytes that were received before as received again, and hands them to its host again."""

    def unsettled(self, flow: ReceiverFlow, blocks: Blocks) -> Blocks:  # type: ignore[override]
        for block in blocks:
            if flow.scoreboard.get(block) is State.RECEIVED:
                del flow.scoreboard[block]
        return super().unsettled(flow, blocks)


class Overwriting(NicModel):
    """Late data for a forgiven range reaches the host."""

    def unsettled(self, flow: ReceiverFlow, blocks: Blocks) -> Blocks:  # type: ignore[override]
        for block in blocks:
            if flow.scoreboard.get(block) is State.FORGIVEN:
                del flow.scoreboard[block]
        return super().unsettled(flow, blocks)


class FullCharge(NicModel):
    """Charges a range's full length, whatever is missing of it."""

    def on_trimmed_header(
        self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int
    ) -> list[Output]:
        state = self._state(self.slot(packet), flow)
        if state is not None and self.unsettled(flow, blocks):
            state.outstanding += sum(blocks.values()) - sum(self.unsettled(flow, blocks).values())
        return super().on_trimmed_header(packet, flow, blocks, now_us)


class Ineligible(NicModel):
    """Fixes eligibility at whatever packet came last."""

    def on_data(self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int) -> list[Output]:
        step = self.steps.get(self.slot(packet))
        flow.eligible = step is not None and step.open
        return super().on_data(packet, flow, blocks, now_us)


class Welcoming(NicModel):
    """Any packet starts its flow."""

    def install(self, slot: int, step: Step) -> None:
        super().install(slot, replace(step, trimmed_starts_flow=True))


class Reserved(NicModel):
    """Data alone starts a flow."""

    def install(self, slot: int, step: Step) -> None:
        super().install(slot, replace(step, trimmed_starts_flow=False))


RULES: list[tuple[type[NicModel], Step, str]] = [
    (Unvested, STEP, "forgave_unvested"),
    (Unvested, replace(STEP, p_ppm=125_000, budget=BLOCKS * BLOCK // 8), "forgave_beyond_budget"),
    (Unvested, replace(STEP, vesting=False, p_ppm=60_000, budget=1966), "forgave_unvested"),
    (Generous, STEP, "forgave_class"),
    (Generous, STEP, "forgave_closed"),
    (Deaf, replace(STEP, forgive_threshold=0), "forgave_draw"),
    (Stingy, STEP, "not_forgiven"),
    (Silent, STEP, "echo"),
    (Latched, replace(STEP, packet_bytes=12 * BLOCK), "exhausted_flag"),
    (NeverLower, STEP, "exhausted_flag"),
    (Forgetful, STEP, "double_delivery"),
    (Overwriting, STEP, "double_delivery"),
    (FullCharge, STEP, "exhausted_flag"),
    (Ineligible, STEP, "eligible_flag"),
    (Welcoming, replace(STEP, trimmed_starts_flow=False), "eligible_flag"),
    (Reserved, STEP, "eligible_flag"),
]


@pytest.mark.parametrize(("model", "step", "name"), RULES)
def test_wrong_rule(model: type[NicModel], step: Step, name: str) -> None:
    nic = CheckedNic({}, model(CLASSES, seed=SEED), complete=True)
    assert name in story(nic, step)
    assert nic.broken


# --- what others did wrong


def small_checker() -> Checker:
    return Checker(
        gradient_dscp=wire.DSCP_GRADIENT,
        gradient_trimmed_dscp=wire.DSCP_GRADIENT_TRIMMED,
        data_trimmed_dscp=wire.DSCP_DATA_TRIMMED,
        kept=2,
    )


def kinds(checker: Checker) -> list[str]:
    return [violation.kind for violation in checker.violations()]


def test_more_bytes_than_expected_break_the_bound_and_not_the_vesting_rule() -> None:
    nic = CheckedNic({7: BLOCKS * BLOCK})
    expected = 16 * BLOCK
    nic.expected = {9: expected}
    nic.install(3, replace(STEP, budget=expected // 4))
    data(nic, 0, 16)
    data(nic, 16, 16)
    data(nic, 32, 4, trim=True)
    assert kinds(nic.checker) == []
    data(nic, 36, 4, trim=True)
    assert kinds(nic.checker) == ["forgave_beyond_budget"]
    (violation,) = nic.checker.violations()
    assert (violation.expected, violation.seen) == (4 * BLOCK, 8 * BLOCK)
    assert violation.text == (
        "0 ns: forgave_beyond_budget: queue pair 0x601407 (step slot 3, owner 5, flow slot 7), PSN 3, "
        "bytes 18432 + 2048; forgiven bytes, at most 2048, seen 4096"
    )


def test_installed_budget_must_be_the_promised_share() -> None:
    with small_checker() as checker:
        for budget in (24, 25, 26):
            checker.set_step(0, 1, StepPromise(budget, 250_000, 103, budget, 4096))
        assert [(v.kind, v.expected, v.seen) for v in checker.violations()] == [
            ("wrong_budget", 25, 24),
            ("wrong_budget", 25, 26),
        ]
        assert "step slot 1," in checker.violations()[0].text


def test_budget_may_only_close_during_its_step() -> None:
    with small_checker() as checker:
        first = StepPromise(4, 250_000, 100, 25, 4096)
        checker.set_step(0, 1, first)
        checker.set_step(0, 1, first)
        checker.set_step(0, 1, replace(first, open=False))
        assert kinds(checker) == []
        checker.set_step(0, 1, first)
        assert kinds(checker) == ["reopened"]
        checker.set_step(0, 1, replace(first, p_ppm=500_000, budget_bytes=50))
        assert kinds(checker) == ["reopened", "wrong_budget"]
        # The next step has a tag of its own.
        checker.set_step(0, 1, replace(first, step_tag=5))
        assert checker.stats().violations == 2


@pytest.mark.parametrize("name", ["vesting", "eligible", "forgiveness_echoes", "trimmed_starts_flow"])
def test_rules_do_not_change_during_a_step(name: str) -> None:
    with small_checker() as checker:
        first = StepPromise(4, 250_000, 100, 25, 4096)
        checker.set_step(0, 1, first)
        checker.set_step(0, 1, replace(first, **{name: not getattr(first, name)}))
        assert kinds(checker) == ["wrong_budget"]


def test_flow_that_nobody_expects() -> None:
    nic = CheckedNic({})
    nic.expecting.add(QP)
    data(nic, 0, 4)
    assert kinds(nic.checker) == ["unknown_flow"]


def test_range_beyond_the_message() -> None:
    nic = CheckedNic({7: 3 * BLOCK})
    data(nic, 2, 2)
    assert kinds(nic.checker) == ["outside_message"]


def test_message_that_was_replaced_or_never_came_is_incomplete() -> None:
    nic = CheckedNic({7: BLOCKS * BLOCK}, complete=True)
    data(nic, 0, 4)
    later = wire.queue_pair(3, 6, 7)
    nic.packet(WIRE, wire.data(later, 0, 4 * BLOCK))
    nic.checker.expect(DATA_QP, 100)
    assert kinds(nic.checker) == ["not_settled"]
    nic.checker.finish(5)
    found = [(v.kind, v.qp, v.expected, v.seen) for v in nic.checker.violations()]
    assert found == [
        ("not_settled", QP, 64, 4),
        ("not_settled", later, 64, 4),
        ("not_settled", DATA_QP, 1, 0),
    ]


def test_stale_packet_must_not_be_answered() -> None:
    """As if the NIC had kept no owner."""
    nic = CheckedNic({7: BLOCKS * BLOCK})
    nic.packet(WIRE, wire.data(QP, 0, 4 * BLOCK))
    old = wire.data(wire.queue_pair(3, 4, 7), 4 * BLOCK, 4 * BLOCK, psn=900)
    nic.frame(WIRE, old.encode())
    assert kinds(nic.checker) == []
    answer = NicModel(CLASSES).receive(WIRE, old.encode())
    nic.checker.host(0, True, answer[0][1])
    assert nic.checker.wire(0, True, answer[1][1])
    assert set(kinds(nic.checker)) == {"wrong_delivery", "stray_report"}


def test_only_the_first_violations_are_kept() -> None:
    nic = CheckedNic({7: 3 * BLOCK})
    for _ in range(50):
        data(nic, 2, 2)
    assert len(nic.checker.violations()) == 20
    assert nic.checker.stats().by_kind == {"outside_message": 50}


def test_headers_that_were_not_captured_are_a_violation() -> None:
    frame = wire.data(QP, 0, BLOCK).encode()
    with small_checker() as checker:
        assert checker.wire(0, False, frame[:60], len(frame))
        assert checker.host(0, True, frame[:72], len(frame))
        assert checker.stats().by_kind == {"incomplete": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.set_step(0, 8, promise(STEP, 0)),
        lambda c: c.set_step(0, 0, replace(promise(STEP, 0), step_tag=0)),
        lambda c: c.set_step(0, 0, replace(promise(STEP, 0), p_ppm=1_000_001)),
        lambda c: c.set_step(0, 0, replace(promise(STEP, 0), exemption=3)),
        lambda c: c.close_step(0, 8),
        lambda c: c.remove_step(0, 9),
        lambda c: c.step(8),
        lambda c: c.expect(1 << 24, 5),
        lambda c: c.expect(5, 0),
        lambda c: c.forget(5),
        lambda c: Checker(gradient_dscp=1, gradient_trimmed_dscp=2, data_trimmed_dscp=2),
        lambda c: Checker(gradient_dscp=64, gradient_trimmed_dscp=2, data_trimmed_dscp=3),
    ],
)
def test_wrong_arguments_are_refused(wrong: Callable[[Checker], object]) -> None:
    with small_checker() as checker, pytest.raises((ValueError, OverflowError)):
        wrong(checker)


# --- any traffic, any change of one frame


@st.composite
def changes(draw: st.DrawFn) -> Callable[[int, Roce], Roce]:
    """A change of a report or a delivery that no NIC may make."""
    mask = draw(st.integers(0, 31).map(lambda bit: 1 << bit))
    report_field = draw(
        st.sampled_from(
            (
                "becn",
                "exemption_eligible",
                "budget_exhausted",
                "syndrome",
                "rcv_nxt",
                "range_start",
                "range_len",
            )
        )
    )
    delivery_field = draw(st.sampled_from(("event", "accept", "virtual_addr", "dma_len")))

    def apply(port: int, packet: Roce) -> Roce:
        if packet.feedback is not None:
            if report_field in ("becn", "exemption_eligible", "budget_exhausted"):
                return packet.but(**{report_field: 1 - getattr(packet, report_field)})
            bits = (wire.ACK ^ wire.NAK) if report_field == "syndrome" else mask
            value = getattr(packet.feedback, report_field) ^ bits
            return packet.but(feedback=replace(packet.feedback, **{report_field: value}))
        assert packet.delivery is not None and packet.reth is not None
        if delivery_field in ("event", "accept"):
            bits = 3 if delivery_field == "event" else mask
            value = getattr(packet.delivery, delivery_field) ^ bits
            return packet.but(delivery=replace(packet.delivery, **{delivery_field: value}))
        value = getattr(packet.reth, delivery_field) ^ mask
        return packet.but(reth=replace(packet.reth, **{delivery_field: value}))

    return apply


@settings(max_examples=60, deadline=None)
@given(
    plan=traffic.plans(RECEIVER_KINDS * 3 + ("run",) * 10 + CONTROL_KINDS, max_ops=30),
    which=st.integers(0, 200),
    change=changes(),
    lag=st.sampled_from([0, 2]),
    plain=st.booleans(),
)
def test_any_change_of_any_frame_is_noticed(
    plan: traffic.Plan, which: int, change: Callable[[int, Roce], Roce], lag: int, plain: bool
) -> None:
    count = 0
    changed = False

    def apply(port: int, frame: bytes) -> list[bytes]:
        nonlocal count, changed
        packet = wire.decode(frame, delivered=port == HOST)
        if packet.feedback is None and packet.delivery is None:
            return [frame]
        count += 1
        if count - 1 != which:
            return [frame]
        changed = True
        return [change(port, packet).encode()]

    nic = CheckedNic(lengths(plan), change=apply, wire_lag=lag, plain=plain)
    nic.run_plan(plan)
    nic.checker.finish(nic.now_ns)
    found = set(nic.checker.stats().by_kind) - {"outstanding"}
    assert bool(found) is changed
