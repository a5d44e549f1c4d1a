# SPDX-License-Identifier: Apache-2.0
"""Times that can be computed by hand."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from hosts.messages import MessageKey
from tests.virtual.scenes import PACKET, Mailbox, configuration, ranks_of, running
from topologies import leaf_spine
from virtual import Exchange

RATE = 400_000_000_000
ACCESS_NS = 5_000
FULL = Fraction(4132 * 8 * 10**9, RATE)
HEADER = Fraction(48 * 8 * 10**9, RATE)


def through(arrivals: list[int], serialisation: list[Fraction], delay_ns: int) -> list[int]:
    """Deliveries behind a link that frames reach at these times: whole ns, fractions carried while it is
    busy."""
    free, delivered = Fraction(0), []
    for arrival, took in zip(arrivals, serialisation, strict=True):
        free = max(free, Fraction(arrival)) + took
        delivered.append(int(free) + delay_ns)
    return delivered


@pytest.mark.parametrize(("packets", "tail"), [(1, 0), (1, 1), (100, 0), (200, 1234)])
def test_a_flow_through_one_leaf_takes_as_long_as_computed(tmp_path: Path, packets: int, tail: int) -> None:
    chosen = configuration(dcqcn__enabled=False)
    with running(leaf_spine(1, 1, 2), chosen, tmp_path) as (net, _):
        exchange = Exchange(net, ranks_of(net.topology))
        sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
        key, length = MessageKey(1, 1, 2, 0), packets * PACKET + tail
        receiver.expect(key, length)
        sender.send(key, length)
        net.clock.run()
        ((received_ns, arrival),), ((sent_ns, _),) = receiver.received, sender.sent
    took = [FULL] * packets
    if tail:
        took.append(Fraction(max(tail + 36, 48) * 8 * 10**9, RATE))
    # The flow is paced at link rate, and asks for its next packet at a whole ns.
    nic = through([math.ceil(number * FULL) for number in range(len(took))], took, ACCESS_NS)
    assert received_ns == through(nic, took, ACCESS_NS)[-1] and arrival.missing == ()
    # Every packet is answered at once; answers never wait.
    answers = through(through(nic, took, ACCESS_NS), [HEADER] * len(took), ACCESS_NS)
    assert sent_ns == through(answers, [HEADER] * len(took), ACCESS_NS)[-1]
    if not tail:  # as a textbook has it: all packets on one link, the last one on the next, and two delays
        assert abs(received_ns - (packets + 1) * FULL - 2 * ACCESS_NS) <= 2


def test_told_at_the_sender_both_ends_hear_when_it_has_the_last_answer(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as (net, _):
        exchange = Exchange(net, ranks_of(net.topology), deliver_at="sender_done")
        sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
        key = MessageKey(1, 1, 2, 0)
        receiver.expect(key, PACKET)
        sender.send(key, PACKET)
        net.clock.run()
        assert [at for at, _ in sender.sent] == [at for at, _ in receiver.received] == [20_164]


@pytest.mark.parametrize("senders", [2, 7])
def test_an_incast_takes_as_long_as_the_last_link_needs(tmp_path: Path, senders: int) -> None:
    packets = 100
    with running(leaf_spine(1, 1, senders + 1), configuration(dcqcn__enabled=False), tmp_path) as (net, _):
        exchange = Exchange(net, ranks_of(net.topology))
        receiver = Mailbox(exchange, senders + 1)
        for rank in range(1, senders + 1):
            key = MessageKey(1, rank, senders + 1, 0)
            receiver.expect(key, packets * PACKET)
            Mailbox(exchange, rank).send(key, packets * PACKET)
        net.clock.run()
        assert len(receiver.received) == senders
        ends = [at for at, _ in receiver.received]
    # The link to the receiver is busy from the first packet's arrival on, and shared fairly.
    assert abs(max(ends) - (FULL + ACCESS_NS + senders * packets * FULL + ACCESS_NS)) <= 2
    assert max(ends) - min(ends) <= senders * FULL + 2


@pytest.mark.parametrize("load_percent", [50, 80])
def test_waiting_time_of_random_packets_is_that_of_m_d_1(tmp_path: Path, load_percent: int) -> None:
    """Poisson arrivals, one service time: mean wait = load / (2 (1 - load)) services (Pollaczek, Khinchin).

    Fifteen hosts send single packets; each host's own line smooths their sum a little, which 10 % cover."""
    senders, messages = 15, 15_000
    draw = random.Random(7)
    with running(leaf_spine(1, 1, senders + 1), configuration(dcqcn__enabled=False), tmp_path) as (net, _):
        exchange = Exchange(net, ranks_of(net.topology), deliver_at="sender_done", eager=True)
        waits: list[Fraction] = []
        fixed = 2 * FULL + 2 * ACCESS_NS
        exchange.on_complete = lambda _key, done: waits.append(done.received_ns - done.first_ns - fixed)
        ranks = [Mailbox(exchange, rank) for rank in range(1, senders + 1)]
        at = 0.0
        for number in range(messages):
            at += draw.expovariate(load_percent / 100 / float(FULL))
            rank = draw.randrange(senders)
            key = MessageKey(1, rank + 1, senders + 1, number)
            net.clock.at(round(at), lambda rank=rank, key=key: ranks[rank].send(key, PACKET))  # type: ignore[misc]
        net.clock.run()
    assert len(waits) == messages
    load = load_percent / 100
    mean = float(sum(waits) / messages / FULL)
    assert mean == pytest.approx(load / (2 * (1 - load)), rel=0.1)
