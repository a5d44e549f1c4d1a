# SPDX-License-Identifier: Apache-2.0
"""Selective repeat: whatever the network does, every byte arrives or is forgiven, once, and nothing is sent
again without need."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import (
    DoubleSettlement,
    Endpoint,
    Failed,
    OutgoingPacket,
    Range,
    Received,
    Sent,
    Status,
    TrafficClass,
)
from tests.hosts.harness import Fate, Host, Simulation, address_of, config_for


@dataclass
class Transfer:
    """One message between two hosts of a simulation."""

    payload: bytes
    buffer: bytearray
    receiver: Host
    sender: Host
    receive_id: int
    send_id: int
    dst_qp: int

    def received(self) -> Received:
        found = [e for e in self.receiver.events if isinstance(e, Received) and e.message == self.receive_id]
        assert len(found) == 1
        return found[0]

    def sent(self) -> Sent:
        found = [e for e in self.sender.events if isinstance(e, Sent) and e.message == self.send_id]
        assert len(found) == 1
        return found[0]


def transfer(sim: Simulation, source: int, target: int, length: int, seed: int = 0) -> Transfer:
    sender, receiver = sim.hosts[source], sim.hosts[target]
    payload = random.Random(length * 1000 + seed).randbytes(length)
    buffer = bytearray(b"\xee" * length)
    qp = receiver.endpoint.alloc_receive_qp()
    receive_id = receiver.endpoint.post_receive(sim.now_ns, qp=qp, buffer=buffer)
    send_id = sender.endpoint.post_send(
        sim.now_ns,
        destination=address_of(target),
        dst_qp=qp,
        data=payload,
        traffic_class=TrafficClass.GRADIENT,
    )
    sim.kick(sender)
    return Transfer(payload, buffer, receiver, sender, receive_id, send_id, qp)


def check_delivered(item: Transfer) -> None:
    """Right bytes outside the forgiven ranges, untouched buffer inside, and the NIC's view of both."""
    event = item.received()
    expected = bytearray(item.payload)
    forgiven = 0
    for piece in event.forgiven:
        expected[piece.start : piece.end] = b"\xee" * piece.length_bytes
        forgiven |= ((1 << wire.block_count(piece.length_bytes)) - 1) << piece.start // 512
    assert item.buffer == expected
    assert item.receiver.nic.flows[item.dst_qp].forgiven == forgiven
    assert event.stats.settled_bytes == len(item.payload)
    assert event.stats.forgiven_bytes + event.stats.first_bytes == len(item.payload)
    assert item.sent().stats.first_bytes == len(item.payload)


def random_fates(
    seed: int, *, lost: float, trimmed: float, forgiven: float, twice: float, marked: float
) -> Any:
    draw = random.Random(seed)

    def delays(loss: float, duplication: float) -> tuple[int, ...]:
        copies = 0 if draw.random() < loss else 2 if draw.random() < duplication else 1
        return tuple(draw.randrange(500, 20_000) for _ in range(copies))

    def fate(packet: OutgoingPacket) -> Fate:
        return Fate(
            delays_ns=delays(lost, twice),
            trimmed=draw.random() < trimmed,
            forgive=draw.random() < forgiven,
            marked=draw.random() < marked,
            feedback_delays_ns=delays(lost, twice),
        )

    return fate


LENGTHS = st.one_of(st.integers(1, 3000), st.integers(1, 60_000), st.sampled_from([512, 1024, 4096, 8192]))
PROBABILITY = st.sampled_from([0.0, 0.05, 0.3])


