# SPDX-License-Identifier: Apache-2.0
"""`window_repairs`: repairs wait for the window, as in the paper's study, and the timeout empties it."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint, OutgoingPacket, Status
from tests.hosts.harness import config_for

PACKET = 1024
WINDOW = 8 * PACKET
RTO_NS = 1_000_000

# One signal halves the rate 4,001 ns later, and with it the window.
HALVING = DcqcnConfig(gain=0, increase_period_ns=10**9)


def endpoint(on: bool = True, **changes: object) -> Endpoint:
    values: dict[str, object] = {
        "payload_bytes": PACKET,
        "window_bytes": WINDOW,
        "window_basis": "cumulative",
        "scale_window": True,
        "repeat_tail": True,
        "rto_ns": RTO_NS,
        "dcqcn": HALVING,
    }
    return Endpoint(config_for(0, window_repairs=on, **(values | changes)))


@dataclass
class Flow:
    """One message, and its feedback by packet number."""

    endpoint: Endpoint
    packets: int = 20
    rcv_nxt: int = 0
    posted_ns: int = 0
    qp: int = field(init=False)
    message: int = field(init=False)

    def __post_init__(self) -> None:
        self.qp = self.endpoint.alloc_send_qp()
        self.message = self.endpoint.post_send(
            self.posted_ns,
            destination="10.0.0.2",
            dst_qp=1,
            src_qp=self.qp,
            length_bytes=PACKET * self.packets,
        )

    def feedback(self, now: int, packet: int, *, nak: bool = False, becn: bool = False) -> Status:
        """An ACK (of what is next, moving rcv_nxt) or a NAK."""
        if not nak and packet == self.rcv_nxt:
            self.rcv_nxt += 1
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, self.qp, 0, becn=becn)
        answer = wire.Feedback(bth, nak, self.rcv_nxt * PACKET, packet * PACKET, PACKET)
        return self.endpoint.receive(now, answer.encode())


def packets(endpoint: Endpoint, now: int, until: int | None = None) -> list[OutgoingPacket]:
    """All that leaves from `now`; until: a time, else as long as pacing alone is waited for."""
    found = []
    for _ in range(10_000):
        packet = endpoint.poll(now)
        if packet is not None:
            found.append(packet)
            continue
        wake = endpoint.next_wake()
        if wake is None or wake > (now + 50_000 if until is None else until):
            return found
        now = max(now, wake)
    raise AssertionError("it does not stop sending")


def numbers(found: list[OutgoingPacket]) -> list[int]:
    return [wire.decode_data(packet.udp_payload).offset // PACKET for packet in found]


def sent(endpoint: Endpoint, now: int, until: int | None = None) -> list[int]:
    return numbers(packets(endpoint, now, until))


@pytest.mark.parametrize(("on", "at_once"), [(True, []), (False, [6])])
def test_repair_waits_while_a_cut_leaves_more_in_flight_than_the_window(on: bool, at_once: list[int]) -> None:
    with endpoint(on) as host:
        flow = Flow(host)
        assert sent(host, 0) == [0, 1, 2, 3, 4, 5, 6, 7]
        flow.feedback(100_000, 6, nak=True, becn=True)
        assert sent(host, 100_000) == at_once  # the window is full
        for packet in range(4):
            flow.feedback(110_000, packet)  # and cut in half: four in flight fill it
        assert sent(host, 110_000) == []
        flow.feedback(120_000, 4)
        assert sent(host, 120_000) == ([6, 8] if on else [8])
        assert host.flow_stats(120_000, flow.message).rtos == 0


def stalled() -> tuple[Endpoint, Flow]:
    """Packets 2 and 5 of eight are missing, and the window is half of what is in flight."""
    host = endpoint()
    flow = Flow(host)
    assert len(sent(host, 0)) == 8
    flow.feedback(100_000, 5, nak=True, becn=True)
    flow.feedback(110_000, 0)
    flow.feedback(110_000, 1)
    flow.feedback(110_000, 2, nak=True)
    for packet in (3, 4, 6, 7):
        assert flow.feedback(110_000, packet) is Status.ACCEPTED
    assert sent(host, 110_000, 110_000 + RTO_NS - 1) == []
    return host, flow


def test_timeout_sends_what_was_held_then_the_whole_tail_within_the_window() -> None:
    host, flow = stalled()
    with host:
        found = packets(host, 110_000 + RTO_NS)
        assert numbers(found) == [2, 5, 2, 3, 4, 5]
        assert all(packet.retransmission for packet in found)
        now = 110_000 + RTO_NS + 100_000
        stats = host.flow_stats(now, flow.message)
        assert (stats.rtos, stats.first_bytes) == (1, 8 * PACKET)
        assert (stats.retransmitted_bytes, stats.retransmitted_packets) == (6 * PACKET, 6)
        assert sent(host, now) == []
        # The receiver holds all up to 8: what would be repeated is jumped over.
        flow.rcv_nxt = 8
        flow.feedback(now, 2)
        found = packets(host, now)
        assert numbers(found) == [8, 9, 10, 11]
        assert not any(packet.retransmission for packet in found)
        stats = host.flow_stats(now, flow.message)
        assert (stats.first_bytes, stats.retransmitted_bytes) == (12 * PACKET, 6 * PACKET)


def test_tail_goes_on_in_order_into_new_data() -> None:
    host, flow = stalled()
    with host:
        packets(host, 110_000 + RTO_NS)
        flow.rcv_nxt = 3
        flow.feedback(1_200_000, 2)
        assert sent(host, 1_200_000) == [6]
        flow.rcv_nxt = 5
        flow.feedback(1_210_000, 4)
        found = packets(host, 1_210_000)
        assert [(n, p.retransmission) for n, p in zip(numbers(found), found, strict=True)] == [
            (7, True),
            (8, False),
        ]
        assert host.stats().retransmitted_bytes == 8 * PACKET


def test_feedback_is_judged_by_all_that_was_ever_sent() -> None:
    host, flow = stalled()
    with host:
        packets(host, 110_000 + RTO_NS)  # up to 6 again
        now = 1_200_000
        assert flow.feedback(now, 7) is Status.ACCEPTED
        assert flow.feedback(now, 7, nak=True) is Status.ACCEPTED
        assert flow.feedback(now, 8) is Status.MALFORMED
        assert flow.feedback(now, 8, nak=True) is Status.MALFORMED
        assert host.stats().bad_feedback == 2


def test_packet_across_the_end_of_the_tail_counts_in_parts() -> None:
    with endpoint(window_bytes=0, dcqcn=None, span_bytes=2 * PACKET) as host:
        flow = Flow(host, 4)
        assert sent(host, 0) == [0, 1]
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, flow.qp, 0)
        host.receive(100_000, wire.Feedback(bth, False, 512, 0, 512).encode())
        assert sent(host, 100_000) == []
        found = packets(host, 100_000 + RTO_NS)
        data = [wire.decode_data(packet.udp_payload) for packet in found]
        assert [(d.offset, d.length_bytes) for d in data] == [(512, PACKET), (512 + PACKET, PACKET)]
        stats = host.flow_stats(100_000 + RTO_NS, flow.message)
        assert (stats.retransmitted_bytes, stats.first_bytes) == (1536, 2560)


def test_scoreboard_of_the_receiver_does_not_hold_repairs_back() -> None:
    with endpoint(window_bytes=0, dcqcn=None, span_bytes=4 * PACKET) as host:
        flow = Flow(host)
        assert sent(host, 0) == [0, 1, 2, 3]
        flow.feedback(100_000, 0, nak=True)
        assert sent(host, 100_000) == [0]


def test_timeout_while_nothing_is_outstanding_does_not_count() -> None:
    """The packet is sent again only after 8.8 ms, for its pacing; until then nothing can be missed."""
    with endpoint(line_rate_bps=1_000_000, dcqcn=None) as host:
        flow = Flow(host)
        assert sent(host, 0) == [0]
        assert sent(host, 50_000, 8_700_000) == []
        assert host.flow_stats(8_700_000, flow.message).rtos == 1
        assert sent(host, 8_700_000, 8_800_000) == [0]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("trigger", ["acknowledgement", "notification", "timeout", "delivery", "departure"])
def test_window_that_the_rate_opened_is_seen_when_anything_happens(on: bool, trigger: str) -> None:
    config = {
        "dcqcn": DcqcnConfig(gain=0, increase_period_ns=200_000),
        "rto_ns": 350_000 if trigger == "timeout" else RTO_NS,
    }
    with endpoint(on, **config) as host:
        flow, other = Flow(host), Flow(host, 3)
        assert len(sent(host, 0)) == 11
        flow.feedback(100_000, 0, becn=True)
        assert sent(host, 100_000) == [8]
        for packet in (1, 2, 3):
            flow.feedback(110_000, packet)
        assert sent(host, 110_000) == []  # five in flight, a window of four
        # At 304,001 ns the window becomes six. Nobody looks.
        assert sent(host, 340_000, 345_000) == []
        repeated: list[int] = []
        if trigger == "acknowledgement":
            other.feedback(346_000, 0)
        elif trigger == "notification":
            bth = wire.Bth(wire.OPCODE_CNP, other.qp, 0, becn=True)
            host.receive(346_000, wire.Notification(bth).encode())
        elif trigger == "delivery":
            qp = host.alloc_receive_qp()
            host.post_receive(346_000, qp=qp, length_bytes=PACKET)
            data = wire.Data(
                wire.Bth(wire.OPCODE_WRITE_ONLY, qp, 0, solicited=True), 0, 9, PACKET, bytes(PACKET)
            )
            assert host.receive(346_000, wire.Delivery(data, 1, 0b11).encode()) is Status.ACCEPTED
        elif trigger == "departure":
            Flow(host, 1, posted_ns=346_000)
            repeated = [0]
        else:
            repeated = [0, 1, 2]
        assert sorted(sent(host, 346_000, 400_000)) == repeated + ([9] if on else [])


def test_released_message_is_not_looked_at() -> None:
    host, flow = stalled()
    with host:
        other = Flow(host, 1)
        assert sent(host, 200_000, 210_000) == [0]
        host.release(flow.message)
        other.feedback(220_000, 0)
        assert sent(host, 220_000) == []
        assert host.next_wake() is None


def conversation(seed: int, host: Endpoint, *, timeouts: bool) -> list[tuple[int, bytes, bool]]:
    """Every packet, with its time, of four messages under random feedback, which need not make sense."""
    draw = random.Random(seed)
    flows = [Flow(host, 1 + draw.randrange(40)) for _ in range(4)]
    log = []
    now = 0
    high = [0] * len(flows)
    by_message = {flow.message: i for i, flow in enumerate(flows)}
    for _ in range(400):
        now += draw.choice((0, 50, 700, 5_000)) if draw.random() < 0.97 or not timeouts else RTO_NS
        for _ in range(draw.randrange(4)):
            packet = host.poll(now)
            if packet is None:
                break
            log.append((now, packet.frame_header, packet.retransmission))
            data = wire.decode_data(packet.udp_payload)
            i = by_message[packet.message]
            high[i] = max(high[i], data.offset + data.length_bytes)
        i = draw.randrange(len(flows))
        if high[i] == 0 or draw.random() < 0.3:
            continue
        flow, blocks = flows[i], high[i] // 512
        first = draw.randrange(blocks)
        length = min(1 + draw.randrange(4), blocks - first)
        nak = draw.random() < 0.3
        rcv_nxt = first + length if not nak and draw.random() < 0.3 else draw.randrange(blocks // 2 + 1)
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, flow.qp, 0, becn=draw.random() < 0.2)
        host.receive(now, wire.Feedback(bth, nak, rcv_nxt * 512, first * 512, length * 512).encode())
    stats = host.stats()
    log.append((stats.retransmitted_bytes, f"{stats.first_bytes} {stats.rtos}".encode(), False))
    return log


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), gap=st.sampled_from([0, 3_000]), quiet=st.booleans())
def test_option_changes_nothing_while_the_window_is_open_and_nothing_expires(
    seed: int, gap: int, quiet: bool
) -> None:
    logs = []
    for on in (True, False):
        with endpoint(
            on, window_bytes=0, rto_ns=10**9, gap_repair_ns=gap, ignore_beyond_gap="all" if quiet else "none"
        ) as host:
            logs.append(conversation(seed, host, timeouts=False))
    assert logs[0] == logs[1]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_with_the_option_no_packet_leaves_a_full_window(seed: int) -> None:
    """Without scaling: of [rcv_nxt, rcv_nxt + window) one packet at most may reach out."""
    with endpoint(window_bytes=4 * PACKET, scale_window=False, gap_repair_ns=3_000) as host:
        flow = Flow(host, 40)
        draw = random.Random(seed)
        now, high = 0, 0
        for _ in range(300):
            now += draw.choice((100, 1_000, RTO_NS))
            while (packet := host.poll(now)) is not None:
                data = wire.decode_data(packet.udp_payload)
                assert data.offset + data.length_bytes <= flow.rcv_nxt * PACKET + 5 * PACKET
                assert packet.retransmission == (data.offset < high)
                high = max(high, data.offset + data.length_bytes)
            if host.stats().sent_messages:
                return
            end = high // PACKET
            if flow.rcv_nxt < end:
                flow.feedback(now, draw.randrange(flow.rcv_nxt, end), nak=draw.random() < 0.5)


# Of the packets of `conversation`, recorded from the core before it knew of the option.
RECORDED = {
    ("cumulative", False): "f0be2c3ad408306c",
    ("unsettled", False): "94b137bc9cd754c8",
}


@pytest.mark.parametrize(("basis", "tail"), RECORDED)
def test_without_the_option_packets_are_what_they_were(basis: str, tail: bool) -> None:
    digest = hashlib.sha256()
    for seed in range(25):
        with endpoint(False, window_basis=basis, repeat_tail=tail, gap_repair_ns=3_000 * (seed % 2)) as host:
            digest.update(repr(conversation(seed, host, timeouts=True)).encode())
    assert digest.hexdigest()[:16] == RECORDED[basis, tail]
