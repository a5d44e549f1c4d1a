# SPDX-License-Identifier: Apache-2.0
"""Fat-tree and leaf-spine: the arithmetic of names, addresses and ports.

Fat-tree: Al-Fares et al., "A Scalable, Commodity Data Center Network Architecture" (SIGCOMM 2008), whose
addresses 10.pod.switch.host these are, hosts from 2 up. A NIC stands in front of every host. Device ids count
from 1: NICs, then switches layer by layer.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from topologies.model import (
    HOST_PORT,
    NIC_HOST_PORT,
    NIC_WIRE_PORT,
    Device,
    Host,
    Kind,
    Link,
    Port,
    Tier,
    Topology,
    TopologyError,
)

MAXIMUM_K = 254
MAXIMUM_HOSTS_PER_LEAF = 253
MAXIMUM_LEAVES = 65_536
MAXIMUM_PORTS = 511


def address(a: int, b: int, host: int) -> tuple[ipaddress.IPv4Address, str]:
    """IP 10.a.b.(host + 2) for host 0, 1, ..., and a locally administered MAC with the same four bytes."""
    ip = ipaddress.IPv4Address(bytes((10, a, b, host + 2)))
    return ip, "02:00:" + ":".join(f"{byte:02x}" for byte in ip.packed)


class _Builder:
    """Collects nodes in order; NICs first, so that NIC i is device i."""

    def __init__(self, hosts: int) -> None:
        self.hosts: list[Host] = []
        self.nics: list[Device] = []
        self.switches: list[Device] = []
        self.links: list[Link] = []
        self._first_switch_id = hosts + 1

    def host(self, a: int, b: int, index: int, edge: str, edge_port: int) -> None:
        number = len(self.hosts) + 1
        name, nic = f"h{number}", f"nic{number}"
        ip, mac = address(a, b, index)
        self.hosts.append(Host(name, ip, mac, nic))
        self.nics.append(Device(nic, Kind.NIC, "nic", number, 2))
        self.links.append(Link(Port(name, HOST_PORT), Port(nic, NIC_HOST_PORT), Tier.HOST))
        self.links.append(Link(Port(nic, NIC_WIRE_PORT), Port(edge, edge_port), Tier.ACCESS))

    def switch(self, layer: str, number: int, ports: int) -> str:
        name = f"{layer}{number}"
        device_id = self._first_switch_id + len(self.switches)
        self.switches.append(Device(name, Kind.SWITCH, layer, device_id, ports))
        return name

    def connect(self, below: str, below_port: int, above: str, above_port: int) -> None:
        self.links.append(Link(Port(below, below_port), Port(above, above_port), Tier.FABRIC))

    def topology(self, family: str, parameters: dict[str, int], layers: tuple[str, ...]) -> Topology:
        tiers = list(Tier)
        links = tuple(sorted(self.links, key=lambda link: tiers.index(link.tier)))  # stable within a tier
        devices = (*self.nics, *self.switches)
        return Topology(family, parameters, layers, tuple(self.hosts), devices, links)


def fat_tree(k: int) -> Topology:
    """A k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.

    Edge ports 1..k/2 face hosts, k/2+1..k aggregation switches in order. Aggregation ports 1..k/2 face the
    pod's edges, k/2+1..k cores. Core port p faces pod p. Aggregation switch a of every pod reaches cores
    a*k/2+1 and on. Raises TopologyError if k is odd, below 2 or above 254 (a byte of the address each).
    """
    if k < 2 or k % 2 or k > MAXIMUM_K:
        raise TopologyError(f"fat-tree k={k}: give an even k from 2 to {MAXIMUM_K}")
    half = k // 2
    build = _Builder(hosts=k * half * half)
    for layer, count in (("edge", k * half), ("agg", k * half), ("core", half * half)):
        for number in range(count):
            build.switch(layer, number + 1, k)
    for pod in range(k):
        for e in range(half):
            edge = f"edge{pod * half + e + 1}"
            for h in range(half):
                build.host(pod, e, h, edge, h + 1)
            for a in range(half):
                build.connect(edge, half + a + 1, f"agg{pod * half + a + 1}", e + 1)
        for a in range(half):
            for c in range(half):
                build.connect(f"agg{pod * half + a + 1}", half + c + 1, f"core{a * half + c + 1}", pod + 1)
    return build.topology("fat_tree", {"k": k}, ("nic", "edge", "agg", "core"))


def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int) -> Topology:
    """A two-stage Clos: every leaf linked once to every spine.

    Host h of leaf l (from 0) has address 10.(l/256).(l mod 256).(h + 2). Leaf ports 1..hosts_per_leaf face
    hosts, then spines in order. Spine port l + 1 faces leaf l. Raises TopologyError for a size that addresses
    or ports can't hold.
    """
    for name, value, most in (
        ("leaves", leaves, min(MAXIMUM_LEAVES, MAXIMUM_PORTS)),
        ("spines", spines, MAXIMUM_PORTS - 1),
        ("hosts_per_leaf", hosts_per_leaf, min(MAXIMUM_HOSTS_PER_LEAF, MAXIMUM_PORTS - spines)),
    ):
        if not 1 <= value <= most:
            raise TopologyError(f"leaf-spine {name}={value}: give 1 to {most}")
    build = _Builder(hosts=leaves * hosts_per_leaf)
    for leaf in range(leaves):
        build.switch("leaf", leaf + 1, hosts_per_leaf + spines)
    for spine in range(spines):
        build.switch("spine", spine + 1, leaves)
    for leaf in range(leaves):
        for h in range(hosts_per_leaf):
            build.host(leaf >> 8, leaf & 255, h, f"leaf{leaf + 1}", h + 1)
        for spine in range(spines):
            build.connect(f"leaf{leaf + 1}", hosts_per_leaf + spine + 1, f"spine{spine + 1}", leaf + 1)
    parameters = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf}
    return build.topology("leaf_spine", parameters, ("nic", "leaf", "spine"))


def build(family: str, **parameters: int) -> Topology:
    """A topology by the name of its family: "fat_tree" with k, "leaf_spine" with leaves, spines,
    hosts_per_leaf.
    """
    makers: dict[str, tuple[Callable[..., Topology], tuple[str, ...]]] = {
        "fat_tree": (fat_tree, ("k",)),
        "leaf_spine": (leaf_spine, ("leaves", "spines", "hosts_per_leaf")),
    }
    if family not in makers:
        raise TopologyError(f"no topology family {family}; give {' or '.join(makers)}")
    make, names = makers[family]
    if set(parameters) != set(names):
        raise TopologyError(f"{family} takes {', '.join(names)}, not {', '.join(parameters) or 'nothing'}")
    return make(**parameters)
