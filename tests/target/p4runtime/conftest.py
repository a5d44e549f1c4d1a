# SPDX-License-Identifier: Apache-2.0
"""Servers for the tests: on the fake device, and on whatever else can be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from target.p4runtime import Endpoint, ServerThread
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client
from tests.target.p4runtime.fake import FakeDevice


@pytest.fixture
def fake() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def address(fake: FakeDevice, tmp_path: Path) -> Iterator[str]:
    """Where a server for `fake` listens."""
    thread = ServerThread([Endpoint(f"unix:{tmp_path}/p4rt.sock", (fake,))])
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
