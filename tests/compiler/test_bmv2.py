# SPDX-License-Identifier: Apache-2.0
"""The real simple_switch loads the JSON of every program of the corpus."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.compiler.support import GOOD, PROGRAMS, compiled

SWITCH = shutil.which("simple_switch")

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.root,
    pytest.mark.skipif(SWITCH is None, reason="simple_switch is not on PATH"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace of its own"),
]


@pytest.mark.parametrize("path", [*GOOD, *PROGRAMS], ids=lambda p: p.stem)
def test_loads(path: Path, tmp_path: Path) -> None:
    result = compiled(path)
    assert result.ok, result.diags.render()
    program = tmp_path / "program.json"
    program.write_text(json.dumps(result.json))
    log = tmp_path / "log.txt"
    command = ["unshare", "--net", "sh", "-c", f"ip link set lo up; exec {SWITCH} --log-console {program}"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            deadline = time.monotonic() + 30
            while b"Thrift server was started" not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
