# SPDX-License-Identifier: Apache-2.0
"""Loops: unrolled where their bounds are known, kept otherwise (actions can jump backwards)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import ir
from ..diag import Diagnostics
from ..types import Bits, Stack, base_type
from .inline import scoped
from .tree import map_stmt, replace, replace_in, root, walk_stmts

MAX_ITERATIONS = 1024


class Unroller:
    """Rewrites the statements of one block."""

    def __init__(self, diags: Diagnostics, label: Callable[[], int]) -> None:
        self.diags = diags
        self.label = label

    def run(self, stmts: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...]:
        return tuple(self.stmt(s) for s in stmts)

    def stmt(self, s: ir.Stmt) -> ir.Stmt:
        if isinstance(s, ir.For):
            unrolled = self._for(s)
            if unrolled is not None:
                return unrolled
        elif isinstance(s, ir.ForIn):
            return self._for_in(s)
        return map_stmt(s, lambda e: e, self.stmt)

    # -- C style -------------------------------------------------------------------------------

    def _for(self, s: ir.For) -> ir.Stmt | None:
        """Unrolled form, if every turn of the loop is known; None otherwise."""
        env: dict[ir.VarSym, ir.Expr] = {}
        for x in s.init:
            if not (isinstance(x, ir.Assign) and isinstance(x.target, ir.Var)):
                return None
            value = replace(x.value, env)
            if not isinstance(value, ir.Lit):
                return None
            env[x.target.sym] = value
        written = {r for x in walk_stmts(s.body) for r in _written(x)}
        if written & env.keys():
            return None
        bodies: list[ir.Stmt] = []
        outer = self.label()
        for _ in range(MAX_ITERATIONS + 1):
            cond = replace(s.cond, env)
            if not isinstance(cond, ir.Lit):
                return None
            if not cond.value:
                break
            bodies += self._turn(replace_in(s.body, env), outer)
            for u in s.update:
                if not (isinstance(u, ir.Assign) and isinstance(u.target, ir.Var)):
                    return None
                value = replace(u.value, env)
                if not isinstance(value, ir.Lit) or u.target.sym not in env:
                    return None
                env[u.target.sym] = value
        else:
            self.diags.warning("W106", f"loop of more than {MAX_ITERATIONS} turns is not unrolled", s.span)
            return None
        final = [ir.Assign(s.span, ir.Var(s.span, v.type, v), e) for v, e in env.items()]
        return ir.Block(s.span, (*scoped(outer, ir.Block(s.span, tuple(bodies))), *final))

    def _turn(self, body: ir.Stmt, outer: int) -> list[ir.Stmt]:
        inner = self.label()
        placed = retarget(body, outer, inner)
        return scoped(inner, ir.Block(body.span, (self.stmt(placed),)))

    # -- over a collection ---------------------------------------------------------------------

    def _for_in(self, s: ir.ForIn) -> ir.Stmt:
        c = s.collection
        values: list[ir.Expr] = []
        if isinstance(c, ir.RangeKey):
            lo, hi = c.lo, c.hi
            if not (
                isinstance(lo, ir.Lit)
                and isinstance(hi, ir.Lit)
                and int(hi.value) - int(lo.value) < MAX_ITERATIONS
            ):
                return self._range_loop(s, c)
            values = [ir.Lit(c.span, s.target.type, i) for i in range(int(lo.value), int(hi.value) + 1)]
        elif isinstance(c, ir.Aggregate):
            values = list(c.items)
        else:
            t = c.type
            assert isinstance(t, Stack)
            values = [ir.Index(c.span, t.elem, c, ir.Lit(c.span, Bits(32), i)) for i in range(t.size)]
        outer = self.label()
        bodies: list[ir.Stmt] = []
        sym = s.target.sym if isinstance(s.target, ir.Var) else None
        fixed = sym is not None and not any(sym in _written(x) for x in walk_stmts(s.body))
        for v in values:
            if fixed and sym is not None and isinstance(v, (ir.Lit, ir.EnumLit)):
                bodies += self._turn(replace_in(s.body, {sym: v}), outer)
            else:
                bodies.append(ir.Assign(s.span, s.target, v))
                bodies += self._turn(s.body, outer)
        if fixed and values:
            bodies.append(ir.Assign(s.span, s.target, values[-1]))
        return ir.Block(s.span, tuple(scoped(outer, ir.Block(s.span, tuple(bodies)))))

    def _range_loop(self, s: ir.ForIn, c: ir.RangeKey) -> ir.Stmt:
        """``for (i in lo..hi)`` with bounds known only at run time, as a C-style loop."""
        from ..types import BOOL

        t = base_type(s.target.type)
        one = ir.Lit(s.span, t, 1)
        init = ir.Assign(s.span, s.target, c.lo)
        # The last turn ends the loop before the variable could wrap around.
        cond = ir.Binary(s.span, BOOL, "<=", s.target, c.hi)
        last = ir.If(s.span, ir.Binary(s.span, BOOL, "==", s.target, c.hi), ir.Break(s.span), None)
        update = ir.Assign(s.span, s.target, ir.Binary(s.span, t, "+", s.target, one))
        inner = self.label()
        body = ir.Block(s.span, (*scoped(inner, ir.Block(s.span, (retarget(s.body, None, inner),))), last))
        return self.stmt(ir.For(s.span, (init,), cond, (update,), body))


def _written(s: ir.Stmt) -> set[ir.VarSym]:
    """Variables that `s` itself, not what is inside it, may write."""
    out: set[ir.VarSym] = set()
    if isinstance(s, ir.Assign):
        r = root(s.target)
        if r is not None:
            out.add(r)
    elif isinstance(s, ir.CallStmt):
        for p, a in zip(ir.call_params(s.call.target), s.call.args, strict=False):
            if a is not None and p.direction in ("out", "inout"):
                r = root(a)
                if r is not None:
                    out.add(r)
        if isinstance(s.call.target, ir.Builtin):
            r = root(s.call.target.base)
            if r is not None:
                out.add(r)
    elif isinstance(s, ir.ForIn):
        r = root(s.target)
        if r is not None:
            out.add(r)
    return out


def retarget(s: ir.Stmt, brk: int | None, cont: int) -> ir.Stmt:
    """`s` with break and continue of this loop turned into jumps out of scopes."""
    if isinstance(s, ir.Break):
        return s if brk is None else ir.Leave(s.span, brk)
    if isinstance(s, ir.Continue):
        return ir.Leave(s.span, cont)
    if isinstance(s, (ir.For, ir.ForIn)):
        return s
    return map_stmt(s, lambda e: e, lambda x: retarget(x, brk, cont))
