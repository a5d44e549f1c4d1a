# SPDX-License-Identifier: Apache-2.0
"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from target.api import DeviceError
from target.benchmark.fabric import measure_fabric
from target.benchmark.instructions import measure_instructions
from target.benchmark.pipeline import measure_pipeline
from target.benchmark.veth import measure_veth
from target.bmjson import JsonError


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m target.benchmark", description=__doc__)
    commands = p.add_subparsers(dest="command", required=True)
    pipeline = commands.add_parser(
        "pipeline", help="frames a second through a pipeline in memory, on one core"
    )
    instructions = commands.add_parser(
        "instructions", help="instructions a frame of each part of a pipeline (needs valgrind)"
    )
    veth = commands.add_parser(
        "veth", help="frames a second between two veth pairs, beside a bare forwarder (root)"
    )
    fabric = commands.add_parser(
        "fabric",
        help="packets times links a second in virtual time, with a program that does next to nothing",
    )
    for name, count in (("leaves", 8), ("spines", 8), ("hosts", 8), ("packets", 10_000)):
        what = {"hosts": "hosts at each leaf", "packets": "packets of each host"}.get(name, name)
        fabric.add_argument(f"--{name}", type=_positive, default=count, help=what)
    for command in (pipeline, instructions, veth):
        command.add_argument("json", type=Path, help="BMv2 JSON")
        command.add_argument("--frames", type=Path, required=True, help="frames to send, one in hex a line")
        command.add_argument(
            "--entries", type=Path, help="table entries and groups, see target/benchmark/state.py"
        )
        command.add_argument("--port", type=int, default=1, help="ingress port")
    pipeline.add_argument("--count", type=int, default=5_000_000, help="frames in all")
    instructions.add_argument("--rounds", type=int, default=10, help="how often all frames are sent")
    veth.add_argument("--egress", type=int, default=2, help="port that the frames leave by")
    veth.add_argument("--seconds", type=float, default=3.0)
    veth.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return p


def main() -> int:
    args = parser().parse_args()
    try:
        if args.command == "fabric":
            figures = measure_fabric(args.leaves, args.spines, args.hosts, args.packets)
            sys.stdout.write(json.dumps(figures, indent=1) + "\n")
            return 0
        frames = [bytes.fromhex(line) for line in args.frames.read_text().split()]
        state = json.loads(args.entries.read_text()) if args.entries else {}
        program = args.json.read_text()
        if args.command == "pipeline":
            result = measure_pipeline(program, frames, state, args.port, args.count)
        elif args.command == "instructions":
            result = measure_instructions(program, frames, state, args.port, args.rounds)
        elif args.inside:
            result = measure_veth(program, frames[0], state, args.port, args.egress, args.seconds)
        else:
            if os.geteuid() != 0:
                raise ValueError("the veth benchmark needs root for a network namespace")
            command = [sys.executable, "-m", "target.benchmark", *sys.argv[1:], "--inside"]
            return subprocess.run(["unshare", "--net", *command], check=False).returncode
    except (OSError, ValueError, JsonError, DeviceError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
