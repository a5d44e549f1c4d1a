# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a run: links, losses, restarts; and what the controller does about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller import Fabric
from hosts.endpoint import TrafficClass
from hosts.messages import MessageKey
from profiles import Fault, FaultKind
from tests.virtual.scenes import PACKET, TWO_LEAVES, Job, Mailbox, configuration, crowded, ranks_of, running
from topologies import leaf_spine
from virtual import Exchange, FaultPlan, VirtualError, VirtualFabric

TWO_SPINES = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
LENGTH = 400 * PACKET


def pair(net: VirtualFabric) -> tuple[Mailbox, Mailbox]:
    """One message across the spines, sent."""
    exchange = Exchange(net, ranks_of(net.topology), eager=True)
    sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 3)
    key = MessageKey(1, 1, 3, 0)
    receiver.expect(key, LENGTH)
    sender.send(key, LENGTH)
    return sender, receiver


def used_spine(controller: Fabric) -> str:
    """The spine that carried something, and is the only one."""
    counted = controller.switch_counters()
    (used,) = {name for name in ("spine1", "spine2") if counted[name].total.forwarded}
    return used


def spine_of_the_pair(tmp_path: Path) -> str:
    with running(TWO_SPINES, configuration(), tmp_path) as (net, controller):
        exchange = Exchange(net, ranks_of(net.topology), eager=True)
        Mailbox(exchange, 1).send(MessageKey(1, 1, 3, 0), LENGTH)
        net.clock.run(30_000)  # nothing has been answered yet
        return used_spine(controller)


def test_a_link_that_comes_back_delays_what_crosses_it(tmp_path: Path) -> None:
    spine = spine_of_the_pair(tmp_path)
    with running(TWO_SPINES, configuration(), tmp_path) as (net, controller):
        plan = FaultPlan(
            net,
            controller,
            [
                Fault(2_500_000, FaultKind.LINK_UP, f"leaf1-{spine}"),
                Fault(20_000, FaultKind.LINK_DOWN, f"leaf1-{spine}"),
            ],
        )
        sender, receiver = pair(net)
        net.clock.run()
        assert [fault.kind for fault in plan.happened] == [FaultKind.LINK_DOWN, FaultKind.LINK_UP]
        assert len(receiver.received) == len(sender.sent) == 1
        assert receiver.received[0][0] > 2_500_000 and net.stats("h1").rtos > 0


def test_rerouting_takes_the_traffic_to_the_other_spine_and_back(tmp_path: Path) -> None:
    spine = spine_of_the_pair(tmp_path)
    other = {"spine1": "spine2", "spine2": "spine1"}[spine]
    with running(TWO_SPINES, configuration(), tmp_path) as (net, controller):
        link = f"leaf1-{spine}"
        FaultPlan(
            net,
            controller,
            [
                Fault(20_000, FaultKind.LINK_DOWN, link, reroute=True),
                Fault(4_000_000, FaultKind.LINK_UP, link, reroute=True),
            ],
        )
        before = controller.verify()
        _, receiver = pair(net)
        net.clock.run(3_000_000)
        assert len(receiver.received) == 1 and receiver.received[0][0] < 2_000_000
        assert controller.switch_counters()[other].total.forwarded > 0
        controller.verify()  # what is installed is what was written, also now
        net.clock.run(4_000_000)
        assert controller.verify() == before
        carried = controller.switch_counters()[spine].total.forwarded
        exchange = Exchange(net, ranks_of(net.topology), eager=True)
        for number in range(8):
            Mailbox(exchange, 1).send(MessageKey(2, 1, 3, number), PACKET)
        net.clock.run()
        assert controller.switch_counters()[spine].total.forwarded > carried


def test_losses_are_repaired_and_end_when_told(tmp_path: Path) -> None:
    with running(TWO_LEAVES, configuration(), tmp_path) as (net, controller):
        faults = [
            Fault(0, FaultKind.LOSS, "leaf1-spine1", ppm=20_000),
            Fault(50_000_000, FaultKind.LOSS, "leaf1-spine1"),
        ]
        FaultPlan(net, controller, faults)
        exchange = Exchange(net, ranks_of(net.topology), eager=True)
        sender = Mailbox(exchange, 1)
        sender.send(MessageKey(1, 1, 4, 0), LENGTH)
        net.clock.run(50_000_000)
        lost = net.device("leaf1").port_counters(4).lost_packets
        assert lost > 0 and net.stats("h1").retransmitted_packets >= lost and len(sender.sent) == 1
        sender.send(MessageKey(1, 1, 4, 1), LENGTH)
        net.clock.run()
        assert net.device("leaf1").port_counters(4).lost_packets == lost


