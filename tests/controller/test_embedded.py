# SPDX-License-Identifier: Apache-2.0
"""The controller against real devices: the embedded target as a process, without interfaces or root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller import ControllerError, Fabric, Programs, StepPolicy
from profiles import Configuration
from topologies import Topology, fat_tree, targets
from topologies.targets import DeviceSettings, Embedded

pytestmark = pytest.mark.timeout(300)


class Running:
    """Seven devices of a 2-ary fat-tree."""

    def __init__(self, directory: Path) -> None:
        self.topology: Topology = fat_tree(2)
        self.devices: list[DeviceSettings] = [
            replace(device, ports=(), grpc_address=f"unix:{directory}/{device.name}.sock")
            for device in targets.settings(self.topology, None)
        ]
        self.target = Embedded(threads=1)
        self.target.start(self.devices, directory)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    one = Running(tmp_path_factory.mktemp("fabric"))
    yield one
    one.target.stop()


@pytest.fixture
def fabric(running: Running, programs: Programs) -> Iterator[Fabric]:
    with Fabric(running.topology, running.devices, programs) as fabric:
        yield fabric


def test_everything_is_taken_and_reads_back(fabric: Fabric, configuration: Configuration) -> None:
    fabric.install(configuration)
    assert fabric.verify() == 86
    for row in fabric.switch_counters().values():
        assert (row.total.forwarded, row.no_route, row.malformed) == (0, 0, 0)
    assert set(vars_of(fabric)) == {0}


def vars_of(fabric: Fabric) -> list[int]:
    counters = fabric.counters("nic1")
    return [getattr(counters, name) for name in counters.__slots__]


def test_a_push_starts_from_nothing(
    running: Running, programs: Programs, configuration: Configuration
) -> None:
    for _ in range(2):
        with Fabric(running.topology, running.devices, programs) as fabric:
            fabric.install(configuration)
            fabric.verify()


def test_without_a_push_everything_stays(
    running: Running, programs: Programs, configuration: Configuration
) -> None:
    with Fabric(running.topology, running.devices, programs) as fabric:
        fabric.install(configuration)
    with Fabric(running.topology, running.devices, programs, push=False) as second:
        with pytest.raises(ControllerError, match="is there and nobody wrote it"):
            second.verify()
        with pytest.raises(ControllerError, match=r"insert .*: ALREADY_EXISTS: "):
            second.install(configuration)


def test_life_of_a_step(fabric: Fabric, configuration: Configuration, policy: StepPolicy) -> None:
    fabric.install(configuration)
    for step in range(20):
        installed = fabric.install_step("h1", step, 5_000, 1_835_008, policy)
        state = fabric.step_state("h1", step)
        assert (state.slot, state.step, state.installed, state.open) == (step % 8, step, True, True)
        assert (state.received, state.forgiven, state.outstanding, state.trimmed) == (0, 0, 0, 0)
        assert installed.budget == 9_175
        fabric.verify()
        fabric.close_step("h1", step)
        assert fabric.step_state("h1", step).open is False
        fabric.remove_step("h1", step)
        assert fabric.run(fabric.controller.nic("h1").state(step % 8)).installed is False


def test_all_slots_at_once_on_all_nics(
    fabric: Fabric, configuration: Configuration, policy: StepPolicy
) -> None:
    fabric.install(configuration)
    for host in fabric.controller.topology.hosts:
        for step in range(8):
            fabric.install_step(host.name, step, 100_000, 1_000_000 + step, policy)
    assert fabric.verify() == 86 + 16
    with pytest.raises(ControllerError, match=r"^nic1: step 8: slot 0 is taken by step 0"):
        fabric.install_step("h1", 8, 100_000, 1, policy)


def test_the_newest_controller_takes_over(
    running: Running, programs: Programs, configuration: Configuration, policy: StepPolicy
) -> None:
    with Fabric(running.topology, running.devices, programs) as old:
        old.install(configuration)
        with Fabric(running.topology, running.devices, programs, push=False) as new:
            new.install_step("h1", 0, 5_000, 1_000, policy)
            with pytest.raises(ControllerError, match=r"^nic2: "):
                old.install_step("h2", 0, 5_000, 1_000, policy)


def test_a_program_for_another_device_is_refused(
    running: Running, programs: Programs, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(programs.switch.json.read_text()[:-10])
    bad = replace(programs, switch=replace(programs.switch, json=broken))
    with pytest.raises(ControllerError, match=r"^edge1: program switch: INVALID_ARGUMENT: ") as caught:
        Fabric(running.topology, running.devices, bad)
    assert "\n" not in str(caught.value)


def test_a_wrong_device_id(running: Running, programs: Programs) -> None:
    devices = [replace(d, device_id=77) if d.name == "core1" else d for d in running.devices]
    with pytest.raises(ControllerError, match=r"^core1: arbitration: NOT_FOUND: ") as caught:
        Fabric(running.topology, devices, programs)
    assert "\n" not in str(caught.value)


def test_a_target_that_dies(tmp_path: Path, programs: Programs, configuration: Configuration) -> None:
    one = Running(tmp_path)
    try:
        with Fabric(one.topology, one.devices, programs) as fabric:
            one.target.stop()
            with pytest.raises(ControllerError, match=r"is the target alive\?$"):
                fabric.install(configuration)
    finally:
        one.target.stop()
