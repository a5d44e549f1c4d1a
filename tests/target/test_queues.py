# SPDX-License-Identifier: Apache-2.0
"""Queues, rates and delays by a clock that the test moves: exact to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from target.api import DeviceError
from target.engine import Device
from tests.target.programs import Builder, assign, field, forward_to, std

MS = 1_000_000


def program() -> str:
    """To port 2 with the priority that the frame's first byte asks for; queue metadata in the frame."""
    b = Builder()
    b.header("x", [("priority", 8), ("qdepth", 24), ("deq", 24), ("waited", 32)])
    b.run("ingress", [forward_to(2), assign(std("priority"), field("x", "priority"))])
    b.run(
        "egress",
        [
            assign(field("x", "qdepth"), std("enq_qdepth")),
            assign(field("x", "deq"), std("deq_qdepth")),
            assign(field("x", "waited"), std("deq_timedelta")),
        ],
        "egress",
    )
    return b.json()


def frame(priority: int, size: int = 125, tag: int = 0) -> bytes:
    return bytes([priority]) + bytes(10) + bytes([tag]) + bytes(size - 12)


def make(make_device: Callable[..., Device], **port: object) -> Device:
    device = make_device(None, ports=1, priority_queues=4)
    device.add_port(2, **port)  # type: ignore[arg-type]
    device.load_pipeline(program())
    return device


def test_rate_is_exact(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)  # 125 bytes last 1 ms
    for i in range(10):
        device.inject(1, frame(0, tag=i))
    assert device.port_counters(2).depth_packets == (10, 0, 0, 0)
    assert device.port_counters(2).depth_bytes == (1250, 0, 0, 0)
    device.engine.run_until(3 * MS - 1)
    assert len(device.collect(2)) == 2
    device.engine.run_until(10 * MS)
    frames = device.collect_timed(2)
    assert [t for t, _ in frames] == [i * MS for i in range(3, 11)]
    assert [f[11] for _, f in frames] == list(range(2, 10))
    assert device.engine.next_event_ns is None


def test_rate_keeps_fractions(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=3_000_000_000)  # 100 bytes last 266.67 ns
    for _ in range(3000):
        device.inject(1, frame(0, 100))
    device.engine.run_until(MS)
    times = [t for t, _ in device.collect_timed(2)]
    assert times[2] == 800
    assert times[2999] == 800_000


def test_strict_priority_shares_one_rate(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    for tag, priority in enumerate([0, 0, 1, 3, 2, 3]):
        device.inject(1, frame(priority, tag=tag))
    device.engine.run_until(2 * MS)
    device.inject(1, frame(3, tag=9))
    device.engine.run_until(20 * MS)
    frames = device.collect_timed(2)
    # All came before the clock moved, so precedence decides; the late frame finds tag 4 in service.
    assert [f[11] for _, f in frames] == [3, 5, 4, 9, 2, 0, 1]
    assert [t for t, _ in frames] == [i * MS for i in range(1, 8)]


def test_a_high_priority_overtakes_a_full_queue(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    device.inject(1, frame(0, tag=0))
    device.engine.run_until(1)  # in service
    for tag in range(1, 8):
        device.inject(1, frame(0, tag=tag))
    device.inject(1, frame(2, tag=100))
    device.engine.run_until(20 * MS)
    assert [f[11] for f in device.collect(2)] == [0, 100, 1, 2, 3, 4, 5, 6, 7]


def test_capacity_in_bytes_by_priority(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000, queue_bytes=[250, 125, 1000, 1000])
    for priority in (0, 0, 0, 1, 1, 2):
        device.inject(1, frame(priority))
    counters = device.port_counters(2)
    assert counters.queue_drops == (1, 1, 0, 0)
    assert counters.queue_drop_bytes == (125, 125, 0, 0)
    assert counters.depth_packets == (2, 1, 1, 0)
    device.engine.run_until(20 * MS)
    assert len(device.collect(2)) == 4
    assert device.port_counters(2).depth_bytes == (0, 0, 0, 0)


def test_frame_adjust_and_delay(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=8_000_000, delay_ns=500, frame_adjust=-25)
    device.inject(1, frame(0, 125))
    device.inject(1, frame(0, 125))
    device.engine.run_until(MS)
    assert [t for t, _ in device.collect_timed(2)] == [100_500, 200_500]


def test_an_unpaced_port_delays_only(make_device: Callable[..., Device]) -> None:
    device = make(make_device, delay_ns=700)
    device.inject(1, frame(0))
    assert device.collect(2) == []
    assert device.engine.next_event_ns == 700
    device.engine.run_until(700)
    assert [t for t, _ in device.collect_timed(2)] == [700]


def test_an_idle_port_starts_when_the_frame_comes(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    device.engine.run_until(5 * MS + 123)
    device.inject(1, frame(0))
    device.engine.run_until(7 * MS)
    assert [t for t, _ in device.collect_timed(2)] == [6 * MS + 123]


def test_queue_metadata(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    for _ in range(3):
        device.inject(1, frame(1))
    device.engine.run_until(10 * MS)
    seen = [
        (int.from_bytes(f[1:4], "big"), int.from_bytes(f[4:7], "big"), int.from_bytes(f[7:11], "big"))
        for f in device.collect(2)
    ]
    # packets ahead on arrival, packets left behind, microseconds waited
    assert seen == [(0, 2, 0), (1, 1, 1000), (2, 0, 2000)]


def test_priority_beyond_the_queues_is_dropped(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    device.inject(1, frame(4))
    assert device.stats()["priority_drops"] == 1
    device.engine.run_until(MS)
    assert device.collect(2) == []


def test_a_pipeline_swap_drops_what_waits(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000_000)
    for _ in range(5):
        device.inject(1, frame(0))
    device.engine.run_until(MS)
    device.load_pipeline(program())
    device.engine.run_until(50 * MS)
    # The frame in service was on the link already.
    assert len(device.collect(2)) == 2
    assert device.stats()["swap_drops"] == 3
    device.inject(1, frame(0))
    device.engine.run_until(60 * MS)
    assert len(device.collect(2)) == 1


def test_reconfigure_and_remove(make_device: Callable[..., Device]) -> None:
    device = make(make_device, rate_bps=1_000)
    device.inject(1, frame(0))
    device.inject(1, frame(0))
    device.engine.run_until(1)
    device.configure_port(2, rate_bps=1_000_000_000)
    device.engine.run_until(10_000 * MS)
    assert len(device.collect(2)) == 2
    device.inject(1, frame(0))
    device.remove_port(2)
    assert 2 not in device.ports()
    with pytest.raises(DeviceError) as error:
        device.port_counters(2)
    assert error.value.code == "NOT_FOUND"
    device.inject(1, frame(0))
    assert device.stats()["unknown_port"] >= 1


def test_bad_port_arguments(make_device: Callable[..., Device]) -> None:
    device = make(make_device)
    for bad in ({"rate_bps": -1}, {"delay_ns": -5}, {"queue_bytes": [1, 2, 3, 4, 5]}):
        with pytest.raises(DeviceError) as error:
            device.add_port(7, **bad)
        assert error.value.code == "INVALID_ARGUMENT"
    with pytest.raises(DeviceError) as error:
        device.add_port(2)
    assert error.value.code == "ALREADY_EXISTS"
    with pytest.raises(DeviceError):
        device.add_port(511)
    with pytest.raises(DeviceError, match="no-such-if") as error:
        device.add_port(8, "no-such-if")
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError):
        device.engine.run_until(-1)
