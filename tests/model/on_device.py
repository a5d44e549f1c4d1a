# SPDX-License-Identifier: Apache-2.0
"""The comparison of nic.p4 with its model on a device that runs by itself: `python -m tests.model.on_device`.

Enters a private network namespace, starts one device of the target over veth pairs, and feeds it random
plans. Needs root. Exits with 1 and the events that led there if program and model differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, given, settings

from controller.errors import ControllerError
from controller.programs import Program
from tests.model import traffic
from tests.model.compare import Comparison, Mismatch
from tests.model.traffic import CONTROL_KINDS, ODD_KINDS, RECEIVER_KINDS, SENDER_KINDS
from tests.support.programs import ROOT, compile_program
from topologies.isolate import IsolationError, enter_private_namespace
from topologies.targets import TargetError
from topologies.veth import VethError

BAD_INPUT = 2
KINDS = RECEIVER_KINDS * 3 + ODD_KINDS + CONTROL_KINDS + SENDER_KINDS


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.on_device", description=__doc__)
    parser.add_argument("--target", choices=("embedded", "bmv2"), default="embedded")
    parser.add_argument("--plans", type=int, default=20, help="how many random plans")
    options = parser.parse_args(argv)
    try:
        program = compile_program("nic")
        enter_private_namespace()
        return _run(options.target, program, options.plans)
    except (ControllerError, IsolationError, TargetError, VethError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT


def _run(target: str, program: Program, plans: int) -> int:
    from tests.support.device import VethDut

    dut = VethDut(target, program, (1, 2), ROOT / "build" / "model" / target)
    events = 0

    @settings(
        max_examples=plans,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=traffic.plans(KINDS, max_ops=90))
    def compare(plan: traffic.Plan) -> None:
        nonlocal events
        resolved = traffic.resolve(plan)
        events += len(resolved)
        Comparison(dut).run(resolved)

    try:
        compare()
    except Mismatch as error:
        sys.stdout.write(f"{error}\n")
        return 1
    finally:
        dut.close()
    sys.stdout.write(
        f"nic.p4 ({program.compiler}) on {target}: {plans} plans, {events} events, no difference\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
