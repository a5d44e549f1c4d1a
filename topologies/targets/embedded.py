# SPDX-License-Identifier: Apache-2.0
"""The embedded target: one process, `python -m target --fabric FILE`, holds every device of the fabric."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from topologies.targets.base import DeviceSettings, Target, TargetError, end_process, last_line, refuse_shares

REPOSITORY = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60.0
THREADS = 2


def fabric_json(devices: Sequence[DeviceSettings]) -> str:
    """The file that `--fabric` reads: rates, capacities and delays are launch options of this target."""
    rows = []
    for device in devices:
        ports = [
            {
                "port": port.port,
                "interface": port.interface,
                "rate_bps": port.rate_bps,
                "queue_bytes": list(port.queue_bytes),
                "delay_ns": port.delay_ns,
            }
            for port in device.ports
        ]
        row = {**asdict(device), "ports": ports, "grpc_addr": device.grpc_address}
        del row["grpc_address"]
        rows.append(row)
    return json.dumps(rows, indent=1) + "\n"


class Embedded(Target):
    """threads: packet threads of the process. options: more of its command line. python: who runs it."""

    name = "embedded"
    default_profile = "mininet"

    def __init__(
        self, threads: int = THREADS, options: Sequence[str] = (), python: str = sys.executable
    ) -> None:
        self._python = python
        self._threads = threads
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path()

    def check(self) -> None:
        if importlib.util.find_spec("target.__main__") is None:
            raise TargetError(
                "the embedded target isn't importable; run from the repository, or install the project"
            )

    def prepare(self, programs: Sequence[Path]) -> None:
        self._options += tuple(word for path in programs for word in ("--compile", str(path)))

    def start(self, devices: Sequence[DeviceSettings], directory: Path) -> None:
        if self._process is not None:
            raise TargetError("the target runs already; stop it first")
        refuse_shares("the embedded target", devices)
        directory.mkdir(parents=True, exist_ok=True)
        fabric, ready = directory / "fabric.json", directory / "target.ready"
        fabric.write_text(fabric_json(devices))
        ready.unlink(missing_ok=True)
        self._log = directory / "target.log"
        command = [self._python, "-m", "target", "--fabric", str(fabric.resolve())]
        command += ["--threads", str(self._threads), "--ready-file", str(ready.resolve()), *self._options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            failed = self.failure()
            if failed is None and time.monotonic() > deadline:
                failed = f"the target isn't ready after {START_SECONDS:.0f} s; see {self._log}"
            if failed is not None:
                self.stop()
                raise TargetError(failed)
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            end_process(self._process)
            self._process = None

    def failure(self) -> str | None:
        if self._process is None or self._process.poll() is None:
            return None
        status = self._process.returncode
        return f"the target ended with status {status}: {last_line(self._log)} (log: {self._log})"
