# SPDX-License-Identifier: Apache-2.0
"""Messages on a fabric: when whom is told what, before and after anybody expects them, and what fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from controller import Fabric
from hosts.endpoint import Range, TrafficClass
from hosts.messages import CollectiveError, MessageKey
from tests.virtual.scenes import (
    PACKET,
    TWO_LEAVES,
    Job,
    Mailbox,
    configuration,
    crowded,
    ranks_of,
    running,
)
from topologies import leaf_spine
from virtual import CountedArrival, Exchange, VirtualError, VirtualFabric

KEY = MessageKey(1, 1, 2, 0)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[VirtualFabric, Fabric]]:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as pair:
        yield pair


def test_payload_arrives_as_it_was_sent(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    exchange = Exchange(net, ranks_of(net.topology))
    sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
    data = np.arange(50_001, dtype=np.float32)
    buffer = np.full_like(data, -1)
    kind = TrafficClass.DATA
    receiver.layer.expect(KEY, length_bytes=data.nbytes, buffer=buffer, traffic_class=kind)
    sender.layer.send(KEY, length_bytes=data.nbytes, data=data, traffic_class=kind)
    assert exchange.in_flight == [KEY]
    net.clock.run()
    assert np.array_equal(buffer, data) and exchange.in_flight == []
    (received,), (sent,) = receiver.received, sender.sent
    assert received[0] < sent[0] and received[1].missing == ()


def test_a_shed_message_is_told_as_a_whole(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    exchange = Exchange(net, ranks_of(net.topology))
    sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
    receiver.expect(KEY, 10 * PACKET)
    sender.send(KEY, 64)
    net.clock.run()
    ((_, arrival),) = receiver.received
    assert (arrival.shed, arrival.missing) == (True, (Range(0, 10 * PACKET),))


@pytest.mark.parametrize("sent", [10 * PACKET, 64])
@pytest.mark.parametrize("late_ns", [100, 1_000_000])
@pytest.mark.parametrize("deliver_at", ["sender_done", "receiver"])
def test_an_early_message_waits_until_it_is_expected(
    two: tuple[VirtualFabric, Fabric], sent: int, late_ns: int, deliver_at: str
) -> None:
    net, _ = two
    exchange = Exchange(net, ranks_of(net.topology), eager=True, deliver_at=deliver_at)  # type: ignore[arg-type]
    sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
    sender.send(KEY, sent)
    net.clock.after(late_ns, lambda: receiver.expect(KEY, 10 * PACKET))
    net.clock.run()
    ((at, arrival),) = receiver.received
    assert arrival.length_bytes == 10 * PACKET and arrival.shed == (sent == 64)
    assert (at == late_ns) == (late_ns > 100_000) and len(sender.sent) == 1


def test_one_exchange_at_a_time(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    Mailbox(Exchange(net, ranks_of(net.topology), eager=True), 1).send(KEY, PACKET)
    with pytest.raises(VirtualError, match="another exchange"):
        Exchange(net, ranks_of(net.topology))
    net.clock.run()
    Exchange(net, ranks_of(net.topology))


def test_an_unexpected_message_is_refused(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    sender = Mailbox(Exchange(net, ranks_of(net.topology)), 1)
    with pytest.raises(CollectiveError, match=r"1\.1\.2\.0: rank 2 does not expect it yet"):
        sender.send(KEY, PACKET)


def test_what_is_posted_twice_or_nowhere_is_refused(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    exchange = Exchange(net, ranks_of(net.topology))
    receiver = Mailbox(exchange, 2)
    receiver.expect(KEY, PACKET)
    with pytest.raises(ValueError, match="expected already"):
        receiver.expect(KEY, PACKET)
    with pytest.raises(VirtualError, match="rank 9 has no host"):
        exchange.layer(9)
    with pytest.raises(VirtualError, match="no host h9"):
        Exchange(net, {1: "h9"})
    with pytest.raises(VirtualError, match="deliver_at"):
        Exchange(net, {}, deliver_at="never")  # type: ignore[arg-type]


def test_so_many_messages_that_queue_pairs_run_out_is_one_line(two: tuple[VirtualFabric, Fabric]) -> None:
    net, _ = two
    exchange = Exchange(net, ranks_of(net.topology), eager=True)
    sender = Mailbox(exchange, 1)
    with pytest.raises(VirtualError, match=r"1\.1\.2\.1024: all queue pairs of the receiver are in use"):
        for number in range(2000):
            sender.send(MessageKey(1, 1, 2, number), PACKET)
    net.clock.run()
    assert len(sender.sent) == 1024
    sender.send(MessageKey(1, 1, 2, 1024), PACKET)  # and are free again
    net.clock.run()
    assert len(sender.sent) == 1025


def test_a_message_that_never_gets_through_is_named(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path, transport={"rto_limit": 3}) as (net, _):
        sender = Mailbox(Exchange(net, ranks_of(net.topology), eager=True), 1)
        net.set_link("nic2-leaf1", up=False)
        sender.send(KEY, PACKET)
        with pytest.raises(CollectiveError, match=r"message 1\.1\.2\.0 to rank 2 failed after 3 timeouts"):
            net.clock.run()


def test_windows_are_those_of_the_pairs_path(tmp_path: Path) -> None:
    """Without an answer a flow sends its window, the path's bandwidth-delay product, and no more."""
    with running(TWO_LEAVES, configuration(), tmp_path) as (net, _):
        exchange = Exchange(net, ranks_of(net.topology), eager=True)
        for rank, peer in ((1, 2), (4, 3)):
            net.set_link(f"nic{peer}-leaf1", up=False)
            Mailbox(exchange, rank).send(MessageKey(1, rank, peer, 0), 1000 * PACKET)
        net.clock.run(500_000)
        near, far = (net.stats(host).first_bytes for host in ("h1", "h4"))
    assert 0 <= near - 1_008_100 < PACKET
    assert 0 <= far - 3_516_200 < PACKET


@pytest.mark.parametrize("ranges", [True, False])
def test_forgiven_bytes_are_told_with_or_without_their_places(tmp_path: Path, ranges: bool) -> None:
    with running(TWO_LEAVES, crowded(), tmp_path) as (net, controller):
        job = Job(net, controller, ranges=ranges, deliver_at="sender_done")
        told: list[object] = []
        original = job.exchange._arrive

        def arrive(expected: object, key: MessageKey, arrival: object) -> None:
            told.append(arrival)
            original(expected, key, arrival)  # type: ignore[arg-type]

        job.exchange._arrive = arrive  # type: ignore[method-assign]
        job.begin()
        job.end()
        lost = {str(k): c.forgiven_bytes for k, c in job.completions.items() if c.forgiven_bytes}
    assert lost and {str(a.key): a.missing_bytes for a in told if a.missing_bytes} == lost  # type: ignore[attr-defined]
    assert any(isinstance(a, CountedArrival) for a in told) == (not ranges)
    assert any(a.missing for a in told) == ranges  # type: ignore[attr-defined]
