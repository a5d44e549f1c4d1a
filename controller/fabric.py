# SPDX-License-Identifier: Apache-2.0
"""All devices of a fabric at once, for asyncio programs. `controller.sync.Fabric` is the same without
asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from finsy import P4Schema

from controller.device import Device
from controller.errors import ControllerError
from controller.nic import Nic, NicCounters
from controller.programs import Programs
from controller.switch import Switch, SwitchCounters
from profiles import Configuration
from topologies import Kind, Link, Topology, routes

CONCURRENCY = 12

T = TypeVar("T")


class DeviceAddress(Protocol):
    """Where a device is; `MininetFabric.devices` has these."""

    @property
    def name(self) -> str: ...
    @property
    def device_id(self) -> int: ...
    @property
    def grpc_address(self) -> str: ...


class FabricController:
    """Connections to every switch and NIC of a topology.

    addresses: one per device of the topology. Use as an async context, or call connect and close.
    """

    def __init__(self, topology: Topology, addresses: Iterable[DeviceAddress], programs: Programs) -> None:
        self.topology = topology
        self.switches: dict[str, Switch] = {}
        self.nics: dict[str, Nic] = {}
        known = {a.name: a for a in addresses}
        schemas = {p: P4Schema(p.p4info, p.json) for p in (programs.switch, programs.nic)}
        for data in topology.devices:
            if data.name not in known:
                raise ControllerError(
                    f"{data.name}: no address given; the target knows {', '.join(known) or 'none'}"
                )
            address = known[data.name]
            program = programs.nic if data.kind is Kind.NIC else programs.switch
            device = Device(data.name, address.grpc_address, address.device_id, program, schemas[program])
            if data.kind is Kind.NIC:
                self.nics[data.name] = Nic(device)
            else:
                ports = [link.end(data.name).number for link in topology.links_of(data.name)]
                self.switches[data.name] = Switch(device, ports)

    @property
    def devices(self) -> list[Device]:
        return [n.device for n in self.nics.values()] + [s.device for s in self.switches.values()]

    async def connect(self, push: bool = True) -> None:
        """Arbitration with all, then the programs. On failure all are closed again."""
        try:
            first = [next(iter(self.nics.values())).device, next(iter(self.switches.values())).device]
            # One device of each program first: what it compiles, the others find in the target's cache.
            await _all([d.connect(push) for d in first])
            await _all([d.connect(push) for d in self.devices if d not in first])
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leave all devices. Safe to call twice."""
        await _all([device.close() for device in self.devices])

    async def __aenter__(self) -> FabricController:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def install(
        self, configuration: Configuration | None, seed: int = 0, down: Collection[Link] = ()
    ) -> None:
        """Program every switch and NIC.

        configuration None: routes alone (no class, limit or marking), enough for plain traffic. seed: of the
        NICs' draws, one up per NIC. down: links that routes avoid.
        """
        table = routes(self.topology, down)
        work = [s.install(self.topology, table[s.name], configuration) for s in self.switches.values()]
        if configuration is not None:
            work += [nic.install(configuration, seed + i) for i, nic in enumerate(self.nics.values())]
        await _all(work)

    async def reroute(self, down: Collection[Link]) -> None:
        """New routes around these links, in place of the installed ones; all else stays."""
        table = routes(self.topology, down)
        await _all([s.reroute(table[s.name]) for s in self.switches.values()])

    async def restart(self, name: str, configuration: Configuration, seed: int = 0) -> None:
        """Load a NIC's program again, and its settings: it has forgotten flows, bytes and counters. Its steps
        are installed again, closed. name, seed: as for `nic` and `install`.
        """
        nic = self.nic(name)
        await nic.restart(configuration, seed + list(self.nics).index(nic.name))

    async def verify(self) -> int:
        """Read everything back from every device and compare. Returns how many entities agreed.

        Raises ControllerError for the first difference.
        """
        return sum(await _all([device.verify() for device in self.devices]))

    def nic(self, name: str) -> Nic:
        """By the NIC's name or its host's."""
        name = self.topology.host(name).nic if self.topology.is_host(name) else name
        if name not in self.nics:
            raise ControllerError(f"no NIC {name}; give nic1 or h1, for example")
        return self.nics[name]

    def switch(self, name: str) -> Switch:
        if name not in self.switches:
            raise ControllerError(f"no switch {name}; switches are {', '.join(self.switches)}")
        return self.switches[name]

    async def switch_counters(self) -> dict[str, SwitchCounters]:
        """Counters of every switch by name."""
        return dict(
            zip(self.switches, await _all([s.counters() for s in self.switches.values()]), strict=True)
        )

    async def nic_counters(self) -> dict[str, NicCounters]:
        """Counters of every NIC by name."""
        return dict(zip(self.nics, await _all([n.counters() for n in self.nics.values()]), strict=True))


async def _all(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """A dozen at a time; the first error ends the rest and is raised by itself."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(job: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await job

    tasks = [asyncio.create_task(one(job)) for job in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for job in work:  # those that never began
            job.close()
