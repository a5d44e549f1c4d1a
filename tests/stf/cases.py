# SPDX-License-Identifier: Apache-2.0
"""Finds the cases of a folder: programs for v1model with an STF file beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    program: Path
    script: Path


@dataclass(frozen=True, slots=True)
class Found:
    cases: tuple[Case, ...]
    others: tuple[str, ...]
    """Programs with an STF file that are for another architecture, by name."""


def find_cases(folder: Path) -> Found:
    """In order of their names. Subdirectories are not searched."""
    cases: list[Case] = []
    others: list[str] = []
    for program in sorted(folder.glob("*.p4")):
        script = program.with_suffix(".stf")
        if not script.is_file():
            continue
        if includes(program, "v1model.p4"):
            cases.append(Case(program.stem, program, script))
        else:
            others.append(program.stem)
    return Found(tuple(cases), tuple(others))


def includes(source: Path, wanted: str, seen: frozenset[Path] = frozenset()) -> bool:
    """Whether a source includes a file of this name, by itself or through files that lie beside it."""
    if source in seen or not source.is_file():
        return False
    for found in _INCLUDE.finditer(source.read_text(encoding="utf-8", errors="replace")):
        name = found[1] or found[2]
        if Path(name).name == wanted or includes(source.parent / name, wanted, seen | {source}):
            return True
    return False
