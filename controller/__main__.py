# SPDX-License-Identifier: Apache-2.0
"""`python -m controller run`: a fabric in Mininet, programmed, with Mininet's command line. `program`: only
the latter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from controller import ControllerError, Fabric, compile_programs
from controller.programs import main as programs_main
from profiles import Configuration, Family, ProfileError, load
from topologies import Topology, TopologyError, build, from_json, targets
from topologies.isolate import IsolationError, enter_private_namespace
from topologies.mininet_net import MininetFabric
from topologies.mininet_path import MininetMissing
from topologies.veth import VethError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
DEFAULT_RATE_BPS = 100_000_000

EXPECTED = (
    ControllerError,
    IsolationError,
    MininetMissing,
    ProfileError,
    TopologyError,
    VethError,
    targets.TargetError,
)


def topology_of(configuration: Configuration) -> Topology:
    """The topology that a configuration asks for."""
    fabric = configuration.fabric
    if fabric.family is Family.FAT_TREE:
        return build(str(fabric.family), k=fabric.k)
    return build(
        str(fabric.family),
        leaves=fabric.leaves,
        spines=fabric.spines,
        hosts_per_leaf=fabric.hosts_per_leaf,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except EXPECTED as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m controller", description="A fabric and its controller.")
    actions = parser.add_subparsers(required=True)
    run = actions.add_parser("run", help="build a fabric in Mininet, program it, open Mininet's command line")
    run.add_argument("--target", default="embedded", help="embedded (default) or bmv2")
    run.add_argument("--profile", help="name or .toml file; the target's own by default")
    run.add_argument(
        "--rate", type=int, default=DEFAULT_RATE_BPS, help="link rate in bit/s (default 100 Mb/s)"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change a profile"
    )
    run.add_argument(
        "--command", action="append", default=[], help="a Mininet command to run instead; repeatable"
    )
    run.set_defaults(action=_run)
    compiling = actions.add_parser("compile", help="compile the P4 programs into build/")
    compiling.set_defaults(action=lambda _options: programs_main())
    program = actions.add_parser("program", help="program the running devices of a topology: routes alone")
    program.add_argument("topology", type=Path, help="JSON file of the topology")
    program.set_defaults(action=_program)
    return parser


def _run(options: argparse.Namespace) -> int:
    target = targets.find(options.target)
    profile = load(options.profile or target.default_profile).override_text(options.set)
    configuration = profile.at_rate(options.rate)
    topology = topology_of(configuration)
    programs = compile_programs()
    _say(f"programs compiled by {programs.compiler}")
    run = enter_private_namespace()
    with MininetFabric(topology, target=target, directory=run.directory, configuration=configuration) as net:
        hosts, nics, switches = len(topology.hosts), len(topology.nics()), len(topology.switches())
        _say(f"{hosts} hosts, {nics} NICs, {switches} switches are up")
        with Fabric(topology, net.devices, programs) as fabric:
            fabric.install(configuration, seed=configuration.workload.seeds[0] & 0x7FFFFFFF)
            _say(f"{fabric.verify()} entities written, read back and equal")
            return _commands(net, options.command)


def _commands(net: MininetFabric, commands: Sequence[str]) -> int:
    from mininet.cli import CLI
    from mininet.log import setLogLevel

    setLogLevel("info")
    if not commands:
        CLI(net.mininet)
        return 0
    script = net.directory / "commands"
    script.write_text("\n".join(commands) + "\n")
    CLI(net.mininet, script=str(script))
    return 0


def _program(options: argparse.Namespace) -> int:
    try:
        text = options.topology.read_text()
    except OSError as error:
        raise TopologyError(f"{options.topology}: {error.strerror}; give the file of a topology") from None
    topology = from_json(text, str(options.topology))
    with Fabric(topology, targets.settings(topology, None), compile_programs()) as fabric:
        fabric.install(None)
        _say(f"{fabric.verify()} entities written, read back and equal")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
