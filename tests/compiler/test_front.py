# SPDX-License-Identifier: Apache-2.0
"""Lexer, preprocessor and parser by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import ast
from compiler.diag import Diagnostics
from compiler.lexer import parse_int, string_value, tokenize
from compiler.parser import parse
from compiler.preprocessor import Preprocessor, render
from compiler.source import SourceFile


def texts(source: str) -> list[str]:
    return [t.text for t in tokenize(SourceFile("x", source)) if t.kind not in ("NL", "EOF")]


def preprocessed(source: str, **defines: str) -> tuple[str, Diagnostics]:
    diags = Diagnostics()
    pp = Preprocessor(diags)
    for name, value in defines.items():
        pp.define(name, value)
    tokens = pp.run_text("x", source)
    return " ".join(t.text for t in tokens if t.kind != "EOF"), diags


def expression(text: str) -> ast.Expr:
    diags = Diagnostics()
    program = parse(Preprocessor(diags).run_text("x", f"const bit<8> c = {text};"), diags)
    assert not diags.error_count, diags.render()
    decl = program.decls[0]
    assert isinstance(decl, ast.Const)
    return decl.value


def shape(e: ast.Expr) -> str:
    if isinstance(e, ast.Binary):
        return f"({shape(e.left)}{e.op}{shape(e.right)})"
    if isinstance(e, ast.Unary):
        return f"({e.op}{shape(e.arg)})"
    if isinstance(e, ast.Ternary):
        return f"({shape(e.cond)}?{shape(e.yes)}:{shape(e.no)})"
    if isinstance(e, ast.Cast):
        return f"(cast {shape(e.arg)})"
    if isinstance(e, ast.Int):
        return e.text
    assert isinstance(e, ast.Name)
    return e.name


@pytest.mark.parametrize(
    ("text", "value", "width", "signed"),
    [
        ("42", 42, None, False),
        ("0x2A", 42, None, False),
        ("0b10_1010", 42, None, False),
        ("0o52", 42, None, False),
        ("8w0xFF", 255, 8, False),
        ("4s7", 7, 4, True),
        ("16w1_000", 1000, 16, False),
    ],
)
def test_numbers(text: str, value: int, width: int | None, signed: bool) -> None:
    assert texts(text) == [text]
    assert parse_int(text) == (value, width, signed)


def test_comments_and_operators() -> None:
    assert texts("a/*x\n*/b//c\n|+| &&& .. ++ >> >=") == [
        "a", "b", "|+|", "&&&", "..", "++", ">", ">", ">=",
    ]  # fmt: skip
    assert string_value(r'"a\"b\\c"') == 'a"b\\c'


def test_places() -> None:
    toks = tokenize(SourceFile("x", "a\n  bc /* \n */ d"))
    places = [(t.text, t.line, t.col) for t in toks if t.kind == "ID"]
    assert places == [("a", 1, 1), ("bc", 2, 3), ("d", 3, 5)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("#define A 1\nA + A", "1 + 1"),
        ("#define F(x, y) x - y\nF(1, (2, 3))", "1 - ( 2 , 3 )"),
        ("#define F(x) #x\nF(a  b)", '"a b"'),
        ("#define J(x, y) x##y\nJ(foo, 1)", "foo1"),
        ("#define A B\n#define B A\nA", "A"),
        ("#define F(...) g(__VA_ARGS__)\nF(1, 2)", "g ( 1 , 2 )"),
        ("#define A \\\n  7\nA", "7"),
        ("#define F(x) x\nF\nF (3)", "F 3"),
        ("#define A 3\n#if A > 2 && !defined(B)\nyes\n#elif 1\nno\n#else\nno\n#endif", "yes"),
        ("#if 0\n\"unclosed ' \n#if 1\n#endif\n#else\nok\n#endif", "ok"),
        ("#define A 1\n#undef A\n#ifdef A\nno\n#endif\n#ifndef A\nyes\n#endif", "yes"),
        ("#if (1 << 4 >> 2) == 4 ? 1 : 0\nyes\n#endif", "yes"),
        ("__LINE__\n__LINE__", "1 2"),
    ],
)
def test_macros(source: str, wanted: str) -> None:
    text, diags = preprocessed(source)
    assert not diags.error_count, diags.render()
    assert text == wanted


def test_macro_of_macros_rescans() -> None:
    text, _ = preprocessed("#define APPLY(f, x) f(x)\n#define ADD(x) x + 1\nAPPLY(ADD, 2)")
    assert text == "2 + 1"


def test_includes_know_their_file(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_text('#include "sub/b.p4"\n#include "sub/b.p4"\nfrom_a')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.p4").write_text("#ifndef B\n#define B\n\n  from_b\n#endif\n")
    diags = Diagnostics()
    tokens = Preprocessor(diags).run(str(tmp_path / "a.p4"))
    assert [(t.text, Path(t.file.name).name, t.line) for t in tokens[:-1]] == [
        ("from_b", "b.p4", 4),
        ("from_a", "a.p4", 3),
    ]
    assert '# 4 "' in render(tokens)


def test_a_circle_of_includes_ends(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_text('#include "a.p4"\n')
    diags = Diagnostics()
    Preprocessor(diags).run(str(tmp_path / "a.p4"))
    assert "nested too deeply" in diags.render()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 + 2 * 3", "(1+(2*3))"),
        ("a | b & c ^ d", "(a|((b&c)^d))"),
        ("a == b < c", "(a==(b<c))"),
        ("a << 1 + 2", "(a<<(1+2))"),
        ("a >> b >> c", "((a>>b)>>c)"),
        ("a ++ b ++ c", "((a++b)++c)"),
        ("a || b && c ? d : e ? f : g", "((a||(b&&c))?d:(e?f:g))"),
        ("-a + ~b", "((-a)+(~b))"),
        ("(bit<8>) a + b", "((cast a)+b)"),
        ("a < b", "(a<b)"),
        ("a |+| b |-| c", "((a|+|b)|-|c)"),
    ],
)
def test_precedence(text: str, wanted: str) -> None:
    assert shape(expression(text)) == wanted


def test_angle_brackets_close_together() -> None:
    diags = Diagnostics()
    source = (
        "control C() { register<bit<8>>(4) r; apply { x = y >> 2; f<tuple<bit<8>, bit<(1 << 3)>>>(z); } }"
    )
    program = parse(Preprocessor(diags).run_text("x", source), diags)
    assert not diags.error_count, diags.render()
    control = program.decls[0]
    assert isinstance(control, ast.ControlDecl) and control.body is not None
    assert isinstance(control.locals[0], ast.Instance)
    assert isinstance(control.body.items[1], ast.CallStmt)


def test_errors_go_on_after_a_statement() -> None:
    diags = Diagnostics()
    parse(Preprocessor(diags).run_text("x", "control C() { apply { x = ; y = 1; z = ); } }"), diags)
    assert diags.error_count == 2
