# SPDX-License-Identifier: Apache-2.0
"""The P4 programs compiled for a test: once per content of the sources and compiler, kept in build/tests.

COMPILER: `p4c` (p4c-bm2-ss on PATH), `own` (`python -m compiler`), `auto` (the first that is there).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "p4src"
CACHE = ROOT / "build" / "tests" / "programs"
P4C = "p4c-bm2-ss"


class CompileError(Exception):
    """A program that does not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Program:
    """A compiled program. `compiler`: p4c or own."""

    name: str
    compiler: str
    json: Path
    p4info: Path


def chosen_compiler() -> str:
    """`p4c` or `own`, by COMPILER. Raises CompileError."""
    wanted = os.environ.get("COMPILER", "auto")
    if wanted not in ("auto", "p4c", "own"):
        raise CompileError(f"COMPILER={wanted}: give auto, p4c or own")
    if wanted == "p4c" and shutil.which(P4C) is None:
        raise CompileError(f"COMPILER=p4c, but {P4C} is not on PATH; install p4c or use COMPILER=own")
    if wanted == "auto":
        return "p4c" if shutil.which(P4C) else "own"
    return wanted


def compile_program(
    name: str, sources: Path = SOURCES, compiler: str | None = None, cache: Path = CACHE
) -> Program:
    """`switch` or `nic` from a directory of sources. Raises CompileError."""
    compiler = compiler or chosen_compiler()
    directory = cache / f"{name}-{compiler}-{_digest(sources, compiler)}"
    program = Program(name, compiler, directory / f"{name}.json", directory / f"{name}.p4info.txtpb")
    if program.json.exists() and program.p4info.exists():
        return program
    fresh = directory.with_name(f"{directory.name}.{os.getpid()}")
    fresh.mkdir(parents=True, exist_ok=True)
    command = [P4C] if compiler == "p4c" else [sys.executable, "-m", "compiler"]
    command += ["-o", str(fresh / program.json.name)]
    command += ["--p4runtime-files", str(fresh / program.p4info.name), str(sources / f"{name}.p4")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh)
        raise CompileError(f"{' '.join(command)}\n{done.stderr}{done.stdout}")
    try:
        fresh.rename(directory)
    except OSError:
        # Another process was faster with the same content.
        shutil.rmtree(fresh)
    return program


def _digest(sources: Path, compiler: str) -> str:
    digest = hashlib.sha256()
    files = sorted(sources.rglob("*.p4"))
    for path in files:
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes() + b"\0")
    if compiler == "p4c":
        found = Path(shutil.which(P4C) or P4C)
        digest.update(f"{found.resolve()} {found.stat().st_mtime_ns}".encode())
    else:
        for path in sorted(p for p in (ROOT / "compiler").rglob("*") if p.suffix in (".py", ".p4")):
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]