@settings(max_examples=120, deadline=None)
@given(
    lengths=st.lists(LENGTHS, min_size=1, max_size=5),
    payload=st.sampled_from([512, 1024, 1536, 4096, 5120]),
    window=st.sampled_from([0, 1, 3000, 20_000]),
    basis=st.sampled_from(["unsettled", "cumulative"]),
    span=st.sampled_from([5120, 16_384, 1 << 22]),
    dcqcn=st.sampled_from([None, DcqcnConfig.for_line_rate(100_000_000_000)]),
    scale=st.booleans(),
    repair=st.tuples(
        st.sampled_from(["selective", "tail", "window"]), st.sampled_from([0, 3_000, 500_000]), st.booleans()
    ),
    lost=PROBABILITY,
    trimmed=PROBABILITY,
    forgiven=st.sampled_from([0.0, 0.5, 1.0]),
    twice=PROBABILITY,
    seed=st.integers(0, 1 << 32),
)
def test_every_message_completes_with_the_right_bytes(
    lengths: Any,
    payload: int,
    window: int,
    basis: Any,
    span: int,
    dcqcn: Any,
    scale: bool,
    repair: tuple[str, int, bool],
    lost: float,
    trimmed: float,
    forgiven: float,
    twice: float,
    seed: int,
) -> None:
    fate = random_fates(seed, lost=lost, trimmed=trimmed, forgiven=forgiven, twice=twice, marked=0.2)
    sim = Simulation(
        3,
        lambda n: config_for(
            n,
            payload_bytes=payload,
            window_bytes=window,
            window_basis=basis,
            span_bytes=span,
            scale_window=scale,
            repeat_tail=repair[0] != "selective",
            window_repairs=repair[0] == "window",
            gap_repair_ns=repair[1],
            ignore_beyond_gap="all" if repair[2] else "none",
            dcqcn=dcqcn,
        ),
        fate,
    )
    items = [transfer(sim, i % 3, (i + 1) % 3, length, i) for i, length in enumerate(lengths)]
    sim.run()
    for item in items:
        check_delivered(item)
    for host in sim.hosts:
        stats = host.endpoint.stats()
        assert stats.double_settlements == stats.malformed == stats.bad_feedback == stats.failed_messages == 0
        assert not any(isinstance(event, DoubleSettlement) for event in host.events)
        assert host.endpoint.next_wake() is None


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 100_000),
    trimmed=st.sampled_from([0.05, 0.3, 0.7]),
    forgiven=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 1 << 32),
)
def test_trims_are_repaired_exactly(length: int, trimmed: float, forgiven: float, seed: int) -> None:
    """Without silent loss, what is sent again is what the receiver asked for, to the byte."""
    fate = random_fates(seed, lost=0, trimmed=trimmed, forgiven=forgiven, twice=0, marked=0)
    sim = Simulation(2, lambda n: config_for(n, rto_ns=10_000_000), fate)
    item = transfer(sim, 0, 1, length)
    sim.run()
    check_delivered(item)
    stats = item.sent().stats
    assert stats.rtos == 0
    assert stats.retransmitted_bytes == item.receiver.nic.flows[item.dst_qp].requested_bytes


def test_nothing_is_sent_twice_on_a_clean_network() -> None:
    sim = Simulation(2, config_for, lambda packet: Fate())
    item = transfer(sim, 0, 1, 1_000_001)
    sim.run()
    check_delivered(item)
    stats = item.sent().stats
    assert (stats.retransmitted_bytes, stats.rtos, stats.packets, stats.acks) == (0, 0, 977, 977)


def test_psn_goes_up_by_one_for_every_packet_of_a_flow() -> None:
    fate = random_fates(1, lost=0.1, trimmed=0.2, forgiven=0, twice=0, marked=0)
    sim = Simulation(2, config_for, fate)
    for i in range(3):
        transfer(sim, 0, 1, 30_000, i)
    sim.run()
    psns: dict[int, list[int]] = {}
    for _, packet in sim.sent:
        psns.setdefault(packet.message, []).append(wire.Bth.decode(packet.frame_header[42:]).psn)
    assert len(psns) == 3
    for sequence in psns.values():
        assert sequence == list(range(len(sequence)))


