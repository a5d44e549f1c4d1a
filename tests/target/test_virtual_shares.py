# SPDX-License-Identifier: Apache-2.0
"""Queues that share a link by weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from target.api import DeviceError
from target.engine import Engine
from tests.target.virtual import Host, add_forwarder, frame

GBPS = 10**9
ALL = 1 << 24


def backlog(
    shares: Sequence[int], load: Sequence[tuple[int, int, int]], until_ns: int, **port: Any
) -> dict[int, int]:
    """Bytes on the link by priority until then. load: (priority, frames, wire bytes of each)."""
    with Engine() as engine:
        device = add_forwarder(engine, "s", [(2, 2)])
        device.add_port(1)
        device.add_port(2, rate_bps=8 * GBPS, queue_bytes=ALL, share_ppm=shares, **port)
        host = Host(engine)
        device.attach(2, host.endpoint)
        for priority, count, size in load:
            for _ in range(count):
                device.inject(1, frame(priority=priority, size=16), wire_bytes=size)
        engine.run_until(until_ns)
        sent: dict[int, int] = {}
        for got in host.received:
            sent[got.data[1]] = sent.get(got.data[1], 0) + got.wire_bytes
        return sent


def test_trimmed_headers_get_their_quarter_and_feedback_goes_first() -> None:
    """Priority 2 strict, 1 (small frames) a quarter of what it leaves, 0 (full frames) the rest."""
    sent = backlog([750_000, 250_000], [(0, 2000, 4000), (1, 40_000, 100), (2, 100, 1000)], 4_100_000)
    assert sent[2] == 100_000
    assert sum(sent.values()) == pytest.approx(4_100_000, abs=4000)
    assert sent[1] == pytest.approx(1_000_000, abs=9000)
    assert sent[0] == pytest.approx(3_000_000, abs=9000)


def test_nobody_waits_for_an_empty_queue() -> None:
    assert backlog([750_000, 250_000], [(1, 100, 1000)], 100_000) == {1: 100_000}
    sent = backlog([750_000, 250_000], [(0, 50, 1000), (1, 1000, 1000)], 1_050_000)
    assert sent == {0: 50_000, 1: 1_000_000}


def test_shares_below_a_million_are_at_least_that() -> None:
    sent = backlog([100_000, 300_000, 0, 0], [(0, 2000, 500), (1, 2000, 500)], 400_000)
    assert sent[0] == pytest.approx(100_000, abs=9000)
    assert sent[1] == pytest.approx(300_000, abs=9000)


def test_four_queues_and_different_sizes() -> None:
    shares = [100_000, 200_000, 300_000, 400_000]
    load = [(0, 3000, 1500), (1, 30_000, 64), (2, 1000, 4000), (3, 10_000, 300)]
    sent = backlog(shares, load, 2_000_000)
    for priority, share in enumerate(shares):
        assert sent[priority] == pytest.approx(2 * share, abs=20_000)


def test_shares_count_what_frames_weigh() -> None:
    """Frames of 70 bytes that weigh 48, of 4166 that weigh 4132."""
    port = {"frame_adjust": -34, "min_frame": 48}
    sent = backlog([750_000, 250_000], [(0, 1000, 4166), (1, 40_000, 70)], 2_000_000, **port)
    assert sent[1] / 70 * 48 == pytest.approx(500_000, abs=9000)
    assert sent[0] / 4166 * 4132 == pytest.approx(1_500_000, abs=9000)


def order(shares: Sequence[int], priorities: Sequence[int]) -> list[int]:
    with Engine() as engine:
        device = add_forwarder(engine, "s", [(2, 2)])
        device.add_port(1)
        device.add_port(2, rate_bps=8 * GBPS, queue_bytes=ALL, share_ppm=shares)
        host = Host(engine)
        device.attach(2, host.endpoint)
        for priority in priorities:
            device.inject(1, frame(priority=priority, size=1000))
        engine.run_until(10**9)
        return [r.data[1] for r in host.received]


def test_equal_shares_take_turns() -> None:
    assert order([500_000, 500_000], [0] * 5 + [1] * 5) == [1, 0] * 5


def test_the_group_stands_where_its_highest_queue_stands() -> None:
    # Queues 0 and 2 share; 3 goes before them, 1 after.
    assert order([500_000, 0, 500_000], [0, 0, 1, 1, 2, 2, 3, 3]) == [3, 3, 2, 0, 2, 0, 1, 1]


def test_one_queue_with_a_share_is_strict() -> None:
    assert order([0, 250_000], [0, 0, 1, 1]) == [1, 1, 0, 0]


def test_what_is_owed_is_bounded() -> None:
    """A queue that was served alone owes nothing, one that fell behind is owed two frames at most."""
    with Engine() as engine:
        device = add_forwarder(engine, "s", [(2, 2)])
        device.add_port(1)
        device.add_port(2, rate_bps=8 * GBPS, queue_bytes=ALL, share_ppm=[500_000, 500_000])
        host = Host(engine)
        device.attach(2, host.endpoint)

        def inject(priority: int, count: int) -> None:
            for _ in range(count):
                device.inject(1, frame(priority=priority, size=1000))

        inject(0, 100)
        engine.run_until(50_500)
        inject(1, 100)
        engine.run_until(71_500)
        seen = [r.data[1] for r in host.received]
        assert seen[:51] == [0] * 51
        assert seen[51:] == [1, 0] * 10


def test_bad_shares() -> None:
    with Engine() as engine:
        device = add_forwarder(engine, "s")
        calls: list[Callable[[], None]] = [
            lambda: device.add_port(1, share_ppm=[500_000, 500_001]),
            lambda: device.add_port(1, share_ppm=[-1]),
            lambda: device.add_port(1, share_ppm=[1, 1, 1, 1, 1]),
            lambda: device.add_port(1, min_frame=-1),
            lambda: device.add_port(1, frame_adjust=2**31),
        ]
        for call in calls:
            with pytest.raises(DeviceError) as error:
                call()
            assert error.value.code == "INVALID_ARGUMENT"
        assert device.ports() == {}


def test_shares_can_be_changed() -> None:
    with Engine() as engine:
        device = add_forwarder(engine, "s", [(2, 2)])
        device.add_port(1)
        device.add_port(2, rate_bps=8 * GBPS, queue_bytes=ALL)
        host = Host(engine)
        device.attach(2, host.endpoint)
        for priority in [0] * 10 + [1] * 10:
            device.inject(1, frame(priority=priority, size=1000))
        engine.run_until(4_000)
        device.configure_port(2, rate_bps=8 * GBPS, queue_bytes=ALL, share_ppm=[500_000, 500_000])
        engine.run_until(10_500)
        assert [r.data[1] for r in host.received] == [1, 1, 1, 1, 1, 1, 0, 1, 0, 1]  # five before
