# SPDX-License-Identifier: Apache-2.0
"""Links between in-memory ports: exact times, order, what a frame weighs, who may be joined."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from target.api import DeviceError, TableEntry
from target.engine import Device, Engine
from tests.target.virtual import Host, Watch, add_forwarder, forwarder, frame

GBPS = 10**9


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def pair(engine: Engine, **port: object) -> tuple[Device, Device, Host]:
    """a:1 in, a:2 -> b:1 by a link of the given parameters, b:2 to a host."""
    a = add_forwarder(engine, "a", [(2, 2)])
    b = add_forwarder(engine, "b", [(2, 2)])
    a.add_port(1)
    a.add_port(2, **port)  # type: ignore[arg-type]
    b.add_port(1)
    b.add_port(2)
    a.connect(2, b, 1)
    host = Host(engine)
    b.attach(2, host.endpoint)
    return a, b, host


def test_serialization_keeps_fractions_of_a_nanosecond(engine: Engine) -> None:
    a, _, host = pair(engine, rate_bps=3 * GBPS, delay_ns=1000)  # 100 bytes last 266.67 ns
    for tag in range(30):
        a.inject(1, frame(tag=tag))
    engine.run_until(100_000)
    assert host.tags == list(range(30))
    assert host.times == [1000 + (i + 1) * 800 // 3 for i in range(30)]
    assert engine.next_event_ns is None


def test_a_header_without_payload_is_its_true_length_on_the_link(engine: Engine) -> None:
    a, b, host = pair(engine, rate_bps=8 * GBPS, delay_ns=50)
    a.inject(1, frame(size=20), wire_bytes=4000)
    engine.run_until(10_000)
    (got,) = host.received
    assert (got.time, len(got.data), got.wire_bytes) == (4050, 20, 4000)
    assert a.port_counters(2).tx_bytes == 4000
    assert b.port_counters(1).rx_bytes == 4000


@pytest.mark.parametrize(("size", "weight"), [(4166, 4132), (98, 64), (70, 48), (60, 48), (20, 48)])
def test_what_a_frame_weighs(engine: Engine, size: int, weight: int) -> None:
    a, _, host = pair(engine, rate_bps=8 * GBPS, frame_adjust=-34, min_frame=48)
    for _ in range(3):
        a.inject(1, frame(size=20), wire_bytes=size)
    engine.run_until(100_000)
    assert host.times == [weight, 2 * weight, 3 * weight]


def test_both_directions_are_independent(engine: Engine) -> None:
    a = add_forwarder(engine, "a", [(2, 2), (1, 1)])
    b = add_forwarder(engine, "b", [(2, 2), (1, 1)])
    for device, delay in ((a, 100), (b, 300)):
        for port in (1, 2):
            device.add_port(port, rate_bps=8 * GBPS, delay_ns=delay)
    a.connect(2, b, 1)
    left, right = Host(engine), Host(engine)
    a.attach(1, left.endpoint)
    b.attach(2, right.endpoint)
    a.inject(1, frame(to=2, size=1000))
    b.inject(2, frame(to=1, size=1000))
    engine.run_until(100_000)
    assert right.times == [1000 + 100 + 1000 + 300]
    assert left.times == [1000 + 300 + 1000 + 100]


def test_an_idle_port_starts_at_once_and_a_busy_one_queues(engine: Engine) -> None:
    a, b, host = pair(engine, rate_bps=8 * GBPS)
    b.configure_port(2, rate_bps=4 * GBPS)  # the slower second hop queues
    for tag in range(4):
        a.inject(1, frame(tag=tag, size=500))
    engine.run_until(1500)
    assert b.port_counters(2).depth_packets == (1, 0, 0, 0)
    engine.run_until(100_000)
    assert host.times == [1500, 2500, 3500, 4500]
    assert b.port_counters(2).peak_packets == (2, 0, 0, 0)
    assert b.port_counters(2).peak_bytes == (1000, 0, 0, 0)
    assert b.take_peaks(2) == ((2, 0, 0, 0), (1000, 0, 0, 0))
    assert b.take_peaks(2) == ((0, 0, 0, 0), (0, 0, 0, 0))
    assert b.port_counters(2).sent_packets == (4, 0, 0, 0)


def test_events_of_one_instant_happen_in_the_order_of_their_causes(engine: Engine) -> None:
    """Frames meet at one port at the same nanosecond; the one that was sent first comes first."""
    sink = add_forwarder(engine, "sink", [(9, 9)])
    sink.add_port(9, rate_bps=8 * GBPS)
    host = Host(engine)
    sink.attach(9, host.endpoint)
    sources = []
    for i in range(6):
        source = add_forwarder(engine, f"s{i}", [(9, 2)])
        source.add_port(1)
        source.add_port(2, rate_bps=8 * GBPS, delay_ns=10_000 - 1000 * i)
        sink.add_port(i + 1)
        source.connect(2, sink, i + 1)
        sources.append(source)
    for i in range(6):  # all arrive at 10,100 ns
        engine.run_until(1000 * i)
        sources[i].inject(1, frame(to=9, tag=i))
    engine.run_until(10_099)
    assert sum(sink.port_counters(port).rx_packets for port in range(1, 7)) == 0
    engine.run_until(20_000)
    assert host.tags == [0, 1, 2, 3, 4, 5]
    assert host.times == [10_200 + 100 * i for i in range(6)]


def test_order_of_one_instant_does_not_depend_on_creation(engine: Engine) -> None:
    sink = add_forwarder(engine, "sink", [(9, 9)])
    sink.add_port(9, rate_bps=8 * GBPS)
    host = Host(engine)
    sink.attach(9, host.endpoint)
    sources = []
    for i in range(4):
        source = add_forwarder(engine, f"s{i}", [(9, 2)])
        source.add_port(1)
        source.add_port(2, rate_bps=8 * GBPS, delay_ns=70_000)
        sink.add_port(i + 1)
        source.connect(2, sink, i + 1)
        sources.append(source)
    order = (2, 0, 3, 1)
    for _ in range(3):
        for i in order:
            sources[i].inject(1, frame(to=9, tag=i))
    engine.run_until(10**6)
    assert host.tags == [*order, *order, *order]


def test_a_high_priority_overtakes_on_every_hop(engine: Engine) -> None:
    a, _, host = pair(engine, rate_bps=8 * GBPS, delay_ns=10)
    for tag, priority in enumerate([0, 0, 1, 3, 2, 3]):
        a.inject(1, frame(tag=tag, priority=priority))
    engine.run_until(100_000)
    assert host.tags == [3, 5, 4, 2, 0, 1]


def test_a_link_without_rate_and_delay_takes_a_nanosecond(engine: Engine) -> None:
    """So a forwarding loop can't stop the clock."""
    a = add_forwarder(engine, "a", [(7, 2)])
    b = add_forwarder(engine, "b", [(7, 1)])
    a.add_port(1)
    a.add_port(2)
    b.add_port(1)
    a.connect(2, b, 1)
    a.inject(1, frame(to=7))
    engine.run_until(5000)
    assert engine.now_ns == 5000
    assert a.port_counters(2).rx_packets == 2500
    assert b.port_counters(1).rx_packets == 2500


