# SPDX-License-Identifier: Apache-2.0
"""What the paper's study does otherwise, as parameters: the whole tail on a timeout, repairs within the
window, the gap NACK (the sender's affair here), a NIC without a timer while a flow is blocked."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint, TrafficClass
from tests.hosts.harness import config_for

PACKET = 1024
RTO_NS = 1_000_000


@dataclass
class Sender:
    """One flow of some packets, sent as far as they may be, and its feedback by packet number."""

    endpoint: Endpoint
    packets: int
    now: int = 0
    rcv_nxt: int = 0
    first: int = 0
    """Packets that leave at once; 0: all."""
    traffic_class: TrafficClass = TrafficClass.DATA
    qp: int = field(init=False)
    message: int = field(init=False)

    def __post_init__(self) -> None:
        self.qp = self.endpoint.alloc_send_qp()
        self.message = self.endpoint.post_send(
            0,
            destination="10.0.0.2",
            dst_qp=1,
            src_qp=self.qp,
            length_bytes=PACKET * self.packets,
            traffic_class=self.traffic_class,
        )
        assert self.sent() == list(range(self.first or self.packets))
        self.now = 100_000

    def sent(self) -> list[int]:
        """Numbers of the packets that leave until only a timeout is left."""
        found = []
        while True:
            packet = self.endpoint.poll(self.now)
            if packet is not None:
                found.append(wire.decode_data(packet.udp_payload).offset // PACKET)
                continue
            wake = self.endpoint.next_wake()
            if wake is None or wake > self.now + RTO_NS // 2:
                return found
            self.now = max(self.now, wake)

    def feedback(self, packet: int, *, nak: bool = False, becn: bool = False) -> None:
        if not nak and packet == self.rcv_nxt:
            self.rcv_nxt += 1
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, self.qp, 0, becn=becn)
        answer = wire.Feedback(bth, nak, self.rcv_nxt * PACKET, packet * PACKET, PACKET)
        self.endpoint.receive(self.now, answer.encode())

    def expire(self) -> list[int]:
        wake = self.endpoint.next_wake()
        assert wake is not None
        self.now = max(self.now, wake)
        sent = self.sent()
        return sent if sent else self.expire()


def sender(packets: int = 20, first: int = 0, **changes: object) -> Sender:
    return Sender(Endpoint(config_for(0, rto_ns=RTO_NS, **changes)), packets, first=first)


@pytest.mark.parametrize(
    ("whole", "expected"), [(False, [2, 4, 6, 7, 8, 9]), (True, [2, 3, 4, 5, 6, 7, 8, 9])]
)
def test_timeout_repeats_the_tail_or_what_is_not_settled(whole: bool, expected: list[int]) -> None:
    flow = sender(10, repeat_tail=whole)
    for packet in (0, 1, 3, 5):
        flow.feedback(packet)
    assert flow.expire() == expected


def test_repeated_tail_ends_where_the_acknowledgement_gets() -> None:
    flow = sender(10, repeat_tail=True, line_rate_bps=1_000_000_000)
    for packet in range(1, 8):
        flow.feedback(packet)
    wake = flow.endpoint.next_wake()
    assert wake is not None
    flow.now = wake
    while (first := flow.endpoint.poll(flow.now)) is None:
        flow.now = flow.endpoint.next_wake() or 0
    assert wire.decode_data(first.udp_payload).offset == 0
    flow.rcv_nxt = 8
    flow.feedback(0)
    assert flow.sent() == [8, 9]


def test_gap_is_repaired_by_default_only_on_request_or_timeout() -> None:
    flow = sender()
    for packet in (0, 2, 3):
        flow.feedback(packet)
    assert flow.sent() == []


def test_gap_is_repaired_once_for_each_head_and_again_after_the_interval() -> None:
    flow = sender(gap_repair_ns=500_000)
    flow.feedback(0)
    flow.feedback(2)
    assert flow.sent() == [1]
    flow.feedback(4)
    assert flow.sent() == []  # the same head
    flow.now = 100_000 + 499_000
    flow.feedback(5)
    assert flow.sent() == []
    flow.now = 100_000 + 501_000
    flow.feedback(6)
    assert flow.sent() == [1]
    flow.rcv_nxt = 3
    flow.feedback(1)  # the head moves to 3, in order
    assert flow.sent() == []
    flow.feedback(7)
    assert flow.sent() == [3]


def test_gap_repair_and_request_of_the_same_packet_are_one_while_it_waits() -> None:
    flow = sender(gap_repair_ns=500_000)
    flow.feedback(0)
    flow.feedback(1, nak=True)
    flow.feedback(2)
    assert flow.sent() == [1]


def test_gap_at_the_end_of_what_was_sent_is_as_long_as_it_is() -> None:
    flow = sender(3, gap_repair_ns=1)
    flow.feedback(1)
    flow.feedback(2)
    assert flow.sent() == [0]


@pytest.mark.parametrize(("ignore", "signals"), [("none", 3), ("data", 2), ("all", 2)])
def test_marks_beyond_a_gap_signal_or_not(ignore: str, signals: int) -> None:
    """With the gap repair, the packet that starts one carries its mark, as the study's gap NACK does."""
    flow = sender(
        gap_repair_ns=500_000, ignore_beyond_gap=ignore, dcqcn=DcqcnConfig.for_line_rate(100_000_000_000)
    )
    flow.feedback(0, becn=True)
    flow.feedback(2, becn=True)
    flow.feedback(3, becn=True)
    assert flow.endpoint.flow_stats(flow.now, flow.message).signals == signals


