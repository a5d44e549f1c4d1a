# SPDX-License-Identifier: Apache-2.0
"""What a switch of the fabric gets (`p4src/switch.p4`): classes, routes and groups, limits and thresholds;
its counters.

Tables and counters: docs/dataplane.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.device import Device
from controller.entities import Entity, Entry
from profiles import Configuration
from topologies import SwitchRoutes, Topology

PRIORITY_DATA, PRIORITY_TRIMMED, PRIORITY_FEEDBACK = 0, 1, 2

PORT_COUNTERS = ("forwarded", "marked", "trimmed", "dropped")
SINGLE_COUNTERS = ("no_route", "ttl_expired", "malformed")


@dataclass(frozen=True, slots=True)
class PortCount:
    """Packets of one egress port."""

    forwarded: int
    marked: int
    trimmed: int
    dropped: int


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """Packets counted by one switch. ports: by port number."""

    ports: dict[int, PortCount]
    no_route: int
    ttl_expired: int
    malformed: int

    @property
    def total(self) -> PortCount:
        """Sums over the ports."""
        rows = self.ports.values()
        return PortCount(*(sum(getattr(row, name) for row in rows) for name in PORT_COUNTERS))


def classes(configuration: Configuration) -> list[Entity]:
    """Traffic classes by DSCP: may it be trimmed, its DSCP then, its queue, is it sprayed."""
    dscp, spray = configuration.dscp, int(configuration.fabric.spray)
    rows = (
        (dscp.gradient, 1, dscp.gradient_trimmed, PRIORITY_DATA, spray),
        (dscp.data, 1, dscp.data_trimmed, PRIORITY_DATA, spray),
        (dscp.gradient_trimmed, 0, 0, PRIORITY_TRIMMED, spray),
        (dscp.data_trimmed, 0, 0, PRIORITY_TRIMMED, spray),
        (dscp.control, 0, 0, PRIORITY_FEEDBACK, 0),
    )
    names = ("trimmable", "trimmed_dscp", "priority", "spray")
    return [
        Entry("traffic_class", "classify", dict(zip(names, values, strict=True)), {"dscp": value})
        for value, *values in rows
    ]


def routes(table: SwitchRoutes) -> list[Entity]:
    """Longest prefixes, and the members of equal-cost groups; members first, so that no route points
    nowhere.
    """
    members: list[Entity] = [
        Entry("group_members", "forward", {"port": port}, {"group": table.group_of(ports), "member": index})
        for ports in table.groups
        for index, port in enumerate(ports)
    ]
    prefixes: list[Entity] = []
    for route in table.routes:
        action, args = "forward", {"port": route.ports[0]}
        if len(route.ports) > 1:
            action, args = "balance", {"group": table.group_of(route.ports), "members": len(route.ports)}
        prefixes.append(Entry("ipv4_routes", action, args, {"dst_addr": route.prefix}))
    return members + prefixes


def limits(ports: list[int], configuration: Configuration) -> list[Entity]:
    """Queue limit, ingress limit and marking thresholds of every port, bytes."""
    queue = configuration.queue
    entities: list[Entity] = []
    for port in ports:
        entities.append(
            Entry("queue_limits", "limit_queue", {"bytes": queue.data_limit_bytes}, {"egress_port": port})
        )
        thresholds = {"kmin": queue.kmin_bytes, "kmax": queue.kmax_bytes, "pmax": queue.pmax_2e32}
        entities.append(Entry("ecn_thresholds", "mark_between", thresholds, {"egress_port": port}))
        if queue.ingress is not None:
            ingress = {
                "reserve": queue.ingress.reserve_bytes,
                "shared": queue.ingress.shared_bytes,
                "alpha_shift": queue.ingress.alpha_shift,
            }
            entities.append(Entry("ingress_limits", "limit_ingress", ingress, {"ingress_port": port}))
    return entities


def _place(entity: Entity) -> tuple[object, ...]:
    """Table and key of an entry."""
    assert isinstance(entity, Entry) and entity.key is not None
    return (entity.table, *entity.key.items())


class Switch:
    """One switch. `ports`: those with a link."""

    def __init__(self, device: Device, ports: list[int]) -> None:
        self.device = device
        self.name = device.name
        self.ports = ports
        self._routes: list[Entity] = []

    async def install(
        self, topology: Topology, table: SwitchRoutes, configuration: Configuration | None
    ) -> None:
        """Everything a switch needs. Without a configuration: routes alone, no class, no limit, no
        marking.
        """
        self._routes = routes(table)
        entities = self._routes
        if configuration is not None:
            seed = configuration.fabric.seed + topology.device(self.name).device_id
            settings = Entry("switch_config", "configure", {"seed": seed})
            entities = [settings, *classes(configuration), *limits(self.ports, configuration), *entities]
        await self.device.write("insert", entities)

    async def reroute(self, table: SwitchRoutes) -> None:
        """Replace the routes that were installed: what is new first, what is gone last."""
        before = {_place(entity): entity for entity in self._routes}
        after = {_place(entity): entity for entity in routes(table)}
        changed = [e for place, e in after.items() if place in before and before[place] != e]
        await self.device.write("insert", [e for place, e in after.items() if place not in before])
        await self.device.write("modify", changed)
        await self.device.write("delete", [e for place, e in before.items() if place not in after])
        self._routes = list(after.values())

    async def counters(self) -> SwitchCounters:
        """All counters, by one read."""
        cells = [(name, port) for port in self.ports for name in PORT_COUNTERS]
        values = iter(await self.device.counters(cells + [(name, 0) for name in SINGLE_COUNTERS]))
        ports = {port: PortCount(*(next(values) for _ in PORT_COUNTERS)) for port in self.ports}
        return SwitchCounters(ports, *values)
