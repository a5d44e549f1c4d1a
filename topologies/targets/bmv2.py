# SPDX-License-Identifier: Apache-2.0
"""BMv2: one `simple_switch_grpc` per device, queue rates and depths by Thrift.

BMv2 counts queues and rates in packets, per priority, and loses packets silently when a queue is full. So
only the data queue is limited, at the rate of full frames, and every depth is far above the limits that the
P4 program keeps. It has no link delay.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from topologies.targets.base import DeviceSettings, Target, TargetError, end_process, last_line, refuse_shares
from topologies.targets.thrift import QueueClient, ThriftError

SWITCH = "simple_switch_grpc"
FIRST_THRIFT_PORT = 9090
START_SECONDS = 60.0
LEAST_DEPTH_PACKETS = 8192
LEAST_FRAME_BYTES = 60
DATA_PRIORITY = 0


def command_line(device: DeviceSettings, directory: Path, thrift_port: int) -> list[str]:
    """How one device is started: no program yet, loopback only, three priority queues."""
    interfaces = [word for port in device.ports for word in ("-i", f"{port.port}@{port.interface}")]
    return [
        SWITCH,
        "--no-p4",
        *("--device-id", str(device.device_id)),
        *("--thrift-port", str(thrift_port)),
        *("--log-file", str(directory / device.name), "--log-level", "warn", "--log-flush"),
        *interfaces,
        "--",
        *("--grpc-server-addr", device.grpc_address),
        *("--cpu-port", str(device.cpu_port)),
        *("--priority-queues", str(device.priority_queues)),
    ]


def queue_settings(device: DeviceSettings) -> list[tuple[str, int, int, int]]:
    """("depth", port, priority, packets) of every queue; ("rate", port, priority, packets/s) of limited
    ports' data.

    Depth is a guard only: no queue may fill up before the P4 program's own limits act.
    """
    rows = []
    for port in device.ports:
        for priority, capacity in enumerate(port.queue_bytes):
            rows.append(
                ("depth", port.port, priority, max(LEAST_DEPTH_PACKETS, capacity // LEAST_FRAME_BYTES))
            )
        if port.rate_bps:
            rows.append(("rate", port.port, DATA_PRIORITY, max(1, port.rate_bps // (8 * port.frame_bytes))))
    return rows


class Bmv2(Target):
    """Needs `simple_switch_grpc`, built with Thrift, on PATH."""

    name = "bmv2"
    default_profile = "bmv2"

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._directory = Path()

    def check(self) -> None:
        if shutil.which(SWITCH) is None:
            raise TargetError(f"{SWITCH} isn't on PATH; install BMv2 with Thrift, or use TARGET=embedded")

    def start(self, devices: Sequence[DeviceSettings], directory: Path) -> None:
        if self._processes:
            raise TargetError("BMv2 runs already; stop it first")
        if any(port.delay_ns for device in devices for port in device.ports):
            raise TargetError("BMv2 has no link delay; set the profile's fabric delays to 0")
        refuse_shares("BMv2", devices)
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        thrift = {device.name: FIRST_THRIFT_PORT + i for i, device in enumerate(devices)}
        try:
            for device in devices:
                with (directory / f"{device.name}.out").open("wb") as out:
                    self._processes[device.name] = subprocess.Popen(
                        command_line(device, directory, thrift[device.name]),
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                    )
            for device in devices:
                host, _, port = device.grpc_address.rpartition(":")
                self._wait(host, int(port))
                self._wait("127.0.0.1", thrift[device.name])
            for device in devices:
                _set_queues(device, thrift[device.name])
            self._scan_logs(devices)
        except BaseException:
            self.stop()
            raise

    def _wait(self, host: str, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            failed = self.failure()
            if failed is None and time.monotonic() > deadline:
                failed = (
                    f"nothing answers at {host}:{port} after {START_SECONDS:.0f} s; see {self._directory}"
                )
            if failed is not None:
                raise TargetError(failed)
            try:
                with socket.create_connection((host, port), 1.0):
                    return
            except OSError:
                time.sleep(0.05)

    def _scan_logs(self, devices: Sequence[DeviceSettings]) -> None:
        """BMv2 goes on when an interface can't be added; only its output says so."""
        for device in devices:
            for path in (self._directory / f"{device.name}.out", self._directory / f"{device.name}.txt"):
                text = path.read_text(errors="replace") if path.exists() else ""
                for line in text.splitlines():
                    if "Add port operation failed" in line or "could not bind" in line.lower():
                        raise TargetError(f"{device.name}: {line.strip()}; see {path}")

    def stop(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            end_process(process)
        self._processes.clear()

    def failure(self) -> str | None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = self._directory / f"{name}.out"
                return (
                    f"{name}: {SWITCH} ended with status {process.returncode}: {last_line(log)} (log: {log})"
                )
        return None


def _set_queues(device: DeviceSettings, thrift_port: int) -> None:
    try:
        with QueueClient("127.0.0.1", thrift_port) as client:
            for what, port, priority, value in queue_settings(device):
                (client.set_depth if what == "depth" else client.set_rate)(port, priority, value)
    except ThriftError as error:
        raise TargetError(f"{device.name}: {error}") from None
