# SPDX-License-Identifier: Apache-2.0
"""Behind a port that fetches packets when its line is free (`port_paced`), as a NIC does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import pytest

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint, OutgoingPacket
from tests.hosts.harness import config_for

LINE_BPS = 400_000_000_000
FRAME_BYTES = 4132
"""Full packet of the study: 82.64 ns at the line rate."""
FOREVER = 1 << 50


@dataclass
class Port:
    """A line that is busy for exactly as long as each frame takes; its clock has whole nanoseconds."""

    endpoint: Endpoint
    free_ns: Fraction = Fraction(0)
    idle_ns: Fraction = Fraction(0)

    def occupy(self, now: int, size_bytes: int) -> None:
        start = self.free_ns if -(-self.free_ns // 1) == now else Fraction(now)
        self.idle_ns += start - self.free_ns
        self.free_ns = start + Fraction(size_bytes * 8 * 10**9, LINE_BPS)

    def next_poll(self) -> int | None:
        wake = self.endpoint.next_wake()
        return None if wake is None else max(wake, int(-(-self.free_ns // 1)))

    def fetch(
        self, packets: int, *, others: Callable[[], int] = lambda: 0, until: int = FOREVER
    ) -> list[tuple[int, OutgoingPacket]]:
        """Up to so many packets with their times. `others()` bytes of other frames leave after each."""
        found: list[tuple[int, OutgoingPacket]] = []
        while len(found) < packets:
            now = self.next_poll()
            if now is None or now >= until:
                return found
            packet = self.endpoint.poll(now)
            if packet is None:
                continue
            found.append((now, packet))
            self.occupy(now, packet.payload_bytes + 36)
            if size := others():
                self.occupy(int(-(-self.free_ns // 1)), size)
        return found


def port_paced(**changes: object) -> Endpoint:
    values: dict[str, object] = {
        "line_rate_bps": LINE_BPS,
        "payload_bytes": 4096,
        "overhead_bytes": FRAME_BYTES - 4096,
        "catch_up_ns": 0,
        "port_paced": True,
        "rto_ns": FOREVER,
        "span_bytes": 1 << 31,
    }
    return Endpoint(config_for(0, **(values | changes)))


def post(endpoint: Endpoint, packets: int, now: int = 0) -> tuple[int, int]:
    qp = endpoint.alloc_send_qp()
    message = endpoint.post_send(
        now, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=4096 * packets
    )
    return message, qp


def signal(endpoint: Endpoint, now: int, qp: int) -> None:
    endpoint.receive(now, wire.Notification(wire.Bth(wire.OPCODE_CNP, qp, 0, becn=True)).encode())


def test_lone_flow_fills_its_line() -> None:
    with port_paced() as endpoint:
        post(endpoint, 20_000)
        port = Port(endpoint)
        times = [time for time, _ in port.fetch(20_000)]
    assert port.idle_ns < port.free_ns / 100_000
    for k in (0, 1, 2, 24, 25, 1000, 19_999):
        assert 0 <= times[k] - k * FRAME_BYTES * 8 / 400 < 2 + 1e-5 * times[k]


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
def test_lone_flow_takes_what_acknowledgements_leave(share: float) -> None:
    """Frames of 48 bytes, of which the transport knows nothing, delay its packets by a nanosecond."""
    draw = random.Random(5)
    with port_paced() as endpoint:
        post(endpoint, 20_000)
        port = Port(endpoint)
        port.fetch(20_000, others=lambda: 48 if draw.random() < share else 0)
    assert port.idle_ns < port.free_ns / 10_000


def test_port_is_shared_in_turns_and_stays_full() -> None:
    with port_paced() as endpoint:
        for _ in range(7):
            post(endpoint, 1000)
        port = Port(endpoint)
        order = [packet.message for _, packet in port.fetch(7000)]
    assert len(order) == 7000
    assert port.idle_ns == 0
    for start in range(0, 7000, 7):
        assert len(set(order[start : start + 7])) == 7


def test_next_packet_is_due_a_gap_after_the_last_went_out() -> None:
    """The study's rule: a packet that waited for the port has not saved up any time."""
    with port_paced() as endpoint:
        post(endpoint, 10)
        assert endpoint.poll(0) is not None
        assert endpoint.next_wake() == 83
        assert endpoint.poll(82) is None
        assert endpoint.poll(1000) is not None  # 917 ns late
        assert endpoint.next_wake() == 1082  # at 999.x it may have gone out
        assert endpoint.poll(1081) is None
        assert endpoint.poll(1082) is not None
        assert endpoint.next_wake() == 1165


def test_catch_up_makes_up_for_waiting_at_the_port() -> None:
    with port_paced(catch_up_ns=500) as endpoint:
        post(endpoint, 100)
        assert endpoint.poll(0) is not None
        burst = 0
        while endpoint.poll(1000) is not None:
            burst += 1
        assert burst == 7  # due from 500 on, one every 82.64 ns


def test_host_rate_does_not_pace_here() -> None:
    """Two flows at line rate may leave at once: the port, not the transport, holds them apart."""
    with port_paced() as endpoint:
        post(endpoint, 10)
        post(endpoint, 10)
        assert endpoint.poll(0) is not None
        assert endpoint.next_wake() == 0
        assert endpoint.poll(0) is not None
        assert endpoint.poll(0) is None
        assert endpoint.next_wake() == 83


def test_rates_below_the_line_are_kept_exactly() -> None:
    with port_paced(dcqcn=DcqcnConfig()) as endpoint:
        slow, qp = post(endpoint, 20_000)
        post(endpoint, 60_000)
        port = Port(endpoint)
        port.fetch(1)
        for now in range(100, 40_000, 4_000):
            signal(endpoint, now, qp)
            port.fetch(1000, until=now + 4_000)
        rate = endpoint.flow_stats(50_000, slow).rate_bps
        assert rate < LINE_BPS // 10
        late = [packet for time, packet in port.fetch(20_000, until=800_000) if time > 50_000]
        counts = Counter(packet.message for packet in late)
        spent = 800_000 - 50_000
        assert counts[slow] == pytest.approx(rate * spent / (FRAME_BYTES * 8e9), rel=0.01)


def test_a_wake_up_for_a_flow_whose_window_closed_is_for_nothing_once() -> None:
    with port_paced(window_bytes=2 * 4096, window_basis="cumulative") as endpoint:
        post(endpoint, 10)
        assert len(Port(endpoint).fetch(10, until=10_000)) == 2
        assert endpoint.next_wake() == FOREVER  # the timeout alone