@pytest.mark.parametrize(("ignore", "signals"), [("none", 1), ("data", 1), ("all", 0)])
def test_gradient_flows_are_heard_unless_all_are_ignored(ignore: str, signals: int) -> None:
    dcqcn = DcqcnConfig.for_line_rate(100_000_000_000)
    config = config_for(0, rto_ns=RTO_NS, ignore_beyond_gap=ignore, dcqcn=dcqcn)
    flow = Sender(Endpoint(config), 10, traffic_class=TrafficClass.GRADIENT)
    flow.feedback(2, becn=True)
    assert flow.endpoint.flow_stats(flow.now, flow.message).signals == signals


@pytest.mark.parametrize(("ignore", "due"), [("none", 300_000), ("data", 200_000), ("all", 200_000)])
def test_packets_beyond_a_gap_restart_the_timeout_or_not(ignore: str, due: int) -> None:
    flow = sender(ignore_beyond_gap=ignore)
    flow.now = 200_000
    flow.feedback(0)
    flow.now = 300_000
    flow.feedback(2)
    assert flow.expire()[0] == 1
    assert due + RTO_NS <= flow.now < due + RTO_NS + 10_000


def test_settlement_counts_whatever_is_ignored() -> None:
    flow = sender(4, ignore_beyond_gap="all")
    for packet in (0, 2, 3):
        flow.feedback(packet)
    assert flow.expire() == [1]


def windowed(**changes: object) -> Sender:
    """Ten packets fill the window of a flow of twenty."""
    endpoint = Endpoint(
        config_for(
            0,
            rto_ns=RTO_NS,
            window_bytes=10 * PACKET,
            window_basis="cumulative",
            repeat_tail=True,
            **changes,
        )
    )
    return Sender(endpoint, 20, first=10)


def test_repair_needs_no_window() -> None:
    flow = windowed()
    flow.feedback(0, nak=True)
    assert flow.sent() == [0]


def test_repair_within_the_window_waits_for_the_timeout() -> None:
    """The window is full, and only the repair could empty it: the flow stands still."""
    flow = windowed(window_repairs=True)
    flow.feedback(0, nak=True)
    for packet in range(1, 10):
        flow.feedback(packet)
    assert flow.sent() == []
    # The timeout goes back and so empties the window: first the repair, then the tail, with the same packet.
    assert flow.expire() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    stats = flow.endpoint.flow_stats(flow.now, flow.message)
    assert (stats.rtos, stats.retransmitted_packets, stats.first_bytes) == (1, 11, 10 * PACKET)


