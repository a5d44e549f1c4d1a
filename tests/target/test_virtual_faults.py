# SPDX-License-Identifier: Apache-2.0
"""Links that go down, frames that are lost at random."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from target.api import DeviceError
from target.engine import Device, Engine
from tests.target.virtual import Host, add_forwarder, frame

GBPS = 10**9


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def line(engine: Engine) -> tuple[Device, Device, Host, Host]:
    """host -1 a 2---1 b 2- host, 1000-byte frames last a microsecond, 10 us between a and b."""
    a = add_forwarder(engine, "a", [(2, 2), (1, 1)])
    b = add_forwarder(engine, "b", [(2, 2), (1, 1)])
    for device, port in ((a, 2), (b, 1)):
        device.add_port(port, rate_bps=8 * GBPS, delay_ns=10_000)
    a.add_port(1)
    b.add_port(2)
    a.connect(2, b, 1)
    left, right = Host(engine), Host(engine)
    a.attach(1, left.endpoint)
    b.attach(2, right.endpoint)
    return a, b, left, right


def test_a_link_that_goes_down_loses_what_is_on_it(engine: Engine) -> None:
    a, b, left, right = line(engine)
    for tag in range(20):
        a.inject(1, frame(to=2, tag=tag, size=1000))
        b.inject(2, frame(to=1, tag=tag, size=1000))
    engine.run_until(12_500)  # two have arrived, ten are on the way, one in service
    assert right.tags == [0, 1]
    a.set_link(2, False)
    assert not a.port_up(2) and not b.port_up(1)
    engine.run_until(15_500)  # three more were sent meanwhile
    a.set_link(2, True)
    engine.run_until(10**6)
    assert right.tags == [0, 1, 16, 17, 18, 19]
    assert left.tags == right.tags
    assert right.times[2] == 27_000
    for device, port in ((a, 2), (b, 1)):
        counters = device.port_counters(port)
        assert (counters.lost_packets, counters.lost_bytes) == (14, 14_000)
        assert counters.tx_packets == 6


def test_either_end_takes_the_link_down(engine: Engine) -> None:
    a, b, _, right = line(engine)
    b.set_link(1, False)
    a.inject(1, frame(to=2))
    engine.run_until(10**6)
    assert right.received == []
    a.set_link(2, True)
    a.inject(1, frame(to=2))
    engine.run_until(2 * 10**6)
    assert len(right.received) == 1


def test_ports_that_are_joined_to_nothing_can_be_down(engine: Engine) -> None:
    a, _, left, _ = line(engine)
    a.add_port(5)
    a.set_link(5, False)
    a.inject(5, frame(to=2))
    assert a.port_counters(5).lost_packets == 1
    assert a.port_counters(5).rx_packets == 0
    a.set_link(1, False)  # the host's
    left.send(frame(to=2))
    a.kick(1)
    engine.run_until(1000)
    assert left.left == 0
    assert a.port_counters(1).lost_packets == 1


def losses(seed: int, ppm: int, count: int = 4000) -> list[int]:
    """Numbers of the frames that got through."""
    with Engine() as engine:
        a, _, _, right = line(engine)
        a.set_loss(2, ppm, seed)
        for i in range(count):
            a.inject(1, bytes([2, 0, i >> 8, i & 255]))
            engine.run_until(engine.now_ns + 1000)
        engine.run_until(10**9)
        lost = a.port_counters(2).lost_packets
        assert len(right.received) + lost == count
        return [r.data[2] << 8 | r.data[3] for r in right.received]


def test_losses_are_of_the_seed_alone() -> None:
    first = losses(7, 200_000)
    assert losses(7, 200_000) == first
    assert losses(8, 200_000) != first
    assert 0.17 < 1 - len(first) / 4000 < 0.23
    # With more loss, the same frames and others.
    assert set(losses(7, 400_000)) < set(first)


def test_all_or_nothing_is_lost() -> None:
    assert losses(1, 0, 100) == list(range(100))
    assert losses(1, 1_000_000, 100) == []


def test_a_lost_frame_takes_its_time(engine: Engine) -> None:
    a, _, _, right = line(engine)
    a.inject(1, frame(to=2, tag=0, size=1000))
    a.set_loss(2, 1_000_000, 1)
    engine.run_until(500)
    a.set_loss(2, 0, 1)
    a.inject(1, frame(to=2, tag=1, size=1000))
    engine.run_until(10**6)
    assert right.received[0].time == 12_000


def test_bad_faults(engine: Engine) -> None:
    a, _, _, _ = line(engine)
    for ppm, seed in ((-1, 0), (1_000_001, 0), (5, -1), (5, 2**64)):
        with pytest.raises(DeviceError) as error:
            a.set_loss(2, ppm, seed)
        assert error.value.code == "INVALID_ARGUMENT"
    with pytest.raises(DeviceError) as error:
        a.set_link(77, False)
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError) as error:
        a.set_loss(77, 1)
    assert error.value.code == "NOT_FOUND"
    with Engine() as other:
        device = other.add_device("c", 1, cpu_port=9)
        with pytest.raises(DeviceError, match="in-memory"):
            device.set_link(9, False)
