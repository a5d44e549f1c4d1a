# SPDX-License-Identifier: Apache-2.0
"""Programs that must be refused. A comment ``// E020: text`` marks a line that is reported with that code
and a message that contains the text; no other line may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.diag import CODES, CompileError, Diagnostics
from compiler.emit.p4info import P4InfoBuilder
from tests.compiler.support import ERRORS, PROGRAMS, REPO, compiled, small

_MARK = re.compile(r"//\s*(E\d+): (.*?)\s*$")


def diagnose(path: Path) -> Diagnostics:
    """All errors of a program, those of P4Info included."""
    result = compiled(path)
    if result.flat is not None and result.ok:
        try:
            P4InfoBuilder(result.flat, result.diags).build()
        except CompileError as e:
            assert e.diagnostic is not None
            result.diags.add(e.diagnostic)
    return result.diags


@pytest.mark.parametrize("path", ERRORS, ids=lambda p: p.stem)
def test_reported(path: Path) -> None:
    diags = diagnose(path)
    wanted = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        m = _MARK.search(line)
        if m:
            wanted[number] = (m[1], m[2])
    found: dict[int, list[tuple[str, str]]] = {}
    for d in diags.items:
        if d.is_error:
            assert d.span.file.name == str(path), d.render()
            found.setdefault(d.span.line, []).append((d.code, d.message))
    for number, (code, text) in wanted.items():
        assert any(c == code and text in m for c, m in found.get(number, [])), (
            number,
            code,
            text,
            found.get(number),
        )
    assert set(found) == set(wanted), diags.render()


def test_every_code_is_explained() -> None:
    used = set()
    for path in (REPO / "compiler").rglob("*.py"):
        used |= set(re.findall(r'"([EW]\d{3})"', path.read_text()))
    assert used <= set(CODES)


def test_rendering_shows_the_line_and_a_caret() -> None:
    result = small("hdr.h.a = hdr.h.zz;")
    first = result.diags.render().splitlines()
    assert re.match(r"small\.p4:\d+:\d+: error\[E012\]: h_t has no member 'zz'", first[0])
    caret = first[2].index("^")
    assert first[1][caret : caret + 2] == "zz"
    assert first[2].count("^") == 2


def test_a_hint_names_the_mend() -> None:
    assert "did you mean 'hdr'?" in small("hdrr.h.a = 1;").diags.render()
    assert "(bit<16>)" in small("bit<16> x = hdr.h.a;").diags.render()


def test_warnings_do_not_fail() -> None:
    result = small("hdr.h.a = 300;")
    assert result.ok
    assert [d.code for d in result.diags.items] == ["W102"]


def test_many_errors_stop_early() -> None:
    result = small("x = 1;" * 3 + "".join(f"y{i} = 1;" for i in range(40)))
    assert result.diags.error_count == result.diags.max_errors


def test_unused_declarations_are_warned_of() -> None:
    locals = (
        'action nobody() { } @noWarn("unused") action hushed() { } table idle { actions = { NoAction; } }'
    )
    result = small("bit<8> spare; bit<8> kept = 1; hdr.h.a = kept;", locals=locals)
    assert result.ok
    assert [(d.code, d.message.split("'")[1]) for d in result.diags.items] == [
        ("W101", "nobody"),
        ("W101", "idle"),
        ("W101", "spare"),
    ]


def test_project_programs_compile_without_warnings() -> None:
    for path in PROGRAMS:
        result = compiled(path)
        assert result.ok
        assert not result.diags.items, result.diags.render()