def outgoing(endpoint: Endpoint, now: int) -> list[tuple[int, int, bool]]:
    """(offset, bytes, again) of all that may be sent, letting time pass."""
    found = []
    for _ in range(10_000):
        packet = endpoint.poll(now)
        if packet is not None:
            found.append(
                (wire.decode_data(packet.udp_payload).offset, packet.payload_bytes, packet.retransmission)
            )
            continue
        wake = endpoint.next_wake()
        if wake is None or wake > now + 40_000:
            return found
        now = max(now, wake)
    raise AssertionError("it does not stop sending")


def feedback(
    qp: int, rcv_nxt: int, start: int, length: int, *, nak: bool = False, becn: bool = False
) -> bytes:
    bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, qp, 0, becn=becn)
    return wire.Feedback(bth, nak, rcv_nxt, start, length).encode()


def test_repairs_come_first_merged_and_ascending() -> None:
    with Endpoint(config_for(0, payload_bytes=1024, window_bytes=8 * 1024)) as endpoint:
        qp = endpoint.alloc_send_qp()
        endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=20 * 1024)
        assert [o for o, _, _ in outgoing(endpoint, 0)] == [i * 1024 for i in range(8)]
        # Two adjacent ranges, the later first; one that is settled in part; and one that was never sent.
        now = 2_000
        endpoint.receive(now, feedback(qp, 0, 5 * 1024, 1024, nak=True))
        endpoint.receive(now, feedback(qp, 0, 4 * 1024 + 512, 512, nak=True))
        endpoint.receive(now, feedback(qp, 0, 1024, 512))
        endpoint.receive(now, feedback(qp, 512, 512, 1024, nak=True))
        assert endpoint.receive(now, feedback(qp, 0, 9 * 1024, 1024, nak=True)) is Status.MALFORMED
        assert outgoing(endpoint, now) == [
            (512, 512, True),
            (4 * 1024 + 512, 1024, True),
            (5 * 1024 + 512, 512, True),
            (8 * 1024, 1024, False),
        ]
        assert endpoint.stats().bad_feedback == 1


def test_timeout_resends_everything_unsettled_and_nothing_else() -> None:
    with Endpoint(config_for(0, payload_bytes=1024, rto_ns=100_000)) as endpoint:
        qp = endpoint.alloc_send_qp()
        message = endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=5 * 1024)
        assert len(outgoing(endpoint, 0)) == 5
        endpoint.receive(1_000, feedback(qp, 1024, 0, 1024))
        endpoint.receive(1_000, feedback(qp, 1024, 3 * 1024, 1024))
        assert endpoint.poll(100_999) is None
        assert outgoing(endpoint, 101_000) == [(1024, 1024, True), (2048, 1024, True), (4096, 1024, True)]
        assert endpoint.flow_stats(101_000, message).rtos == 1


def test_message_fails_after_the_limit_of_timeouts_without_progress() -> None:
    sim = Simulation(2, lambda n: config_for(n, rto_limit=3), lambda packet: Fate(delays_ns=()))
    transfer(sim, 0, 1, 5_000)
    sim.run()
    (event,) = sim.hosts[0].events
    assert isinstance(event, Failed)
    assert event.stats.rtos == 3
    assert event.stats.retransmitted_bytes == 2 * 5_000
    assert sim.hosts[0].endpoint.stats().failed_messages == 1


def test_progress_starts_the_count_of_timeouts_again() -> None:
    """Every second packet is lost, so there are more timeouts than the limit, but never so many in a row."""
    count = iter(range(1_000_000))
    sim = Simulation(
        2,
        lambda n: config_for(n, rto_limit=3, payload_bytes=512),
        lambda packet: Fate(delays_ns=() if next(count) % 2 else (1_000,)),
    )
    item = transfer(sim, 0, 1, 512 * 64)
    sim.run()
    check_delivered(item)
    assert item.sent().stats.rtos >= 5


