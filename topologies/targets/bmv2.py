# SPDX-License-Identifier: Apache-2.0
"""BMv2: one `simple_switch_grpc` per device, queue rates and depths by Thrift (`simple_switch_CLI`).

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from topologies.targets.base import DeviceSettings, Target, TargetError, end_process, last_line

SWITCH = "simple_switch_grpc"
CLI = "simple_switch_CLI"
FIRST_THRIFT_PORT = 9090
START_SECONDS = 60.0
CLI_SECONDS = 60.0
LEAST_DEPTH_PACKETS = 8192


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


def queue_commands(device: DeviceSettings) -> list[str]:
    """Lines for the CLI: depth in packets of every port and priority, rate in packets a second of the data
    queue.
    """
    lines = []
    for port in device.ports:
        for priority, capacity in enumerate(port.queue_bytes):
            depth = max(LEAST_DEPTH_PACKETS, capacity // 64)
            lines.append(f"set_queue_depth {depth} {port.port} {priority}")
        if port.rate_bps:
            packets_per_second = max(1, port.rate_bps // (8 * port.frame_bytes))
            lines.append(f"set_queue_rate {packets_per_second} {port.port} 0")
    return lines


class Bmv2(Target):
    """Needs `simple_switch_grpc` and `simple_switch_CLI` on PATH."""

    name = "bmv2"
    default_profile = "bmv2"

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._directory = Path()

    def check(self) -> None:
        for program in (SWITCH, CLI):
            if shutil.which(program) is None:
                raise TargetError(
                    f"{program} isn't on PATH; install BMv2 with Thrift, or use TARGET=embedded"
                )

    def start(self, devices: Sequence[DeviceSettings], directory: Path) -> None:
        if self._processes:
            raise TargetError("BMv2 runs already; stop it first")
        if any(port.delay_ns for device in devices for port in device.ports):
            raise TargetError("BMv2 has no link delay; set the profile's fabric delays to 0")
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
            with ThreadPoolExecutor(max_workers=4) as pool:
                list(pool.map(lambda d: _set_queues(d, thrift[d.name]), devices))
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
    lines = queue_commands(device)
    done = subprocess.run(
        [CLI, "--thrift-port", str(thrift_port)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=CLI_SECONDS,
        check=False,
    )
    complaint = next(
        (line for line in (done.stdout + done.stderr).splitlines() if "rror" in line or "Invalid" in line),
        None,
    )
    if done.returncode or complaint:
        raise TargetError(
            f"{device.name}: {CLI} refused queue settings: {complaint or done.stderr.strip()[-200:]}"
        )
