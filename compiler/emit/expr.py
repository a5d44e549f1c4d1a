# SPDX-License-Identifier: Apache-2.0
"""Expressions in BMv2 JSON.

Every expression made here has a value within the range of its type: operators that can leave the range
are followed by a mask (unsigned) or two_comp_mod (signed). Booleans are BMv2 booleans inside expressions
and 1-bit data in fields; d2b and b2d convert.
"""

from __future__ import annotations

from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..source import NO_SPAN, Span
from ..types import BOOL, ERROR, INT, Bits, Enum, SerEnum, Struct, Type, base_type
from .layout import (
    FieldPlace,
    HeaderPlace,
    Json,
    LastPlace,
    Layout,
    Place,
    RuntimePlace,
    StackPlace,
    UnionPlace,
)

VALID = "$valid$"


def hexstr(value: int, width: int | None = None) -> Json:
    """``{"type": "hexstr"}``, padded to whole bytes of `width`."""
    digits = "" if width is None else "0" * max(0, 2 * ((width + 7) // 8) - len(f"{abs(value):x}"))
    return {"type": "hexstr", "value": f"{'-' if value < 0 else ''}0x{digits}{abs(value):x}"}


def hex_value(value: int, width: int | None = None) -> str:
    text: str = hexstr(value, width)["value"]
    return text


def op(name: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": name, "left": left, "right": right}}


class ExprEmitter:
    """Converts expressions; `params` are the parameters of the action at hand."""

    def __init__(self, layout: Layout, errors: dict[str, int]) -> None:
        self.layout = layout
        self.errors = errors
        self.params: dict[ir.VarSym, int] = {}

    # -- values --------------------------------------------------------------------------------

    def value(self, e: ir.Expr) -> Json:
        """Inside an expression: BMv2 boolean for bool, data for all else."""
        if isinstance(e, ir.Lit):
            if e.type == BOOL:
                return {"type": "bool", "value": bool(e.value)}
            if isinstance(e.value, str):
                return {"type": "string", "value": e.value}
            t = base_type(e.type)
            return hexstr(int(e.value), t.width if isinstance(t, Bits) else None)
        if isinstance(e, ir.EnumLit):
            return self._enum(e)
        if isinstance(e, ir.Var) and e.sym in self.params:
            local: Json = {"type": "local", "value": self.params[e.sym]}
            return _d2b(local) if base_type(e.type) == BOOL else local
        if isinstance(e, (ir.Var, ir.Field, ir.Index)):
            j = self.place_json(self.layout.place(e), e.span)
            return _d2b(j) if base_type(e.type) == BOOL else j
        if isinstance(e, ir.StackMember):
            return self._stack_member(e)
        if isinstance(e, ir.Unary):
            return self._unary(e)
        if isinstance(e, ir.Binary):
            return self._binary(e)
        if isinstance(e, ir.Mux):
            j = op("?", self.value(e.yes), self.value(e.no))
            j["value"]["cond"] = self.value(e.cond)
            return j
        if isinstance(e, ir.Cast):
            return self._cast(e)
        if isinstance(e, ir.Slice):
            return self._slice(e)
        if isinstance(e, ir.Call):
            return self._call(e)
        raise fail("E040", "the target cannot evaluate this expression", e.span)

    def _enum(self, e: ir.EnumLit) -> Json:
        t = base_type(e.type)
        if t == ERROR:
            return hexstr(self.errors[e.name])
        if isinstance(t, SerEnum):
            return hexstr(t.value(e.name), t.underlying.width)
        assert isinstance(t, Enum)
        return hexstr(t.members.index(e.name), 32)

    def place_json(self, p: Place, span: Span = NO_SPAN) -> Json:
        if isinstance(p, FieldPlace):
            return {"type": "field", "value": [p.header, p.field]}
        if isinstance(p, HeaderPlace):
            return {"type": "header", "value": p.name}
        if isinstance(p, UnionPlace):
            return {"type": "header_union", "value": p.name}
        if isinstance(p, StackPlace):
            return {"type": "header_union_stack" if p.union else "header_stack", "value": p.name}
        if isinstance(p, RuntimePlace):
            return self._runtime(p)
        if isinstance(p, LastPlace):
            if p.field is None and p.which == "last":
                raise fail(
                    "E040",
                    "'last' of a stack as a whole is not supported by the target",
                    span,
                    hint="use its fields",
                )
            if p.field is None:
                return {"type": "stack", "value": p.stack.name}
            if p.member is not None:
                return {"type": "union_stack_field", "value": [p.stack.name, p.member, p.field]}
            return {"type": "stack_field", "value": [p.stack.name, p.field]}
        raise fail("E040", "a whole struct cannot be used here on the target", span)

    def _runtime(self, p: RuntimePlace) -> Json:
        stack = self.place_json(p.stack)
        name = "dereference_union_stack" if p.stack.union else "dereference_header_stack"
        j = op(name, stack, self.value(p.index))
        header = p.elem
        if p.member is not None:
            offset = [f.name for f in header.fields].index(p.member)
            j = op("access_union_header", j, offset)
            member = header.fields[offset].type
            assert isinstance(member, Struct)
            header = member
        if p.field is None:
            return j
        names = [f[0] for f in self._header_fields(header)]
        return op("access_field", j, names.index(p.field))

    def _header_fields(self, t: Struct) -> list[Json]:
        name = self.layout.header_type(t)
        fields: list[Json] = next(h["fields"] for h in self.layout.header_types if h["name"] == name)
        return fields

    def _stack_member(self, e: ir.StackMember) -> Json:
        if e.name == "lastIndex":
            return op("last_stack_index", None, self.place_json(self.layout.place(e.base)))
        return self.place_json(self.layout.place(e), e.span)

    # -- operators -----------------------------------------------------------------------------

    def fit(self, j: Json, t: Type) -> Json:
        """`j` brought into the range of `t`."""
        b = base_type(t)
        if not isinstance(b, Bits):
            raise fail("E040", f"arithmetic on {t} at run time is not supported by the target")
        if b.signed:
            return op("two_comp_mod", j, hexstr(b.width))
        return op("&", j, hexstr((1 << b.width) - 1, b.width))

    def _unary(self, e: ir.Unary) -> Json:
        arg = self.value(e.arg)
        if e.op == "!":
            return op("not", None, arg)
        t = base_type(e.type)
        assert isinstance(t, Bits)
        if e.op == "~":
            j = op("~", None, arg)
            return j if t.signed else self.fit(j, t)
        return self.fit(op("-", hexstr(0, t.width), arg), t)

    def _binary(self, e: ir.Binary) -> Json:
        name = e.op
        if name in ("&&", "||"):
            return op("and" if name == "&&" else "or", self.value(e.left), self.value(e.right))
        if name in ("==", "!=", "<", "<=", ">", ">=", "&", "|", "^"):
            return op(name, self.value(e.left), self.value(e.right))
        if name == "++":
            return self._concat(e)
        if name in ("<<", ">>"):
            return self._shift(e)
        if name in ("|+|", "|-|"):
            t = base_type(e.type)
            assert isinstance(t, Bits)
            j = op("+" if name == "|+|" else "-", self.value(e.left), self.value(e.right))
            return op("sat_cast" if t.signed else "usat_cast", j, hexstr(t.width))
        if name in ("/", "%"):
            if as_int(e.right) is None or as_int(e.left) is None:
                return self._divide(e)
            return op(name, self.value(e.left), self.value(e.right))
        return self.fit(op(name, self.value(e.left), self.value(e.right)), e.type)

    def _divide(self, e: ir.Binary) -> Json:
        """By a power of two; the target has no division at run time."""
        n = as_int(e.right)
        if n is None or n <= 0 or n & (n - 1):
            raise fail(
                "E040",
                f"'{e.op}' at run time is not supported by the target",
                e.span,
                hint="only powers of two known at compile time are",
            )
        left = self.value(e.left)
        if e.op == "/":
            return op(">>", left, hexstr(n.bit_length() - 1))
        t = base_type(e.type)
        return op("&", left, hexstr(n - 1, t.width if isinstance(t, Bits) else None))

    def _shift(self, e: ir.Binary) -> Json:
        j = op(e.op, self.value(e.left), self.value(e.right))
        return self.fit(j, e.type) if e.op == "<<" else j

    def _concat(self, e: ir.Binary) -> Json:
        right = base_type(e.right.type)
        t = base_type(e.type)
        assert isinstance(right, Bits) and isinstance(t, Bits)
        low = self.value(e.right)
        if right.signed:
            low = op("&", low, hexstr((1 << right.width) - 1, right.width))
        high = op("<<", self.value(e.left), hexstr(right.width))
        return op("|", high, low)

    def _slice(self, e: ir.Slice) -> Json:
        j = self.value(e.base)
        t = base_type(e.base.type)
        if e.lo:
            j = op(">>", j, hexstr(e.lo))
        width = e.hi - e.lo + 1
        whole = isinstance(t, Bits) and not t.signed and e.hi == t.width - 1
        return j if whole else op("&", j, hexstr((1 << width) - 1, width))

    def _cast(self, e: ir.Cast) -> Json:
        have, want = base_type(e.arg.type), base_type(e.type)
        if isinstance(have, SerEnum):
            have = have.underlying
        if isinstance(want, SerEnum):
            want = want.underlying
        j = self.value(e.arg)
        if have in (want, INT) or want == INT:
            return j
        if want == BOOL:
            return op("!=", j, hexstr(0, have.width if isinstance(have, Bits) else None))
        if have == BOOL:
            return _b2d(j)
        if not (isinstance(have, Bits) and isinstance(want, Bits)):
            raise fail("E040", f"the target cannot cast {have} to {want}", e.span)
        if want.width >= have.width and have.signed == want.signed:
            return j
        if want.width > have.width and not have.signed:
            return j
        return self.fit(j, want)

    def _call(self, e: ir.Call) -> Json:
        target = e.target
        if isinstance(target, ir.Builtin) and target.name == "isValid":
            return self._valid(target.base)
        if isinstance(target, ir.ExternMethod) and target.decl.name == "lookahead":
            from ..types import width_of

            return {"type": "lookahead", "value": [0, width_of(e.type)]}
        raise fail("E040", "this call cannot be part of an expression on the target", e.span)

    def _valid(self, base: ir.Expr) -> Json:
        p = self.layout.place(base)
        if isinstance(p, UnionPlace):
            return op("valid_union", None, self.place_json(p))
        if isinstance(p, HeaderPlace):
            return _d2b({"type": "field", "value": [p.name, VALID]})
        if isinstance(p, LastPlace):
            return _d2b({"type": "stack_field", "value": [p.stack.name, VALID]})
        if isinstance(p, RuntimePlace):
            # $valid$ is the hidden field after the declared ones.
            return _d2b(op("access_field", self._runtime(p), len(self._header_fields(p.elem))))
        raise fail("E040", "isValid() cannot be used on this", base.span)

    # -- contexts ------------------------------------------------------------------------------

    def data(self, e: ir.Expr) -> Json:
        """Operand of a primitive: expressions wrapped once more, booleans as data."""
        if isinstance(e, ir.Var) and e.sym in self.params:
            return {"type": "runtime_data", "value": self.params[e.sym]}
        if base_type(e.type) == BOOL:
            field = self._bool_field(e)
            if field is not None:
                return field
            if isinstance(e, ir.Lit):
                return hexstr(int(e.value), 1)
            return wrap(_b2d(self.value(e)))
        j = self.value(e)
        if j["type"] == "local":  # a cast that changes nothing
            return {**j, "type": "runtime_data"}
        return wrap(j)

    def _bool_field(self, e: ir.Expr) -> Json | None:
        if isinstance(e, (ir.Var, ir.Field, ir.Index)):
            p = self.layout.place(e)
            if isinstance(p, FieldPlace):
                return self.place_json(p)
        return None

    def target(self, e: ir.Expr) -> Json:
        """Left side of an assignment."""
        return wrap(self.place_json(self.layout.place(e), e.span))

    def bool_data(self, e: ir.Expr) -> Json:
        """Condition as data, for ``_jump_if_zero``, assert and the like."""
        return wrap(_b2d(self.value(e)))

    def key_target(self, e: ir.Expr) -> Json:
        """``[header, field]`` of a table key."""
        if isinstance(e, ir.Call):
            assert isinstance(e.target, ir.Builtin)
            p = self.layout.place(e.target.base)
            assert isinstance(p, HeaderPlace)
            return [p.name, VALID]
        p = self.layout.place(e)
        assert isinstance(p, FieldPlace)
        return [p.header, p.field]


def wrap(j: Json) -> Json:
    """Expressions and stack fields stand inside another expression object."""
    if j["type"] in ("expression", "stack_field"):
        return {"type": "expression", "value": j}
    return j


def _d2b(j: Json) -> Json:
    return op("d2b", None, j)


def _b2d(j: Json) -> Json:
    return op("b2d", None, j)
