# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a run, and when (`profiles.Fault`).

link_down: what is on the link, and what is sent to it from then on, is lost; `reroute` has the controller
take it out of all routes at the same instant, else switches go on sending to it. loss: each frame of the link
is lost with probability `ppm`, 0 ends it. nic_restart: the NIC's program is loaded anew, its settings, and
its steps, closed; it has forgotten flows, bytes and counters, so messages on their way to its host start over
on new queue pairs.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller import Fabric
from profiles import Fault, FaultKind
from topologies import Kind, Link
from virtual.errors import VirtualError
from virtual.fabric import PPM, VirtualFabric


class FaultPlan:
    """Faults of a run, checked and set as timers at once. Raises VirtualError.

    seed: as given to the controller's `install`, for NICs that restart.
    """

    def __init__(
        self, fabric: VirtualFabric, controller: Fabric, faults: Iterable[Fault], seed: int = 0
    ) -> None:
        self._fabric = fabric
        self._controller = controller
        self._seed = seed
        self._down: set[Link] = set()
        self.happened: list[Fault] = []
        faults = sorted(faults, key=lambda fault: fault.at_ns)
        for fault in faults:
            self._check(fault)
        for fault in faults:
            fabric.clock.at(fault.at_ns, lambda fault=fault: self._happen(fault))  # type: ignore[misc]

    def _check(self, fault: Fault) -> None:
        where = f"fault {fault.kind} of {fault.what} at {fault.at_ns} ns"
        if fault.at_ns < self._fabric.clock.now_ns:
            raise VirtualError(f"{where}: it is {self._fabric.clock.now_ns} ns already; give a later time")
        if not 0 <= fault.ppm <= PPM:
            raise VirtualError(f"{where}: ppm is {fault.ppm}; give 0 to {PPM}")
        if fault.kind is FaultKind.NIC_RESTART:
            self._nic(fault.what)
        else:
            self._fabric.ends(fault.what)

    def _nic(self, name: str) -> str:
        topology = self._fabric.topology
        nic = topology.host(name).nic if topology.is_host(name) else name
        if not any(device.name == nic and device.kind is Kind.NIC for device in topology.devices):
            raise VirtualError(f"fault: there is no NIC {name}; give {topology.hosts[0].nic}, for example")
        return nic

    def _happen(self, fault: Fault) -> None:
        fabric = self._fabric
        if fault.kind is FaultKind.LOSS:
            fabric.set_loss(fault.what, fault.ppm)
        elif fault.kind is FaultKind.NIC_RESTART:
            nic = self._nic(fault.what)
            self._controller.restart(nic, fabric.configuration, self._seed)
            for told in fabric.on_restart:
                told(fabric.topology.host_of(nic).name)
        else:
            up = fault.kind is FaultKind.LINK_UP
            fabric.set_link(fault.what, up)
            if fault.reroute:
                (self._down.discard if up else self._down.add)(fabric.link(fault.what))
                self._controller.reroute(self._down)
        self.happened.append(fault)
