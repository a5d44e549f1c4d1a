# SPDX-License-Identifier: Apache-2.0
"""Topologies as data, and the Mininet network built from one.

    from topologies import fat_tree, routes
    topology = fat_tree(4)                  # hosts h1..h16, NICs nic1..nic16, switches edge1.. agg1.. core1..
    topology.host("h16").ip                 # 10.3.1.3
    routes(topology)["edge1"].routes        # prefixes and equal-cost ports, no Mininet needed

`topologies.mininet_net.MininetFabric` builds a network from it, `topologies.isolate` keeps it in a private
namespace, `topologies.capture` records packets, `topologies.picture` draws. `mn --custom
topologies/mininet_topo.py --topo fattree,4` works too. Only `mininet_net` needs Mininet; nothing here knows a
target's inside or a P4 program's tables.
"""

from __future__ import annotations

from topologies.families import build, fat_tree, leaf_spine
from topologies.model import (
    CPU_PORT,
    HOST_PORT,
    NIC_HOST_PORT,
    NIC_WIRE_PORT,
    Device,
    Host,
    Kind,
    Link,
    Port,
    Tier,
    Topology,
    TopologyError,
)
from topologies.routing import Route, SwitchRoutes, path_count, routes
from topologies.store import from_json, to_json

__all__ = [
    "CPU_PORT",
    "HOST_PORT",
    "NIC_HOST_PORT",
    "NIC_WIRE_PORT",
    "Device",
    "Host",
    "Kind",
    "Link",
    "Port",
    "Route",
    "SwitchRoutes",
    "Tier",
    "Topology",
    "TopologyError",
    "build",
    "fat_tree",
    "from_json",
    "leaf_spine",
    "path_count",
    "routes",
    "to_json",
]
