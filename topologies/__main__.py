# SPDX-License-Identifier: Apache-2.0
"""`python -m topologies fat_tree k=4 --picture tree.png`: look at a topology without building it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from topologies import Topology, TopologyError, build, from_json, routes, to_json

EXIT_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m topologies", description=__doc__.partition(": ")[2])
    parser.add_argument("topology", help="fat_tree, leaf_spine, or a JSON file")
    parser.add_argument("sizes", nargs="*", help="k=4, or leaves=8 spines=2 hosts_per_leaf=8")
    parser.add_argument("--json", type=Path, help="write it as JSON")
    parser.add_argument("--picture", type=Path, help="draw it: .png, .svg or .pdf")
    parser.add_argument("--routes", action="store_true", help="print every switch's routes")
    options = parser.parse_args(arguments)
    try:
        topology = _topology(options.topology, options.sizes)
        if options.json is not None:
            options.json.write_text(to_json(topology))
        if options.picture is not None:
            from topologies.picture import draw

            draw(topology, options.picture)
    except (TopologyError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD_INPUT
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}; give a path that can be written\n")
        return EXIT_BAD_INPUT
    sys.stdout.write(_routes(topology) if options.routes else _summary(topology))
    return 0


def _topology(name: str, sizes: Sequence[str]) -> Topology:
    if name.endswith(".json"):
        try:
            return from_json(Path(name).read_text(), name)
        except OSError as error:
            raise TopologyError(f"{name}: {error.strerror}; give the file of a topology") from None
    parameters = {}
    for size in sizes:
        key, _, value = size.partition("=")
        if not value.isdecimal():
            raise TopologyError(f"{size}: write a name and a whole number, for example k=4")
        parameters[key] = int(value)
    return build(name, **parameters)


def _summary(topology: Topology) -> str:
    counts = [f"{len(topology.hosts)} hosts"]
    counts += [f"{len(topology.layer(layer))} {layer}" for layer in topology.layers]
    return f"{topology.family}: {', '.join(counts)}, {len(topology.links)} links\n"


def _routes(topology: Topology) -> str:
    lines = []
    for name, table in routes(topology).items():
        lines += [f"{name} {route.prefix} -> {', '.join(map(str, route.ports))}" for route in table.routes]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
