# SPDX-License-Identifier: Apache-2.0
"""What a fabric asks of a target, and one adapter per target: the only place where targets differ.

`settings(topology, configuration)` says what every device is; `find(name)` gives the adapter that starts
them: "embedded" (one process for the whole fabric) or "bmv2" (a `simple_switch_grpc` each).
"""

from __future__ import annotations

from topologies.targets.base import (
    FIRST_GRPC_PORT,
    PRIORITY_QUEUES,
    DeviceSettings,
    PortSettings,
    Target,
    TargetError,
    settings,
)
from topologies.targets.bmv2 import Bmv2
from topologies.targets.embedded import Embedded

TARGETS: dict[str, type[Target]] = {"embedded": Embedded, "bmv2": Bmv2}


def find(name: str) -> Target:
    """The adapter of that name, checked to be usable here. Raises TargetError."""
    if name not in TARGETS:
        raise TargetError(f"no target {name}; give {' or '.join(TARGETS)}")
    target = TARGETS[name]()
    target.check()
    return target


__all__ = [
    "FIRST_GRPC_PORT",
    "PRIORITY_QUEUES",
    "TARGETS",
    "Bmv2",
    "DeviceSettings",
    "Embedded",
    "PortSettings",
    "Target",
    "TargetError",
    "find",
    "settings",
]
