# SPDX-License-Identifier: Apache-2.0
"""The P4 programs compiled for a test: once per content of the sources and compiler, kept in build/tests."""

from __future__ import annotations

from pathlib import Path

from controller.programs import REPOSITORY, Program, choose_compiler, content_key
from controller.programs import compile_program as compile_source

ROOT = REPOSITORY
SOURCES = ROOT / "p4src"
CACHE = ROOT / "build" / "tests" / "programs"


def compile_program(
    name: str, sources: Path = SOURCES, compiler: str | None = None, cache: Path = CACHE
) -> Program:
    """`switch` or `nic` from a directory of sources; each content keeps a directory of its own.

    Raises ControllerError.
    """
    compiler = choose_compiler(compiler)
    source = sources / f"{name}.p4"
    return compile_source(source, compiler, cache / f"{name}-{content_key(source, compiler)[:20]}")
