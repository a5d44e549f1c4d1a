# SPDX-License-Identifier: Apache-2.0
"""Topologies to JSON and back, so that a run saves its topology and tools load it without the code that made
it.
"""

from __future__ import annotations

import enum
import ipaddress
import json
from typing import Any, TypeVar

from topologies.model import Device, Host, Kind, Link, Port, Tier, Topology, TopologyError

Choice = TypeVar("Choice", bound=enum.StrEnum)
FORMAT = "forgive-topology-1"


def to_json(topology: Topology) -> str:
    """Readable, keys in a fixed order; one line per node and link."""

    def lines(items: list[dict[str, Any]]) -> str:
        return "[\n" + ",\n".join("    " + json.dumps(item) for item in items) + "\n  ]"

    hosts = [{"name": h.name, "ip": str(h.ip), "mac": h.mac, "nic": h.nic} for h in topology.hosts]
    devices = [
        {"name": d.name, "kind": str(d.kind), "layer": d.layer, "device_id": d.device_id, "ports": d.ports}
        for d in topology.devices
    ]
    links = [
        {"a": [link.a.node, link.a.number], "b": [link.b.node, link.b.number], "tier": str(link.tier)}
        for link in topology.links
    ]
    head = {
        "format": FORMAT,
        "family": topology.family,
        "parameters": dict(topology.parameters),
        "layers": list(topology.layers),
    }
    rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    rows += [f'  "{k}": {lines(v)}' for k, v in (("hosts", hosts), ("devices", devices), ("links", links))]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def from_json(text: str, where: str = "topology") -> Topology:
    """What `to_json` wrote, or a file of the same form written by hand. Raises TopologyError in one line."""
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise TopologyError(f"{where}: not JSON: {error}; mend it there") from None
    read = _Reader(where)
    top = read.table(
        tree, "the file", {"format", "family", "parameters", "layers", "hosts", "devices", "links"}
    )
    if top["format"] != FORMAT:
        raise TopologyError(f'{where}: format is {top["format"]!r}; give "{FORMAT}"')
    hosts = []
    for path, item in read.items(top["hosts"], "hosts", {"name", "ip", "mac", "nic"}):
        try:
            ip = ipaddress.IPv4Address(read.text(item["ip"], f"{path}.ip"))
        except ipaddress.AddressValueError:
            raise TopologyError(f"{where}: {path}.ip is {item['ip']!r}; give an IPv4 address") from None
        name, mac, nic = (read.text(item[k], f"{path}.{k}") for k in ("name", "mac", "nic"))
        hosts.append(Host(name, ip, mac, nic))
    devices = []
    for path, item in read.items(top["devices"], "devices", {"name", "kind", "layer", "device_id", "ports"}):
        kind = read.choice(Kind, item["kind"], f"{path}.kind")
        name, layer = (read.text(item[k], f"{path}.{k}") for k in ("name", "layer"))
        device_id, ports = (read.number(item[k], f"{path}.{k}") for k in ("device_id", "ports"))
        devices.append(Device(name, kind, layer, device_id, ports))
    links = []
    for path, item in read.items(top["links"], "links", {"a", "b", "tier"}):
        a, b = (read.port(item[k], f"{path}.{k}") for k in ("a", "b"))
        links.append(Link(a, b, read.choice(Tier, item["tier"], f"{path}.tier")))
    parameters = read.table(top["parameters"], "parameters", None)
    try:
        return Topology(
            read.text(top["family"], "family"),
            {k: read.number(v, f"parameters.{k}") for k, v in parameters.items()},
            tuple(read.text(v, "layers") for v in read.sequence(top["layers"], "layers")),
            tuple(hosts),
            tuple(devices),
            tuple(links),
        )
    except TopologyError as error:
        raise error if str(error).startswith(where) else TopologyError(f"{where}: {error}") from None


class _Reader:
    """Typed access with one-line errors."""

    def __init__(self, where: str) -> None:
        self._where = where

    def _fail(self, path: str, value: object, wanted: str) -> TopologyError:
        shown = json.dumps(value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        return TopologyError(f"{self._where}: {path} is {shown}; give {wanted}")

    def table(self, value: object, path: str, keys: set[str] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._fail(path, value, "an object")
        if keys is not None and set(value) != keys:
            odd = ", ".join(sorted(keys ^ set(value)))
            raise TopologyError(f"{self._where}: {path} has the keys {', '.join(value)}; mend: {odd}")
        return value

    def sequence(self, value: object, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise self._fail(path, value, "a list")
        return value

    def items(self, value: object, path: str, keys: set[str]) -> list[tuple[str, dict[str, Any]]]:
        return [
            (f"{path}[{i}]", self.table(item, f"{path}[{i}]", keys))
            for i, item in enumerate(self.sequence(value, path))
        ]

    def text(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not value:
            raise self._fail(path, value, "a text")
        return value

    def number(self, value: object, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._fail(path, value, "a whole number, 0 or more")
        return value

    def choice(self, kind: type[Choice], value: object, path: str) -> Choice:
        if not isinstance(value, str) or value not in list(kind):
            raise self._fail(path, value, " or ".join(list(kind)))
        return kind(value)

    def port(self, value: object, path: str) -> Port:
        if not isinstance(value, list) or len(value) != 2:
            raise self._fail(path, value, "[node, port]")
        return Port(self.text(value[0], path), self.number(value[1], path))
