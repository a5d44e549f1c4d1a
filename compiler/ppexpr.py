# SPDX-License-Identifier: Apache-2.0
"""Value of the integer expression of an ``#if``; names that are no macros count as 0."""

from __future__ import annotations

from collections.abc import Callable

from .diag import CompileError, fail
from .lexer import parse_int
from .source import Token

_BINARY: list[dict[str, Callable[[int, int], int]]] = [
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: int(a / b), "%": lambda a, b: a - b * int(a / b)},
]


class _Reader:
    def __init__(self, toks: list[Token], head: Token) -> None:
        self.toks = toks
        self.head = head
        self.i = 0

    def peek(self) -> str:
        if self.i >= len(self.toks):
            return ""
        t = self.toks[self.i]
        if t.text == ">" and self.i + 1 < len(self.toks):
            nxt = self.toks[self.i + 1]
            if nxt.text == ">" and not nxt.space:
                return ">>"
        return t.text

    def take(self, text: str) -> None:
        self.i += 2 if text == ">>" else 1

    def bad(self) -> CompileError:
        at = self.toks[self.i] if self.i < len(self.toks) else self.head
        return fail("E002", "malformed expression in #if", at.span)

    def unary(self) -> int:
        if self.i >= len(self.toks):
            raise self.bad()
        t = self.toks[self.i]
        self.i += 1
        if t.kind == "INT":
            try:
                return parse_int(t.text)[0]
            except ValueError:
                raise fail("E002", f"malformed number '{t.text}' in #if", t.span) from None
        if t.text == "!":
            return int(not self.unary())
        if t.text == "-":
            return -self.unary()
        if t.text == "+":
            return self.unary()
        if t.text == "~":
            return ~self.unary()
        if t.text == "(":
            value = self.ternary()
            if self.peek() != ")":
                raise self.bad()
            self.i += 1
            return value
        if t.kind == "ID":
            return int(t.text == "true")
        self.i -= 1
        raise self.bad()

    def binary(self, level: int) -> int:
        if level == len(_BINARY):
            return self.unary()
        value = self.binary(level + 1)
        while (op := self.peek()) in _BINARY[level]:
            self.take(op)
            right = self.binary(level + 1)
            if op in ("/", "%") and right == 0:
                raise fail("E002", "division by zero in #if", self.head.span)
            value = _BINARY[level][op](value, right)
        return value

    def ternary(self) -> int:
        cond = self.binary(0)
        if self.peek() != "?":
            return cond
        self.i += 1
        yes = self.ternary()
        if self.peek() != ":":
            raise self.bad()
        self.i += 1
        no = self.ternary()
        return yes if cond else no


def evaluate(toks: list[Token], head: Token) -> int:
    """Value of the expression; `head` is the directive's token, for messages."""
    reader = _Reader(toks, head)
    value = reader.ternary()
    if reader.i != len(toks):
        raise reader.bad()
    return value
