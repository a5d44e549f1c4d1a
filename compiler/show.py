# SPDX-License-Identifier: Apache-2.0
"""Typed expressions as text, as one would write them."""

from __future__ import annotations

from . import ir


def expr(e: ir.Expr) -> str:
    """Expression as one would write it."""
    if isinstance(e, ir.Lit):
        return repr(e.value) if isinstance(e.value, str) else str(e.value).lower()
    if isinstance(e, ir.EnumLit):
        return f"{e.type}.{e.name}"
    if isinstance(e, ir.Var):
        return e.sym.name
    if isinstance(e, ir.InstanceRef):
        return e.inst.name
    if isinstance(e, (ir.Field, ir.StackMember)):
        return f"{expr(e.base)}.{e.name}"
    if isinstance(e, ir.Index):
        return f"{expr(e.base)}[{expr(e.index)}]"
    if isinstance(e, ir.Slice):
        return f"{expr(e.base)}[{e.hi}:{e.lo}]"
    if isinstance(e, ir.Unary):
        return f"{e.op}{expr(e.arg)}"
    if isinstance(e, ir.Binary):
        return f"({expr(e.left)} {e.op} {expr(e.right)})"
    if isinstance(e, ir.Mux):
        return f"({expr(e.cond)} ? {expr(e.yes)} : {expr(e.no)})"
    if isinstance(e, ir.Cast):
        return f"({e.type}){expr(e.arg)}"
    if isinstance(e, ir.Aggregate):
        return "{" + ", ".join(expr(i) for i in e.items) + "}"
    if isinstance(e, ir.InvalidHeader):
        return "{#}"
    if isinstance(e, ir.AnyKey):
        return "_"
    if isinstance(e, ir.MaskKey):
        return f"{expr(e.value)} &&& {expr(e.mask)}"
    if isinstance(e, ir.RangeKey):
        return f"{expr(e.lo)}..{expr(e.hi)}"
    if isinstance(e, ir.ValueSetKey):
        return e.vset.name
    if isinstance(e, ir.ApplyResult):
        return f"{expr(e.call)}.{e.member}"
    if isinstance(e, ir.Call):
        return f"{_target(e.target)}({', '.join('_' if a is None else expr(a) for a in e.args)})"
    return type(e).__name__


def _target(t: ir.Target) -> str:
    if isinstance(t, ir.Builtin):
        return f"{expr(t.base)}.{t.name}"
    if isinstance(t, ir.ExternMethod):
        return f"{expr(t.obj)}.{t.decl.name}"
    if isinstance(t, ir.ExternFunction):
        return t.decl.name
    if isinstance(t, ir.CallAction):
        return t.action.name
    if isinstance(t, ir.CallFunction):
        return t.function.name
    if isinstance(t, ir.ApplyTable):
        return f"{t.table.name}.apply"
    if isinstance(t, ir.ApplyParam):
        return f"{t.param.name}.apply"
    return f"{t.inst.name}.apply" if isinstance(t, ir.ApplyBlock) else f"new {t.inst.type}"
