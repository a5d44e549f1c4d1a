# SPDX-License-Identifier: Apache-2.0
"""The compiler and its cache: missing, broken, shared, full."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from target import build
from target.api import DeviceError
from target.engine import Device
from tests.target.programs import Builder, forward_to

ROOT = Path(__file__).resolve().parents[2]


def program(port: int = 2) -> str:
    b = Builder()
    b.header("x", [("v", 8)])
    b.run("go", [forward_to(port)])
    return b.json()


def test_nothing_is_compiled_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_device: Callable[..., Device]
) -> None:
    device = make_device()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device.load_pipeline(program())
    (first,) = (tmp_path / "forgive-target").iterdir()
    stamp = first.stat().st_mtime_ns
    device.load_pipeline(program())
    assert [p.name for p in (tmp_path / "forgive-target").iterdir()] == [first.name]
    assert first.stat().st_mtime_ns == stamp
    device.load_pipeline(program(3))
    assert len(list((tmp_path / "forgive-target").iterdir())) == 2


def test_other_flags_make_another_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = build.program_library('#include "sw_program.h"\n')
    monkeypatch.setenv("FORGIVE_TARGET_SANITIZE", "1")
    assert build.program_library('#include "sw_program.h"\n') != plain


def test_a_missing_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_device: Callable[..., Device]
) -> None:
    device = make_device(program())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(DeviceError, match="no-such-compiler") as error:
        device.load_pipeline(program(3))
    assert error.value.code == "FAILED_PRECONDITION"
    device.inject(1, b"x")
    assert device.collect(2) == [b"x"]


def test_a_broken_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_device: Callable[..., Device]
) -> None:
    device = make_device(program())
    broken = tmp_path / "broken-cc"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "error: out of order" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(DeviceError, match="out of order"):
        device.load_pipeline(program(3))
    assert [p.name for p in (tmp_path / "forgive-target").iterdir()] == []
    device.inject(1, b"x")
    assert device.collect(2) == [b"x"]


def test_an_unwritable_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_device: Callable[..., Device]
) -> None:
    """A file stands where the cache directory should be: the engine builds elsewhere and goes on."""
    (tmp_path / "forgive-target").write_text("in the way")
    device = make_device()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    device.load_pipeline(program())
    device.inject(1, b"x")
    assert device.collect(2) == [b"x"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from tests.target.test_build import program\n"
        "from target.engine import Engine\n"
        "e = Engine(); d = e.add_device('s', 1); d.add_port(1); d.add_port(2)\n"
        "d.load_pipeline(program()); d.inject(1, b'x'); assert d.collect(2) == [b'x']\n"
    )
    shell = (
        f"mount -t tmpfs -o size=64k none {tmp_path} && head -c 60000 /dev/zero > {tmp_path}/filler;"
        f' XDG_CACHE_HOME={tmp_path} exec {sys.executable} -c "$1" x "$2"'
    )
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", shell, "x", script, str(ROOT)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_two_processes_share_the_cache(tmp_path: Path) -> None:
    script = (
        "from tests.target.test_build import program\n"
        "from target.engine import Engine\n"
        "e = Engine(); d = e.add_device('s', 1); d.add_port(1); d.add_port(2)\n"
        "d.load_pipeline(program()); d.inject(1, b'x'); assert d.collect(2) == [b'x']\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    runs = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(4)]
    assert [run.wait(timeout=120) for run in runs] == [0] * 4
    names = sorted(p.name.split("-")[0] for p in (tmp_path / "forgive-target").iterdir())
    assert names == ["engine", "program"]
