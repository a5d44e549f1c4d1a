# SPDX-License-Identifier: Apache-2.0
"""Compiles a program with p4c-bm2-ss or with the project's own compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from compiler.driver import compile_file

P4C = "p4c-bm2-ss"


class CompileFailure(Exception):
    """One line."""


def choose(name: str) -> str:
    """ "p4c" or "own"; "auto" is p4c where it is on PATH. Raises CompileFailure."""
    if name == "auto":
        return "p4c" if shutil.which(P4C) else "own"
    if name not in ("p4c", "own"):
        raise CompileFailure(f"compiler {name!r}: give p4c, own or auto")
    if name == "p4c" and shutil.which(P4C) is None:
        raise CompileFailure(f"{P4C} isn't on PATH")
    return name


def compile_program(source: Path, compiler: str) -> str:
    """The BMv2 JSON. Raises CompileFailure with the first error."""
    return _p4c(source) if compiler == "p4c" else _own(source)


def _own(source: Path) -> str:
    here = Path.cwd()
    # A short name in messages and in the JSON, where there is one.
    absolute = source.resolve()
    named = absolute.relative_to(here) if absolute.is_relative_to(here) else source
    result = compile_file(str(named))
    if result.json is None:
        errors = [d for d in result.diags.items if d.is_error]
        raise CompileFailure(errors[0].render().splitlines()[0] if errors else "no output, and no error")
    return json.dumps(result.json)


def _p4c(source: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="stf-") as folder:
        out = Path(folder) / "program.json"
        done = subprocess.run(
            [P4C, "-o", str(out), str(source)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode or not out.is_file():
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            error = next((line for line in lines if "error" in line or "Bug" in line), None)
            raise CompileFailure(error or (lines[0] if lines else f"{P4C}: status {done.returncode}"))
        return out.read_text()
