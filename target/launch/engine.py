# SPDX-License-Identifier: Apache-2.0
"""The native engine behind the launcher's `EngineHandle`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from target.api import DeviceApi, DeviceError
from target.launch.run import EngineFactory
from target.launch.settings import DeviceSettings, SettingsError

if TYPE_CHECKING:
    from target.engine import Engine


def native_engine(pcap: Path | None = None) -> EngineFactory:
    """A factory of engines; `pcap`: directory for captures of all ports.

    Raises SettingsError if the directory is none or the engine can't be loaded or built.
    """
    if pcap is not None and not pcap.is_dir():
        raise SettingsError(f"--pcap: there is no directory {pcap}; create it first")
    from target import build, native
    from target.engine import Engine

    try:
        native.load()
    except (build.BuildError, OSError) as error:
        raise SettingsError(f"the engine can't be built: {error}") from None
    return lambda: _Native(Engine(), pcap)


def compile_program(bmv2_json: str) -> None:
    """Compile a program into the cache, so that its first push is quick. Raises SettingsError."""
    from target.build import BuildError
    from target.pipeline import compile_pipeline

    try:
        compile_pipeline(bmv2_json)
    except (BuildError, ValueError) as error:
        raise SettingsError(f"can't be compiled: {error}") from None


class _Native:
    def __init__(self, engine: Engine, pcap: Path | None) -> None:
        self._engine = engine
        self._pcap = pcap

    def add_device(self, settings: DeviceSettings) -> DeviceApi:
        try:
            device = self._engine.add_device(
                settings.name,
                settings.device_id,
                cpu_port=settings.cpu_port,
                drop_port=settings.drop_port,
                priority_queues=settings.priority_queues,
            )
            for port in settings.ports:
                device.add_port(
                    port.port,
                    port.interface,
                    rate_bps=port.rate_bps,
                    queue_bytes=settings.capacities(port),
                    delay_ns=port.delay_ns,
                    share_ppm=port.share_ppm,
                )
                if self._pcap is not None:
                    device.capture(port.port, str(self._pcap))
        except DeviceError as error:
            raise SettingsError(f"device {settings.name!r}: {error.message}") from None
        return device

    def start(self) -> None:
        self._engine.start()

    def stop(self) -> None:
        self._engine.close()
