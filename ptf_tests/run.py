# SPDX-License-Identifier: Apache-2.0
"""Run the packet tests against a device: `python -m ptf_tests.run [--target embedded|bmv2] [--test NAME]`.

Makes a private network namespace with veth pairs, starts one device per program, waits until its P4Runtime
server answers, runs `ptf`, stops the device, and exits with ptf's status. Needs root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "ptf"

SUITES = ("switch", "nic")
PORTS = {"switch": (1, 2, 3, 4, 5), "nic": (1, 2)}
SLOW_PORT = 5
FRAME_BYTES = 1024
"""A frame of this length takes half a second at the switch's slow port (switch_test.py)."""
SLOW_RATE_BPS = 2 * FRAME_BYTES * 8

BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if os.geteuid() != 0:
        sys.stderr.write("packet tests need root (network namespace, veth): run them with sudo\n")
        return BAD_INPUT
    try:
        suites = select(options.test)
    except LookupError as error:
        sys.stderr.write(f"{error.args[0]}\n")
        return BAD_INPUT

    from topologies.isolate import IsolationError, enter_private_namespace

    try:
        enter_private_namespace()
        statuses = [_run_suite(suite, options.target, tests) for suite, tests in suites.items()]
    except IsolationError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    return max(statuses)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ptf_tests.run", description="Run the packet tests.")
    parser.add_argument(
        "--target",
        choices=("embedded", "bmv2"),
        default=os.environ.get("TARGET", "embedded"),
        help="what runs the programs (default: TARGET, else embedded)",
    )
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        metavar="NAME",
        help="a suite (switch, nic), a module (trimming) or a class (trimming.QueueLimitFits); repeatable",
    )
    return parser.parse_args(argv)


def select(names: Sequence[str]) -> dict[str, list[str]]:
    """suite -> ptf test specs (none: all of it). A module of both suites counts for both. Raises
    LookupError."""
    here = Path(__file__).parent
    modules = {suite: {path.stem for path in (here / suite).glob("*.py")} for suite in SUITES}
    chosen: dict[str, list[str]] = {} if names else {suite: [] for suite in SUITES}
    for name in names:
        module = name.partition(".")[0]
        found = [suite for suite in SUITES if name == suite or module in modules[suite]]
        if not found:
            known = sorted({*SUITES, *modules["switch"], *modules["nic"]})
            raise LookupError(f"no test {name}; there are {', '.join(known)}")
        for suite in found:
            chosen.setdefault(suite, []).extend([] if name == suite else [name])
    return chosen


def _run_suite(suite: str, target_name: str, tests: Sequence[str]) -> int:
    from controller.errors import ControllerError
    from tests.support.device import make_interfaces, settings
    from tests.support.programs import compile_program
    from topologies.targets import TargetError, find
    from topologies.veth import VethError

    logs = LOGS / f"{target_name}-{suite}"
    logs.mkdir(parents=True, exist_ok=True)
    ports = PORTS[suite]
    try:
        program = compile_program(suite)
        sys.stdout.write(f"{suite}: {program.compiler}'s JSON on {target_name}\n")
        sys.stdout.flush()
        target = find(target_name)
        device = settings(suite, ports, {SLOW_PORT: SLOW_RATE_BPS}, FRAME_BYTES)
        make_interfaces(device)
        target.start((device,), logs)
    except (ControllerError, TargetError, VethError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    try:
        params = {
            "address": device.grpc_address,
            "device_id": device.device_id,
            "p4info": str(program.p4info),
            "json": str(program.json),
            "target": target_name,
        }
        command = [
            *(sys.executable, str(Path(sys.executable).with_name("ptf"))),
            *("--test-dir", str(ROOT / "ptf_tests" / suite), "--pypath", str(ROOT)),
            *(f"--interface={port}@{suite}{port}t" for port in ports),
            *("--test-params", ";".join(f"{name}={value!r}" for name, value in params.items())),
            *("--log-file", str(logs / "ptf.log"), "--default-timeout", "5"),
            *("--socket-recv-size", "16384"),
            *tests,
        ]
        status = subprocess.run(command, cwd=logs, check=False).returncode
        failure = target.failure()
        if failure is not None:
            sys.stderr.write(f"{failure}\n")
            status = status or 1
        return status
    finally:
        target.stop()


if __name__ == "__main__":
    sys.exit(main())
