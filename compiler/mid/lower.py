# SPDX-License-Identifier: Apache-2.0
"""Lowering: after it, assignments are of scalars or whole headers, and expressions what BMv2 can evaluate."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ir
from ..check.fold import as_int, fold
from ..diag import CompileError, Diagnostics, fail
from ..source import Span
from ..types import BOOL, VOID, Bits, Stack, Struct, Tuple, Type, base_type, width_of
from .inline import Names, invalidate
from .tree import overlap, reads, rebuild, walk

#: The target shifts by constants of at most this many bits, and by run-time amounts of at most 8 bits.
MAX_SHIFT = 256
MAX_SHIFT_WIDTH = 8


class Lowerer:
    """Lowers the statements of one block; `names` for new variables."""

    def __init__(self, names: Names, path: str, diags: Diagnostics) -> None:
        self.names = names
        self.diags = diags
        self.path = path

    def run(self, stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
        out: list[ir.Stmt] = []
        for s in stmts:
            try:
                self.stmt(s, out)
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
        return out

    def block(self, s: ir.Stmt) -> ir.Block:
        items = s.items if isinstance(s, ir.Block) else (s,)
        return ir.Block(s.span, tuple(self.run(items)))

    def temp(self, e: ir.Expr, out: list[ir.Stmt], base: str = "tmp") -> ir.Var:
        v = ir.VarSym(self.names.fresh(f"{self.path}.{base}"), e.span, (), e.type)
        ref = ir.Var(e.span, e.type, v)
        self.assign(e.span, ref, e, out)
        return ref

    # -- statements ----------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt, out: list[ir.Stmt]) -> None:
        if isinstance(s, ir.Assign):
            self.assign(s.span, self.lvalue(s.target, out), self.expr(s.value, out, top=True), out)
        elif isinstance(s, ir.Block):
            for x in s.items:
                self.stmt(x, out)
        elif isinstance(s, ir.If):
            cond = s.cond if isinstance(s.cond, ir.ApplyResult) else self.expr(s.cond, out)
            if isinstance(cond, ir.Lit):
                chosen = s.then if cond.value else s.other
                if chosen is not None:
                    self.stmt(chosen, out)
                return
            then = self.block(s.then)
            other = None if s.other is None else self.block(s.other)
            if other is not None and not other.items:
                other = None
            if not then.items and other is None and not isinstance(cond, ir.ApplyResult):
                return
            out.append(ir.If(s.span, cond, then, other))
        elif isinstance(s, ir.Switch):
            self._switch(s, out)
        elif isinstance(s, ir.CallStmt):
            self._call(s, out)
        elif isinstance(s, ir.Scope):
            out.append(ir.Scope(s.span, s.label, self.block(s.body)))
        elif isinstance(s, ir.For):
            self._for(s, out)
        else:
            out.append(s)

    def _for(self, s: ir.For, out: list[ir.Stmt]) -> None:
        for x in s.init:
            self.stmt(x, out)
        pre: list[ir.Stmt] = []
        cond = self.expr(s.cond, pre)
        if pre:
            raise fail("E040", "the condition of this loop is too complex for the target", s.cond.span)
        out.append(ir.For(s.span, (), cond, tuple(self.run(s.update)), self.block(s.body)))

    def _switch(self, s: ir.Switch, out: list[ir.Stmt]) -> None:
        if isinstance(s.expr, ir.ApplyResult):
            cases = tuple(
                ir.SwitchCase(
                    c.labels, c.actions, c.default, None if c.body is None else self.block(c.body), c.span
                )
                for c in s.cases
            )
            out.append(ir.Switch(s.span, s.expr, cases))
            return
        value = self.expr(s.expr, out)
        if len(s.cases) > 1 and not isinstance(value, (ir.Var, ir.Lit, ir.Field)):
            value = self.temp(value, out, "switch")
        chain: ir.Stmt | None = None
        for c in reversed(s.cases):
            if c.body is None:
                continue
            if c.default:
                chain = c.body
                continue
            cond: ir.Expr | None = None
            for label in c.labels:
                test = fold(ir.Binary(c.span, BOOL, "==", value, label))
                cond = test if cond is None else fold(ir.Binary(c.span, BOOL, "||", cond, test))
            assert cond is not None
            chain = ir.If(c.span, cond, c.body, chain)
        if chain is not None:
            # A value assigned in a case must not change which case is taken: the tests come first.
            self.stmt(chain, out)

    def _call(self, s: ir.CallStmt, out: list[ir.Stmt]) -> None:
        call = s.call
        target = call.target
        if isinstance(target, ir.Builtin):
            base = self.lvalue(target.base, out)
            t = base.type
            if target.name == "setValid" and isinstance(t, Struct):
                out.append(ir.CallStmt(s.span, ir.Call(s.span, VOID, ir.Builtin("setValid", base), ())))
                return
            out.append(
                ir.CallStmt(s.span, ir.Call(s.span, call.type, ir.Builtin(target.name, base), call.args))
            )
            return
        if _is_lookahead(call):  # must still fail on a short packet
            width = width_of(call.type)
            if width:
                bits = Bits(width)
                self.temp(ir.Call(call.span, bits, target, (), (bits,)), out, "lookahead")
            return
        args: list[ir.Expr | None] = []
        params = ir.call_params(target)
        post: list[ir.Stmt] = []
        for i, a in enumerate(call.args):
            p = params[i] if i < len(params) else None
            if a is None:
                args.append(None)
            elif p is not None and p.direction in ("out", "inout"):
                args.append(self._out_arg(self.lvalue(a, out), p.direction, out, post))
            else:
                value = self.expr(a, out, top=True)
                if _is_advance(call) and not isinstance(value, (ir.Lit, ir.Var, ir.Field)):
                    value = self.temp(value, out)
                args.append(value)
        out.append(ir.CallStmt(s.span, ir.Call(call.span, call.type, target, tuple(args), call.targs)))
        for x in post:
            self.stmt(x, out)

    def _out_arg(self, a: ir.Expr, direction: str, out: list[ir.Stmt], post: list[ir.Stmt]) -> ir.Expr:
        """Slices and elements with a run-time index cannot be written by a primitive: use a variable."""
        if isinstance(a, ir.Slice) or _runtime_index(a):
            v = ir.VarSym(self.names.fresh(f"{self.path}.out"), a.span, (), a.type)
            ref = ir.Var(a.span, a.type, v)
            if direction == "inout":
                self.assign(a.span, ref, a, out)
            post.append(ir.Assign(a.span, a, ref))
            return ref
        return a

    # -- assignments ---------------------------------------------------------------------------

    def assign(self, span: Span, target: ir.Expr, value: ir.Expr, out: list[ir.Stmt]) -> None:
        """Assignment of any type as statements on scalars and headers."""
        t = base_type(target.type)
        if isinstance(t, (Struct, Tuple, Stack)) and isinstance(value, ir.Mux):
            yes: list[ir.Stmt] = []
            no: list[ir.Stmt] = []
            self.assign(span, target, value.yes, yes)
            self.assign(span, target, value.no, no)
            out.append(ir.If(span, value.cond, ir.Block(span, tuple(yes)), ir.Block(span, tuple(no))))
            return
        if isinstance(value, ir.InvalidHeader):
            out += invalidate(target, t, span)
            return
        if isinstance(value, ir.Aggregate):
            self._assign_aggregate(span, target, value, out)
            return
        if (
            isinstance(t, (Struct, Tuple))
            and not _is_lookahead(value)
            and (not isinstance(t, Struct) or t.kind == "struct")
        ):
            for part, item in zip(parts(target), parts(value), strict=True):
                self.assign(span, part, item, out)
            return
        if isinstance(t, (Struct, Tuple)) and _is_lookahead(value):
            self._lookahead_struct(span, target, value, out)
            return
        if isinstance(target, ir.Slice):
            self._assign_slice(span, target, value, out)
            return
        if target == value:
            return
        out.append(ir.Assign(span, target, value))

    def _assign_aggregate(self, span: Span, target: ir.Expr, value: ir.Aggregate, out: list[ir.Stmt]) -> None:
        t = base_type(target.type)
        targets = parts(target)
        items = list(value.items)
        if any(overlap(x, r) for i, x in enumerate(targets) for v in items[i + 1 :] for r in reads(v)):
            items = [v if isinstance(v, (ir.Lit, ir.EnumLit)) else self.temp(v, out) for v in items]
        if isinstance(t, Struct) and t.kind == "header":
            out.append(ir.CallStmt(span, ir.Call(span, VOID, ir.Builtin("setValid", target), ())))
        for x, v in zip(targets, items, strict=True):
            self.assign(span, x, v, out)

    def _assign_slice(self, span: Span, target: ir.Slice, value: ir.Expr, out: list[ir.Stmt]) -> None:
        """``x[hi:lo] = v`` is ``x = (x & ~mask) | (v << lo)``."""
        base = target.base
        t = base_type(base.type)
        assert isinstance(t, Bits)
        u = Bits(t.width)
        mask = ((1 << (target.hi - target.lo + 1)) - 1) << target.lo
        old: ir.Expr = base if not t.signed else ir.Cast(span, u, base)
        kept = ir.Binary(span, u, "&", old, ir.Lit(span, u, ((1 << t.width) - 1) & ~mask))
        wide = fold(ir.Cast(span, u, value))
        if target.lo:
            wide = fold(ir.Binary(span, u, "<<", wide, ir.Lit(span, Bits(32), target.lo)))
        joined: ir.Expr = ir.Binary(span, u, "|", kept, wide)
        if t.signed:
            joined = ir.Cast(span, t, joined)
        self.assign(span, base, joined, out)

    def _lookahead_struct(self, span: Span, target: ir.Expr, value: ir.Expr, out: list[ir.Stmt]) -> None:
        """Look ahead at all bits at once, then cut them into the fields."""
        assert isinstance(value, ir.Call)
        width = width_of(value.type) or 0
        bits = Bits(width)
        v = ir.VarSym(self.names.fresh(f"{self.path}.lookahead"), span, (), bits)
        ref = ir.Var(span, bits, v)
        out.append(ir.Assign(span, ref, ir.Call(value.span, bits, value.target, (), (bits,))))
        t = base_type(target.type)
        if isinstance(t, Struct) and t.kind == "header":
            out.append(ir.CallStmt(span, ir.Call(span, VOID, ir.Builtin("setValid", target), ())))
        self._cut(span, target, ref, width, out)

    def _cut(self, span: Span, target: ir.Expr, ref: ir.Expr, top: int, out: list[ir.Stmt]) -> int:
        for part in parts(target):
            pt = base_type(part.type)
            if isinstance(pt, (Struct, Tuple, Stack)):
                if isinstance(pt, Struct) and pt.kind == "header":
                    out.append(ir.CallStmt(span, ir.Call(span, VOID, ir.Builtin("setValid", part), ())))
                top = self._cut(span, part, ref, top, out)
                continue
            width = width_of(pt) or 0
            piece: ir.Expr = ir.Slice(span, Bits(width), ref, top - 1, top - width)
            if pt != piece.type:
                piece = ir.Cast(span, part.type, piece)
            out.append(ir.Assign(span, part, piece))
            top -= width
        return top

    # -- expressions ---------------------------------------------------------------------------

    def lvalue(self, e: ir.Expr, out: list[ir.Stmt]) -> ir.Expr:
        return rebuild(e, lambda x: self.expr(x, out))

    def expr(self, e: ir.Expr, out: list[ir.Stmt], *, top: bool = False) -> ir.Expr:
        """`e` with comparisons of structs spelled out and lookahead only where it may stand."""
        if isinstance(e, (ir.Lit, ir.Var, ir.EnumLit)):
            return e
        if _is_lookahead(e):
            return e if top else self.temp(e, out, "lookahead")
        if isinstance(e, ir.Binary) and e.op in ("==", "!="):
            t = base_type(e.left.type)
            if isinstance(t, (Struct, Tuple, Stack)):
                left, right = self.expr(e.left, out), self.expr(e.right, out)
                same = self._equal(e.span, left, right, t, out)
                return same if e.op == "==" else fold(ir.Unary(e.span, BOOL, "!", same))
        if isinstance(e, ir.Binary):
            if e.op in ("<<", ">>"):
                check_shift(e)
            return reduced(rebuild(e, lambda x: self.expr(x, out)))
        if isinstance(e, ir.Field) and isinstance(e.base, ir.Mux):
            m = e.base
            return self.expr(
                ir.Mux(
                    e.span,
                    e.type,
                    m.cond,
                    ir.Field(e.span, e.type, m.yes, e.name),
                    ir.Field(e.span, e.type, m.no, e.name),
                ),
                out,
            )
        return rebuild(e, lambda x: self.expr(x, out))

    def _equal(self, span: Span, a: ir.Expr, b: ir.Expr, t: Type, out: list[ir.Stmt]) -> ir.Expr:
        if isinstance(t, Struct) and t.kind == "header":
            if isinstance(a, ir.InvalidHeader):
                a, b = b, a
            va = _valid(a, span)
            if isinstance(b, ir.InvalidHeader):
                return ir.Unary(span, BOOL, "!", va)
            if isinstance(b, ir.Aggregate):
                return _all([va, *self._parts_equal(span, a, b, out)], span)
            if isinstance(a, ir.Aggregate):
                return _all([_valid(b, span), *self._parts_equal(span, a, b, out)], span)
            vb = _valid(b, span)
            both = _all([va, vb, *self._parts_equal(span, a, b, out)], span)
            none = _all([ir.Unary(span, BOOL, "!", va), ir.Unary(span, BOOL, "!", vb)], span)
            return ir.Binary(span, BOOL, "||", none, both)
        return _all(self._parts_equal(span, a, b, out), span)

    def _parts_equal(self, span: Span, a: ir.Expr, b: ir.Expr, out: list[ir.Stmt]) -> list[ir.Expr]:
        tests: list[ir.Expr] = []
        for x, y in zip(parts(a), parts(b), strict=True):
            t = base_type(x.type)
            if isinstance(t, (Struct, Tuple, Stack)):
                tests.append(self._equal(span, x, y, t, out))
            else:
                tests.append(fold(ir.Binary(span, BOOL, "==", x, y)))
        return tests


def check_shift(e: ir.Binary) -> None:
    """Raise a diagnostic if the target cannot shift so far. Slices, which become shifts, have no limit."""
    amount = as_int(e.right)
    t = base_type(e.right.type)
    if amount is not None:
        if amount > MAX_SHIFT:
            raise fail("E041", f"shift by {amount}; the target shifts by at most {MAX_SHIFT} bits", e.span)
    elif isinstance(t, Bits) and t.width > MAX_SHIFT_WIDTH and as_int(e.left) != 0:
        raise fail(
            "E041",
            f"a shift amount of {t.width} bits; the target allows {MAX_SHIFT_WIDTH}",
            e.right.span,
            hint=f"cast it: (bit<{MAX_SHIFT_WIDTH}>)",
        )


def reduced(e: ir.Expr) -> ir.Expr:
    """`e` without operations that a constant operand makes trivial."""
    if not isinstance(e, ir.Binary):
        return e
    left, right, op = as_int(e.left), as_int(e.right), e.op
    if left == 0 and op in ("&", "*", "<<", ">>", "/", "%") and e.left.type == e.type:
        return e.left
    if right == 0:
        if op in ("+", "-", "|", "^", "<<", ">>", "|+|", "|-|"):
            return e.left
        if op in ("&", "*"):
            return ir.Lit(e.span, e.type, 0)
    if left == 0 and op in ("+", "|", "^", "|+|"):
        return e.right
    if right == 1 and op in ("*", "/"):
        return e.left
    if left == 1 and op == "*":
        return e.right
    return e


def parts(e: ir.Expr) -> list[ir.Expr]:
    """Elements of a struct, header, tuple or stack value."""
    if isinstance(e, ir.Aggregate):
        return list(e.items)
    t = base_type(e.type)
    if isinstance(t, Struct):
        return [fold(ir.Field(e.span, f.type, e, f.name)) for f in t.fields]
    if isinstance(t, Tuple):
        return [ir.Index(e.span, x, e, ir.Lit(e.span, Bits(32), i)) for i, x in enumerate(t.elems)]
    assert isinstance(t, Stack)
    return [ir.Index(e.span, t.elem, e, ir.Lit(e.span, Bits(32), i)) for i in range(t.size)]


def _valid(e: ir.Expr, span: Span) -> ir.Expr:
    return ir.Call(span, BOOL, ir.Builtin("isValid", e), ())


def _all(tests: list[ir.Expr], span: Span) -> ir.Expr:
    if not tests:
        return ir.Lit(span, BOOL, True)
    result = tests[0]
    for t in tests[1:]:
        result = fold(ir.Binary(span, BOOL, "&&", result, t))
    return result


def _is_lookahead(e: ir.Expr) -> bool:
    return (
        isinstance(e, ir.Call) and isinstance(e.target, ir.ExternMethod) and e.target.decl.name == "lookahead"
    )


def _is_advance(e: ir.Expr) -> bool:
    return (
        isinstance(e, ir.Call) and isinstance(e.target, ir.ExternMethod) and e.target.decl.name == "advance"
    )


def _runtime_index(e: ir.Expr) -> bool:
    while isinstance(e, (ir.Field, ir.Index, ir.Slice)):
        if isinstance(e, ir.Index) and not isinstance(e.index, ir.Lit):
            return True
        e = e.base
    return False


def count_nodes(e: ir.Expr) -> int:
    """Size of an expression, for tests and dumps."""
    return sum(1 for _ in walk(e))
