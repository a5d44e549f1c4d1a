# SPDX-License-Identifier: Apache-2.0
"""Evaluation of operators on known values, with the arithmetic of P4_16."""

from __future__ import annotations

from .. import ir
from ..types import BOOL, INT, Bits, SerEnum, Type, base_type

#: No literal grows beyond this many bits while folding.
MAX_INT_BITS = 1 << 16


def as_int(e: ir.Expr) -> int | None:
    """Integer value of a literal, a bool or a serializable enum member; None if not known."""
    if isinstance(e, ir.Lit) and isinstance(e.value, int):
        return int(e.value)
    if isinstance(e, ir.EnumLit):
        t = base_type(e.type)
        if isinstance(t, SerEnum):
            return t.value(e.name)
    return None


def is_const(e: ir.Expr) -> bool:
    """Is `e` a value known at compile time?"""
    if isinstance(e, (ir.Lit, ir.EnumLit, ir.InvalidHeader)):
        return True
    return isinstance(e, ir.Aggregate) and all(is_const(i) for i in e.items)


def saturate(value: int, t: Bits) -> int:
    if t.signed:
        return max(-(1 << (t.width - 1)), min(value, (1 << (t.width - 1)) - 1))
    return max(0, min(value, (1 << t.width) - 1))


def binary(op: str, a: int, b: int, t: Type) -> int | bool | None:
    """Value of ``a op b`` on operands of type `t` (the left one's, for shifts); None if undefined."""
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
    if op in ("|+|", "|-|"):
        return saturate(a + b if op == "|+|" else a - b, t) if isinstance(t, Bits) else None
    if op == "<<":
        if b < 0 or (not isinstance(t, Bits) and b > MAX_INT_BITS):
            return None
        value = a << b if b <= MAX_INT_BITS else 0
    elif op == ">>":
        if b < 0:
            return None
        value = a >> b
    elif op in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b)
        if (a < 0) != (b < 0):
            quotient = -quotient
        value = quotient if op == "/" else a - b * quotient
    elif op == "+":
        value = a + b
    elif op == "-":
        value = a - b
    elif op == "*":
        value = a * b
    elif op == "&":
        value = a & b
    elif op == "|":
        value = a | b
    elif op == "^":
        value = a ^ b
    else:
        return None
    if isinstance(t, Bits):
        return ir.wrap(value, t)
    return value if value.bit_length() <= MAX_INT_BITS else None


def fold(e: ir.Expr) -> ir.Expr:
    """`e` with its topmost operator evaluated, if its operands are known; else `e` itself."""
    if isinstance(e, ir.Unary):
        return _unary(e)
    if isinstance(e, ir.Binary):
        return _binary(e)
    if isinstance(e, ir.Cast):
        return _cast(e)
    if isinstance(e, ir.Mux):
        if isinstance(e.cond, ir.Lit):
            return e.yes if e.cond.value else e.no
    elif isinstance(e, ir.Slice):
        value = as_int(e.base)
        if value is not None:
            return ir.Lit(e.span, e.type, (value >> e.lo) & ((1 << (e.hi - e.lo + 1)) - 1))
    elif isinstance(e, ir.Field) and isinstance(e.base, ir.Aggregate):
        return _field_of(e, e.base)
    elif isinstance(e, ir.Index) and isinstance(e.base, ir.Aggregate):
        i = as_int(e.index)
        if i is not None and 0 <= i < len(e.base.items):
            return e.base.items[i]
    return e


def _field_of(e: ir.Field, base: ir.Aggregate) -> ir.Expr:
    fields = getattr(base.type, "fields", ())
    for f, item in zip(fields, base.items, strict=False):
        if f.name == e.name:
            return item
    return e


def _unary(e: ir.Unary) -> ir.Expr:
    arg = e.arg
    if not isinstance(arg, ir.Lit):
        return e
    if e.op == "!":
        return ir.Lit(e.span, BOOL, not arg.value)
    assert isinstance(arg.value, int)
    if e.op == "-":
        return ir.lit(-arg.value, e.type, e.span)
    if e.op == "~":
        return ir.lit(~arg.value, e.type, e.span)
    return ir.Lit(e.span, e.type, arg.value)


def _binary(e: ir.Binary) -> ir.Expr:
    left, right = e.left, e.right
    if e.op in ("&&", "||"):
        if isinstance(left, ir.Lit):
            decides = bool(left.value) == (e.op == "||")
            return ir.Lit(e.span, BOOL, bool(left.value)) if decides else right
        if isinstance(right, ir.Lit) and bool(right.value) == (e.op == "&&"):
            return left
        return e
    if isinstance(left, ir.EnumLit) and isinstance(right, ir.EnumLit) and left.type == right.type:
        if e.op in ("==", "!="):
            a, b = as_int(left), as_int(right)
            same = left.name == right.name if a is None or b is None else a == b
            return ir.Lit(e.span, BOOL, same == (e.op == "=="))
        return e
    if not (isinstance(left, ir.Lit) and isinstance(right, ir.Lit)):
        return e
    if isinstance(left.value, str) or isinstance(right.value, str):
        if e.op == "++" and isinstance(left.value, str) and isinstance(right.value, str):
            return ir.Lit(e.span, e.type, left.value + right.value)
        return e
    if e.op == "++":
        rt = right.type
        assert isinstance(rt, Bits)
        value: int | bool | None = (int(left.value) << rt.width) | (int(right.value) & ((1 << rt.width) - 1))
        return ir.lit(int(value or 0), e.type, e.span)
    value = binary(e.op, int(left.value), int(right.value), left.type)
    if value is None:
        return e
    return ir.Lit(e.span, e.type, bool(value) if e.type == BOOL else value)


def _cast(e: ir.Cast) -> ir.Expr:
    value = as_int(e.arg)
    if value is None:
        return e
    t = base_type(e.type)
    if isinstance(t, Bits):
        return ir.Lit(e.span, e.type, ir.wrap(value, t))
    if t == BOOL:
        return ir.Lit(e.span, e.type, bool(value))
    if t == INT:
        return ir.Lit(e.span, e.type, value)
    return e
