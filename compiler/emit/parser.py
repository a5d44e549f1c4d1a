# SPDX-License-Identifier: Apache-2.0
"""Parser states in BMv2 JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..mid.flat import FlatParser, FlatState
from ..types import BOOL, Bits, SerEnum, Struct, Type, base_type
from .actions import assign_op, builtin, source_info
from .expr import hex_value
from .externs import leaves
from .layout import HeaderPlace, Json, LastPlace, scalar_width

if TYPE_CHECKING:
    from .bmv2 import Emitter


class ParserEmitter:
    """The one parser of a v1model program."""

    def __init__(self, top: Emitter) -> None:
        self.top = top
        self.exprs = top.exprs

    def emit(self, p: FlatParser) -> Json:
        states = []
        for i, s in enumerate(sorted(p.states, key=lambda s: s.name != "start")):
            states.append(self._state(s, i))
        return {"name": "parser", "id": 0, "init_state": "start", "parse_states": states}

    def vset(self, v: ir.ValueSet, index: int) -> Json:
        t = base_type(v.type)
        width = (
            sum(_width(f.type) for f in t.fields)
            if isinstance(t, Struct)
            else (sum(_width(x) for x in t.elems) if hasattr(t, "elems") else _width(t))
        )
        return {"name": v.name, "id": index, "compressed_bitwidth": width, "max_size": v.size}

    def _state(self, s: FlatState, index: int) -> Json:
        ops: list[Json] = []
        for stmt in s.body:
            self._stmt(stmt, ops)
        t = s.transition
        key: list[Json] = []
        transitions: list[Json]
        if t.state is not None:
            transitions = [self._default(t.state, t)]
        else:
            transitions = [x for c in t.cases for x in self._case(c, t)]
            key = [self._select_key(e) for e in t.select]
        return {
            "name": s.name,
            "id": index,
            "parser_ops": ops,
            "transitions": transitions,
            "transition_key": key,
        }

    # -- statements ----------------------------------------------------------------------------

    def _stmt(self, s: ir.Stmt, out: list[Json]) -> None:
        if isinstance(s, ir.Block):
            for x in s.items:
                self._stmt(x, out)
        elif isinstance(s, ir.Assign):
            out.append(self._assign(s))
        elif isinstance(s, ir.CallStmt):
            j = self._call(s)
            if j is not None:
                out.append(j)
        else:
            raise fail("E040", "this statement is not supported in a parser", s.span)

    def _assign(self, s: ir.Assign) -> Json:
        name = assign_op(s.target)
        if name == "assign":
            left = self.exprs.place_json(self.exprs.layout.place(s.target))
            right = (
                self.exprs.bool_data(s.value)
                if base_type(s.target.type) == BOOL
                else self.exprs.data(s.value)
            )
            return {"op": "set", "parameters": [left, right]}
        params = [self.exprs.target(s.target), self.exprs.target(s.value)]
        return _primitive({"op": name, "parameters": params})

    def _call(self, s: ir.CallStmt) -> Json | None:
        target = s.call.target
        if isinstance(target, ir.Builtin):
            j = builtin(s, target, self.exprs)
            j.pop("source_info")
            return _primitive(j)
        if isinstance(target, ir.ExternMethod):
            name = target.decl.name
            if name == "extract":
                return self._extract(s)
            if name == "advance":
                return {"op": "advance", "parameters": [self.exprs.value(self._arg(s, 0))]}
            if name == "lookahead":
                return None
            raise fail("E040", f"{name}() is not supported in a parser", s.span)
        if isinstance(target, ir.ExternFunction):
            name = target.decl.name
            if name == "verify":
                return {
                    "op": "verify",
                    "parameters": [self.exprs.value(self._arg(s, 0)), self.exprs.value(self._arg(s, 1))],
                }
            if name in ("assert", "assume"):
                return _primitive(
                    {
                        "op": name,
                        "parameters": [self.exprs.bool_data(self._arg(s, 0))],
                        "source_info": source_info(s.span),
                    }
                )
            if name == "log_msg":
                return _primitive(self._log_msg(s))
            raise fail("E040", f"{name}() cannot be called in a parser on this target", s.span)
        raise fail("E040", "this call is not supported in a parser", s.span)

    def _log_msg(self, s: ir.CallStmt) -> Json:
        values: Json = {}
        if len(s.call.args) == 2:
            values = [
                self.exprs.bool_data(e) if base_type(e.type) == BOOL else self.exprs.data(e)
                for e in leaves(self._arg(s, 1))
            ]
        return {
            "op": "log_msg",
            "parameters": [self.exprs.value(self._arg(s, 0)), {"type": "parameters_vector", "value": values}],
            "source_info": source_info(s.span),
        }

    def _arg(self, s: ir.CallStmt, i: int) -> ir.Expr:
        e = s.call.args[i]
        assert e is not None
        return e

    def _extract(self, s: ir.CallStmt) -> Json:
        arg = s.call.args[0]
        if arg is None:
            raise fail(
                "E040", "extract(_) is not supported by the target", s.span, hint="use advance() to skip bits"
            )
        p = self.exprs.layout.place(arg)
        if isinstance(p, LastPlace) and p.which == "next":
            if p.member is None:
                param: Json = {"type": "stack", "value": p.stack.name}
            else:
                param = {"type": "union_stack", "value": [p.stack.name, p.member]}
        else:
            if not isinstance(p, HeaderPlace):
                raise fail("E040", "extract() needs a header of a fixed place, or .next of a stack", s.span)
            param = {"type": "regular", "value": p.name}
        if len(s.call.args) == 1:
            return {"op": "extract", "parameters": [param]}
        size = self.exprs.value(self._arg(s, 1))
        return {"op": "extract_VL", "parameters": [param, {"type": "expression", "value": size}]}

    # -- transitions ---------------------------------------------------------------------------

    def _next(self, name: str, t: ir.Transition) -> str | None:
        if name == "reject":
            self.top.diags.warning(
                "W106", "the target treats a transition to reject as one to accept", t.span
            )
            return None
        return None if name == "accept" else name

    def _default(self, state: str, t: ir.Transition) -> Json:
        return {"type": "default", "value": None, "mask": None, "next_state": self._next(state, t)}

    def _select_key(self, e: ir.Expr) -> Json:
        if isinstance(e, ir.Call):
            return self.exprs.value(e)
        return self.exprs.place_json(self.exprs.layout.place(e))

    def _case(self, c: ir.SelectCase, t: ir.Transition) -> list[Json]:
        if all(isinstance(k, ir.AnyKey) for k in c.keys):
            return [self._default(c.state, t)]
        first = c.keys[0]
        nxt = self._next(c.state, t)
        if isinstance(first, ir.ValueSetKey):
            return [{"type": "parse_vset", "value": first.vset.name, "mask": None, "next_state": nxt}]
        out = []
        for combo in self._combinations(c, t):
            value = mask = 0
            size = 0
            masked = False
            for (v, m), e in zip(combo, t.select, strict=True):
                width = _width(e.type)
                nbytes = (width + 7) // 8
                ones = (1 << width) - 1
                value = (value << (8 * nbytes)) | (v & ones)
                mask = (mask << (8 * nbytes)) | (ones if m is None else m & ones)
                masked = masked or m is not None
                size += nbytes
            out.append(
                {
                    "type": "hexstr",
                    "value": hex_value(value, 8 * size),
                    "mask": hex_value(mask, 8 * size) if masked else None,
                    "next_state": nxt,
                }
            )
        return out

    def _combinations(self, c: ir.SelectCase, t: ir.Transition) -> list[list[tuple[int, int | None]]]:
        """Value and mask (None for all ones) per key; a range makes several combinations."""
        combos: list[list[tuple[int, int | None]]] = [[]]
        for k, e in zip(c.keys, t.select, strict=True):
            options: list[tuple[int, int | None]]
            if isinstance(k, ir.AnyKey):
                options = [(0, 0)]
            elif isinstance(k, ir.MaskKey):
                options = [(self._const(k.value), self._const(k.mask))]
            elif isinstance(k, ir.RangeKey):
                lo, hi = self._const(k.lo), self._const(k.hi)
                options = list(range_masks(lo, hi, _width(e.type), _signed(e.type)))
            else:
                options = [(self._const(k), None)]
            combos = [[*x, o] for x in combos for o in options]
        return combos

    def _const(self, e: ir.Expr) -> int:
        if isinstance(e, ir.EnumLit):
            return int(self.exprs.value(e)["value"], 16)
        n = as_int(e)
        if n is None:
            raise fail("E025", "a key set must be known at compile time", e.span)
        return n


def range_masks(lo: int, hi: int, width: int, signed: bool) -> list[tuple[int, int]]:
    """Values and masks that together match lo..hi."""
    ones = (1 << width) - 1
    if signed and lo < 0:
        if hi >= 0:
            return [*range_masks(lo & ones, ones, width, False), *range_masks(0, hi, width, False)]
        lo, hi = lo & ones, hi & ones
    out: list[tuple[int, int]] = []
    while lo <= hi:
        size = lo & -lo if lo else 1 << width
        while lo + size - 1 > hi:
            size >>= 1
        out.append((lo, ones & ~(size - 1)))
        lo += size
    return out


def _signed(t: Type) -> bool:
    b = base_type(t)
    if isinstance(b, SerEnum):
        b = b.underlying
    return isinstance(b, Bits) and b.signed


def _width(t: Type) -> int:
    size = scalar_width(t)
    return size[0] if size is not None else 32


def _primitive(j: Json) -> Json:
    return {"op": "primitive", "parameters": [j]}
