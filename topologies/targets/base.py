# SPDX-License-Identifier: Apache-2.0
"""Settings of devices and ports, the same for every target, and what an adapter must do with them."""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profiles import Configuration
from topologies.model import CPU_PORT, Kind, Tier, Topology

FIRST_GRPC_PORT = 9559
"""IANA's P4Runtime port; device i listens on 9558 + i, loopback only."""

PRIORITY_QUEUES = 3
"""0 data, 1 trimmed headers, 2 feedback (docs/dataplane.md)."""

UNLIMITED_QUEUE_BYTES = 16 << 20


class TargetError(RuntimeError):
    """A target that is missing, or that failed to start or went away. One line with the mend."""


@dataclass(frozen=True, slots=True)
class PortSettings:
    """One port. rate_bps 0 = not limited. queue_bytes: capacity per priority, index = priority.

    trimmed_share_percent: of the rate for priority 1 while priority 0 waits; 0 = strict. frame_bytes: a full
    data frame, for targets that count queues and rates in packets.
    """

    port: int
    interface: str
    rate_bps: int
    queue_bytes: tuple[int, ...]
    delay_ns: int
    trimmed_share_percent: int
    frame_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """One device. grpc_address: where its P4Runtime server listens."""

    name: str
    device_id: int
    grpc_address: str
    cpu_port: int
    priority_queues: int
    ports: tuple[PortSettings, ...]


def settings(
    topology: Topology, configuration: Configuration | None, *, simulated: bool = False
) -> tuple[DeviceSettings, ...]:
    """Every device of a fabric. Without a configuration nothing is limited or delayed: for a calibration.

    simulated: on a simulated clock every port has exactly its link's rate.
    """
    devices = []
    for device in topology.devices:
        ports = []
        for link in topology.links_of(device.name):
            end = link.end(device.name)
            port = _port(end.number, end.interface, link.tier, configuration)
            if device.kind is Kind.NIC and link.tier is Tier.ACCESS and not simulated:
                # The host paces at link rate. At the same rate its NIC would never work off what piled up
                # while this machine was busy elsewhere.
                port = replace(port, rate_bps=port.rate_bps * 5 // 4)
            ports.append(port)
        address = f"127.0.0.1:{FIRST_GRPC_PORT + device.device_id - 1}"
        devices.append(
            DeviceSettings(device.name, device.device_id, address, CPU_PORT, PRIORITY_QUEUES, tuple(ports))
        )
    return tuple(devices)


def _port(number: int, interface: str, tier: Tier, configuration: Configuration | None) -> PortSettings:
    if configuration is None:
        return PortSettings(number, interface, 0, (UNLIMITED_QUEUE_BYTES,) * PRIORITY_QUEUES, 0, 0, 1500)
    links, queue = configuration.links, configuration.queue
    rate, delay = {
        Tier.HOST: (links.host_rate_bps, 0),
        Tier.ACCESS: (links.rate_bps, links.access_delay_ns),
        Tier.FABRIC: (links.core_rate_bps, links.fabric_delay_ns),
    }[tier]
    capacities = (queue.data_capacity_bytes, queue.trimmed_capacity_bytes, queue.feedback_capacity_bytes)
    share, frame = queue.trimmed_share_percent, configuration.wire.frame_bytes
    return PortSettings(number, interface, rate, capacities, delay, share, frame)


class Target(abc.ABC):
    """Starts and stops the devices of one fabric, on interfaces that exist already."""

    name: str
    default_profile: str
    """The profile in `profiles/` that suits it."""

    @abc.abstractmethod
    def check(self) -> None:
        """Raises TargetError if this machine can't run the target."""

    def prepare(self, programs: Sequence[Path]) -> None:  # noqa: B027
        """Told before `start` which BMv2 JSON files devices will get: time to do what takes long."""

    @abc.abstractmethod
    def start(self, devices: Sequence[DeviceSettings], directory: Path) -> None:
        """Start all devices, logs and files into `directory`; returns when every P4Runtime server answers.

        Raises TargetError and leaves nothing running."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop what `start` started. Safe to call twice."""

    @abc.abstractmethod
    def failure(self) -> str | None:
        """One line about a device that has ended by itself since `start`, else None."""


def refuse_shares(name: str, devices: Sequence[DeviceSettings]) -> None:
    """For a target whose priorities are strict. Raises TargetError."""
    if any(port.trimmed_share_percent for device in devices for port in device.ports):
        raise TargetError(
            f"{name} has strict priorities only; set the profile's queue.trimmed_share_percent to 0"
        )


def end_process(process: subprocess.Popen[bytes], seconds: float = 5.0) -> None:
    """Ask it to end, then make it."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(path: Path) -> str:
    """The last line of a log that says something, for an error message."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
            lines = [
                line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()
            ]
    except OSError:
        return "no log"
    return lines[-1] if lines else "its log is empty"
