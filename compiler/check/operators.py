# SPDX-License-Identifier: Apache-2.0
"""Typing of binary operators."""

from __future__ import annotations

from .. import ir
from ..diag import fail
from ..source import Span
from ..types import (
    BOOL,
    BROKEN,
    ERROR,
    INT,
    STRING,
    Bits,
    Enum,
    NewType,
    SerEnum,
    Stack,
    Struct,
    Tuple,
    Type,
    base_type,
    width_of,
)
from .convert import Converter
from .fold import as_int, fold

_ARITH = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "|+|", "|-|"})
_COMPARE = frozenset({"<", "<=", ">", ">="})


class OperatorChecker(Converter):
    """Binary operators but && and ||, which are conditions."""

    def binary(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        """Typed ``left op right``, for operators other than && and ||."""
        if left.type is BROKEN or right.type is BROKEN:
            return ir.Lit(span, BROKEN, 0)
        if op in ("<<", ">>"):
            return self._shift(op, left, right, span)
        if op == "++":
            return self._concat(left, right, span)
        if op in ("==", "!="):
            return self._equality(op, left, right, span)
        left, right = self._same_numbers(op, left, right, span)
        t = left.type
        if op in _COMPARE:
            return fold(ir.Binary(span, BOOL, op, left, right))
        if op in ("|+|", "|-|") and t == INT:
            raise fail("E020", f"'{op}' needs numbers with a width", span)
        if op in ("/", "%"):
            if isinstance(t, Bits) and t.signed:
                raise fail("E020", f"'{op}' is not defined on {t}", span)
            if as_int(right) == 0:
                raise fail("E026", "division by zero", right.span)
            divisor = as_int(right)
            known = as_int(left) is not None and divisor is not None
            if not known and as_int(left) != 0 and (divisor is None or divisor & (divisor - 1)):
                raise fail(
                    "E040",
                    f"'{op}' at run time is not supported by the target",
                    span,
                    hint="only powers of two known at compile time are",
                )
            if not known and divisor is not None and divisor < 0:
                raise fail("E026", f"'{op}' is not defined on negative numbers", span)
            if t == INT and min(as_int(left) or 0, as_int(right) or 0) < 0:
                raise fail("E026", f"'{op}' is not defined on negative numbers", span)
        elif op in ("&", "|", "^") and t == INT and (as_int(left) is None or as_int(right) is None):
            raise fail("E020", f"'{op}' needs numbers with a width", span)
        elif op not in _ARITH:
            raise fail("E004", f"unknown operator '{op}'", span)
        return fold(ir.Binary(span, t, op, left, right))

    def _same_numbers(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> tuple[ir.Expr, ir.Expr]:
        if isinstance(left.type, SerEnum):
            left = self.coerce(left, left.type.underlying)
        if isinstance(right.type, SerEnum):
            right = self.coerce(right, right.type.underlying)
        lt, rt = left.type, right.type
        for side in (left, right):
            if not isinstance(side.type, Bits) and side.type != INT:
                raise fail("E020", f"'{op}' needs numbers, found {side.type}", side.span)
        if lt == INT and isinstance(rt, Bits):
            left = self.coerce(left, rt)
        elif rt == INT and isinstance(lt, Bits):
            right = self.coerce(right, lt)
        elif lt != rt:
            raise fail(
                "E020",
                f"'{op}' needs operands of the same type, found {lt} and {rt}",
                span,
                hint="cast one of them",
            )
        return left, right

    def _shift(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        if isinstance(left.type, SerEnum):
            left = self.coerce(left, left.type.underlying)
        if isinstance(right.type, SerEnum):
            right = self.coerce(right, right.type.underlying)
        lt, rt = left.type, right.type
        if not isinstance(lt, Bits) and lt != INT:
            raise fail("E020", f"'{op}' needs a number, found {lt}", left.span)
        amount = as_int(right)
        if amount is not None and amount < 0:
            raise fail("E026", "a shift amount cannot be negative", right.span)
        if (
            rt != INT
            and not (isinstance(rt, Bits) and not rt.signed)
            and not (amount is not None and isinstance(rt, Bits))
        ):
            raise fail("E020", f"a shift amount must be bit<W>, found {rt}", right.span)
        if lt == INT and amount is None:
            raise fail(
                "E022",
                "the width of the shifted number is not known",
                left.span,
                hint="give it a width, for example 32w1",
            )
        if isinstance(lt, Bits) and amount is not None and amount >= lt.width:
            self.diags.warning("W102", f"shift by {amount} leaves nothing of {lt}", span)
        return fold(ir.Binary(span, lt, op, left, right))

    def _concat(self, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        if left.type == STRING and right.type == STRING:
            return fold(ir.Binary(span, STRING, "++", left, right))
        sides = []
        for side in (left, right):
            if isinstance(side.type, SerEnum):
                side = self.coerce(side, side.type.underlying)
            if not isinstance(side.type, Bits):
                raise fail(
                    "E020",
                    f"'++' needs bit<W> or int<W>, found {side.type}",
                    side.span,
                    hint="give the number a width" if side.type == INT else None,
                )
            sides.append(side)
        a, b = sides[0].type, sides[1].type
        assert isinstance(a, Bits) and isinstance(b, Bits)
        return fold(ir.Binary(span, Bits(a.width + b.width, a.signed), "++", sides[0], sides[1]))

    def _equality(self, op: str, left: ir.Expr, right: ir.Expr, span: Span) -> ir.Expr:
        lt, rt = left.type, right.type
        if lt != rt:
            if isinstance(lt, Bits) and (rt == INT or isinstance(rt, SerEnum)):
                right = self.coerce(right, lt)
            elif isinstance(rt, Bits) and (lt == INT or isinstance(lt, SerEnum)):
                left = self.coerce(left, rt)
            elif isinstance(right, (ir.Aggregate, ir.InvalidHeader)):
                right = self.coerce(right, lt)
            elif isinstance(left, (ir.Aggregate, ir.InvalidHeader)):
                left = self.coerce(left, rt)
            elif isinstance(lt, SerEnum) and rt == INT:
                left = self.coerce(left, lt.underlying)
                right = self.coerce(right, lt.underlying)
            elif isinstance(rt, SerEnum) and lt == INT:
                right = self.coerce(right, rt.underlying)
                left = self.coerce(left, rt.underlying)
            else:
                raise fail("E020", f"'{op}' compares values of the same type, found {lt} and {rt}", span)
        t = base_type(left.type)
        if not _comparable(t):
            raise fail("E020", f"values of type {left.type} cannot be compared", span)
        return fold(ir.Binary(span, BOOL, op, left, right))


def _comparable(t: Type) -> bool:
    if isinstance(t, (Bits, Enum, SerEnum)) or t in (BOOL, ERROR, INT, STRING):
        return True
    if isinstance(t, NewType):
        return _comparable(t.underlying)
    if isinstance(t, Struct):
        return t.kind != "unknown" and all(_comparable(base_type(f.type)) for f in t.fields)
    if isinstance(t, Stack):
        return _comparable(t.elem)
    if isinstance(t, Tuple):
        return all(_comparable(base_type(x)) for x in t.elems)
    return width_of(t) is not None
