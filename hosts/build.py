# SPDX-License-Identifier: Apache-2.0
"""Builds the native transport with the system's C compiler, cached by content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

CORE = Path(__file__).resolve().parent / "core"
"""The C sources."""

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wno-sign-conversion")
RELEASE = ("-O2", "-g")
SANITIZE = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)


class BuildError(RuntimeError):
    """The C compiler is missing or refused the sources. One line, then the compiler's own words."""


def compiler() -> str:
    """The C compiler: $CC, else cc, gcc or clang from PATH."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(shlex.split(name)[0]):
            return name
    raise BuildError("no C compiler found: install gcc, or set CC")


def cache_directory() -> Path:
    """$FORGIVE_CACHE, else the user's cache directory, else one under the temporary directory."""
    if configured := os.environ.get("FORGIVE_CACHE"):
        candidates = [Path(configured)]
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        candidates = [Path(base) / "forgive", Path(tempfile.gettempdir()) / f"forgive-{os.getuid()}"]
    for candidate in candidates:
        path = candidate / "hosts"
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return path
    raise BuildError(f"no writable cache directory (tried {candidates[0]}): set FORGIVE_CACHE")


def sources() -> list[Path]:
    return sorted(CORE.glob("*.c"))


def build(
    name: str,
    files: Sequence[Path],
    *,
    flags: Sequence[str] = RELEASE,
    shared: bool = True,
    headers: Sequence[Path] = (),
) -> Path:
    """Compile `files` into one shared object (or executable) and return its path.

    The file is named by a hash of sources, headers, flags and compiler, so that a second call only looks it
    up; it appears whole or not at all, also when several processes build at once. `headers`: what the files
    include besides the core's own. Raises BuildError."""
    cc = shlex.split(compiler())
    kind = ["-shared", "-fPIC", "-fvisibility=default"] if shared else []
    options = [*WARNINGS, *flags, *kind, f"-I{CORE}", "-pthread"]
    digest = hashlib.sha256()
    for part in (*cc, *options, os.uname().machine):
        digest.update(part.encode() + b"\0")
    for path in [*files, *sorted(CORE.rglob("*.h")), *headers]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    target = cache_directory() / f"{name}-{digest.hexdigest()[:20]}{'.so' if shared else ''}"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        output = Path(scratch) / target.name
        command = [*cc, *options, "-o", str(output), *map(str, files)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BuildError(f"cannot run the C compiler: {error}") from None
        if result.returncode != 0:
            raise BuildError(f"{' '.join(cc)} failed on {name}:\n{result.stderr.strip()}")
        os.replace(output, target)
    return target


def library() -> Path:
    """The transport core and its UDP driver as one shared object."""
    return build("transport", sources())