def test_repair_goes_out_when_the_window_has_room() -> None:
    flow = windowed(window_repairs=True)
    flow.feedback(5, nak=True)
    assert flow.sent() == []
    flow.feedback(0)
    assert flow.sent() == [5, 10]


def test_rate_cut_shuts_the_window_on_a_repair() -> None:
    line = 100_000_000_000
    flow = windowed(window_repairs=True, scale_window=True, dcqcn=DcqcnConfig.for_line_rate(line))
    for packet in range(4):
        flow.feedback(packet)
    assert flow.sent() == [10, 11, 12, 13]
    flow.feedback(4, nak=True, becn=True)
    flow.now += 5_000  # one cut: half the rate, half the window
    for packet in range(5, 14):
        flow.feedback(packet, becn=True)
    assert flow.sent() == []
    assert flow.expire()[0] == 4


def test_going_back_ends_where_everything_was_sent() -> None:
    """After the tail the flow goes on with new data."""
    flow = sender(10, repeat_tail=True, window_bytes=6 * PACKET, window_basis="cumulative", first=6)
    assert flow.expire() == [0, 1, 2, 3, 4, 5]
    flow.rcv_nxt = 6
    flow.feedback(0)
    assert flow.sent() == [6, 7, 8, 9]
    stats = flow.endpoint.flow_stats(flow.now, flow.message)
    assert (stats.first_bytes, stats.retransmitted_bytes) == (10 * PACKET, 6 * PACKET)


# --- a NIC without a timer while a flow is blocked


def two_flows(stops: bool) -> tuple[Endpoint, int, int]:
    """One flow whose window is full after one packet, one that is paced: a packet each 83 ns."""
    endpoint = Endpoint(
        config_for(
            0,
            line_rate_bps=400_000_000_000,
            payload_bytes=4096,
            overhead_bytes=36,
            rto_ns=RTO_NS,
            catch_up_ns=0,
            port_paced=True,
            blocked_stops_timer=stops,
        )
    )
    qps = [endpoint.alloc_send_qp() for _ in range(2)]
    for qp, window in zip(qps, (4096, 1 << 20), strict=True):
        endpoint.post_send(
            0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=4096 * 10, window_bytes=window
        )
    assert endpoint.next_wake() in (0, None) or not stops
    assert endpoint.poll(0) is not None
    assert endpoint.poll(0) is not None
    assert endpoint.poll(0) is None
    return endpoint, qps[0], qps[1]


def test_timer_wakes_the_paced_flow_whatever_else_is_blocked() -> None:
    endpoint, _, _ = two_flows(False)
    assert endpoint.next_wake() == 83
    assert endpoint.poll(83) is not None
    assert endpoint.next_wake() == 166


def test_timer_stops_once_the_time_of_a_blocked_flow_has_passed() -> None:
    endpoint, _, other = two_flows(True)
    assert endpoint.next_wake() == 83  # the blocked flow's own time: not yet passed
    assert endpoint.poll(83) is not None
    # Right behind a packet the NIC looks again, finds nothing, and sets no timer.
    assert endpoint.next_wake() == 0
    assert endpoint.poll(100) is None
    assert endpoint.next_wake() == RTO_NS
    # Whatever arrives makes it look.
    bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, other, 0)
    endpoint.receive(400, wire.Feedback(bth, False, 4096, 0, 4096).encode())
    assert endpoint.next_wake() == 0
    assert endpoint.poll(400) is not None
    assert endpoint.poll(483) is not None


def test_lone_flow_is_timed_until_it_is_blocked_itself() -> None:
    endpoint = Endpoint(
        config_for(0, rto_ns=RTO_NS, catch_up_ns=0, port_paced=True, blocked_stops_timer=True)
    )
    endpoint.post_send(0, destination="10.0.0.2", dst_qp=1, length_bytes=PACKET * 5)
    times: list[int] = []
    now = 0
    while len(times) < 5:
        if endpoint.poll(now) is not None:
            times.append(now)
        elif (wake := endpoint.next_wake()) is not None:
            now = max(now, wake)
    assert times == [0, 88, 176, 263, 351]
    assert endpoint.poll(1_000) is None
    assert endpoint.next_wake() == RTO_NS
