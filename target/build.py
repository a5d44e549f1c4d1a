# SPDX-License-Identifier: Apache-2.0
"""Compiles C to shared objects with the system's compiler, cached by content.

The cache is $XDG_CACHE_HOME/forgive-target (default ~/.cache). A key covers the sources, the headers, the
flags and the compiler's version, so nothing stale is ever taken; files appear by an atomic rename, so
processes may share it. $CC names the compiler. $FORGIVE_TARGET_SANITIZE=1 builds with the address and
undefined-behaviour sanitizers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

RUNTIME = Path(__file__).resolve().parent / "runtime"

_SHARED = ["-fPIC", "-shared", "-fvisibility=hidden"]
_FLAGS = ["-std=c11", "-Wall", "-Wextra", "-pthread"]
_SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"]


class BuildError(RuntimeError):
    """The C compiler is missing or failed. One line."""


def sanitizing() -> bool:
    return os.environ.get("FORGIVE_TARGET_SANITIZE", "") not in ("", "0")


def compiler() -> list[str]:
    """The compiler's command."""
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise BuildError(f"there is no C compiler {command[0]!r}: install gcc, or set CC")
    return command


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler {command[0]!r} does not run: {error}") from None
    machine = subprocess.run(
        [*command, "-dumpmachine"], capture_output=True, text=True, timeout=30, check=False
    )
    return run.stdout + machine.stdout


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "forgive-target"


@functools.cache
def _headers_digest() -> bytes:
    digest = hashlib.sha256()
    for path in sorted(RUNTIME.rglob("*.h")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.digest()


def runtime_library() -> Path:
    """The engine itself."""
    sources = sorted(RUNTIME.glob("*.c"))
    return library("engine", [(p.name, p.read_text()) for p in sources], ["-O3"], ["-ldl"])


def program_library(source: str) -> Path:
    """A program generated from a JSON."""
    # Vectors of two fields would be loaded and stored at once where each has just been stored by itself.
    optimise = ["-O2", "-fno-tree-slp-vectorize", "-Wno-unused-function"]
    return library("program", [("program.c", source)], optimise, [])


def library(
    kind: str, sources: Sequence[tuple[str, str]], optimise: Sequence[str], libraries: Sequence[str]
) -> Path:
    return _build(f"{kind}-", ".so", sources, [*_SHARED, *_FLAGS, *optimise], libraries)


def executable(kind: str, source: str, libraries: Sequence[str]) -> Path:
    """A program of one file."""
    return _build(f"{kind}-", "", [(f"{kind}.c", source)], [*_FLAGS, "-O2"], libraries)


def _build(
    prefix: str,
    suffix: str,
    sources: Sequence[tuple[str, str]],
    options: Sequence[str],
    libraries: Sequence[str],
) -> Path:
    command = compiler()
    flags = [*options, *(_SANITIZE if sanitizing() else [])]
    digest = hashlib.sha256(_headers_digest())
    for part in (_version(tuple(command)), *command, *flags, *libraries):
        digest.update(part.encode() + b"\0")
    for name, text in sources:
        digest.update(name.encode() + b"\0" + text.encode() + b"\0")
    name = f"{prefix}{digest.hexdigest()[:40]}{suffix}"
    directory = cache_directory()
    target = directory / name
    if target.is_file():
        return target
    directory = _writable(directory)
    target = directory / name
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory(prefix="build-", dir=directory) as work:
        files = []
        for file_name, text in sources:
            path = Path(work) / file_name
            path.write_text(text)
            files.append(str(path))
        output = Path(work) / f"out{suffix}"
        run = subprocess.run(
            [*command, *flags, f"-I{RUNTIME}", "-o", str(output), *files, *libraries],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            reason = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip())
            raise BuildError(f"the C compiler failed on the {prefix[:-1]}: {reason[:300]}")
        os.replace(output, target)
    return target


@functools.cache
def _fallback() -> Path:
    return Path(tempfile.mkdtemp(prefix="forgive-target-"))


def _writable(directory: Path) -> Path:
    """The cache directory, or a temporary one where it can't be written (full or read-only)."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0" * 65536)
            probe.flush()
        return directory
    except OSError:
        return _fallback()
