# SPDX-License-Identifier: Apache-2.0
"""Statements of an action as BMv2 primitives; control flow inside is jumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..source import Span
from ..types import BOOL, Stack, Struct, Varbit, base_type
from .expr import ExprEmitter, hexstr, wrap
from .layout import FieldPlace, GroupPlace, Json


def source_info(span: Span) -> Json:
    return {
        "filename": span.file.name,
        "line": span.line,
        "column": span.col,
        "source_fragment": span.text(40),
    }


def primitive(name: str, params: Sequence[Json], span: Span) -> Json:
    return {"op": name, "parameters": list(params), "source_info": source_info(span)}


class ActionEmitter:
    """Primitives of one action body at a time. `externs` emits calls of extern functions and methods."""

    def __init__(
        self, exprs: ExprEmitter, externs: Callable[[ir.CallStmt, ActionEmitter], Json | None]
    ) -> None:
        self.exprs = exprs
        self.externs = externs
        self.out: list[Json] = []
        #: Jump primitives that wait for the position of their label.
        self.fixups: dict[int, list[Json]] = {}
        self.breaks: list[tuple[int, int]] = []
        self._label = 0
        self._ended = False

    def emit(self, body: Sequence[ir.Stmt], params: Sequence[ir.VarSym]) -> list[Json]:
        """Primitives of `body`, with `params` as runtime data."""
        self.out, self.fixups, self.breaks = [], {}, []
        self.exprs.params = {p: i for i, p in enumerate(params)}
        self._label = -1
        end = self.new_label()
        self._end = end
        for s in body:
            self.stmt(s)
        self.place_label(end)
        self.exprs.params = {}
        return self.out

    # -- labels --------------------------------------------------------------------------------

    def new_label(self) -> int:
        """Label of this emitter; those of scopes are positive, so these are negative."""
        self._label -= 1
        return self._label

    def jump(self, label: int, span: Span, cond: Json | None = None) -> None:
        params = [] if cond is None else [cond]
        j = primitive("_jump" if cond is None else "_jump_if_zero", params, span)
        self.out.append(j)
        self.fixups.setdefault(label, []).append(j)

    def place_label(self, label: int) -> None:
        here = len(self.out)
        for j in self.fixups.pop(label, ()):
            j["parameters"].append(hexstr(here))

    # -- statements ----------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Assign):
            self.assign(s)
        elif isinstance(s, ir.Block):
            for x in s.items:
                self.stmt(x)
        elif isinstance(s, ir.If):
            self._if(s)
        elif isinstance(s, ir.Scope):
            self.stmt(s.body)
            self.place_label(s.label)
        elif isinstance(s, ir.Leave):
            self.jump(s.label, s.span)
        elif isinstance(s, ir.Exit):
            self.out.append(primitive("exit", [], s.span))
            self.jump(self._end, s.span)
        elif isinstance(s, ir.For):
            self._for(s)
        elif isinstance(s, (ir.Break, ir.Continue)):
            brk, cont = self.breaks[-1]
            self.jump(brk if isinstance(s, ir.Break) else cont, s.span)
        elif isinstance(s, ir.CallStmt):
            self._call(s)
        else:
            raise fail("E040", "this statement is not supported in an action", s.span)

    def _if(self, s: ir.If) -> None:
        if isinstance(s.cond, ir.ApplyResult):
            raise fail("E040", "a table cannot be applied here", s.span)
        end = self.new_label()
        other = end if s.other is None else self.new_label()
        self.jump(other, s.span, self.exprs.bool_data(s.cond))
        self.stmt(s.then)
        if s.other is not None:
            self.jump(end, s.span)
            self.place_label(other)
            self.stmt(s.other)
        self.place_label(end)

    def _for(self, s: ir.For) -> None:
        test, step, end = len(self.out), self.new_label(), self.new_label()
        self.jump(end, s.span, self.exprs.bool_data(s.cond))
        self.breaks.append((end, step))
        self.stmt(s.body)
        self.breaks.pop()
        self.place_label(step)
        for x in s.update:
            self.stmt(x)
        self.out.append(primitive("_jump", [hexstr(test)], s.span))
        self.place_label(end)

    def assign(self, s: ir.Assign) -> None:
        self.out.append(primitive(assign_op(s.target), [self.exprs.target(s.target), self._right(s)], s.span))

    def _right(self, s: ir.Assign) -> Json:
        t = base_type(s.target.type)
        if t == BOOL:
            return self._bool_right(s.value)
        value = s.value
        if isinstance(t, (Struct, Stack, Varbit)):
            return self.exprs.target(value)
        return self.exprs.data(value)

    def _bool_right(self, e: ir.Expr) -> Json:
        """Booleans are always assigned through b2d, as p4c does."""
        return wrap(
            {"type": "expression", "value": {"op": "b2d", "left": None, "right": self.exprs.value(e)}}
        )

    def _call(self, s: ir.CallStmt) -> None:
        target = s.call.target
        if isinstance(target, ir.Builtin):
            self.out.append(builtin(s, target, self.exprs))
            return
        if isinstance(target, (ir.ExternFunction, ir.ExternMethod)):
            j = self.externs(s, self)
            if j is not None:
                self.out.append(j)
            return
        raise fail("E040", "this call is not supported in an action", s.span)

    # -- operands of extern calls --------------------------------------------------------------

    def simple(self, e: ir.Expr) -> Json:
        """Operand that is a field, a constant or a parameter; anything else is put in a variable first."""
        if is_simple(e, self.exprs):
            return self.exprs.data(e)
        v = ir.VarSym(self.fresh("tmp"), e.span, (), e.type)
        ref = ir.Var(e.span, e.type, v)
        self.assign(ir.Assign(e.span, ref, e))
        return self.exprs.data(ref)

    def fresh(self, base: str) -> str:
        raise NotImplementedError


def is_simple(e: ir.Expr, exprs: ExprEmitter) -> bool:
    if isinstance(e, ir.Lit):
        return True
    if isinstance(e, ir.EnumLit):
        return True
    if isinstance(e, (ir.Var, ir.Field, ir.Index)):
        if isinstance(e, ir.Var) and e.sym in exprs.params:
            return True
        place = exprs.layout.place(e)
        return isinstance(place, FieldPlace) or not _scalar(e)
    return False


def _scalar(e: ir.Expr) -> bool:
    return not isinstance(base_type(e.type), (Struct, Stack))


def assign_op(target: ir.Expr) -> str:
    """Name of the primitive that assigns to `target`."""
    t = base_type(target.type)
    if isinstance(t, Varbit):
        return "assign_VL"
    if isinstance(t, Struct):
        return "assign_union" if t.kind == "header_union" else "assign_header"
    if isinstance(t, Stack):
        union = isinstance(t.elem, Struct) and t.elem.kind == "header_union"
        return "assign_union_stack" if union else "assign_header_stack"
    return "assign"


def builtin(s: ir.CallStmt, target: ir.Builtin, exprs: ExprEmitter) -> Json:
    """setValid, setInvalid, push_front, pop_front."""
    names = {
        "setValid": "add_header",
        "setInvalid": "remove_header",
        "push_front": "push",
        "pop_front": "pop",
    }
    place = exprs.layout.place(target.base)
    if isinstance(place, GroupPlace) or target.name not in names:
        raise fail("E040", f"{target.name}() is not supported here", s.span)
    params = [exprs.place_json(place, s.span)]
    if target.name in ("push_front", "pop_front"):
        arg = s.call.args[0]
        assert arg is not None
        params.append(hexstr(as_int(arg) or 0, 8))
    return primitive(names[target.name], params, s.span)
