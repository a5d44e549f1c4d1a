# SPDX-License-Identifier: Apache-2.0
"""`python -m hosts.bench`: packets per CPU second of the transport core alone (send, deliver, acknowledge),
and of the checker (arrival, delivery, report)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from hosts.build import CORE, build, sources

MESSAGE_BYTES = 2_136_230
"""A data-parallel message of the paper's study."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    messages: int
    flows: int
    mark_every: int
    """Every so many packets of a flow one acknowledgement carries an echo; 0: none."""


SCENARIOS = (
    Scenario("1 flow, no marks", 2000, 1, 0),
    Scenario("7 flows, no marks", 2000, 7, 0),
    Scenario("7 flows, an echo in 16", 1000, 7, 16),
    Scenario("63 flows, an echo in 16", 1000, 63, 16),
)


@dataclass(frozen=True, slots=True)
class CheckerScenario:
    name: str
    messages: int
    flows: int
    trim_every: int
    """One in so many packets comes trimmed first; 0: none."""


CHECKER_SCENARIOS = (
    CheckerScenario("checker, 7 flows in order", 2000, 7, 0),
    CheckerScenario("checker, a trim in 20", 2000, 7, 20),
)


def run(scenario: Scenario) -> dict[str, float]:
    """packets, cpu_s, simulated_s, signals, rate_cuts of one run. Raises BuildError, CalledProcessError."""
    return _run("bench", scenario.messages, scenario.flows, MESSAGE_BYTES, scenario.mark_every)


def run_checker(scenario: CheckerScenario) -> dict[str, float]:
    """packets, cpu_s of one run. Raises BuildError, CalledProcessError."""
    return _run("checker_bench", scenario.messages, scenario.flows, MESSAGE_BYTES, scenario.trim_every)


def _run(name: str, *arguments: int) -> dict[str, float]:
    program = build(name, [*sources(), CORE / "tools" / f"{name}.c"], shared=False)
    output = subprocess.run(
        [str(program), *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, float] = json.loads(output)
    return found


def main() -> int:
    write = sys.stdout.write
    write(f"{'scenario':<28}{'packets':>12}{'CPU s':>9}{'M packets/CPU s':>17}{'ns/packet':>11}{'cuts':>9}\n")
    results = [(scenario.name, run(scenario)) for scenario in SCENARIOS]
    results += [(scenario.name, run_checker(scenario)) for scenario in CHECKER_SCENARIOS]
    for name, found in results:
        speed = found["packets"] / found["cpu_s"]
        write(
            f"{name:<28}{found['packets']:>12,.0f}{found['cpu_s']:>9.2f}{speed / 1e6:>17.2f}"
            f"{1e9 / speed:>11.1f}{found.get('rate_cuts', 0):>9,.0f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
