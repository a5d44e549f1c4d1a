# SPDX-License-Identifier: Apache-2.0
"""A topology as data: hosts, devices and links, with nothing of Mininet, a target or a controller in it.

The same object builds a Mininet network, programs the switches, feeds a simulation and draws a picture.
Numbers and names are computed, never discovered: a port of a device is known from the topology alone.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

HOST_PORT = 0
NIC_HOST_PORT = 1
NIC_WIRE_PORT = 2
CPU_PORT = 255
"""Ports of a host (its one interface), of a NIC, and of every device's CPU (docs/dataplane.md)."""

MAXIMUM_INTERFACE_NAME = 15


class TopologyError(ValueError):
    """A topology that can't be built. One line with the mend."""


class Kind(enum.StrEnum):
    """What runs on a device: which P4 program it gets."""

    NIC = "nic"
    SWITCH = "switch"


class Tier(enum.StrEnum):
    """Kinds of link."""

    HOST = "host"
    """Host to its NIC: inside one machine, so neither rate-limited nor delayed unless a profile says so."""
    ACCESS = "access"
    """NIC to switch."""
    FABRIC = "fabric"
    """Switch to switch."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host: one interface, port 0. `nic` is the device in front of it."""

    name: str
    ip: ipaddress.IPv4Address
    mac: str
    nic: str


