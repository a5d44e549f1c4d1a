# SPDX-License-Identifier: Apache-2.0
"""nic.p4 beside the model on a device with a clock of its own, over veth and P4Runtime: either target."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.programs import ROOT

TIMEOUT_S = 600


@pytest.mark.root
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize(
    ("target", "plans"), [("embedded", 10), pytest.param("bmv2", 40, marks=pytest.mark.bmv2)]
)
def test_nic_on_device(target: str, plans: int) -> None:
    """Random plans of every kind; the module says how it is run by hand."""
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespace and veth")
    if target == "bmv2" and shutil.which("simple_switch_grpc") is None:
        pytest.skip("needs BMv2: simple_switch_grpc is not on PATH")
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.on_device", "--target", target, "--plans", str(plans)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
