# SPDX-License-Identifier: Apache-2.0
"""Beside the real p4c: the same P4Info, to the byte, for the corpus and the project's programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.emit.p4info import P4InfoBuilder, text_of
from tests.compiler.support import GOOD, PROGRAMS, compiled

P4C = shutil.which("p4c-bm2-ss")

pytestmark = [
    pytest.mark.p4c,
    pytest.mark.skipif(P4C is None, reason="p4c-bm2-ss is not on PATH"),
]


@pytest.mark.parametrize("path", [*GOOD, *PROGRAMS], ids=lambda p: p.stem)
def test_p4info_equal(path: Path, tmp_path: Path) -> None:
    info, entries = tmp_path / "info.txtpb", tmp_path / "entries.txtpb"
    # p4c writes P4Info before its back end runs, which may refuse what this compiler can do.
    includes = ["-I", str(path.parent), "-I", str(path.parent / "include")]
    outputs = ["--p4runtime-files", str(info), "--p4runtime-entries-files", str(entries)]
    command = [str(P4C), str(path), *includes, "-o", str(tmp_path / "o.json"), *outputs]
    subprocess.run(command, capture_output=True, check=False)
    result = compiled(path)
    assert result.flat is not None, result.diags.render()
    builder = P4InfoBuilder(result.flat, result.diags)
    assert text_of(builder.build()) == info.read_text()
    assert text_of(builder.entries()) == entries.read_text()
