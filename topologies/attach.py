# SPDX-License-Identifier: Apache-2.0
"""Run a command inside a running fabric: `python -m topologies.attach -- tcpdump -ni edge1-eth1`.

Devices' interfaces are in the fabric's own namespace; `--node h1` enters a host's: `python -m
topologies.attach --node h1 -- ping 10.3.1.3`. Several runs at once: choose with `--run`, `--list` shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from topologies.isolate import LiveRun, live_runs


class AttachError(RuntimeError):
    """Nothing to attach to. One line with the mend."""


def find_run(number: int | None) -> LiveRun:
    """The running fabric, or the one of that number. Raises AttachError."""
    runs = live_runs()
    if number is not None:
        runs = [run for run in runs if run.supervisor == number]
    if not runs:
        which = "no fabric" if number is None else f"no fabric {number}"
        raise AttachError(f"{which} is running here; start one, for example: python -m controller")
    if len(runs) > 1:
        raise AttachError(f"{len(runs)} fabrics are running: choose one with --run {runs[-1].supervisor}")
    return runs[0]


def command_line(run: LiveRun, node: str | None, command: Sequence[str]) -> list[str]:
    """The nsenter call that runs `command` in a run, or in one of its hosts. Raises AttachError."""
    enter = ["nsenter", f"--target={run.init}", "--net", "--mount", "--pid", "--wd=.", "--"]
    if node is None:
        return [*enter, *command]
    try:
        pids: dict[str, int] = json.loads((run.directory / "nodes.json").read_text())
    except OSError:
        raise AttachError("the fabric has no hosts yet; try again when it is up") from None
    if node not in pids:
        raise AttachError(f"no host {node}; hosts are {', '.join(pids)}")
    return [*enter, "nsenter", f"--target={pids[node]}", "--net", "--", *command]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m topologies.attach", description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=int, help="number of the run, if there are several")
    parser.add_argument("--node", help="host whose namespace to enter, for example h1")
    parser.add_argument("--list", action="store_true", help="show what is running")
    parser.add_argument("command", nargs="*", default=[], help="after --; a shell if not given")
    options = parser.parse_args(arguments)
    if options.list:
        for run in live_runs():
            sys.stdout.write(f"{run.supervisor}  {run.command}\n")
        return 0
    try:
        run = find_run(options.run)
        command = command_line(run, options.node, options.command or [os.environ.get("SHELL", "/bin/sh")])
        os.execvp(command[0], command)
    except AttachError as error:
        sys.stderr.write(f"{error}\n")
    except FileNotFoundError:
        sys.stderr.write("nsenter isn't on PATH; install it: apt-get install util-linux\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
