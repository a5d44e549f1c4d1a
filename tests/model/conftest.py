# SPDX-License-Identifier: Apache-2.0
"""One device for each program, compiled once and emptied between runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dut import Dut, target_name
from tests.support.memory import MemoryDut
from tests.support.programs import compile_program

NIC_PORTS = (1, 2)
SWITCH_PORTS = (1, 2, 3, 4, 5)
SLOW_PORT = 5
SLOW_RATE_BPS = 16_384


@pytest.fixture(scope="session")
def nic_dut() -> Iterator[Dut]:
    """nic.p4 on the embedded target, in memory."""
    _embedded_only()
    dut = MemoryDut(compile_program("nic"), NIC_PORTS)
    yield dut
    dut.close()


@pytest.fixture(scope="session")
def switch_dut() -> Iterator[Dut]:
    """switch.p4 on the embedded target, in memory; every port slow enough to queue."""
    _embedded_only()
    rates = dict.fromkeys(SWITCH_PORTS, SLOW_RATE_BPS)
    dut = MemoryDut(compile_program("switch"), SWITCH_PORTS, rates)
    yield dut
    dut.close()


def _embedded_only() -> None:
    if target_name() != "embedded":
        pytest.skip("in memory: the embedded target alone; test_bmv2.py compares on BMv2")
