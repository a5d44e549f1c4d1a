# SPDX-License-Identifier: Apache-2.0
"""Reading annotations whose body the language or P4Runtime defines."""

from __future__ import annotations

from collections.abc import Sequence

from .ast import Annotation, Annotations
from .diag import fail
from .lexer import parse_int, string_value
from .source import Token


def find(annos: Annotations, name: str) -> Annotation | None:
    """First annotation called `name`."""
    for a in annos:
        if a.name == name:
            return a
    return None


def has(annos: Annotations, name: str) -> bool:
    return find(annos, name) is not None


def string_arg(a: Annotation) -> str:
    """The one string of ``@a("...")``; raises a diagnostic if it is anything else."""
    toks = a.tokens or ()
    if not toks or any(t.kind != "STR" for t in toks):
        raise fail("E035", f"@{a.name} takes one string", a.span)
    return "".join(string_value(t.text) for t in toks)


def int_arg(a: Annotation) -> int:
    """The one integer of ``@a(n)``."""
    values = int_args(a)
    if len(values) != 1:
        raise fail("E035", f"@{a.name} takes one integer", a.span)
    return values[0]


def int_args(a: Annotation) -> list[int]:
    """Comma-separated integers."""
    out: list[int] = []
    for group in split(a.tokens or ()):
        negative = len(group) == 2 and group[0].text == "-"
        if len(group) != 1 + negative or group[-1].kind != "INT":
            raise fail("E035", f"@{a.name} takes integers", a.span)
        value = parse_int(group[-1].text)[0]
        out.append(-value if negative else value)
    return out


def split(toks: Sequence[Token]) -> list[list[Token]]:
    """Tokens between commas outside parentheses; empty for no tokens."""
    if not toks:
        return []
    groups: list[list[Token]] = [[]]
    depth = 0
    for t in toks:
        if t.kind == "OP":
            depth += (t.text in "([{") - (t.text in ")]}")
            if t.text == "," and depth == 0:
                groups.append([])
                continue
        groups[-1].append(t)
    return groups


def key_values(a: Annotation) -> list[tuple[str, Token]]:
    """``key = value`` pairs of an unstructured body."""
    out: list[tuple[str, Token]] = []
    for group in split(a.tokens or ()):
        if len(group) != 3 or group[0].kind != "ID" or group[1].text != "=":
            raise fail("E035", f"@{a.name} takes key = value pairs", a.span)
        out.append((group[0].text, group[2]))
    return out


def external_name(name: str, annos: Annotations) -> str:
    """Name the control plane sees: that of ``@name``, else `name`."""
    a = find(annos, "name")
    return string_arg(a) if a is not None else name


def is_hidden(annos: Annotations) -> bool:
    return has(annos, "hidden")
