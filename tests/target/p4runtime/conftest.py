# SPDX-License-Identifier: Apache-2.0
"""Servers for the tests. What needs no look inside runs twice: on the fake device and on the engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from target.api import DeviceApi
from target.p4runtime import Endpoint, ServerThread
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client
from tests.target.p4runtime.fake import FakeDevice


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device_kind" in metafunc.fixturenames:
        kinds = ["fake"] if "fake" in metafunc.fixturenames else ["fake", "engine"]
        metafunc.parametrize("device_kind", kinds, indirect=False, scope="function")


@pytest.fixture
def fake() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def device(device_kind: str, request: pytest.FixtureRequest) -> Iterator[DeviceApi]:
    """The device behind the server."""
    if device_kind == "fake":
        names = request.fixturenames
        yield request.getfixturevalue("fake") if "fake" in names else FakeDevice()
        return
    if shutil.which("cc") is None:
        pytest.skip("the engine needs a C compiler (cc)")
    from target.engine import Engine

    with Engine() as engine:
        device = engine.add_device("device1", 1, cpu_port=program.CPU_PORT)
        engine.start()
        yield device


@pytest.fixture
def address(device: DeviceApi, tmp_path: Path) -> Iterator[str]:
    """Where a server for `device` listens."""
    thread = ServerThread([Endpoint(f"unix:{tmp_path}/p4rt.sock", (device,))])
    (bound,) = thread.start()
    yield bound
    thread.stop()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    """A client without a stream."""
    client = Client(address)
    yield client
    client.close()


@pytest.fixture
def primary(client: Client) -> Client:
    """A client that is primary and has pushed the test pipeline."""
    client.primary(1)
    client.set_config(program.config(cookie=42))
    return client
