# SPDX-License-Identifier: Apache-2.0
"""A whole fabric in one process, on a simulated clock: every hop decided by the compiled P4 programs, every
NIC in the path, hosts with their real transport, programmed over P4Runtime as any other fabric.

    from controller import Fabric, compile_programs
    from hosts.collectives import RingAllReduce
    from virtual import Exchange, VirtualFabric

    with VirtualFabric(topology, configuration, directory=path, seed=1) as net:
        with Fabric(topology, net.devices, compile_programs()) as controller:
            controller.install(configuration, seed=1)
            exchange = Exchange(net, {1: "h1", 2: "h2"}, deliver_at="sender_done")
            rings = []
            for rank in (1, 2):
                layer = exchange.layer(rank)
                rings.append(RingAllReduce(layer, (1, 2), rank, step=1, shard_bytes=2_097_152))
                layer.serve(rings[-1])
            for ring in rings:
                ring.expect()
            for ring in rings:
                ring.start()
            net.clock.run()                 # until nothing is left to happen
            net.clock.now_ns, all(ring.finished for ring in rings)

`VirtualFabric`: devices, links, hosts. `Clock` (`net.clock`): timers and the main loop. `Exchange` and
`VirtualMessages`: messages of collectives. `StepBudgets`: loss budgets at a standing clock. `FaultPlan`:
what goes wrong and when. Time stands still whenever Python runs, so control-plane calls cost no
simulated time; give them one with `net.clock.after`.
"""

from __future__ import annotations

from virtual.clock import Clock, Timer
from virtual.control import StepBudgets, StepReport
from virtual.errors import VirtualError
from virtual.fabric import VirtualFabric
from virtual.faults import FaultPlan
from virtual.messages import Completion, CountedArrival, DeliverAt, Exchange, VirtualMessages

__all__ = [
    "Clock",
    "Completion",
    "CountedArrival",
    "DeliverAt",
    "Exchange",
    "FaultPlan",
    "StepBudgets",
    "StepReport",
    "Timer",
    "VirtualError",
    "VirtualFabric",
    "VirtualMessages",
]
