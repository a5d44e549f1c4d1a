# SPDX-License-Identifier: Apache-2.0
"""How fast virtual time is: packets times links per processor second on a leaf-spine of 64 hosts at 400 Gb/s,
4 KiB packets, every hop decided in P4 and a NIC before every host. Beside htsim (uet-htsim), which decides
nothing in P4, on the same fabric and flows, where its `htsim_uec` is on PATH. And how the cost grows with
the ranks.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controller import Fabric
from controller.programs import Programs
from hosts.endpoint import TrafficClass
from hosts.messages import Arrival, MessageKey
from profiles import Configuration, load
from topologies import NIC_WIRE_PORT, Topology, leaf_spine
from virtual import Exchange, VirtualFabric

HTSIM = "htsim_uec"
LEAVES, SPINES, HOSTS_PER_LEAF = 8, 8, 8
HOSTS = LEAVES * HOSTS_PER_LEAF
LINKS_IN_LEAF, LINKS_ACROSS = 2, 4
END_US = 1_000_000


class VirtualBenchError(Exception):
    """A run that did not end as it should, in one line."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Flows that start together, between hosts of one leaf or two. flows: (source, destination) host numbers
    from 0.
    """

    name: str
    flows: tuple[tuple[int, int], ...]
    hosts_per_leaf: int = HOSTS_PER_LEAF

    @property
    def mean_links(self) -> float:
        """Links of a flow's path, on average over the flows."""
        across = sum(a // self.hosts_per_leaf != b // self.hosts_per_leaf for a, b in self.flows)
        return LINKS_IN_LEAF + (LINKS_ACROSS - LINKS_IN_LEAF) * across / len(self.flows)


RING = Traffic("ring", tuple((host, (host + 1) % HOSTS) for host in range(HOSTS)))
INCAST = Traffic(
    "incast",
    tuple((host + HOSTS_PER_LEAF * k, host) for host in range(HOSTS_PER_LEAF) for k in range(1, LEAVES)),
)
"""Seven senders, one on each other leaf, to each host of the first leaf."""


def shift(side: int) -> Traffic:
    """Each host to the one at its place in the next leaf, of `side` leaves with as many hosts."""
    hosts = side * side
    return Traffic("shift", tuple((host, (host + side) % hosts) for host in range(hosts)), side)


class _Flows:
    """Serves every flow of a traffic, and counts."""

    def __init__(self, exchange: Exchange, traffic: Traffic, flow_bytes: int) -> None:
        self.unfinished = 2 * len(traffic.flows)
        self._clock = exchange.fabric.clock
        for number, (source, destination) in enumerate(traffic.flows):
            key = MessageKey(1, source, destination, number)
            sender, receiver = exchange.layer(source), exchange.layer(destination)
            for layer in (sender, receiver):
                layer.serve(self)
            data = TrafficClass.DATA
            receiver.expect(key, length_bytes=flow_bytes, buffer=None, traffic_class=data)
            sender.send(key, length_bytes=flow_bytes, data=None, traffic_class=data)

    @property
    def finished(self) -> bool:
        return self.unfinished == 0

    def waiting_for(self) -> str:
        return f"{self.unfinished} ends of flows"

    def on_sent(self, key: MessageKey) -> None:
        self._one_less()

    def on_received(self, arrival: Arrival) -> None:
        self._one_less()

    def _one_less(self) -> None:
        self.unfinished -= 1
        if self.finished:
            self._clock.stop()


@dataclass(frozen=True, slots=True)
class Run:
    """hops: data, trimmed headers and feedback, times links. data_hops: data alone. setup_s: CPU seconds
    until everything is installed. resident_bytes: of the process at the end, with all it had before.
    """

    hops: float
    data_hops: float
    cpu_s: float
    setup_s: float = 0
    resident_bytes: int = 0


def _hops(net: VirtualFabric, topology: Topology) -> int:
    nics = {host.nic for host in topology.hosts}
    sent = 0
    for row in net.devices:
        ports = (NIC_WIRE_PORT,) if row.name in nics else [port.port for port in row.ports]
        sent += sum(net.device(row.name).port_counters(port).tx_packets for port in ports)
    return sent


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_virtual(
    programs: Programs,
    traffic: Traffic,
    flow_bytes: int,
    shape: tuple[int, int, int] = (LEAVES, SPINES, HOSTS_PER_LEAF),
) -> Run:
    """On the project's own programs, target and transport, with DCQCN. shape: leaves, spines, hosts per leaf.

    Raises VirtualBenchError.
    """
    before = time.process_time()
    leaves, spines, hosts_per_leaf = shape
    topology = leaf_spine(*shape)
    fabric = {"fabric.leaves": leaves, "fabric.spines": spines, "fabric.hosts_per_leaf": hosts_per_leaf}
    profile = load("paper").override({**fabric, "study": None})
    configuration: Configuration = profile.at_rate(profile.fabric.rate_bps)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        VirtualFabric(topology, configuration, directory=Path(directory)) as net,
    ):
        with Fabric(topology, net.devices, programs) as controller:
            controller.install(configuration, seed=1)
        names = {number: host.name for number, host in enumerate(topology.hosts)}
        flows = _Flows(Exchange(net, names, ranges=False), traffic, flow_bytes)
        start = time.process_time()
        net.clock.run()
        cpu_s = time.process_time() - start
        if not flows.finished:
            raise VirtualBenchError(
                f"virtual {traffic.name}: the run ended, waiting for {flows.waiting_for()}"
            )
        data = sum(net.stats(name).sent_packets for name in net.host_names)
        return Run(_hops(net, topology), data * traffic.mean_links, cpu_s, start - before, _resident_bytes())


