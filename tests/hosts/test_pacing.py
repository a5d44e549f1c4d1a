# SPDX-License-Identifier: Apache-2.0
"""When packets leave: the flow's rate, the host's rate, turns, and wake-ups that come late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from hosts import wire
from hosts.config import DcqcnConfig
from hosts.endpoint import Endpoint
from tests.hosts.harness import config_for


def post(endpoint: Endpoint, length: int, now: int = 0) -> tuple[int, int]:
    qp = endpoint.alloc_send_qp()
    message = endpoint.post_send(now, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=length)
    return message, qp


def departures(
    endpoint: Endpoint, now: int, *, late: Callable[[], int] = lambda: 0, limit: int = 1_000_000
) -> list[tuple[int, int]]:
    """(time, message) of every packet, waking when asked to, plus how late the wake-up is."""
    found: list[tuple[int, int]] = []
    while len(found) < limit:
        packet = endpoint.poll(now)
        if packet is not None:
            found.append((now, packet.message))
            continue
        wake = endpoint.next_wake()
        if wake is None or wake > now + 10_000_000:
            return found
        now = max(now, wake) + late()
    return found


def test_packets_leave_at_line_rate_to_the_nanosecond() -> None:
    """4,132 bytes at 400 Gb/s are 82.64 ns: the fraction is kept, not rounded away."""
    config = config_for(
        0,
        line_rate_bps=400_000_000_000,
        payload_bytes=4096,
        overhead_bytes=36,
        rto_ns=1 << 50,
        span_bytes=1 << 31,
    )
    with Endpoint(config) as endpoint:
        post(endpoint, 4096 * 20_000)
        times = [time for time, _ in departures(endpoint, 0)]
    assert len(times) == 20_000
    for k in (0, 1, 2, 24, 25, 1000, 19_999):
        exact = k * 4132 * 8 / 400
        assert exact - 1e-5 * exact <= times[k] < exact + 1


def test_tail_packet_is_paced_by_its_own_length() -> None:
    config = config_for(0, line_rate_bps=8_000_000_000, payload_bytes=1024, overhead_bytes=0, rto_ns=1 << 50)
    with Endpoint(config) as endpoint:
        post(endpoint, 1024 + 100)
        post(endpoint, 1024, now=0)
        assert [time for time, _ in departures(endpoint, 0)] == [0, 1024, 2048]


@pytest.mark.parametrize("flows", [2, 3, 7])
def test_flows_take_turns(flows: int) -> None:
    with Endpoint(config_for(0, rto_ns=1 << 50)) as endpoint:
        for _ in range(flows):
            post(endpoint, 1024 * 300)
        order = [message for _, message in departures(endpoint, 0)]
    assert len(order) == 300 * flows
    for start in range(0, len(order), flows):
        assert len(set(order[start : start + flows])) == flows


def test_host_never_exceeds_its_line_rate() -> None:
    config = config_for(0, line_rate_bps=1_000_000_000, overhead_bytes=76, rto_ns=1 << 50)
    with Endpoint(config) as endpoint:
        for _ in range(5):
            post(endpoint, 1024 * 100)
        times = [time for time, _ in departures(endpoint, 0)]
    gap = (1024 + 76) * 8
    assert times == [k * gap for k in range(500)]


def test_late_wake_ups_do_not_add_up() -> None:
    """Wake-ups up to 300 us late, packets 1 ms apart: on average they still are."""
    draw = random.Random(7)
    config = config_for(
        0,
        line_rate_bps=8_000_000,
        payload_bytes=512,
        overhead_bytes=488,
        rto_ns=1 << 50,
        catch_up_ns=2_000_000,
    )
    with Endpoint(config) as endpoint:
        post(endpoint, 512 * 2000)
        times = [time for time, _ in departures(endpoint, 0, late=lambda: draw.randrange(300_000))]
    assert len(times) == 2000
    assert 1999 * 1_000_000 <= times[-1] < 1999 * 1_000_000 + 300_000


def test_late_wake_ups_beyond_the_limit_are_not_made_up_for() -> None:
    config = config_for(
        0,
        line_rate_bps=8_000_000,
        payload_bytes=512,
        overhead_bytes=488,
        rto_ns=1 << 50,
        catch_up_ns=2_000_000,
    )
    with Endpoint(config) as endpoint:
        post(endpoint, 512 * 100)
        assert endpoint.poll(0) is not None
        # 50 ms late: what was due in the last 2 ms goes out at once, no more.
        burst = 0
        while endpoint.poll(50_000_000) is not None:
            burst += 1
        assert burst == 3


def test_time_spent_blocked_gives_no_credit() -> None:
    config = config_for(
        0,
        line_rate_bps=8_000_000,
        payload_bytes=512,
        overhead_bytes=488,
        rto_ns=1 << 50,
        window_bytes=10 * 512,
        catch_up_ns=100_000_000,
    )
    with Endpoint(config) as endpoint:
        _, qp = post(endpoint, 512 * 100)
        assert len(departures(endpoint, 0)) == 10
        assert endpoint.next_wake() == 1 << 50  # the window is full: only the timeout is left
        now = 50_000_000
        ack = wire.Bth(wire.OPCODE_ACKNOWLEDGE, qp, 0)
        endpoint.receive(now, wire.Feedback(ack, False, 5120, 4608, 512).encode())
        times = [time for time, _ in departures(endpoint, now)]
        assert times == [now + k * 1_000_000 for k in range(10)]


def test_flow_is_paced_by_its_own_rate_after_a_cut() -> None:
    line = 100_000_000_000
    config = config_for(
        0, line_rate_bps=line, dcqcn=DcqcnConfig.for_line_rate(line), overhead_bytes=226, rto_ns=1 << 50
    )
    with Endpoint(config) as endpoint:
        slow, qp = post(endpoint, 1024 * 3000)
        fast, _ = post(endpoint, 1024 * 3000)
        cnp = wire.Notification(wire.Bth(wire.OPCODE_CNP, qp, 0, becn=True)).encode()
        endpoint.receive(0, cnp)
        counts = Counter(message for time, message in departures(endpoint, 0, limit=2000) if time > 4_001)
        rate = endpoint.flow_stats(0, slow).rate_bps
        assert rate < 0.51 * line
        # A packet every 100 ns for the host; the cut flow has one in about 200 ns, the other takes the rest.
        share = counts[slow] / (counts[slow] + counts[fast])
        assert share == pytest.approx(rate / line, rel=0.02)


def test_window_shrinks_with_the_rate_when_asked_to() -> None:
    line = 100_000_000_000
    for scale, expected in ((False, 40), (True, 21)):
        config = config_for(
            0,
            line_rate_bps=line,
            dcqcn=DcqcnConfig.for_line_rate(line),
            window_bytes=40 * 1024,
            scale_window=scale,
            rto_ns=1 << 50,
        )
        with Endpoint(config) as endpoint:
            message, qp = post(endpoint, 1024 * 3000)
            assert endpoint.poll(0) is not None
            endpoint.receive(0, wire.Notification(wire.Bth(wire.OPCODE_CNP, qp, 0, becn=True)).encode())
            rate = endpoint.flow_stats(4_001, message).rate_bps
            assert -(-40 * rate // line) == 21
            assert 1 + len(departures(endpoint, 4_001)) == expected


def test_window_of_one_message_overrides_the_configured_one() -> None:
    with Endpoint(config_for(0, window_bytes=2048, rto_ns=1 << 50)) as endpoint:
        qp = endpoint.alloc_send_qp()
        endpoint.post_send(
            0, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=1 << 20, window_bytes=5 * 1024
        )
        assert len(departures(endpoint, 0)) == 5
