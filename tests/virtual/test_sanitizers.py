# SPDX-License-Identifier: Apache-2.0
"""A whole job with transport, glue, engine and programs under the address and undefined-behaviour
sanitizers. What they decide must not depend on how they were compiled either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.virtual.scenes import play

ROOT = Path(__file__).resolve().parents[2]


def sanitizer_runtime() -> str | None:
    """Path of the address sanitizer's library, which has to be loaded first."""
    try:
        found = subprocess.run(
            ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return found if os.path.isabs(found) else None


_RUNTIME = sanitizer_runtime()


@pytest.mark.skipif(_RUNTIME is None, reason="gcc's address sanitizer is not installed")
def test_a_job_is_clean_and_the_same_under_sanitizers(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{_RUNTIME}",
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python leaks on purpose
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "FORGIVE_TARGET_SANITIZE": "1",
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.virtual.scenes", "5", str(tmp_path / "a")],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert json.loads(done.stdout) == json.loads(json.dumps(play(5, tmp_path / "b")))