def _topology_text() -> str:
    return (
        f"Nodes {HOSTS}\nTiers 2\nPodsize {HOSTS}\n\n"
        f"Tier 0\nDownlink_speed_Gbps 400\nRadix_Down {HOSTS_PER_LEAF}\nRadix_Up {SPINES}\n"
        "Downlink_Latency_ns 5000\nSwitch_Latency_ns 0\n\n"
        f"Tier 1\nDownlink_speed_Gbps 400\nRadix_Down {LEAVES}\n"
        "Downlink_Latency_ns 12500\nSwitch_Latency_ns 0\n"
    )


def run_htsim(traffic: Traffic, flow_bytes: int) -> Run:
    """htsim with its own transport and NSCC. Its counters name packets; the flows' paths their links.

    Raises VirtualBenchError.
    """
    with tempfile.TemporaryDirectory(prefix="htsim-") as name:
        directory = Path(name)
        (directory / "fabric.topo").write_text(_topology_text())
        rows = "".join(f"{a}->{b} start 0 size {flow_bytes}\n" for a, b in traffic.flows)
        (directory / "flows.cm").write_text(f"Nodes {HOSTS}\nConnections {len(traffic.flows)}\n{rows}")
        command = [HTSIM, "-tm", "flows.cm", "-topo", "fabric.topo", "-linkspeed", "400000"]
        command += ["-mtu", "4096", "-end", str(END_US)]
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        cpu_s = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    counted = re.search(r"New: (\d+) Rtx: (\d+) .*?ACKs: (\d+) NACKs: (\d+) Pulls: (\d+)", done.stdout)
    finished = len(re.findall(r"^Flow .* finished at", done.stdout, re.MULTILINE))
    if done.returncode or counted is None or finished != len(traffic.flows):
        raise VirtualBenchError(f"{HTSIM} {traffic.name}: {finished} of {len(traffic.flows)} flows finished")
    new, again, *feedback = map(int, counted.groups())
    data_hops = (new + again) * traffic.mean_links
    return Run(data_hops + sum(feedback) * traffic.mean_links, data_hops, cpu_s)


def virtual_figures(programs: Programs, flow_bytes: int) -> dict[str, float]:
    """Million packet-hops per CPU second, ours and htsim's, and their ratio; the same for data packets alone,
    because htsim acknowledges four packets at once and ours each.
    """
    figures: dict[str, float] = {}
    for traffic in (RING, INCAST):
        runs = {"virtual": run_virtual(programs, traffic, flow_bytes)}
        if shutil.which(HTSIM):
            runs["htsim"] = run_htsim(traffic, flow_bytes)
        for what in ("hops", "data_hops"):
            speeds = {name: getattr(run, what) / run.cpu_s / 1e6 for name, run in runs.items()}
            for name, speed in speeds.items():
                figures[f"{name}_{traffic.name}_m{what}_per_cpu_s"] = round(speed, 3)
            if "htsim" in speeds:
                ratio = speeds["virtual"] / speeds["htsim"]
                figures[f"virtual_{traffic.name}_{what}_to_htsim_ratio"] = round(ratio, 2)
    return figures


def growth_figures(programs: Programs, sides: Sequence[int], flow_bytes: int) -> dict[str, float]:
    """How the cost of a hop, the memory and the setting up grow with the ranks: leaf-spine fabrics of `side`
    leaves, spines and hosts per leaf, each host sending one flow to the next leaf.
    """
    figures: dict[str, float] = {}
    for side in sorted(sides):
        run = run_virtual(programs, shift(side), flow_bytes, (side, side, side))
        ranks = side * side
        figures[f"virtual_{ranks}_ranks_mhops_per_cpu_s"] = round(run.hops / run.cpu_s / 1e6, 3)
        figures[f"virtual_{ranks}_ranks_setup_cpu_s"] = round(run.setup_s, 2)
        figures[f"virtual_{ranks}_ranks_resident_mib"] = round(run.resident_bytes / 2**20, 1)
    return figures
