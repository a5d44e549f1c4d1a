# SPDX-License-Identifier: Apache-2.0
"""Digests -> C: ingress notes which list to sample; the sample is taken at its end, as in simple_switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target.bmjson.model import Const, Primitive, Program
from target.bmjson.node import JsonError
from target.codegen.bounds import limbs
from target.codegen.emitter import Emitter, comment
from target.codegen.exprs import ExprGen
from target.codegen.layout import Layout

if TYPE_CHECKING:
    from target.codegen.primitives import PrimitiveGen


def sample_words(program: Program) -> list[int]:
    """Words of a sample of each digest: each field in words of its own, low word first."""
    return [
        sum(limbs(program.field_type(ref).width) for ref in digest.fields)
        for digest in program.learn_lists.values()
    ]


def emit_generate(prims: PrimitiveGen, call: Primitive) -> None:
    """`generate_digest`: (receiver, list). In egress it has no effect, as in simple_switch."""
    _, number = prims.args(call, 2)
    if not isinstance(number, Const) or (number.value and number.value not in prims.program.learn_lists):
        raise JsonError(f"{call.place}: {call.op!r} needs the id of a learn list")
    if prims.where == "ingress":
        prims.out.line(f"m->digest = {number.value};")


def emit_samples(layout: Layout, out: Emitter) -> None:
    """At the end of ingress."""
    if "generate_digest" not in layout.usage.ops:
        return
    gen = ExprGen(layout, out)
    with out.block("switch (m->digest)"):
        for index, digest in enumerate(layout.program.learn_lists.values()):
            with out.block(f"case {digest.id}: {comment(digest.name)}", " break;"):
                words: list[str] = []
                for ref in digest.fields:
                    width = layout.program.field_type(ref).width
                    n = limbs(width)
                    if n == 1:
                        words.append(gen.number(ref, width))
                    elif n == 2:
                        code = gen.field(ref)
                        words += [f"(uint64_t){code}", f"(uint64_t)({code} >> 64)"]
                    else:
                        code = gen.field(ref)
                        words += [f"{code}[{i}]" for i in range(n)]
                out.line(f"const uint64_t w[] = {{{', '.join(words) or '0'}}};")
                out.line(f"st->digest(st, {index}, w);")
        out.line("default: break;")
