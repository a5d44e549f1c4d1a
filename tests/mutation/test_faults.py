# SPDX-License-Identifier: Apache-2.0
"""Each seeded fault makes its packet tests fail, which pass on the program as it is.

A list of faults goes stale when the programs change: a fault whose text is not there exactly once fails
here, and wants a new text in `faults.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.model import traffic
from tests.model.compare import Comparison, Mismatch
from tests.mutation.faults import FAULTS, QUICK, Fault
from tests.support import packet_tests
from tests.support.memory import MemoryDut
from tests.support.programs import SOURCES, compile_program


def mutated(fault: Fault, directory: Path) -> Path:
    """A copy of the sources with the fault in it."""
    sources = directory / "p4src"
    shutil.copytree(SOURCES, sources)
    path = sources / fault.path
    text = path.read_text()
    found = text.count(fault.old)
    if found != 1:
        raise AssertionError(
            f"fault {fault.name!r}: its text is {found} times in p4src/{fault.path}, not once; "
            f"the program has changed, so update tests/mutation/faults.py:\n{fault.old}"
        )
    path.write_text(text.replace(fault.old, fault.new))
    return sources


@pytest.fixture(scope="module")
def sound() -> Iterator[dict[str, MemoryDut]]:
    """The programs as they are."""
    duts = {name: packet_tests.device(compile_program(name)) for name in ("nic", "switch")}
    yield duts
    for dut in duts.values():
        dut.close()


def test_the_list() -> None:
    """Every fault has a name of its own and tests that exist; its text is in the program once."""
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 30
    assert set(QUICK) <= set(names)
    known = {suite: set(packet_tests.names(suite)) for suite in ("nic", "switch")}
    for fault in FAULTS:
        assert fault.caught_by and set(fault.caught_by) <= known[fault.program], fault.name
        text = (SOURCES / fault.path).read_text()
        assert text.count(fault.old) == 1, f"{fault.name!r}: update tests/mutation/faults.py"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name, marks=() if fault.name in QUICK else pytest.mark.slow)
        for fault in FAULTS
    ],
)
def test_fault_is_caught(fault: Fault, sound: dict[str, MemoryDut], tmp_path: Path) -> None:
    for test in fault.caught_by:
        said = packet_tests.run(fault.program, test, sound[fault.program])
        assert said is None, f"{test} fails without the fault:\n{said}"
    dut = packet_tests.device(compile_program(fault.program, mutated(fault, tmp_path), cache=tmp_path))
    try:
        for test in fault.caught_by:
            assert packet_tests.run(fault.program, test, dut) is not None, f"{test} did not notice"
    finally:
        dut.close()


# The first plan that shows the fault is not made small, and hypothesis prints it.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize(
    "name",
    [
        "a short tail counted as a block",
        pytest.param("a range trimmed again charged again", marks=pytest.mark.slow),
        pytest.param("late data overwrites forgiven", marks=pytest.mark.slow),
        pytest.param("exhausted latched", marks=pytest.mark.slow),
        pytest.param("draw not fresh", marks=pytest.mark.slow),
        pytest.param("vesting: <= turned into <", marks=pytest.mark.slow),
        pytest.param("budget ignored when closed", marks=pytest.mark.slow),
        pytest.param("trimmed headers start flows that only data may start", marks=pytest.mark.slow),
        pytest.param("an unknown flow requested with the flags", marks=pytest.mark.slow),
        pytest.param("a flow of the old step touches the new one", marks=pytest.mark.slow),
    ],
)
def test_model_notices(name: str, tmp_path: Path) -> None:
    """The comparison with the reference model sees faults by itself, from random traffic."""
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    dut = MemoryDut(compile_program("nic", mutated(fault, tmp_path), cache=tmp_path), (1, 2))
    kinds = traffic.RECEIVER_KINDS * 3 + traffic.CONTROL_KINDS

    @settings(
        max_examples=300,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=traffic.plans(kinds, max_ops=90) | traffic.tight_plans())
    def compare(plan: traffic.Plan) -> None:
        Comparison(dut).run(traffic.resolve(plan))

    try:
        with pytest.raises(Mismatch):
            compare()
    finally:
        dut.close()
