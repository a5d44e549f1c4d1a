# SPDX-License-Identifier: Apache-2.0
"""Mininet's classes for a fabric: hosts, P4 devices and veth links, and the `Topo` that puts them together.

Import this module through `topologies.mininet_net` or after `mininet_path.require_mininet()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Host, Switch
from mininet.topo import Topo

from topologies import veth
from topologies.model import HOST_PORT, Topology
from topologies.model import Host as HostData

PREFIX_LENGTH = 8


class FabricHost(Host):  # type: ignore[misc]
    """A host with a static address. `static_arp`: other hosts' (address, MAC), entered for good."""

    def config(
        self, fabric_host: HostData | None = None, static_arp: Sequence[tuple[str, str]] = (), **params: Any
    ) -> dict[str, Any]:
        if fabric_host is None:
            result: dict[str, Any] = super().config(**params)
            return result
        interface = f"{self.name}-eth{HOST_PORT}"
        lines = ["link set lo up", f"addr add {fabric_host.ip}/{PREFIX_LENGTH} dev {interface}"]
        lines += [f"link set {interface} up"]
        lines += [f"neigh replace {ip} lladdr {mac} nud permanent dev {interface}" for ip, mac in static_arp]
        veth.run_ip(lines, namespace_of=self.pid)
        intf = self.nameToIntf[interface]
        intf.ip, intf.prefixLen, intf.mac = str(fabric_host.ip), PREFIX_LENGTH, fabric_host.mac
        return {}


class P4Device(Switch):  # type: ignore[misc]
    """A P4 device whose interfaces are in the surrounding namespace; its process is the target's.

    `starter`, `stopper`: called once for the whole fabric when Mininet starts and stops its switches. A shell
    is started only when somebody asks for one, so that 36 devices cost nothing.
    """

    def __init__(self, name: str, **params: Any) -> None:
        super().__init__(name, dpid=f"{params.get('device_id', 1):x}", **params)

    def startShell(self, mnopts: str | None = None) -> None:
        self.pid = os.getpid()  # popen() enters the namespace of this process

    def _need_shell(self) -> None:
        if self.shell is None:
            super().startShell()

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        self._need_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        self._need_shell()
        return super().sendCmd(*args, **kwargs)

    def start(self, controllers: Sequence[Any]) -> None:
        """The target starts all devices at once, in batchStartup."""

    @classmethod
    def batchStartup(cls, switches: Sequence[Any]) -> Sequence[Any]:
        for start in _distinct(switches, "starter"):
            start()
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Any]) -> Sequence[Any]:
        for stop in _distinct(switches, "stopper"):
            stop()
        return switches


def _distinct(switches: Sequence[Any], key: str) -> list[Callable[[], None]]:
    return list(dict.fromkeys(s.params[key] for s in switches if s.params.get(key) is not None))


class PlainIntf(Intf):  # type: ignore[misc]
    """An interface that is complete when its link is made."""

    def config(self, **_params: Any) -> dict[str, Any]:
        return {}

    def delete(self) -> None:
        self.node.delIntf(self)
        self.link = None


class VethLink(Link):  # type: ignore[misc]
    """A veth pair fit for a software switch; a host's end is moved to its namespace."""

    intf1: Any
    intf2: Any

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        params.pop("intf", None)
        params.pop("cls", None)
        super().__init__(node1, node2, cls1=PlainIntf, cls2=PlainIntf, **params)

    def makeIntfPair(
        self,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> None:
        veth.create_pair(intfname1, intfname2, addr1, addr2)
        lines = []
        for name, node in ((intfname1, node1), (intfname2, node2)):
            lines.append(f"link set {name} netns {node.pid}" if node.inNamespace else f"link set {name} up")
        veth.run_ip(lines)

    def delete(self) -> None:
        delete_links([self])


def delete_links(links: Sequence[VethLink]) -> None:
    """All at once; links that are gone already are skipped."""
    doomed = []
    for link in links:
        ends = [intf for intf in (link.intf1, link.intf2) if intf is not None]
        doomed += [intf.name for intf in ends if not intf.node.inNamespace][:1]  # the other end goes with it
        for intf in ends:
            intf.delete()
        link.intf1 = link.intf2 = None
    if doomed:
        veth.run_ip([f"link del {name}" for name in doomed])


class FabricTopo(Topo):  # type: ignore[misc]
    """A `Topo` of any of our topologies. `device_params`: parameters for every P4Device."""

    def build(
        self, topology: Topology, static_arp: bool = False, device_params: dict[str, Any] | None = None
    ) -> None:
        everybody = [(str(h.ip), h.mac) for h in topology.hosts]
        for host in topology.hosts:
            others = [e for e in everybody if e[0] != str(host.ip)] if static_arp else []
            self.addHost(
                host.name,
                cls=FabricHost,
                ip=f"{host.ip}/{PREFIX_LENGTH}",
                fabric_host=host,
                static_arp=others,
            )
        for device in topology.devices:
            self.addSwitch(device.name, cls=P4Device, device_id=device.device_id, **(device_params or {}))
        for link in topology.links:
            macs = {}
            if topology.is_host(link.a.node):
                macs = {"addr1": topology.host(link.a.node).mac}
            self.addLink(
                link.a.node,
                link.b.node,
                port1=link.a.number,
                port2=link.b.number,
                cls=VethLink,
                **macs,
            )