def test_window_bounds_what_is_unsettled() -> None:
    """New data goes out while less than the window is unsettled; a range settled out of order makes room."""
    for basis, expected in (("unsettled", [4 * 1024]), ("cumulative", [])):
        config = config_for(0, payload_bytes=1024, window_bytes=4 * 1024, window_basis=basis)
        with Endpoint(config) as endpoint:
            qp = endpoint.alloc_send_qp()
            endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=20 * 1024)
            assert len(outgoing(endpoint, 0)) == 4
            endpoint.receive(2_000, feedback(qp, 0, 2048, 1024))
            assert [o for o, _, _ in outgoing(endpoint, 2_000)] == expected


def test_span_keeps_every_packet_inside_the_scoreboard() -> None:
    with Endpoint(config_for(0, payload_bytes=1024, span_bytes=4096)) as endpoint:
        qp = endpoint.alloc_send_qp()
        endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=20 * 1024)
        assert len(outgoing(endpoint, 0)) == 4
        endpoint.receive(2_000, feedback(qp, 512, 0, 512))
        assert outgoing(endpoint, 2_000) == []
        endpoint.receive(2_000, feedback(qp, 1024, 512, 512))
        assert len(outgoing(endpoint, 2_000)) == 1


def test_late_report_does_not_move_rcv_nxt_back() -> None:
    with Endpoint(config_for(0, payload_bytes=1024)) as endpoint:
        qp = endpoint.alloc_send_qp()
        message = endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=4 * 1024)
        outgoing(endpoint, 0)
        endpoint.receive(2_000, feedback(qp, 3072, 2048, 1024))
        endpoint.receive(2_000, feedback(qp, 1024, 1024, 1024))
        endpoint.receive(2_000, feedback(qp, 1024, 1024, 1024, nak=True))
        assert endpoint.flow_stats(2_000, message).settled_bytes == 3072
        assert outgoing(endpoint, 2_000) == []


def delivery(qp: int, offset: int, payload: bytes, accept: int, *, last: bool, event: int = 1) -> bytes:
    bth = wire.Bth(wire.OPCODE_WRITE_ONLY, qp, 0, solicited=last)
    data = wire.Data(bth, offset, 9, len(payload), payload)
    encoded = wire.Delivery(data, event, accept).encode()
    return encoded if event == 1 else encoded[: -len(payload)]


def test_only_accepted_blocks_are_copied() -> None:
    buffer = bytearray(2048)
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        endpoint.post_receive(0, qp=qp, buffer=buffer)
        payload = b"a" * 512 + b"b" * 512 + b"c" * 512 + b"d" * 512
        assert endpoint.receive(1, delivery(qp, 0, payload, 0b0101, last=True)) is Status.ACCEPTED
        assert buffer == b"a" * 512 + bytes(512) + b"c" * 512 + bytes(512)
        assert endpoint.receive(2, delivery(qp, 0, payload, 0b1010, last=True, event=2)) is Status.ACCEPTED
        (event,) = endpoint.events()
        assert isinstance(event, Received)
        assert event.forgiven == (Range(512, 512), Range(1536, 512))
        assert event.time_ns == 2


def test_double_settlement_is_an_error_event_and_changes_nothing() -> None:
    buffer = bytearray(1024)
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        endpoint.post_receive(0, qp=qp, buffer=buffer, cookie=77)
        endpoint.receive(1, delivery(qp, 0, b"a" * 512, 1, last=False))
        endpoint.receive(2, delivery(qp, 0, b"x" * 1024, 3, last=True))
        double, received = endpoint.events()
        assert isinstance(double, DoubleSettlement)
        assert (double.offset, double.cookie, double.time_ns) == (0, 77, 2)
        assert isinstance(received, Received)
        assert buffer == b"a" * 512 + b"x" * 512
        endpoint.receive(3, delivery(qp, 512, b"y" * 512, 1, last=True))
        assert endpoint.stats().double_settlements == 2
        assert buffer == b"a" * 512 + b"x" * 512


