# SPDX-License-Identifier: Apache-2.0
"""What a process of the target runs, checked before anything is started."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_DROP_PORT: Final = 511
DEFAULT_QUEUE_BYTES: Final = 1 << 20
"""Capacity of one priority queue of a port, if none is given."""
MAX_PORT: Final = 511
"""v1model's ports are 9 bits wide."""
MAX_PRIORITY_QUEUES: Final = 8
PPM: Final = 1_000_000


class SettingsError(Exception):
    """Settings that can't be run. One line that names the place and the mend."""


@dataclass(frozen=True, slots=True)
class PortSettings:
    """One port. `rate_bps` 0: not limited. `queue_bytes`: capacity per priority, index = priority.

    share_ppm: per priority, the part of the rate in millionths that a queue gets at least while others with a
    share wait; 0: strict. Empty: all strict.
    """

    port: int
    interface: str
    rate_bps: int = 0
    queue_bytes: tuple[int, ...] = ()
    delay_ns: int = 0
    share_ppm: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """One device. `cpu_port` None: no packet I/O."""

    name: str
    device_id: int
    grpc_addr: str
    cpu_port: int | None = None
    drop_port: int = DEFAULT_DROP_PORT
    priority_queues: int = 1
    ports: tuple[PortSettings, ...] = ()

    def capacities(self, port: PortSettings) -> tuple[int, ...]:
        """One capacity for each priority: what is given, or the default."""
        return port.queue_bytes or (DEFAULT_QUEUE_BYTES,) * self.priority_queues


def check_devices(devices: Sequence[DeviceSettings]) -> None:
    """Raises SettingsError for what no device can be, or what two devices can't both be."""
    _no_duplicates(((d.name, f"device {d.name!r}") for d in devices), "device name")
    _no_duplicates(
        (((d.grpc_addr, d.device_id), f"device {d.name!r}") for d in devices),
        "P4Runtime address and device id",
    )
    for device in devices:
        _check_device(device)
    _no_duplicates(
        (
            (port.interface, f"port {port.port} of device {device.name!r}")
            for device in devices
            for port in device.ports
        ),
        "interface",
    )


def check_interfaces(devices: Sequence[DeviceSettings]) -> None:
    """Raises SettingsError for an interface that this network namespace does not have."""
    for device in devices:
        for port in device.ports:
            try:
                socket.if_nametoindex(port.interface)
            except OSError:
                raise SettingsError(
                    f"device {device.name!r}, port {port.port}: there is no interface {port.interface!r}; "
                    "create it first, or start the target in its network namespace"
                ) from None


def _check_device(device: DeviceSettings) -> None:
    where = f"device {device.name!r}"
    if not device.name:
        raise SettingsError("a device has no name")
    if not 0 <= device.device_id < 1 << 64:
        raise SettingsError(f"{where}: device id {device.device_id} is outside 0..2^64-1")
    if not 1 <= device.priority_queues <= MAX_PRIORITY_QUEUES:
        raise SettingsError(
            f"{where}: {device.priority_queues} priority queues are outside 1..{MAX_PRIORITY_QUEUES}"
        )
    if not 0 <= device.drop_port <= MAX_PORT:
        raise SettingsError(f"{where}: drop port {device.drop_port} is outside 0..{MAX_PORT}")
    reserved = {device.drop_port: "drop port"}
    if device.cpu_port is not None:
        if not 1 <= device.cpu_port <= MAX_PORT:
            raise SettingsError(f"{where}: CPU port {device.cpu_port} is outside 1..{MAX_PORT}")
        if device.cpu_port == device.drop_port:
            raise SettingsError(
                f"{where}: port {device.cpu_port} can't be both CPU port and drop port; choose another"
            )
        reserved[device.cpu_port] = "CPU port"
    for port in device.ports:
        _check_port(f"{where}, port {port.port}", port, device.priority_queues, reserved)
    _no_duplicates(((p.port, f"interface {p.interface!r}") for p in device.ports), f"{where}: port")


def _check_port(where: str, port: PortSettings, priority_queues: int, reserved: dict[int, str]) -> None:
    if not 0 <= port.port <= MAX_PORT:
        raise SettingsError(f"{where}: port numbers are 0..{MAX_PORT}")
    if port.port in reserved:
        raise SettingsError(f"{where}: this number is the {reserved[port.port]}; choose another")
    if not port.interface:
        raise SettingsError(f"{where}: no interface is given")
    if port.rate_bps < 0:
        raise SettingsError(f"{where}: rate {port.rate_bps} bit/s is negative")
    if port.delay_ns < 0:
        raise SettingsError(f"{where}: delay {port.delay_ns} ns is negative")
    if port.queue_bytes and len(port.queue_bytes) != priority_queues:
        raise SettingsError(
            f"{where}: {len(port.queue_bytes)} queue capacities for {priority_queues} priority queue(s)"
        )
    if port.share_ppm and len(port.share_ppm) != priority_queues:
        raise SettingsError(f"{where}: {len(port.share_ppm)} shares for {priority_queues} priority queue(s)")
    if any(share < 0 for share in port.share_ppm) or sum(port.share_ppm) > PPM:
        shares = "/".join(map(str, port.share_ppm))
        raise SettingsError(f"{where}: shares {shares}: millionths of one rate, at most {PPM} in sum")
    if any(capacity <= 0 for capacity in port.queue_bytes):
        raise SettingsError(f"{where}: a queue capacity must be positive")


def _no_duplicates(items: Iterable[tuple[object, str]], what: str) -> None:
    seen: dict[object, str] = {}
    for value, owner in items:
        if value in seen:
            raise SettingsError(f"{what} {value!r} is given twice: {seen[value]} and {owner}")
        seen[value] = owner
