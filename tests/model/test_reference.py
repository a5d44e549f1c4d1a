# SPDX-License-Identifier: Apache-2.0
"""Properties of the reference model itself: the paper's bounds hold at every instant, whatever arrives."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model import ranges, traffic
from tests.model.reference import NicModel, StateReport
from tests.model.runs import runs
from tests.support import wire
from tests.support.nic import ALWAYS, CLASSES, HOST, Step
from tests.support.wire import BLOCK, Roce

MILLION = 1_000_000
QP = wire.queue_pair(1, 1, 3)


def make_model(seed: int = 1) -> NicModel:
    stream = random.Random(seed)

    def draw(seed: int, dest_qp: int, virtual_addr: int, draws_before: int) -> int:
        return stream.getrandbits(32)

    return NicModel(CLASSES, draw=draw)


def deliver(model: NicModel, packet: Roce) -> list[Roce]:
    """Feed one packet from the wire; the frames that leave, decoded."""
    return [wire.decode(frame, delivered=port == HOST) for port, frame in model.receive(2, packet.encode())]


@given(plan=traffic.plans(traffic.RECEIVER_KINDS + traffic.ODD_KINDS + traffic.CONTROL_KINDS))
@runs(40)
def test_bounds_hold_at_every_instant(plan: traffic.Plan) -> None:
    """forgiven <= p/(1-p) received (vesting on), else forgiven <= budget; outstanding is never negative."""
    model = make_model()
    for event in traffic.resolve(plan):
        if isinstance(event, traffic.Install):
            model.install(event.slot, event.step)
        elif isinstance(event, traffic.Remove):
            model.remove(event.slot)
        elif isinstance(event, traffic.FromWire):
            model.receive(2, event.packet.encode())
        for slot, step in model.steps.items():
            state = model.query(slot)
            assert state.outstanding >= 0
            if step.vesting:
                assert state.forgiven * (MILLION - step.p_ppm) <= step.p_ppm * state.received
            else:
                assert state.forgiven <= step.budget


@given(plan=traffic.plans((*traffic.RECEIVER_KINDS, *traffic.ODD_KINDS, "close", "reuse", "query")))
@runs(40)
def test_every_byte_settles_once(plan: traffic.Plan) -> None:
    """Each block of each flow reaches the host once, as data or as forgiven, and never a second time."""
    model = make_model()
    settled: Counter[tuple[int, int]] = Counter()
    for event in traffic.resolve(plan):
        if isinstance(event, traffic.Install):
            model.install(event.slot, event.step)
        if not isinstance(event, traffic.FromWire):
            continue
        for port, frame in model.receive(2, event.packet.encode()):
            if port == HOST:
                packet = wire.decode(frame, delivered=True)
                assert packet.reth is not None and packet.delivery is not None
                first = packet.reth.virtual_addr // BLOCK
                settled.update(
                    (packet.dest_qp, first + bit) for bit in range(32) if packet.delivery.accept >> bit & 1
                )
    assert not settled or max(settled.values()) == 1
    for slot, flow in model.receivers.items():
        mine = {b for qp, b in settled if qp & 0x3FF == slot and qp >> 10 & 0x7FF == flow.owner}
        assert set(range(flow.rcv_nxt)) <= mine


@given(
    lengths=st.lists(st.integers(1, 20 * BLOCK), min_size=1, max_size=3),
    p_ppm=st.sampled_from((5_000, 100_000, 400_000)),
    threshold=st.sampled_from((0, ALWAYS // 4, ALWAYS)),
    starts=st.booleans(),
    rng=st.randoms(use_true_random=False),
)
@runs(40)
def test_completion_accounts_for_every_byte(
    lengths: list[int], p_ppm: int, threshold: int, starts: bool, rng: random.Random
) -> None:
    """Run a whole step with random trims: received + forgiven = expected, and forgiven <= floor(p x
    expected)."""
    expected = sum(lengths)
    budget = p_ppm * expected // MILLION
    model = make_model(rng.randrange(1 << 30))
    model.install(1, Step(7, p_ppm, budget, forgive_threshold=threshold, trimmed_starts_flow=starts))
    todo = [(flow, first) for flow, length in enumerate(lengths) for first in range(0, -(-length // BLOCK))]
    rng.shuffle(todo)
    trims_left = 200
    while todo:
        flow, first = todo.pop(0)
        offset = first * BLOCK
        length = min(BLOCK * rng.choice((1, 2, 4)), lengths[flow] - offset)
        end = offset + length == lengths[flow]
        make = wire.data
        if trims_left and rng.random() < 0.4:
            make, trims_left = wire.trimmed, trims_left - 1
        answers = deliver(model, make(wire.queue_pair(1, 1, flow), offset, length, end=end))
        if any(answer.feedback and answer.feedback.syndrome == wire.NAK for answer in answers):
            todo.append((flow, first))
            todo.extend((flow, first + at) for at in range(1, -(-length // BLOCK)))
        assert model.query(1).forgiven <= budget
    state = model.query(1)
    assert state.received + state.forgiven == expected
    assert state.outstanding == 0
    assert [flow.rcv_nxt for _, flow in sorted(model.receivers.items())] == [-(-n // BLOCK) for n in lengths]


@given(plan=traffic.plans((*traffic.RECEIVER_KINDS, "close")))
@runs(40)
def test_outstanding_is_the_distinct_trimmed_bytes_that_lack(plan: traffic.Plan) -> None:
    """A recount from the packets alone, for open steps: trimmed, and neither delivered nor forgiven since."""
    model = make_model()
    lacking: dict[int, dict[tuple[int, int], int]] = {}
    settled: set[tuple[int, int]] = set()
    started: set[int] = set()
    for event in traffic.resolve(plan):
        if isinstance(event, traffic.Install):
            model.install(event.slot, event.step)
        if not isinstance(event, traffic.FromWire):
            continue
        packet = event.packet
        assert packet.reth is not None
        slot, _, flow = wire.split_queue_pair(packet.dest_qp)
        step = model.steps.get(slot)
        mine = lacking.setdefault(slot, {})
        first = packet.reth.virtual_addr // BLOCK
        gradient = packet.dscp == wire.DSCP_GRADIENT_TRIMMED
        if packet.payload or step is None or step.trimmed_starts_flow:
            started.add(flow)
        if gradient and flow in started and step is not None and step.open and step.eligible:
            for block, octets in ranges.blocks_of(packet.reth.virtual_addr, packet.reth.dma_len).items():
                if (flow, block) not in settled:
                    mine[flow, block] = octets
        for output in deliver(model, packet):
            if output.delivery is not None:
                gone = {(flow, first + bit) for bit in range(32) if output.delivery.accept >> bit & 1}
                settled |= gone
                mine = lacking[slot] = {key: octets for key, octets in mine.items() if key not in gone}
        if step is not None:
            assert model.query(slot).outstanding == sum(mine.values())


def test_vesting_at_the_exact_byte() -> None:
    """p = 1/10: with 9 blocks received the tenth may be forgiven, with one byte less it may not."""
    for received, forgiven in ((9 * BLOCK, True), (9 * BLOCK - 1, False)):
        model = make_model()
        model.install(1, Step(7, 100_000, 100 * BLOCK))
        deliver(model, wire.data(QP, 0, received, end=True))
        answers = deliver(model, wire.trimmed(QP, 20 * BLOCK, BLOCK))
        assert model.counters["forgiven"] == int(forgiven)
        assert (answers[-1].feedback is not None) and (answers[-1].feedback.syndrome == wire.ACK) == forgiven


def test_corner_requested_while_no_budget_was_open() -> None:
    """Charged at the next trim under an open budget, so the arrival takes off no more than was charged."""
    model = make_model()
    deliver(model, wire.trimmed(QP, 0, 2 * BLOCK))
    model.install(1, Step(7, 100_000, 100 * BLOCK))
    assert model.query(1).outstanding == 0
    deliver(model, wire.trimmed(QP, 0, BLOCK))
    assert model.query(1).outstanding == BLOCK
    deliver(model, wire.data(QP, 0, 2 * BLOCK))
    assert model.query(1).outstanding == 0


def test_corner_flags_come_before_the_signal() -> None:
    """A report that ends the exemption delivers its own echo; one that begins it swallows its own."""
    model = make_model()
    report = Roce(
        wire.ACKNOWLEDGE, QP, dscp=wire.DSCP_CONTROL, becn=1, feedback=wire.Feedback(wire.ACK, 0, 0, BLOCK)
    )
    assert deliver(model, report.but(exemption_eligible=1))[0].becn == 0
    assert deliver(model, report.but(exemption_eligible=1, budget_exhausted=1))[0].becn == 1


def test_state_report_is_zero_without_packets_of_the_step() -> None:
    model = make_model()
    assert model.query(1) == StateReport()
    model.install(1, Step(7, 100_000, 4096))
    assert model.query(1) == StateReport(step_tag=7, installed=True, open=True)


@pytest.mark.parametrize(
    ("offset", "length", "end", "valid"),
    [
        (0, BLOCK, False, True),
        (0, BLOCK - 1, True, True),
        (0, BLOCK - 1, False, False),
        (1, BLOCK, False, False),
        (0, 0, True, False),
        (0, wire.MAX_RANGE, False, True),
        (0, wire.MAX_RANGE + 1, True, False),
    ],
)
def test_ranges(offset: int, length: int, end: bool, valid: bool) -> None:
    assert ranges.is_valid(offset, length, end) == valid


def test_wire_round_trip() -> None:
    """What is encoded decodes to the same value."""
    packets = [
        wire.data(QP, BLOCK, 700, end=True, psn=5, ecn=wire.CE),
        wire.trimmed(QP, 0, 4096),
        wire.data(QP, 0, 5).but(delivery=wire.Delivery(1, 3)),
        Roce(wire.ACKNOWLEDGE, QP, becn=1, budget_exhausted=1, feedback=wire.Feedback(wire.NAK, 1, 2, 3)),
        Roce(wire.CNP, QP, fecn=1, reserved6=5, ack_req=1, reserved7=9),
    ]
    for packet in packets:
        assert wire.decode(packet.encode(), delivered=packet.delivery is not None) == packet
    assert packets[1].length == wire.TRIMMED_BYTES == 70