def test_a_ring_of_records_grows_and_wraps(engine: Engine) -> None:
    """Of many lengths, more than any first size of a buffer, drained and filled again."""
    a, _, host = pair(engine, rate_bps=400 * GBPS, delay_ns=200_000)
    sizes = [4 + (37 * i) % 1500 for i in range(2000)]
    for start in (0, 700, 1400):
        for i in range(start, min(start + 700, 2000)):
            a.inject(1, frame(tag=i % 256, size=sizes[i]))
        engine.run_until(engine.now_ns + 100_000)
    engine.run_until(10**9)
    assert [len(r.data) for r in host.received] == sizes
    assert host.tags == [i % 256 for i in range(2000)]
    assert host.times == sorted(host.times)


def test_wheel_and_far_future(engine: Engine) -> None:
    """Deliveries from a nanosecond to ten seconds away come in order."""
    a = add_forwarder(engine, "a", [(i, i) for i in range(2, 40)])
    a.add_port(1)
    delays = {port: 3 ** (port - 2) if port < 23 else 16_000 + 64 * port for port in range(2, 40)}
    hosts = {}
    for port, delay in delays.items():
        a.add_port(port, delay_ns=delay)
        hosts[port] = Host(engine)
        a.attach(port, hosts[port].endpoint)
    for port in reversed(delays):
        a.inject(1, frame(to=port))
    engine.run_until(10**11)
    assert {port: host.times for port, host in hosts.items()} == {p: [d] for p, d in delays.items()}


