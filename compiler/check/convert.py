# SPDX-License-Identifier: Apache-2.0
"""Implicit and explicit conversions, unification of type parameters."""

from __future__ import annotations

from .. import ir
from ..diag import fail
from ..source import Span
from ..types import (
    BOOL,
    BROKEN,
    DONT_CARE,
    ERROR,
    INT,
    STRING,
    Bits,
    BlockType,
    Enum,
    ExternType,
    ListType,
    NewType,
    SerEnum,
    SetType,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVar,
    Varbit,
    base_type,
    substitute,
)
from .base import CheckerBase
from .fold import as_int, fold


def broken(t: Type) -> bool:
    return t is BROKEN


class Converter(CheckerBase):
    """Conversions between types (P4_16 specification, sections on casts and on structure literals)."""

    # -- implicit ------------------------------------------------------------------------------

    def coerce(self, e: ir.Expr, want: Type, what: str = "") -> ir.Expr:
        """`e` as a value of type `want`, with implicit casts only; raises a diagnostic if impossible."""
        have = e.type
        if have == want or want is BROKEN or have is BROKEN or want == DONT_CARE:
            return e
        if have == INT and isinstance(want, Bits):
            return self._fit(e, want)
        if isinstance(e, ir.Aggregate):
            made = self._aggregate(e, want)
            if made is not None:
                return made
        if (
            isinstance(e, ir.InvalidHeader)
            and isinstance(want, Struct)
            and want.kind in ("header", "header_union")
        ):
            return ir.InvalidHeader(e.span, want)
        if isinstance(have, SerEnum) and isinstance(want, Bits) and have.underlying == want:
            return fold(ir.Cast(e.span, want, e))
        if isinstance(want, SetType):
            return self.coerce(e, want.elem, what)
        if isinstance(have, Tuple) and isinstance(want, Tuple) and len(have.elems) == len(want.elems):
            raise self.mismatch(e, want, what)
        raise self.mismatch(e, want, what)

    def mismatch(self, e: ir.Expr, want: Type, what: str = "") -> Exception:
        where = f" {what}" if what else ""
        hint = None
        if self.cast_allowed(e.type, want):
            hint = f"convert it with a cast: ({want})"
        return fail("E020", f"expected {want}{where}, found {e.type}", e.span, hint=hint)

    def _fit(self, e: ir.Expr, want: Bits) -> ir.Expr:
        value = as_int(e)
        if value is None:
            return ir.Cast(e.span, want, e)
        wrapped = ir.wrap(value, want)
        low = -(1 << (want.width - 1)) if want.signed else 0
        high = (1 << (want.width - 1)) if want.signed else (1 << want.width)
        if not low <= value < high:
            sign = "negative value" if value < 0 and not want.signed else "value"
            self.diags.warning("W102", f"{sign} {value} does not fit {want}; it becomes {wrapped}", e.span)
        return ir.Lit(e.span, want, wrapped)

    def _aggregate(self, e: ir.Aggregate, want: Type) -> ir.Expr | None:
        have = e.type
        if isinstance(want, NewType):
            return None
        if isinstance(want, Struct):
            return self._to_struct(e, have, want)
        elems: tuple[Type, ...]
        if isinstance(want, Tuple) and not isinstance(have, Struct):
            elems = want.elems
        elif isinstance(want, ListType):
            elems = (want.elem,) * len(e.items)
        elif isinstance(want, Stack):
            if len(e.items) > want.size:
                return None
            elems = (want.elem,) * len(e.items)
        else:
            return None
        if len(elems) != len(e.items):
            raise fail("E020", f"{len(e.items)} values for {want}, which has {len(elems)}", e.span)
        items = tuple(self.coerce(i, t) for i, t in zip(e.items, elems, strict=True))
        if isinstance(want, Stack):
            fill = ir.InvalidHeader(e.span, want.elem)
            items += (fill,) * (want.size - len(items))
        return ir.Aggregate(e.span, want, items)

    def _to_struct(self, e: ir.Aggregate, have: Type, want: Struct) -> ir.Expr | None:
        if want.kind == "header_union":
            return None
        if isinstance(have, Struct):
            if have.kind != "unknown":
                return None
            given = dict(zip((f.name for f in have.fields), e.items, strict=True))
            for f in have.fields:
                if want.find(f.name) is None:
                    raise fail("E012", f"{want} has no field '{f.name}'", e.span)
            missing = [f.name for f in want.fields if f.name not in given]
            if missing:
                raise fail(
                    "E020",
                    f"fields of {want} without a value: {', '.join(missing)}",
                    e.span,
                    hint="give them, or end the list with '...'",
                )
            items = tuple(self.coerce(given[f.name], f.type) for f in want.fields)
            return ir.Aggregate(e.span, want, items)
        if isinstance(have, (Tuple, ListType)):
            if len(e.items) != len(want.fields):
                raise fail(
                    "E020", f"{len(e.items)} values for {want}, which has {len(want.fields)} fields", e.span
                )
            items = tuple(self.coerce(i, f.type) for i, f in zip(e.items, want.fields, strict=True))
            return ir.Aggregate(e.span, want, items)
        return None

    def default_value(self, t: Type, span: Span) -> ir.Expr:
        """What ``...`` stands for (P4_16 specification, section on default values)."""
        b = base_type(t)
        value: ir.Expr
        if isinstance(b, (Bits,)) or b == INT:
            value = ir.Lit(span, b, 0)
        elif b == BOOL:
            value = ir.Lit(span, b, False)
        elif b == STRING:
            value = ir.Lit(span, b, "")
        elif b == ERROR:
            value = ir.EnumLit(span, b, "NoError")
        elif isinstance(b, Enum):
            value = ir.EnumLit(span, b, b.members[0])
        elif isinstance(b, SerEnum):
            return ir.Cast(span, b, ir.Lit(span, b.underlying, 0))
        elif isinstance(b, Struct) and b.kind in ("header", "header_union"):
            value = ir.InvalidHeader(span, b)
        elif isinstance(b, Struct):
            value = ir.Aggregate(span, b, tuple(self.default_value(f.type, span) for f in b.fields))
        elif isinstance(b, Tuple):
            value = ir.Aggregate(span, b, tuple(self.default_value(x, span) for x in b.elems))
        elif isinstance(b, Stack):
            value = ir.Aggregate(span, b, tuple(self.default_value(b.elem, span) for _ in range(b.size)))
        else:
            raise fail("E023", f"{t} has no default value", span)
        return value if b is t or b == t else ir.Cast(span, t, value)

    # -- explicit ------------------------------------------------------------------------------

    def cast_allowed(self, have: Type, want: Type) -> bool:
        """May a value of `have` be cast to `want` explicitly?"""
        if have == want or have is BROKEN or want is BROKEN:
            return True
        if isinstance(want, NewType):
            return self.cast_allowed(have, want.underlying)
        if isinstance(have, NewType):
            return self.cast_allowed(have.underlying, want)
        if isinstance(have, SerEnum):
            return isinstance(want, SerEnum) or self.cast_allowed(have.underlying, want)
        if isinstance(want, SerEnum):
            return have == INT or (isinstance(have, Bits) and have == want.underlying)
        if isinstance(want, Bits):
            if have == INT:
                return True
            if have == BOOL:
                return want == Bits(1)
            return isinstance(have, Bits) and (have.signed == want.signed or have.width == want.width)
        if want == BOOL:
            return have == Bits(1) or have == INT
        return want == INT and isinstance(have, Bits)

    def cast(self, e: ir.Expr, want: Type, span: Span) -> ir.Expr:
        """Explicit cast."""
        have = e.type
        if have is BROKEN or want is BROKEN:
            return ir.Lit(span, BROKEN, 0)
        if isinstance(e, (ir.Aggregate, ir.InvalidHeader)) and isinstance(
            base_type(want), (Struct, Tuple, Stack, ListType)
        ):
            return self.coerce(e, want)
        if have == INT and isinstance(want, Bits):
            value = as_int(e)
            if value is not None:
                return ir.Lit(span, want, self._explicit_wrap(value, want, e.span))
        if not self.cast_allowed(have, want):
            raise fail("E028", f"cannot cast {have} to {want}", span)
        if have == want:
            return e
        if want == BOOL and have == INT:
            value = as_int(e)
            if value not in (0, 1):
                raise fail("E028", f"only 0 and 1 can be cast to bool, not {value}", span)
        return fold(ir.Cast(span, want, e))

    def _explicit_wrap(self, value: int, want: Bits, span: Span) -> int:
        wrapped = ir.wrap(value, want)
        fits = value == wrapped or (value >= 0 and not want.signed and value < 1 << want.width)
        if (
            not fits
            and not (want.signed and 0 <= value < 1 << want.width)
            and value.bit_length() > want.width
        ):
            self.diags.warning("W102", f"value {value} does not fit {want}; it becomes {wrapped}", span)
        return wrapped

    # -- type parameters -----------------------------------------------------------------------

    def unify(self, formal: Type, actual: Type, sub: dict[TypeVar, Type | None]) -> bool:
        """Bind the variables in `formal` so that it equals `actual`; False if they cannot agree.

        An int literal may still become any bit<W> or int<W>, so a first binding to int gives way.
        """
        if isinstance(formal, TypeVar) and formal in sub:
            bound = sub[formal]
            if bound is None or bound in (INT, DONT_CARE):
                if bound == INT and not isinstance(base_type(actual), Bits):
                    return actual == INT
                sub[formal] = actual
                return True
            if actual == INT and isinstance(base_type(bound), (Bits, SerEnum)):
                return True
            if isinstance(actual, Struct) and actual.kind == "unknown":
                return True
            if isinstance(bound, Struct) and bound.kind == "unknown":
                sub[formal] = actual
                return True
            if isinstance(bound, Tuple) and isinstance(actual, Tuple):
                return len(bound.elems) == len(actual.elems)
            return bound == actual or (isinstance(bound, Struct) and isinstance(actual, Tuple))
        if formal == actual or actual is BROKEN or formal is BROKEN:
            return True
        if formal == DONT_CARE or actual == DONT_CARE:
            return True
        if isinstance(formal, Bits):
            return actual == INT or (isinstance(actual, SerEnum) and actual.underlying == formal)
        if isinstance(formal, SetType):
            return self.unify(formal.elem, actual.elem if isinstance(actual, SetType) else actual, sub)
        if isinstance(formal, Stack) and isinstance(actual, Stack):
            return formal.size == actual.size and self.unify(formal.elem, actual.elem, sub)
        if isinstance(formal, Tuple) and isinstance(actual, Tuple):
            return len(formal.elems) == len(actual.elems) and all(
                self.unify(f, a, sub) for f, a in zip(formal.elems, actual.elems, strict=True)
            )
        if isinstance(formal, ListType):
            if isinstance(actual, ListType):
                return self.unify(formal.elem, actual.elem, sub)
            return isinstance(actual, Tuple) and all(self.unify(formal.elem, a, sub) for a in actual.elems)
        if isinstance(formal, Struct):
            if isinstance(actual, Struct):
                if actual.kind == "unknown":
                    return all(
                        (g := formal.find(f.name)) is not None and self.unify(g.type, f.type, sub)
                        for f in actual.fields
                    )
                return (
                    formal.origin is not None
                    and formal.origin is actual.origin
                    and all(self.unify(f, a, sub) for f, a in zip(formal.args, actual.args, strict=True))
                )
            return (
                isinstance(actual, Tuple)
                and len(actual.elems) == len(formal.fields)
                and all(self.unify(f.type, a, sub) for f, a in zip(formal.fields, actual.elems, strict=True))
            )
        if isinstance(formal, ExternType) and isinstance(actual, ExternType):
            return (
                formal.decl is actual.decl
                and len(formal.args) == len(actual.args)
                and all(self.unify(f, a, sub) for f, a in zip(formal.args, actual.args, strict=True))
            )
        if isinstance(formal, BlockType) and isinstance(actual, BlockType):
            return self.unify_blocks(formal, actual, sub)
        return False

    def unify_blocks(self, formal: BlockType, actual: BlockType, sub: dict[TypeVar, Type | None]) -> bool:
        """A block fits a block type if their parameters agree one by one."""
        if formal.proto is actual.proto and not formal.args:
            return True
        if formal.proto.kind != actual.proto.kind or len(formal.proto.params) != len(actual.proto.params):
            return False
        inner = dict(zip(formal.proto.tparams, formal.args, strict=False))
        for f, a in zip(formal.proto.params, actual.proto.params, strict=True):
            if f.direction != a.direction or not self.unify(substitute(f.type, inner), a.type, sub):
                return False
        return True


__all__ = ["Converter", "Varbit", "broken"]
