# SPDX-License-Identifier: Apache-2.0
"""Endpoints: when they are polled, what the gate holds back, when the clock stops for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from target.api import DeviceError
from target.engine import Device, Engine
from tests.target.virtual import Host, add_forwarder, frame

GBPS = 10**9
HOST, WIRE = 1, 2


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def nic(engine: Engine, gate: bool = True, **wire: object) -> tuple[Device, Host, Host]:
    """A device between a host (port 1) and a far end (port 2, through a second device without rates)."""
    device = add_forwarder(engine, "nic", [(HOST, HOST), (WIRE, WIRE)])
    far = add_forwarder(engine, "far", [(WIRE, 2), (HOST, 1)])
    device.add_port(HOST)
    device.add_port(WIRE, **wire)  # type: ignore[arg-type]
    far.add_port(1)
    far.add_port(2)
    device.connect(WIRE, far, 1)
    host, other = Host(engine), Host(engine)
    device.attach(HOST, host.endpoint, WIRE if gate else None)
    far.attach(2, other.endpoint)
    return device, host, other


def test_a_frame_is_fetched_whenever_the_wire_is_free(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS, delay_ns=100)
    for tag in range(5):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    engine.run_until(100_000)
    assert host.polls[:5] == [0, 1000, 2000, 3000, 4000]
    assert other.tags == [0, 1, 2, 3, 4]
    assert other.times == [1100, 2100, 3100, 4100, 5100]
    assert all(r.wire_bytes == 1000 for r in other.received)
    assert device.port_counters(WIRE).peak_packets == (0, 0, 0, 0)


def test_fractions_of_a_nanosecond_are_kept_on_a_pulled_wire(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=400 * GBPS, frame_adjust=-34, min_frame=48)
    for _ in range(1000):
        host.send(frame(size=70), 4166)  # weighs 4132: 82.64 ns
    device.kick(HOST)
    engine.run_until(10**6)
    # Each fetch happens at the first whole nanosecond at which the wire is free.
    assert len(other.times) == 1000
    assert other.times[-1] <= 1000 * 83


def test_next_wake_is_waited_for(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    host.send(frame(tag=1), 1000, at=5000)
    host.send(frame(tag=2), 1000, at=5500)
    host.send(frame(tag=3), 1000, at=50_000)
    device.kick(HOST)
    assert engine.next_event_ns == 5000
    engine.run_until(100_000)
    assert other.times == [6000, 7000, 51_000]
    assert engine.next_event_ns is None


def test_a_kick_moves_the_wake_up_forward(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    host.send(frame(tag=1), 1000, at=50_000)
    device.kick(HOST)
    engine.run_until(1000)
    host._waiting.clear()
    host.send(frame(tag=2), 1000, at=3000)
    engine.run_until(2000)
    device.kick(HOST)
    engine.run_until(60_000)
    assert other.times == [4000]


def test_without_a_kick_nothing_is_asked(engine: Engine) -> None:
    _, host, other = nic(engine, rate_bps=8 * GBPS)
    host.send(frame())
    engine.run_until(10**6)
    assert other.received == [] and host.polls == []


def test_what_is_received_may_cause_sending(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS, delay_ns=10)
    host.send(frame(tag=9), 500, at=20_000)  # becomes due before by what arrives
    device.kick(HOST)
    far = engine.devices[1]
    engine.run_until(100)
    host._waiting.appendleft((0, frame(tag=8), 500))
    far.inject(2, frame(to=HOST, tag=5))
    engine.run_until(10**5)
    assert host.tags == [5]
    assert other.tags == [8, 9]
    assert other.times[0] == host.times[0] + 510


def test_the_gate_holds_the_host_back_while_others_use_the_wire(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    device.add_port(3)
    for tag in range(3):
        device.inject(3, frame(tag=tag, size=1000))
    host.send(frame(tag=9), 1000)
    device.kick(HOST)
    engine.run_until(10_000)
    assert other.tags == [0, 1, 2, 9]
    assert other.times == [1000, 2000, 3000, 4000]
    assert host.polls[0] == 3000


def test_a_high_priority_comes_between_two_fetches(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    device.add_port(3)
    for tag in range(4):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    engine.run_until(1500)
    device.inject(3, frame(tag=100, priority=3, size=1000))
    engine.run_until(10_000)
    assert other.tags == [0, 1, 100, 2, 3]
    assert other.times == [1000, 2000, 3000, 4000, 5000]


def test_without_a_gate_frames_queue(engine: Engine) -> None:
    device, host, other = nic(engine, gate=False, rate_bps=8 * GBPS)
    for tag in range(5):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    engine.run_until(1)
    assert host.left == 0
    assert device.port_counters(WIRE).depth_packets == (4, 0, 0, 0)
    engine.run_until(10_000)
    assert other.tags == [0, 1, 2, 3, 4]


def test_frames_that_do_not_take_the_wire_are_fetched_at_once(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    for _ in range(5):
        host.send(frame(to=77))  # no route: dropped
    host.send(frame(tag=1), 1000)
    device.kick(HOST)
    engine.run_until(5000)
    assert host.polls[:6] == [0] * 6
    assert other.times == [1000]
    assert device.stats()["ingress_drops"] == 5


def test_an_endless_supply_of_drops_does_not_stop_the_clock(engine: Engine) -> None:
    device, host, _ = nic(engine, rate_bps=8 * GBPS)
    for _ in range(1000):
        host.send(frame(to=77))
    device.kick(HOST)
    engine.run_until(5)
    assert 0 < host.left < 1000
    engine.run_until(1000)
    assert host.left == 0


def test_an_endpoint_that_is_due_and_has_nothing_does_not_stop_the_clock(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    host.always_due = True
    device.kick(HOST)
    engine.run_until(100)
    assert host.polls == list(range(101))  # once a nanosecond
    host.send(frame(tag=1), 1000)
    engine.run_until(5000)
    assert other.times == [1101]


def test_frames_to_the_endpoint_obey_the_ports_rate_and_delay(engine: Engine) -> None:
    device, host, _ = nic(engine)
    device.configure_port(HOST, rate_bps=8 * GBPS, delay_ns=70)
    for tag in range(3):
        device.inject(WIRE, frame(to=HOST, tag=tag, size=1000))
    engine.run_until(10_000)
    assert host.times == [1070, 2070, 3070]


def test_an_endpoint_on_a_port_without_rate_and_delay_gets_frames_at_once(engine: Engine) -> None:
    device, host, _ = nic(engine)
    engine.run_until(123)
    device.inject(WIRE, frame(to=HOST, size=8, tag=4), wire_bytes=1500)
    assert host.received == [(123, frame(to=HOST, size=8, tag=4), 1500)]


def test_a_frame_may_go_back_to_the_host_that_sent_it(engine: Engine) -> None:
    """receive is called while a polled frame is processed, never inside poll."""
    device, host, _ = nic(engine, rate_bps=8 * GBPS)
    for tag in range(3):
        host.send(frame(to=HOST, tag=tag))
    device.kick(HOST)
    engine.run_until(10)
    assert host.tags == [0, 1, 2]


def test_the_clock_stops_when_a_host_asks(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS, delay_ns=100)
    for tag in range(6):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    other.stop_on_tag = 3
    assert engine.run_until_attention(10**6) is True
    assert engine.now_ns == other.times[-1] == 4100
    assert other.tags == [0, 1, 2, 3]
    assert engine.run_until_attention(10**6) is False
    assert engine.now_ns == 10**6
    assert other.tags == [0, 1, 2, 3, 4, 5]


def test_plain_running_ignores_the_request(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    for tag in range(6):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    other.stop_on_tag = 3
    engine.run_until(10**6)
    assert engine.now_ns == 10**6 and len(other.received) == 6
    assert engine.run_until_attention(10**6 + 1) is False


def test_attention_after_polling(engine: Engine) -> None:
    device, host, _ = nic(engine, rate_bps=8 * GBPS)
    host.wants_attention = True
    host.send(frame(to=77), at=5000)
    device.kick(HOST)
    assert engine.run_until_attention(10**6) is True
    assert engine.now_ns == 5000


def test_a_removed_gate_is_never_open(engine: Engine) -> None:
    device, host, _ = nic(engine, rate_bps=8 * GBPS)
    device.remove_port(WIRE)
    host.send(frame())
    device.kick(HOST)
    engine.run_until(10**6)
    assert host.left == 1


def test_taking_an_endpoint_away(engine: Engine) -> None:
    device, host, other = nic(engine, rate_bps=8 * GBPS)
    for tag in range(4):
        host.send(frame(tag=tag), 1000)
    device.kick(HOST)
    engine.run_until(1500)
    device.attach(HOST, None)
    engine.run_until(10**5)
    assert other.tags == [0, 1] and host.left == 2
    device.inject(WIRE, frame(to=HOST))
    assert host.received == []
    assert len(device.collect(HOST)) == 1
    device.attach(HOST, host.endpoint, WIRE)  # again: asked at once
    engine.run_until(2 * 10**5)
    assert other.tags == [0, 1, 2, 3]


def test_what_can_be_attached(engine: Engine) -> None:
    device, host, other = nic(engine)
    device.add_port(5)
    with pytest.raises(DeviceError, match="in use") as error:
        device.attach(5, other.endpoint, WIRE)  # the gate has a host
    assert error.value.code == "ALREADY_EXISTS"
    for port in (HOST, WIRE):
        with pytest.raises(DeviceError, match="in use"):
            device.attach(port, other.endpoint)
    for port, gate in ((9, None), (5, 9)):
        with pytest.raises(DeviceError, match="no port") as error:
            device.attach(port, other.endpoint, gate)
        assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError, match="all functions") as error:
        device.attach(5, engine.ffi.new("struct sw_endpoint *"))
    assert error.value.code == "INVALID_ARGUMENT"
    with pytest.raises(DeviceError, match="no endpoint"):
        device.kick(5)
    address = int(engine.ffi.cast("uintptr_t", host.endpoint))
    device.attach(5, address)
    device.kick(5)


def test_an_endpoint_and_links_run_by_the_wall_clock_too(engine: Engine) -> None:
    """Times are the system's; what arrives is not."""
    device, host, other = nic(engine, rate_bps=10**9, delay_ns=1000)
    for tag in range(50):
        host.send(frame(tag=tag), 1000)
    engine.start()
    device.kick(HOST)
    for _ in range(2000):
        if len(other.received) == 50:
            break
        time.sleep(0.005)
    engine.stop()
    assert other.tags == list(range(50))
