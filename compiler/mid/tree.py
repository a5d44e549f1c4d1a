# SPDX-License-Identifier: Apache-2.0
"""Walking and rebuilding typed trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .. import ir
from ..check.fold import fold


def children(e: ir.Expr) -> tuple[ir.Expr, ...]:
    """Direct operands of `e`, arguments included."""
    if isinstance(e, (ir.Field, ir.StackMember, ir.Slice)):
        return (e.base,)
    if isinstance(e, ir.Index):
        return (e.base, e.index)
    if isinstance(e, (ir.Unary, ir.Cast)):
        return (e.arg,)
    if isinstance(e, ir.Binary):
        return (e.left, e.right)
    if isinstance(e, ir.Mux):
        return (e.cond, e.yes, e.no)
    if isinstance(e, ir.Aggregate):
        return e.items
    if isinstance(e, ir.MaskKey):
        return (e.value, e.mask)
    if isinstance(e, ir.RangeKey):
        return (e.lo, e.hi)
    if isinstance(e, ir.Call):
        args = tuple(a for a in e.args if a is not None)
        if isinstance(e.target, ir.Builtin):
            return (e.target.base, *args)
        if isinstance(e.target, ir.ExternMethod):
            return (e.target.obj, *args)
        return args
    if isinstance(e, ir.ApplyResult):
        return (e.call,)
    return ()


def walk(e: ir.Expr) -> Iterator[ir.Expr]:
    """`e` and everything below it."""
    yield e
    for c in children(e):
        yield from walk(c)


def rebuild(e: ir.Expr, f: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """`e` with `f` applied to its direct operands, folded if they became constant."""
    if isinstance(e, ir.Field):
        b = f(e.base)
        return e if b is e.base else fold(ir.Field(e.span, e.type, b, e.name))
    if isinstance(e, ir.StackMember):
        b = f(e.base)
        return e if b is e.base else ir.StackMember(e.span, e.type, b, e.name)
    if isinstance(e, ir.Slice):
        b = f(e.base)
        return e if b is e.base else fold(ir.Slice(e.span, e.type, b, e.hi, e.lo))
    if isinstance(e, ir.Index):
        b, i = f(e.base), f(e.index)
        return e if b is e.base and i is e.index else fold(ir.Index(e.span, e.type, b, i))
    if isinstance(e, ir.Unary):
        a = f(e.arg)
        return e if a is e.arg else fold(ir.Unary(e.span, e.type, e.op, a))
    if isinstance(e, ir.Cast):
        a = f(e.arg)
        return e if a is e.arg else fold(ir.Cast(e.span, e.type, a))
    if isinstance(e, ir.Binary):
        left, r = f(e.left), f(e.right)
        return e if left is e.left and r is e.right else fold(ir.Binary(e.span, e.type, e.op, left, r))
    if isinstance(e, ir.Mux):
        c, y, n = f(e.cond), f(e.yes), f(e.no)
        return fold(ir.Mux(e.span, e.type, c, y, n))
    if isinstance(e, ir.Aggregate):
        return ir.Aggregate(e.span, e.type, tuple(f(i) for i in e.items))
    if isinstance(e, ir.MaskKey):
        return ir.MaskKey(e.span, e.type, f(e.value), f(e.mask))
    if isinstance(e, ir.RangeKey):
        return ir.RangeKey(e.span, e.type, f(e.lo), f(e.hi))
    if isinstance(e, ir.Call):
        args = tuple(None if a is None else f(a) for a in e.args)
        target = e.target
        if isinstance(target, ir.Builtin):
            target = ir.Builtin(target.name, f(target.base))
        elif isinstance(target, ir.ExternMethod):
            target = ir.ExternMethod(f(target.obj), target.decl)
        return ir.Call(e.span, e.type, target, args, e.targs)
    if isinstance(e, ir.ApplyResult):
        call = f(e.call)
        assert isinstance(call, ir.Call)
        return ir.ApplyResult(e.span, e.type, call, e.member)
    return e


def replace(e: ir.Expr, env: Mapping[ir.VarSym, ir.Expr]) -> ir.Expr:
    """`e` with variables replaced."""
    if isinstance(e, ir.Var):
        return env.get(e.sym, e)
    return rebuild(e, lambda x: replace(x, env))


def sub_stmts(s: ir.Stmt) -> tuple[ir.Stmt, ...]:
    """Statements directly inside `s`."""
    if isinstance(s, ir.Block):
        return s.items
    if isinstance(s, ir.If):
        return (s.then,) if s.other is None else (s.then, s.other)
    if isinstance(s, ir.Switch):
        return tuple(c.body for c in s.cases if c.body is not None)
    if isinstance(s, ir.For):
        return (*s.init, *s.update, s.body)
    if isinstance(s, (ir.ForIn, ir.Scope)):
        return (s.body,)
    return ()


def walk_stmts(s: ir.Stmt) -> Iterator[ir.Stmt]:
    yield s
    for c in sub_stmts(s):
        yield from walk_stmts(c)


def stmt_exprs(s: ir.Stmt) -> tuple[ir.Expr, ...]:
    """Expressions directly in `s`."""
    if isinstance(s, ir.Assign):
        return (s.target, s.value)
    if isinstance(s, ir.CallStmt):
        return (s.call,)
    if isinstance(s, (ir.If, ir.For)):
        return (s.cond,)
    if isinstance(s, ir.Switch):
        return (s.expr,)
    if isinstance(s, ir.Declare):
        return () if s.init is None else (s.init,)
    if isinstance(s, ir.Return):
        return () if s.value is None else (s.value,)
    if isinstance(s, ir.ForIn):
        return (s.target, s.collection)
    return ()


def map_stmt(s: ir.Stmt, fe: Callable[[ir.Expr], ir.Expr], fs: Callable[[ir.Stmt], ir.Stmt]) -> ir.Stmt:
    """`s` with `fe` applied to its expressions and `fs` to the statements inside it."""
    if isinstance(s, ir.Block):
        return ir.Block(s.span, tuple(fs(x) for x in s.items))
    if isinstance(s, ir.Assign):
        return ir.Assign(s.span, fe(s.target), fe(s.value))
    if isinstance(s, ir.CallStmt):
        call = fe(s.call)
        assert isinstance(call, ir.Call)
        return ir.CallStmt(s.span, call)
    if isinstance(s, ir.If):
        return ir.If(s.span, fe(s.cond), fs(s.then), None if s.other is None else fs(s.other))
    if isinstance(s, ir.Declare):
        return ir.Declare(s.span, s.sym, None if s.init is None else fe(s.init))
    if isinstance(s, ir.Return):
        return ir.Return(s.span, None if s.value is None else fe(s.value))
    if isinstance(s, ir.For):
        return ir.For(
            s.span, tuple(fs(x) for x in s.init), fe(s.cond), tuple(fs(x) for x in s.update), fs(s.body)
        )
    if isinstance(s, ir.ForIn):
        return ir.ForIn(s.span, fe(s.target), fe(s.collection), fs(s.body))
    if isinstance(s, ir.Scope):
        return ir.Scope(s.span, s.label, fs(s.body))
    if isinstance(s, ir.Switch):
        cases = tuple(
            ir.SwitchCase(
                tuple(fe(x) for x in c.labels),
                c.actions,
                c.default,
                None if c.body is None else _as_block(fs(c.body)),
                c.span,
            )
            for c in s.cases
        )
        return ir.Switch(s.span, fe(s.expr), cases)
    return s


def _as_block(s: ir.Stmt) -> ir.Block:
    return s if isinstance(s, ir.Block) else ir.Block(s.span, (s,))


def replace_in(s: ir.Stmt, env: Mapping[ir.VarSym, ir.Expr]) -> ir.Stmt:
    """`s` with variables replaced in all its expressions."""
    return map_stmt(s, lambda e: replace(e, env), lambda x: replace_in(x, env))


def root(e: ir.Expr) -> ir.VarSym | None:
    """Variable that an lvalue is part of."""
    while isinstance(e, (ir.Field, ir.Index, ir.Slice, ir.StackMember)):
        e = e.base
    return e.sym if isinstance(e, ir.Var) else None


def path(e: ir.Expr) -> tuple[object, ...]:
    """Steps from the root variable to an lvalue; a run-time index ends it."""
    steps: list[object] = []
    while True:
        if isinstance(e, ir.Field):
            steps.append(e.name)
            e = e.base
        elif isinstance(e, ir.Index):
            if isinstance(e.index, ir.Lit):
                steps.append(e.index.value)
            else:
                steps.clear()
            e = e.base
        elif isinstance(e, (ir.Slice, ir.StackMember)):
            steps.clear()
            e = e.base
        elif isinstance(e, ir.Var):
            steps.append(e.sym)
            return tuple(reversed(steps))
        else:
            return ()


def overlap(a: ir.Expr, b: ir.Expr) -> bool:
    """May the lvalues `a` and `b` share storage?"""
    pa, pb = path(a), path(b)
    if not pa or not pb:
        return False
    n = min(len(pa), len(pb))
    return pa[:n] == pb[:n]


def reads(e: ir.Expr) -> Iterator[ir.Expr]:
    """Largest lvalues that `e` reads."""
    x: ir.Expr
    if isinstance(e, (ir.Var, ir.Field, ir.Index, ir.Slice, ir.StackMember)) and root(e) is not None:
        yield e
        x = e
        while isinstance(x, (ir.Field, ir.Index, ir.Slice, ir.StackMember)):
            if isinstance(x, ir.Index):
                yield from reads(x.index)
            x = x.base
        return
    for c in children(e):
        yield from reads(c)


def has_effects(e: ir.Expr) -> bool:
    """Does `e` call a function or apply a table?"""
    return any(
        isinstance(x, ir.Call) and isinstance(x.target, (ir.CallFunction, ir.ApplyTable, ir.ExternFunction))
        for x in walk(e)
    )
