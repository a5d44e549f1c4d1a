# SPDX-License-Identifier: Apache-2.0
"""Routes of every switch, computed from the topology alone: longest prefixes and equal-cost groups.

Shortest paths by hop count, over whatever links are up, so the same code answers for a fabric with failures.
Addresses that agree on their next hops are joined into one prefix at byte boundaries; an address that no host
has matches no prefix wider than its own /24's.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from topologies.model import NIC_WIRE_PORT, Link, Topology


@dataclass(frozen=True, slots=True)
class Route:
    """A prefix and the ports that lead to it; more than one port = equal cost."""

    prefix: ipaddress.IPv4Network
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SwitchRoutes:
    """Routes of one switch. Groups are numbered from 1; `group_of(ports)` names the group of an equal-cost
    set.
    """

    switch: str
    routes: tuple[Route, ...]
    groups: tuple[tuple[int, ...], ...]

    def group_of(self, ports: tuple[int, ...]) -> int:
        return self.groups.index(ports) + 1

    def lookup(self, ip: ipaddress.IPv4Address) -> tuple[int, ...]:
        """Ports of the longest matching prefix; () = no route."""
        best = max((r for r in self.routes if ip in r.prefix), key=lambda r: r.prefix.prefixlen, default=None)
        return best.ports if best else ()


def routes(topology: Topology, down: Collection[Link] = ()) -> dict[str, SwitchRoutes]:
    """Routes by switch name. `down`: links that carry nothing."""
    failed = set(down)
    switches = {d.name for d in topology.switches()}
    adjacent: dict[str, list[tuple[int, str]]] = {s: [] for s in switches}
    for s in switches:
        for link in topology.links_of(s):
            far = link.other(s)
            if link not in failed and far.node in switches:
                adjacent[s].append((link.end(s).number, far.node))

    nowhere: dict[ipaddress.IPv4Address, tuple[int, ...]] = {host.ip: () for host in topology.hosts}
    next_hops = {s: dict(nowhere) for s in switches}
    behind: dict[str, list[tuple[ipaddress.IPv4Address, int]]] = {}
    for host in topology.hosts:
        link = topology.link_at(host.nic, NIC_WIRE_PORT)
        if link not in failed:
            port = link.other(host.nic)
            behind.setdefault(port.node, []).append((host.ip, port.number))
    for edge, attached in behind.items():
        distance = _distances(edge, adjacent)
        for s, d in distance.items():
            if s == edge:
                next_hops[s].update((ip, (number,)) for ip, number in attached)
                continue
            ports = tuple(sorted(p for p, n in adjacent[s] if distance.get(n, d) == d - 1))
            next_hops[s].update((ip, ports) for ip, _ in attached)
    return {d.name: _switch_routes(d.name, next_hops[d.name]) for d in topology.switches()}


def _distances(start: str, adjacent: Mapping[str, Iterable[tuple[int, str]]]) -> dict[str, int]:
    distance = {start: 0}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for _, neighbour in adjacent[node]:
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                queue.append(neighbour)
    return distance


def _switch_routes(switch: str, hops: Mapping[ipaddress.IPv4Address, tuple[int, ...]]) -> SwitchRoutes:
    found: list[Route] = []
    _aggregate({ip.packed: ports for ip, ports in hops.items()}, b"", found)
    groups = tuple(sorted({r.ports for r in found if len(r.ports) > 1}))
    return SwitchRoutes(switch, tuple(sorted(found, key=lambda r: r.prefix)), groups)


def _aggregate(hops: Mapping[bytes, tuple[int, ...]], prefix: bytes, found: list[Route]) -> None:
    """One prefix if all addresses under it agree, else one byte longer. The first byte is 10 for
    everybody.
    """
    if not hops:
        return
    if prefix and len(set(hops.values())) == 1:
        if not next(iter(hops.values())):
            return  # out of reach: no wider prefix may cover it either
        network = ipaddress.IPv4Network((prefix.ljust(4, b"\0"), 8 * len(prefix)))
        found.append(Route(network, next(iter(hops.values()))))
        return
    parts: dict[int, dict[bytes, tuple[int, ...]]] = {}
    for ip, ports in hops.items():
        parts.setdefault(ip[len(prefix)], {})[ip] = ports
    for byte, part in sorted(parts.items()):
        _aggregate(part, prefix + bytes([byte]), found)


def path_count(topology: Topology, source: str, target: str, table: Mapping[str, SwitchRoutes]) -> int:
    """Equal-cost paths between two hosts by walking the routes; 0 = unreachable. Raises ValueError on a
    loop.
    """
    destination = topology.host(target)

    def walk(node: str, depth: int) -> int:
        if node == destination.nic:
            return 1
        if depth > len(topology.devices):
            raise ValueError(f"routes loop on the way from {source} to {target}")
        if node not in table:
            return 0
        hops = table[node].lookup(destination.ip)
        return sum(walk(topology.neighbour(node, port).node, depth + 1) for port in hops)

    return walk(topology.neighbour(topology.host(source).nic, NIC_WIRE_PORT).node, 0)
