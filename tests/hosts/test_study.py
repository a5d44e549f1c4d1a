# SPDX-License-Identifier: Apache-2.0
"""The repairs of the paper's study that are parameters here: the whole tail on a timeout, and the gap NACK,
which is the sender's affair here."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint
from tests.hosts.harness import config_for

PACKET = 1024
RTO_NS = 1_000_000


@dataclass
class Sender:
    """One flow of some packets, all of them sent at once, and its feedback by packet number."""

    endpoint: Endpoint
    packets: int
    now: int = 0
    rcv_nxt: int = 0
    qp: int = field(init=False)
    message: int = field(init=False)

    def __post_init__(self) -> None:
        self.qp = self.endpoint.alloc_send_qp()
        self.message = self.endpoint.post_send(
            0, destination="10.0.0.2", dst_qp=1, src_qp=self.qp, length_bytes=PACKET * self.packets
        )
        assert self.sent() == list(range(self.packets))
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


def sender(packets: int = 20, **changes: object) -> Sender:
    return Sender(Endpoint(config_for(0, rto_ns=RTO_NS, **changes)), packets)


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


@pytest.mark.parametrize(("ignore", "signals"), [(False, 3), (True, 2)])
def test_marks_beyond_a_gap_signal_or_not(ignore: bool, signals: int) -> None:
    """With the gap repair, the packet that starts one carries its mark, as the study's gap NACK does."""
    flow = sender(
        gap_repair_ns=500_000, ignore_beyond_gap=ignore, dcqcn=DcqcnConfig.for_line_rate(100_000_000_000)
    )
    flow.feedback(0, becn=True)
    flow.feedback(2, becn=True)
    flow.feedback(3, becn=True)
    assert flow.endpoint.flow_stats(flow.now, flow.message).signals == signals


@pytest.mark.parametrize(("ignore", "due"), [(False, 300_000), (True, 200_000)])
def test_packets_beyond_a_gap_restart_the_timeout_or_not(ignore: bool, due: int) -> None:
    flow = sender(ignore_beyond_gap=ignore)
    flow.now = 200_000
    flow.feedback(0)
    flow.now = 300_000
    flow.feedback(2)
    assert flow.expire()[0] == 1
    assert due + RTO_NS <= flow.now < due + RTO_NS + 10_000


def test_settlement_counts_whatever_is_ignored() -> None:
    flow = sender(4, ignore_beyond_gap=True)
    for packet in (0, 2, 3):
        flow.feedback(packet)
    assert flow.expire() == [1]
