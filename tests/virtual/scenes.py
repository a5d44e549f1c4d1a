# SPDX-License-Identifier: Apache-2.0
"""Small fabrics and jobs that several tests play. Also a program: `python -m tests.virtual.scenes SEED DIR`
prints what a run left, for a test that two processes do the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller import Fabric, Programs, StepPolicy, compile_programs
from hosts.collectives import DirectAllReduce
from hosts.endpoint import TrafficClass
from hosts.messages import Arrival, MessageKey
from profiles import Configuration, load
from topologies import Topology, leaf_spine
from virtual import Completion, Exchange, StepBudgets, VirtualFabric

PACKET = 4096
SHARD = 64 * PACKET + 1000


def configuration(**changes: Any) -> Configuration:
    """The paper's, with keys of its profile set otherwise: queue__kmin_packets=10 and so on."""
    return load("paper").override({k.replace("__", "."): v for k, v in changes.items()}).configuration()


def crowded(**changes: Any) -> Configuration:
    """Queues so short that a direct all-reduce over one spine is marked and trimmed."""
    short = {
        "queue__data_limit_packets": 40,
        "queue__kmin_packets": 10,
        "queue__kmax_packets": 30,
        "budget__p_high_ppm": 200_000,
    }
    return configuration(**short | changes)


@contextmanager
def running(
    topology: Topology,
    chosen: Configuration,
    directory: Path,
    *,
    seed: int = 1,
    programs: Programs | None = None,
    **options: Any,
) -> Iterator[tuple[VirtualFabric, Fabric]]:
    """A programmed fabric and its controller."""
    with (
        VirtualFabric(topology, chosen, directory=directory, seed=seed, **options) as net,
        Fabric(topology, net.devices, programs or compile_programs()) as controller,
    ):
        controller.install(chosen, seed=seed)
        yield net, controller


def ranks_of(topology: Topology) -> dict[int, str]:
    return {number: host.name for number, host in enumerate(topology.hosts, 1)}


class Mailbox:
    """A collective that only writes down what it is told, with the time."""

    def __init__(self, exchange: Exchange, rank: int) -> None:
        self.layer = exchange.layer(rank)
        self.layer.serve(self)
        self.sent: list[tuple[int, MessageKey]] = []
        self.received: list[tuple[int, Arrival]] = []
        self._clock = exchange.fabric.clock

    @property
    def finished(self) -> bool:
        return True

    def waiting_for(self) -> str:
        return "nothing"

    def on_sent(self, key: MessageKey) -> None:
        self.sent.append((self._clock.now_ns, key))

    def on_received(self, arrival: Arrival) -> None:
        self.received.append((self._clock.now_ns, arrival))

    def expect(self, key: MessageKey, length: int, traffic_class: TrafficClass = TrafficClass.DATA) -> None:
        self.layer.expect(key, length_bytes=length, buffer=None, traffic_class=traffic_class)

    def send(self, key: MessageKey, length: int, traffic_class: TrafficClass = TrafficClass.DATA) -> None:
        self.layer.send(key, length_bytes=length, data=None, traffic_class=traffic_class)


def all_reduce(
    exchange: Exchange, group: Sequence[int], step: int, shard: int = SHARD
) -> list[DirectAllReduce]:
    """One per rank, its receives posted."""
    made = []
    for rank in group:
        layer = exchange.layer(rank)
        made.append(DirectAllReduce(layer, group, rank, step, shard_bytes=[shard] * len(group)))
        layer.serve(made[-1])
    for collective in made:
        collective.expect()
    return made


class Job:
    """A direct all-reduce among all hosts of two leaves over one spine, with a budget; trimmed heavily."""

    def __init__(self, net: VirtualFabric, controller: Fabric, **options: Any) -> None:
        self.net, self.controller = net, controller
        self.exchange = Exchange(net, ranks_of(net.topology), **options)
        self.completions: dict[MessageKey, Completion] = {}
        self.exchange.on_complete = self.completions.__setitem__
        self.budgets = StepBudgets(controller, StepPolicy.of(net.configuration))
        self.hosts = net.host_names

    def begin(self, step: int = 1) -> None:
        self.collectives = all_reduce(self.exchange, list(self.exchange.hosts), step)
        p_ppm = self.net.configuration.budget.p_high_ppm
        self.budgets.open(self.hosts, step, p_ppm, self.collectives[0].expected_bytes)
        for collective in self.collectives:
            collective.start()

    def end(self, step: int = 1) -> dict[str, Any]:
        """To the end, and what NICs, hosts and switches counted."""
        self.net.clock.run()
        assert all(collective.finished for collective in self.collectives)
        self.budgets.close(self.hosts, step)
        reports = self.budgets.finish(self.hosts, step)
        return {
            "reports": {host: dataclasses.asdict(report) for host, report in reports.items()},
            "hosts": {host: dataclasses.asdict(self.net.stats(host)) for host in self.hosts},
            "messages": {str(key): list(done) for key, done in self.completions.items()},
            "switches": {n: dataclasses.asdict(s) for n, s in self.controller.switch_counters().items()},
        }


TWO_LEAVES = leaf_spine(leaves=2, spines=1, hosts_per_leaf=3)


def play(seed: int, directory: Path) -> dict[str, Any]:
    """A whole job, with marking, trimming, losses and captures; the seed is of paths, draws and losses."""
    chosen = crowded(fabric__seed=seed, budget__forgive_ppm=500_000)
    with running(TWO_LEAVES, chosen, directory, seed=seed) as (net, controller):
        captures = [net.capture(f"nic{i}-eth{port}", directory) for i in (1, 4) for port in (1, 2)]
        net.set_loss("leaf1-spine1", 2_000)
        job = Job(net, controller)
        job.begin()
        left = job.end()
        net.end_captures()
    left["captures"] = [hashlib.sha256(path.read_bytes()).hexdigest() for path in captures]
    return left


if __name__ == "__main__":
    sys.stdout.write(json.dumps(play(int(sys.argv[1]), Path(sys.argv[2])), sort_keys=True) + "\n")
