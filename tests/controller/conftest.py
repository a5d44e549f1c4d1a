# SPDX-License-Identifier: Apache-2.0
"""Compiled programs, and a small fabric of fake devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from controller import Fabric, Programs, StepPolicy, compile_programs
from profiles import Configuration, load
from tests.controller.fake import FakeDevice
from topologies import Topology, fat_tree, targets
from topologies.targets import DeviceSettings


@pytest.fixture(scope="session")
def programs() -> Programs:
    return compile_programs()


@pytest.fixture(scope="session")
def configuration() -> Configuration:
    return load("mininet").at_rate(8_000_000)


@pytest.fixture(scope="session")
def policy(configuration: Configuration) -> StepPolicy:
    return StepPolicy.of(configuration)


@dataclass
class FakeFabric:
    topology: Topology
    devices: dict[str, FakeDevice]
    addresses: list[DeviceSettings]
    programs: Programs

    def connect(self) -> Fabric:
        return Fabric(self.topology, self.addresses, self.programs)


@pytest.fixture
def fakes(programs: Programs) -> Iterator[FakeFabric]:
    """A 2-ary fat-tree: 2 hosts, 2 NICs, 5 switches, none of them connected yet."""
    topology = fat_tree(2)
    with ExitStack() as stack:
        devices, addresses = {}, []
        for device in targets.settings(topology, None):
            fake = stack.enter_context(FakeDevice())
            devices[device.name] = fake
            addresses.append(replace(device, grpc_address=fake.address))
        yield FakeFabric(topology, devices, addresses, programs)


@pytest.fixture
def fabric(fakes: FakeFabric) -> Iterator[Fabric]:
    with fakes.connect() as fabric:
        yield fabric
