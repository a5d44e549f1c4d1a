# SPDX-License-Identifier: Apache-2.0
"""Actions -> C functions. Jumps become gotos between the primitives of one action."""

from __future__ import annotations

from target.bmjson.model import Action, Const, ObjectRef, Primitive, Text, Vector
from target.bmjson.node import JsonError
from target.codegen.emitter import Emitter, comment
from target.codegen.layout import Layout
from target.codegen.primitives import PrimitiveGen

LOOP_LIMIT = 1 << 20
"""Backward jumps in one run of an action, after which it is cut short."""


def action_name(action: Action, where: str) -> str:
    """`where`: the pipeline that calls it, as each has its own place for metadata."""
    return f"act_{where}_{action.id}"


def may_exit(action: Action) -> bool:
    return any(call.op == "exit" for call in action.primitives)


def _target(call: Primitive, count: int) -> int:
    arg = call.args[-1] if call.args else None
    if not isinstance(arg, Const) or not 0 <= arg.value <= count:
        raise JsonError(f"{call.place}: {call.op!r} needs the index of a primitive, 0..{count}")
    return arg.value


def emit_action(action: Action, layout: Layout, out: Emitter, where: str) -> None:
    """`void act_WHERE_N(st, pkt, p, m, a)`; `a` points at the arguments, one 64-bit word or more each."""
    count = len(action.primitives)
    targets = {_target(call, count) for call in action.primitives if call.op in ("_jump", "_jump_if_zero")}
    backward = any(
        _target(call, count) <= i
        for i, call in enumerate(action.primitives)
        if call.op in ("_jump", "_jump_if_zero")
    )
    out.line(comment(action.name))
    state = "struct sw_state *st, struct sw_packet *pkt, struct phv *p, struct meta *m"
    prims = PrimitiveGen(layout, out, action.params, where)
    with out.block(f"PART void {action_name(action, where)}({state}, const uint64_t *a)"):
        out.line("(void)st; (void)pkt; (void)p; (void)m; (void)a;")
        if backward:
            out.line("uint32_t loops = 0;")
        for i, call in enumerate(action.primitives):
            if i in targets:
                out.label(f"l{i}")
            if call.source:
                out.line(comment(call.source))
            if call.op in ("_jump", "_jump_if_zero"):
                _jump(call, i, count, prims, out)
            else:
                prims.emit(call)
        if count in targets:
            out.label(f"l{count}")
            out.line("return;")
    out.line()


def _jump(call: Primitive, index: int, count: int, prims: PrimitiveGen, out: Emitter) -> None:
    target = _target(call, count)
    jump = f"goto l{target};"
    if target <= index:
        jump = f"{{ if (++loops > {LOOP_LIMIT}) {{ st->loop_limits++; return; }} {jump} }}"
    if call.op == "_jump":
        out.line(jump)
        return
    if len(call.args) != 2 or isinstance(call.args[0], ObjectRef | Text | Vector):
        raise JsonError(f"{call.place}: '_jump_if_zero' takes a condition and an index")
    prims.gen.place = call.place
    condition = call.args[0]
    with out.block():
        if prims.gen.is_bool(condition):
            test = f"!{prims.gen.boolean(condition)}"
        else:
            v = prims.gen.value(condition)
            test = f"{v.code} == 0" if v.limbs <= 2 else prims.gen._is_zero(v)
        out.line(f"if ({test}) {jump}")
