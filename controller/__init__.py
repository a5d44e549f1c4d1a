# SPDX-License-Identifier: Apache-2.0
"""P4Runtime controller of a fabric, on finsy. As root, a whole fabric from a script of ten lines:

    from controller import Fabric, StepPolicy, compile_programs
    from profiles import load
    from topologies import fat_tree
    from topologies.isolate import enter_private_namespace
    from topologies.mininet_net import MininetFabric
    run, topology, configuration = enter_private_namespace(), fat_tree(4), load("mininet").at_rate(8_000_000)
    with MininetFabric(topology, directory=run.directory, configuration=configuration) as net:
        with Fabric(topology, net.devices, compile_programs()) as fabric:
            fabric.install(configuration)
            agreed, answers = fabric.verify(), net.ping("h1", "h16")
            step = fabric.install_step("h1", 0, 100_000, 1_835_008, StepPolicy.of(configuration))

One module per program: `controller.switch` (classes, routes, limits, marking, counters) and `controller.nic`
(classes, feedback groups, loss budgets, byte state, counters), over `controller.device` (arbitration,
pipeline, entities, packets); `controller.programs` compiles. `FabricController` is the same for asyncio. The
controller knows the programs and P4Runtime, nothing of a target's inside. Every failure is a
`ControllerError` of one line.
"""

from __future__ import annotations

import os

# gRPC reports every stopped server on stderr; we say it in one line of our own.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from controller.errors import ControllerError
from controller.fabric import FabricController
from controller.nic import STEP_SLOTS, InstalledStep, Nic, NicCounters, StepPolicy, StepState
from controller.programs import Program, Programs, choose_compiler, compile_programs
from controller.switch import PortCount, Switch, SwitchCounters
from controller.sync import Fabric

__all__ = [
    "STEP_SLOTS",
    "ControllerError",
    "Fabric",
    "FabricController",
    "InstalledStep",
    "Nic",
    "NicCounters",
    "PortCount",
    "Program",
    "Programs",
    "StepPolicy",
    "StepState",
    "Switch",
    "SwitchCounters",
    "choose_compiler",
    "compile_programs",
]
