# SPDX-License-Identifier: Apache-2.0
"""The life of a process of the target: engines, P4Runtime servers, ready, stop."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from finsy.proto import p4r

from target.api import DeviceApi, DeviceError
from target.launch.settings import DeviceSettings, SettingsError
from target.p4runtime import BindError, Endpoint, ServerThread, TlsConfig
from target.p4runtime.status import P4Error

_LOG = logging.getLogger(__name__)


class EngineHandle(Protocol):
    """What runs devices: one packet loop. Nothing is attached or started before `start`."""

    def add_device(self, settings: DeviceSettings) -> DeviceApi:
        """A device with its ports. Raises SettingsError if the device or an interface can't be used."""

    def start(self) -> None: ...
    def stop(self) -> None:
        """End the loop, if it runs, and free everything."""


EngineFactory = Callable[[], EngineHandle]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything that one process runs.

    `program`: a BMv2 JSON that every device loads at start; `p4info`: its P4Info, which makes it the device's
    P4Runtime config. `threads`: packet loops that the devices are spread over.
    """

    devices: tuple[DeviceSettings, ...]
    threads: int = 1
    program: str | None = None
    p4info: bytes | None = None
    tls: TlsConfig | None = None
    ready_file: Path | None = None


def run(
    launch: Launch,
    engine_factory: EngineFactory,
    stop: threading.Event,
    announce: Callable[[str], None],
) -> None:
    """Start everything, `announce` one line for each device, and stay until `stop` is set.

    Raises SettingsError if something can't be started; then nothing is left running.
    """
    engines = [engine_factory() for _ in range(max(1, min(launch.threads, len(launch.devices))))]
    server: ServerThread | None = None
    try:
        devices: list[DeviceApi] = []
        for number, settings in enumerate(launch.devices):
            devices.append(engines[number % len(engines)].add_device(settings))
        for device in devices:
            _load_program(launch, device)
        server = ServerThread(_endpoints(launch, devices))
        try:
            addresses = dict(zip(_addresses(launch), server.start(), strict=True))
        except BindError as error:
            raise SettingsError(f"P4Runtime: {error}; give another address") from None
        _set_configs(launch, server)
        for engine in engines:
            engine.start()
        lines = [_ready_line(settings, addresses[settings.grpc_addr]) for settings in launch.devices]
        for line in lines:
            announce(line)
        _write_ready_file(launch.ready_file, lines)
        stop.wait()
        _LOG.info("stopping")
    finally:
        if launch.ready_file is not None:
            launch.ready_file.unlink(missing_ok=True)
        if server is not None:
            server.stop()
        for engine in engines:
            engine.stop()


def _addresses(launch: Launch) -> list[str]:
    return list(dict.fromkeys(settings.grpc_addr for settings in launch.devices))


def _endpoints(launch: Launch, devices: Sequence[DeviceApi]) -> list[Endpoint]:
    return [
        Endpoint(
            address,
            tuple(d for d, s in zip(devices, launch.devices, strict=True) if s.grpc_addr == address),
            launch.tls,
        )
        for address in _addresses(launch)
    ]


def _load_program(launch: Launch, device: DeviceApi) -> None:
    if launch.program is None or launch.p4info is not None:
        return
    try:
        device.load_pipeline(launch.program)
    except (DeviceError, ValueError) as error:
        raise SettingsError(f"the program can't be loaded: {error}") from None


def _set_configs(launch: Launch, server: ServerThread) -> None:
    if launch.program is None or launch.p4info is None:
        return
    config = p4r.ForwardingPipelineConfig(p4_device_config=launch.program.encode())
    config.p4info.ParseFromString(launch.p4info)
    try:
        server.set_config(config)
    except P4Error as error:
        raise SettingsError(f"the program can't be loaded: {error.message}") from None


def _ready_line(settings: DeviceSettings, address: str) -> str:
    ports = " ".join(f"{port.port}@{port.interface}" for port in settings.ports) or "none"
    cpu = "no CPU port" if settings.cpu_port is None else f"CPU port {settings.cpu_port}"
    return f"{settings.name}: device {settings.device_id} ready, P4Runtime on {address}, ports {ports}, {cpu}"


def _write_ready_file(path: Path | None, lines: Sequence[str]) -> None:
    """All at once, so that whoever waits for the file never reads a part of it."""
    if path is None:
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SettingsError(f"can't write the ready file {path}: {error.strerror}") from None
