# SPDX-License-Identifier: Apache-2.0
"""Engine and generated code under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


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
pytestmark = pytest.mark.skipif(_RUNTIME is None, reason="gcc's address sanitizer is not installed")


def run(tmp_path: Path, *arguments: str) -> None:
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{_RUNTIME}",
        # Python itself leaks on purpose; what the engine leaks is counted by the last test.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:halt_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "FORGIVE_TARGET_SANITIZE": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("test_v1model.py", marks=pytest.mark.slow),
        "test_queues.py",
        "test_tables.py",
        "test_varbit.py",
        "test_profiles.py",
        "test_unions.py",
        "test_meters.py",
        "test_wide.py",
        "test_value_sets.py",
        "test_notices.py",
        "test_virtual_links.py",
        "test_virtual_endpoints.py",
        "test_virtual_frames.py",
        "test_virtual_faults.py",
        "test_virtual_shares.py",
    ],
)
def test_suite(name: str, tmp_path: Path) -> None:
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", "-k", "not many", str(HERE / name))


@pytest.mark.parametrize("name", ["test_expressions.py", "test_lifetimes.py"])
def test_random_programs(name: str, tmp_path: Path) -> None:
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", "-m", "not slow", str(HERE / name))


@pytest.mark.parametrize("rounds", ["3000", pytest.param("6000", marks=pytest.mark.slow)])
def test_fuzzed_frames(rounds: str, tmp_path: Path) -> None:
    run(tmp_path, str(HERE / "fuzz_frames.py"), rounds)
