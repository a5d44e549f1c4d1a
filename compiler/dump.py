# SPDX-License-Identifier: Apache-2.0
"""Text of any intermediate form, for ``--dump-after``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from . import ast, ir
from .mid.flat import FlatControl, FlatProgram
from .preprocessor import render
from .show import expr
from .source import Span, Token
from .types import Type


def dump(value: object) -> str:
    """`value` as text, a newline last."""
    if isinstance(value, list) and all(isinstance(t, Token) for t in value):
        return render(value)
    if isinstance(value, FlatProgram):
        return "\n".join(_flat(value)) + "\n"
    if isinstance(value, ir.Program):
        return "\n".join(_node("main", value.main, 0, set())) + "\n"
    return "\n".join(_node("", value, 0, set())) + "\n"


def _flat(p: FlatProgram) -> Iterator[str]:
    yield f"parser {p.parser.decl.name}"
    for s in p.parser.states:
        yield f"  state {s.name}"
        for x in s.body:
            yield from _stmt(x, 4)
        t = s.transition
        if t.state is not None:
            yield f"    transition {t.state}"
            continue
        yield f"    select {', '.join(expr(e) for e in t.select)}"
        for case in t.cases:
            yield f"      {', '.join(expr(k) for k in case.keys)}: {case.state}"
    for c in p.controls:
        yield from _control(c)
    for inst in p.externs:
        yield f"extern {inst.type} {inst.name}({', '.join(expr(a) for a in inst.args if a is not None)})"


def _control(c: FlatControl) -> Iterator[str]:
    yield f"control {c.name} ({c.decl.name})"
    for a in c.actions:
        yield f"  action {a.name}({', '.join(f'{p.type} {p.name}' for p in a.params)})"
        if a.body is not None:
            for x in a.body.items:
                yield from _stmt(x, 4)
    for t in c.tables:
        yield f"  table {t.name}"
        for k in t.keys:
            yield f"    key {expr(k.expr)}: {k.match_kind} {k.name or ''}"
        for r in t.actions:
            yield f"    action {r.action.name}"
        if t.default is not None:
            args = ", ".join(expr(a) for a in t.default.args if a is not None)
            yield f"    default {t.default.action.name}({args})"
    yield "  apply"
    for x in c.body:
        yield from _stmt(x, 4)


def _stmt(s: ir.Stmt, indent: int) -> Iterator[str]:
    lead = " " * indent
    if isinstance(s, ir.Block):
        for x in s.items:
            yield from _stmt(x, indent)
    elif isinstance(s, ir.Assign):
        yield f"{lead}{expr(s.target)} = {expr(s.value)}"
    elif isinstance(s, ir.CallStmt):
        yield f"{lead}{expr(s.call)}"
    elif isinstance(s, ir.If):
        yield f"{lead}if {expr(s.cond)}"
        yield from _stmt(s.then, indent + 2)
        if s.other is not None:
            yield f"{lead}else"
            yield from _stmt(s.other, indent + 2)
    elif isinstance(s, ir.Switch):
        yield f"{lead}switch {expr(s.expr)}"
        for c in s.cases:
            labels = [
                *(expr(x) for x in c.labels),
                *(a.name for a in c.actions),
                *(["default"] if c.default else []),
            ]
            yield f"{lead}  {', '.join(labels)}:"
            if c.body is not None:
                yield from _stmt(c.body, indent + 4)
    elif isinstance(s, ir.For):
        for x in s.init:
            yield from _stmt(x, indent)
        yield f"{lead}while {expr(s.cond)}"
        yield from _stmt(s.body, indent + 2)
        yield f"{lead}  step"
        for x in s.update:
            yield from _stmt(x, indent + 4)
    elif isinstance(s, ir.ForIn):
        yield f"{lead}for {expr(s.target)} in {expr(s.collection)}"
        yield from _stmt(s.body, indent + 2)
    elif isinstance(s, ir.Scope):
        yield f"{lead}scope {s.label}"
        yield from _stmt(s.body, indent + 2)
    elif isinstance(s, ir.Leave):
        yield f"{lead}leave {s.label}"
    else:
        yield f"{lead}{type(s).__name__.lower()}"


def _node(label: str, value: object, indent: int, seen: set[int]) -> Iterator[str]:
    """Generic dump of dataclasses, each shared object once."""
    lead = "  " * indent + (f"{label}: " if label else "")
    if isinstance(value, (str, int, bool, type(None), Type)):
        yield f"{lead}{value}"
    elif isinstance(value, (tuple, list)):
        if value:
            yield f"{lead}[{len(value)}]"
            for x in value:
                yield from _node("-", x, indent + 1, seen)
    elif isinstance(value, (Span, Token, dict)):
        return
    elif isinstance(value, ir.Expr):
        yield f"{lead}{expr(value)}"
    elif dataclasses.is_dataclass(value):
        name = type(value).__name__
        if id(value) in seen:
            yield f"{lead}{name} (above)"
            return
        if not isinstance(value, ast.Node):
            seen.add(id(value))
        yield f"{lead}{name}"
        for f in dataclasses.fields(value):
            child = getattr(value, f.name)
            if f.name not in ("span", "name_span", "annos") and child is not None and child != ():
                yield from _node(f.name, child, indent + 1, seen)
    else:
        yield f"{lead}{value}"