def test_observers_see_both_sides_of_a_hop(engine: Engine) -> None:
    a, b, host = pair(engine, rate_bps=8 * GBPS, delay_ns=500)
    out, into = Watch(engine), Watch(engine)
    a.observe(2, out.observer)
    b.observe(1, into.observer)
    a.inject(1, frame(size=16, tag=7), wire_bytes=1000)
    engine.run_until(10_000)
    assert out.seen == [(0, 1, frame(size=16, tag=7), 1000)]
    assert into.seen == [(1500, 0, frame(size=16, tag=7), 1000)]
    a.observe(2, None)
    a.inject(1, frame())
    engine.run_until(20_000)
    assert len(out.seen) == 1 and len(into.seen) == 2 and len(host.received) == 2


def test_an_observer_stops_the_clock(engine: Engine) -> None:
    a, b, _ = pair(engine, rate_bps=8 * GBPS, delay_ns=500)
    watch = Watch(engine, stop_on_tag=2)
    b.observe(1, watch.observer)
    for tag in range(4):
        a.inject(1, frame(tag=tag, size=1000))
    assert engine.run_until_attention(10**6)
    assert engine.now_ns == 3500
    assert len(watch.seen) == 3
    assert not engine.run_until_attention(10**6)
    assert engine.now_ns == 10**6
    assert len(watch.seen) == 4


def test_what_can_be_joined(engine: Engine) -> None:
    a, b, _ = pair(engine)
    a.add_port(3)
    b.add_port(3)
    with pytest.raises(DeviceError, match="in use") as error:
        a.connect(2, b, 3)
    assert error.value.code == "ALREADY_EXISTS"
    with pytest.raises(DeviceError, match="in use"):
        a.connect(3, b, 2)
    with pytest.raises(DeviceError, match="not there") as error:
        a.connect(3, b, 8)
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError, match="two in-memory ports"):
        a.connect(3, a, 3)
    with Engine() as other:
        c = add_forwarder(other, "c")
        c.add_port(1)
        with pytest.raises(DeviceError, match="of one engine") as error:
            a.connect(3, c, 1)
        assert error.value.code == "INVALID_ARGUMENT"
    a.connect(3, b, 3)
    with pytest.raises(DeviceError) as error:
        engine.run_until_attention(-1)
    assert error.value.code == "INVALID_ARGUMENT"
    engine.run_until(10)
    with pytest.raises(DeviceError, match="only move forward"):
        engine.run_until_attention(9)


def test_ports_of_one_device_can_be_joined(engine: Engine) -> None:
    a = add_forwarder(engine, "a", [(2, 2), (4, 4)])
    for port in (1, 2, 3, 4):
        a.add_port(port, rate_bps=8 * GBPS)
    a.connect(2, a, 3)
    host = Host(engine)
    a.attach(4, host.endpoint)
    a.inject(1, frame(to=2))
    engine.run_until(250)  # comes in at port 3 and goes to port 2 again
    assert a.port_counters(3).rx_packets == 2
    a.inject(1, frame(to=4))
    engine.run_until(1000)
    assert host.times == [350]


def test_removing_a_port_loses_what_is_on_its_link(engine: Engine) -> None:
    a, b, host = pair(engine, rate_bps=8 * GBPS, delay_ns=10_000)
    for _ in range(4):
        a.inject(1, frame(size=1000))
    engine.run_until(2500)  # two frames on the link, the third in service, the fourth waits
    b.remove_port(1)
    assert a.port_counters(2).lost_packets == 3
    assert a.port_counters(2).lost_bytes == 3000
    engine.run_until(10**6)
    assert host.received == []
    assert len(a.collect(2)) == 1  # nothing is joined to it any more


def test_a_program_swap_keeps_what_is_on_the_link(engine: Engine) -> None:
    a, b, host = pair(engine, rate_bps=8 * GBPS, delay_ns=10_000)
    a.inject(1, frame(size=1000))
    engine.run_until(5000)
    b.load_pipeline(forwarder())
    b.table_insert("to", TableEntry(((2,),), "port", (2,)))
    a.load_pipeline(forwarder())
    engine.run_until(50_000)
    assert host.times == [11_000]


def test_a_frame_for_a_device_without_program_is_counted(engine: Engine) -> None:
    a, _, _ = pair(engine)
    c = engine.add_device("c", 9)
    c.add_port(1)
    a.add_port(3)
    a.connect(3, c, 1)
    a.table_insert("to", TableEntry(((3,),), "port", (3,)))
    a.inject(1, frame(to=3))
    engine.run_until(100)
    assert c.stats()["no_pipeline_drops"] == 1
    assert c.port_counters(1).rx_drops == 1
