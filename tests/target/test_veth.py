# SPDX-License-Identifier: Apache-2.0
"""Ports on veth pairs, driven by the wall clock, in network namespaces that vanish with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
]

_SCENARIOS = Path(__file__).with_name("veth_scenarios.py")


@pytest.mark.parametrize(
    "name",
    [
        "forwarding", "vlan_tags", "large_frames", "pacing", "interface_returns", "swap_under_traffic",
        "packet_in_and_out", "captures", "many_devices", "restart", "own_frames_are_not_received",
        "unfinished_checksums", "a_tap_at_our_end_sees_both_directions", "ports_come_and_go",
        "weighted_shares",
    ],
)  # fmt: skip
def test_scenario(name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        ["unshare", "--net", sys.executable, str(_SCENARIOS), name, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
