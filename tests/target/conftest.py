# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from target.engine import Device, Engine


@pytest.fixture
def make_device() -> Iterator[Callable[..., Device]]:
    """Devices with in-memory ports 1..4, on engines that the caller's clock drives."""
    engines: list[Engine] = []

    def make(program: str | None = None, ports: int = 4, **config: int) -> Device:
        engine = Engine()
        engines.append(engine)
        device = engine.add_device("s1", 1, **config)
        for port in range(1, ports + 1):
            device.add_port(port)
        if program is not None:
            device.load_pipeline(program)
        return device

    yield make
    for engine in engines:
        engine.close()
