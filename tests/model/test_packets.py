# SPDX-License-Identifier: Apache-2.0
"""Every packet test of ptf_tests/, in memory; and the ptf runner itself, as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import packet_tests
from tests.support.dut import Dut, target_name
from tests.support.programs import ROOT, compile_program

RUNNER_TIMEOUT_S = 900


@pytest.fixture(scope="module", params=("switch", "nic"))
def suite(request: pytest.FixtureRequest) -> Iterator[tuple[str, Dut]]:
    if target_name() != "embedded":
        pytest.skip("in memory: the embedded target alone; test_ptf_runner runs them on BMv2")
    dut = packet_tests.device(compile_program(request.param))
    yield request.param, dut
    dut.close()


def test_packets_in_memory(suite: tuple[str, Dut]) -> None:
    """All of a suite, each test on an emptied device."""
    name, dut = suite
    tests = packet_tests.names(name)
    failed = {test: said for test in tests if (said := packet_tests.run(name, test, dut)) is not None}
    assert len(tests) > 40
    assert not failed, "\n".join(f"{test}\n{said}" for test, said in failed.items())


@pytest.mark.root
@pytest.mark.timeout(RUNNER_TIMEOUT_S)
@pytest.mark.parametrize("suite_name", ["switch", "nic"])
def test_ptf_runner(suite_name: str) -> None:
    """`python -m ptf_tests.run` over veth pairs in a namespace, on the target that TARGET names."""
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespace and veth")
    if target_name() == "bmv2" and shutil.which("simple_switch_grpc") is None:
        pytest.skip("needs BMv2: simple_switch_grpc is not on PATH")
    done = subprocess.run(
        [sys.executable, "-m", "ptf_tests.run", "--test", suite_name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUNNER_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
