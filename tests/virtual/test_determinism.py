# SPDX-License-Identifier: Apache-2.0
"""The same seed and configuration give the same run, to the byte, in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.virtual.scenes import play


def elsewhere(seed: int, directory: Path) -> Any:
    """The scene in a process of its own, with another hash seed and other addresses."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.virtual.scenes", str(seed), str(directory)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": "12345", "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def test_two_processes_do_the_same_and_another_seed_does_not(tmp_path: Path) -> None:
    here = json.loads(json.dumps(play(5, tmp_path / "a")))
    assert elsewhere(5, tmp_path / "b") == here
    other = json.loads(json.dumps(play(6, tmp_path / "c")))
    for part in ("reports", "hosts", "messages", "switches", "captures"):
        assert other[part] != here[part]


def test_the_scene_is_worth_repeating(tmp_path: Path) -> None:
    left = play(5, tmp_path)
    hosts, switches = left["hosts"].values(), left["switches"].values()
    ports = [port for switch in switches for port in switch["ports"].values()]
    assert sum(port["marked"] for port in ports) > 0 and sum(port["trimmed"] for port in ports) > 0
    assert sum(host["forgiven_bytes"] for host in hosts) > 0
    assert sum(host["rtos"] for host in hosts) > 0  # lost frames
    assert sum(host["exempt_messages"] for host in hosts) > 0
