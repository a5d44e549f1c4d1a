# SPDX-License-Identifier: Apache-2.0
"""The fabric benchmark sends what it says. No figure is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from target.benchmark.fabric import measure_fabric

ROOT = Path(__file__).resolve().parents[2]


def test_every_packet_crosses_four_links() -> None:
    figures = measure_fabric(leaves=3, spines=2, hosts=2, packets=50)
    assert figures["received"] == 300
    assert figures["hops"] == 1200
    assert figures["million_hops_per_cpu_s"] > 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--leaves", "2", "--spines", "1", "--hosts", "1", "--packets", "2"], 0), (["--leaves", "1"], 2)],
)
def test_command_line(arguments: list[str], status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "target.benchmark", "fabric", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    if status:
        assert "two leaves at least" in done.stderr and done.stderr.count("\n") == 1
    else:
        assert json.loads(done.stdout)["hops"] == 16