@dataclass(frozen=True, slots=True)
class Device:
    """A P4 device. layer: "nic", "edge", ...; ports are numbered from 1."""

    name: str
    kind: Kind
    layer: str
    device_id: int
    ports: int


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """One end of a link."""

    node: str
    number: int

    @property
    def interface(self) -> str:
        """Mininet's name for it, for example edge1-eth3."""
        return f"{self.node}-eth{self.number}"


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link. `a` is the end nearer the hosts."""

    a: Port
    b: Port
    tier: Tier

    def end(self, node: str) -> Port:
        """The end at `node`."""
        return self.a if self.a.node == node else self.b

    def other(self, node: str) -> Port:
        """The end that is not at `node`."""
        return self.b if self.a.node == node else self.a


@dataclass(frozen=True)
class Topology:
    """Hosts, devices and links. Built by `fat_tree`, `leaf_spine` or `from_json`; checked when made.

    layers: device layers from the hosts up, for example ("nic", "edge", "agg", "core").
    parameters: what the family was built with, for example {"k": 4}.
    """

    family: str
    parameters: Mapping[str, int]
    layers: tuple[str, ...]
    hosts: tuple[Host, ...]
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    _by_port: Mapping[Port, Link] = field(init=False, repr=False, compare=False)
    _links_of: Mapping[str, tuple[Link, ...]] = field(init=False, repr=False, compare=False)
    _host: Mapping[str, Host] = field(init=False, repr=False, compare=False)
    _device: Mapping[str, Device] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_port: dict[Port, Link] = {}
        links_of: dict[str, list[Link]] = {n: [] for n in self.nodes()}
        if len(links_of) != len(self.hosts) + len(self.devices):
            raise TopologyError("two nodes have the same name; rename one")
        for link in self.links:
            for end in (link.a, link.b):
                if end.node not in links_of:
                    raise TopologyError(f"link {link.a.interface} - {link.b.interface}: no node {end.node}")
                if end in by_port:
                    raise TopologyError(f"port {end.interface} has two links; give one of them another port")
                by_port[end] = link
                links_of[end.node].append(link)
        object.__setattr__(self, "_by_port", by_port)
        object.__setattr__(self, "_links_of", {n: tuple(ls) for n, ls in links_of.items()})
        object.__setattr__(self, "_host", {h.name: h for h in self.hosts})
        object.__setattr__(self, "_device", {d.name: d for d in self.devices})
        self._check()

    def _check(self) -> None:
        self._check_unique("address", [str(h.ip) for h in self.hosts])
        self._check_unique("MAC address", [h.mac for h in self.hosts])
        self._check_unique("device id", [str(d.device_id) for d in self.devices])
        for host in self.hosts:
            if Port(host.name, HOST_PORT) not in self._by_port:
                raise TopologyError(
                    f"host {host.name} has no link at port {HOST_PORT}; connect it to its NIC"
                )
            if self.neighbour(host.name, HOST_PORT) != Port(host.nic, NIC_HOST_PORT):
                raise TopologyError(
                    f"host {host.name} isn't linked to port {NIC_HOST_PORT} of its NIC {host.nic}"
                )
        for device in self.devices:
            if device.layer not in self.layers:
                raise TopologyError(
                    f"device {device.name}: layer {device.layer} is none of {', '.join(self.layers)}"
                )
            used = {link.end(device.name).number for link in self._links_of[device.name]}
            if used - set(range(1, device.ports + 1)):
                raise TopologyError(
                    f"device {device.name} has ports 1 to {device.ports}, links use {sorted(used)}"
                )
        for end in self._by_port:
            if len(end.interface) > MAXIMUM_INTERFACE_NAME:
                raise TopologyError(
                    f"interface name {end.interface} is longer than {MAXIMUM_INTERFACE_NAME} characters"
                )

    @staticmethod
    def _check_unique(what: str, values: list[str]) -> None:
        seen: set[str] = set()
        for value in values:
            if value in seen:
                raise TopologyError(f"{what} {value} is given twice; give each its own")
            seen.add(value)

    # --- look up
    def nodes(self) -> Iterator[str]:
        """Names of hosts, then devices."""
        yield from (h.name for h in self.hosts)
        yield from (d.name for d in self.devices)

    def host(self, name: str) -> Host:
        """Raises TopologyError if there is none of that name."""
        try:
            return self._host[name]
        except KeyError:
            raise TopologyError(f"no host {name}; hosts are {_range(list(self._host))}") from None

    def device(self, name: str) -> Device:
        """Raises TopologyError if there is none of that name."""
        try:
            return self._device[name]
        except KeyError:
            raise TopologyError(f"no device {name}; devices are {_range(list(self._device))}") from None

    def is_host(self, name: str) -> bool:
        return name in self._host

    def nics(self) -> tuple[Device, ...]:
        """In the order of their hosts."""
        return tuple(self._device[h.nic] for h in self.hosts)

    def switches(self) -> tuple[Device, ...]:
        return tuple(d for d in self.devices if d.kind is Kind.SWITCH)

    def host_of(self, nic: str) -> Host:
        """The host behind a NIC."""
        return self.host(self.neighbour(nic, NIC_HOST_PORT).node)

    # --- layers
    def layer(self, name: str) -> tuple[Device, ...]:
        """Devices of a layer, in order."""
        if name not in self.layers:
            raise TopologyError(f"no layer {name}; layers are {', '.join(self.layers)}")
        return tuple(d for d in self.devices if d.layer == name)

    def height(self, node: str) -> int:
        """0 for hosts, 1 for the first layer, ..."""
        return 0 if node in self._host else 1 + self.layers.index(self.device(node).layer)

    def links_of(self, node: str) -> tuple[Link, ...]:
        """By the node's port numbers."""
        return tuple(sorted(self._links_of[node], key=lambda link: link.end(node)))

    def up_links(self, node: str) -> tuple[Link, ...]:
        """Links away from the hosts, by port number."""
        here = self.height(node)
        return tuple(li for li in self.links_of(node) if self.height(li.other(node).node) > here)

    def down_links(self, node: str) -> tuple[Link, ...]:
        """Links towards the hosts, by port number."""
        here = self.height(node)
        return tuple(li for li in self.links_of(node) if self.height(li.other(node).node) < here)

    # --- ports
    def link_at(self, node: str, port: int) -> Link:
        """Raises TopologyError if nothing is connected there."""
        try:
            return self._by_port[Port(node, port)]
        except KeyError:
            raise TopologyError(f"nothing is connected to port {port} of {node}") from None

    def neighbour(self, node: str, port: int) -> Port:
        """The far end of the link at a port."""
        return self.link_at(node, port).other(node)

    def port_to(self, node: str, neighbour: str) -> int:
        """The port of `node` that faces `neighbour` (the lowest, if several)."""
        for link in self.links_of(node):
            if link.other(node).node == neighbour:
                return link.end(node).number
        raise TopologyError(f"{node} has no link to {neighbour}")


def _range(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 5 else f"{names[0]} ... {names[-1]}"