def test_a_nic_restarts_between_two_steps(tmp_path: Path) -> None:
    chosen = crowded()
    with running(TWO_LEAVES, chosen, tmp_path) as (net, controller):
        job = Job(net, controller)
        job.begin(1)
        first = job.end(1)
        plan = FaultPlan(net, controller, [Fault(net.clock.now_ns + 1, FaultKind.NIC_RESTART, "h2")], seed=1)
        net.clock.run()
        assert len(plan.happened) == 1
        assert set(vars_of(controller, "h2")) == {0} and max(vars_of(controller, "h1")) > 0
        controller.verify()
        job.begin(2)
        second = job.end(2)
    assert second["reports"]["h2"]["state"]["forgiven"] > 0
    whole = first["reports"]["h2"]["installed"]["expected_bytes"]
    state = second["reports"]["h2"]["state"]
    assert state["received"] + state["forgiven"] == whole


def vars_of(controller: Fabric, host: str) -> list[int]:
    counters = controller.counters(host)
    return [getattr(counters, name) for name in counters.__slots__]


@pytest.mark.parametrize("at_ns", [45_000, 150_001, 300_000])
@pytest.mark.parametrize("deliver_at", ["receiver", "sender_done"])
def test_a_nic_that_forgets_flows_in_the_middle_of_a_step(
    tmp_path: Path, at_ns: int, deliver_at: str
) -> None:
    """Messages to its host start over; nothing more is forgiven there, and every message completes once."""
    with running(TWO_LEAVES, crowded(), tmp_path) as (net, controller):
        job = Job(net, controller, deliver_at=deliver_at)
        FaultPlan(net, controller, [Fault(at_ns, FaultKind.NIC_RESTART, "nic2")], seed=1)
        job.begin()
        net.clock.run(at_ns - 1)
        before = net.stats("h2")
        left = job.end()
    assert len(left["messages"]) == 2 * 6 * 5
    report = left["reports"]["h2"]
    assert not report["installed"]["open"] and report["state"]["forgiven"] == 0
    assert left["hosts"]["h2"]["forgiven_bytes"] == before.forgiven_bytes
    assert left["reports"]["h1"]["state"]["forgiven"] > 0
    # Each once in the end: those that started over are settled whole, beside what they had settled before.
    assert left["hosts"]["h2"]["received_messages"] >= 10
    over, lengths = job.exchange.started_over, sum(done.length_bytes for done in job.completions.values())
    # By 300 us all messages to it are through.
    assert (over.messages > 0) is (at_ns < 300_000) and over.settled_bytes <= over.sent_bytes
    hosts = left["hosts"].values()
    assert sum(host["first_bytes"] for host in hosts) == lengths + over.sent_bytes
    assert (
        sum(host["received_bytes"] + host["forgiven_bytes"] for host in hosts) == lengths + over.settled_bytes
    )


def test_payload_is_whole_after_a_restart(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as (net, controller):
        exchange = Exchange(net, ranks_of(net.topology))
        sender, receiver = Mailbox(exchange, 1), Mailbox(exchange, 2)
        data = np.arange(500_001, dtype=np.float32)
        buffer = np.zeros_like(data)
        key, kind = MessageKey(1, 1, 2, 0), TrafficClass.DATA
        receiver.layer.expect(key, length_bytes=data.nbytes, buffer=buffer, traffic_class=kind)
        sender.layer.send(key, length_bytes=data.nbytes, data=data, traffic_class=kind)
        FaultPlan(net, controller, [Fault(25_000, FaultKind.NIC_RESTART, "h2")])
        net.clock.run()
        assert len(receiver.received) == len(sender.sent) == 1 and np.array_equal(buffer, data)
        assert net.stats("h1").first_bytes > data.nbytes


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "link_down", "what": "leaf1-leaf2"}, "no link leaf1-leaf2; name its ends"),
        ({"kind": "link_down", "what": "h1-nic1"}, "one machine"),
        ({"kind": "nic_restart", "what": "spine1"}, "no NIC spine1"),
        ({"kind": "nic_restart", "what": "h9"}, "no NIC h9"),
        ({"kind": "loss", "what": "leaf1-spine1", "ppm": 1_000_001}, "give 0 to 1000000"),
    ],
)
def test_an_impossible_fault_is_found_early(tmp_path: Path, fault: dict[str, Any], words: str) -> None:
    made = Fault(**{"at_ns": 5, **fault, "kind": FaultKind(fault["kind"])})
    with running(TWO_SPINES, configuration(), tmp_path) as (net, controller):
        with pytest.raises(VirtualError, match=words):
            FaultPlan(net, controller, [made])
        assert net.clock.run() is False and net.clock.now_ns == 0


def test_the_past_is_no_time_for_a_fault(tmp_path: Path) -> None:
    with running(TWO_SPINES, configuration(), tmp_path) as (net, controller):
        net.clock.run(10)
        with pytest.raises(VirtualError, match="it is 10 ns already"):
            FaultPlan(net, controller, [Fault(5, FaultKind.LINK_UP, "leaf1-spine1")])