def test_range_across_words_of_the_bitmap_is_checked_block_by_block() -> None:
    buffer = bytearray(70 * 512)
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        message = endpoint.post_receive(0, qp=qp, buffer=buffer)
        endpoint.receive(1, delivery(qp, 64 * 512, b"a" * 512, 1, last=False))
        endpoint.receive(1, delivery(qp, 66 * 512, b"b" * 512, 1, last=False))
        # Blocks 62 to 65: 64 is settled, 66 is not in the range.
        endpoint.receive(2, delivery(qp, 62 * 512, b"x" * 2048, 0b1111, last=False))
        assert buffer == bytes(62 * 512) + b"x" * 1024 + b"a" * 512 + b"x" * 512 + b"b" * 512 + bytes(3 * 512)
        assert endpoint.stats().double_settlements == 1
        assert endpoint.flow_stats(2, message).settled_bytes == 5 * 512
        endpoint.receive(3, delivery(qp, 62 * 512, b"y" * 1024, 0b11, last=False))
        assert endpoint.stats().double_settlements == 2


def test_message_that_ends_early_completes_with_its_own_length() -> None:
    buffer = bytearray(4096)
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        endpoint.post_receive(0, qp=qp, buffer=buffer)
        endpoint.receive(1, delivery(qp, 0, b"s" * 64, 1, last=True))
        (event,) = endpoint.events()
        assert isinstance(event, Received)
        assert (event.length_bytes, event.posted_bytes) == (64, 4096)


BAD_DELIVERIES = {
    "event": lambda qp: delivery(qp, 0, b"a" * 512, 1, last=False, event=3),
    "no block accepted": lambda qp: delivery(qp, 0, b"a" * 512, 0, last=False),
    "block beyond the range": lambda qp: delivery(qp, 0, b"a" * 512, 2, last=False),
    "offset off a block": lambda qp: delivery(qp, 100, b"a" * 512, 1, last=False),
    "length off a block": lambda qp: delivery(qp, 0, b"a" * 500, 1, last=False),
    "beyond the message": lambda qp: delivery(qp, 4096, b"a" * 512, 1, last=False),
    "payload cut off": lambda qp: delivery(qp, 0, b"a" * 512, 1, last=False)[:-1],
    "range too long": lambda qp: delivery(qp, 0, b"a" * 512 * 33, 1, last=False),
}


@pytest.mark.parametrize("case", BAD_DELIVERIES)
def test_malformed_delivery_is_counted_and_changes_nothing(case: str) -> None:
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        message = endpoint.post_receive(0, qp=qp, length_bytes=4096)
        assert endpoint.receive(1, BAD_DELIVERIES[case](qp)) is Status.MALFORMED
        assert endpoint.stats().malformed == 1
        assert endpoint.flow_stats(1, message).packets == 0


def test_packets_for_unknown_queue_pairs_are_counted() -> None:
    with Endpoint(config_for(0)) as endpoint:
        qp = endpoint.alloc_receive_qp()
        assert endpoint.receive(0, delivery(qp, 0, b"a" * 512, 1, last=True)) is Status.UNKNOWN_QP
        assert endpoint.receive(0, feedback(5, 0, 0, 512)) is Status.UNKNOWN_QP
        cnp = wire.Notification(wire.Bth(wire.OPCODE_CNP, 5, 0, becn=True)).encode()
        assert endpoint.receive(0, cnp) is Status.UNKNOWN_QP
        assert endpoint.stats().unknown_qp == 1
        assert endpoint.stats().late_feedback == 2


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=20))
def test_random_bytes_never_settle_anything(packets: list[bytes]) -> None:
    with Endpoint(config_for(0)) as endpoint:
        endpoint.post_receive(0, qp=endpoint.alloc_receive_qp(), length_bytes=100)
        for packet in packets:
            endpoint.receive(0, packet)
            endpoint.receive_frame(0, packet)
        assert list(endpoint.events()) == []
        assert endpoint.stats().received_packets == 0
