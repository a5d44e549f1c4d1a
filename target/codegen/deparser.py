# SPDX-License-Identifier: Apache-2.0
"""Checksum updates and the deparser -> C.

Where the frame's headers are those that were parsed, the ones that were written to are copied back. Else all
of them are put in front of the payload, the last one first.
"""

from __future__ import annotations

from target.bmjson.model import BoolConst, Checksum
from target.codegen.emitter import Emitter, comment
from target.codegen.exprs import ExprGen, Value
from target.codegen.hashing import calc_name
from target.codegen.layout import Layout
from target.codegen.primitives import PrimitiveGen


def checksum_test(check: Checksum, layout: Layout, out: Emitter, where: str) -> tuple[str, str]:
    """(call of the calculation, C condition for the checksum to apply)."""
    gen = ExprGen(layout, out, place=check.place)
    test = layout.valid(check.target.header)
    if check.condition is not None and check.condition != BoolConst(True):
        test = f"{test} && {gen.boolean(check.condition)}"
    return f"{calc_name(layout.program, check.calculation, where)}(st, pkt, p, m)", test


def max_header_bytes(layout: Layout) -> int:
    return sum(layout.size(h) for h in layout.program.deparser)


def emit_deparser(layout: Layout, out: Emitter) -> None:
    """`int run_deparser(st, pkt, p, m)`."""
    program = layout.program
    state = "struct sw_state *st, struct sw_packet *pkt, struct phv *p, struct meta *m"
    with out.block(f"PART int run_deparser({state})"):
        out.line("(void)st; (void)p; (void)m;")
        prims = PrimitiveGen(layout, out, (), "deparser")
        for check in program.checksums:
            if not check.update:
                continue
            with out.block():
                calc, test = checksum_test(check, layout, out, "deparser")
                # An update writes the field even where the header is invalid; nobody sees it then.
                with out.block(f"if ({test})"):
                    name = prims.gen.store(calc, 1)
                    prims.store_value(check.target, Value(name, 1, 0, 2**64 - 1, True))
        for call in program.deparser_primitives:
            prims.emit(call)
        if layout.can_move:
            with out.block("if (m->moved)"):
                _put_in_front(layout, out)
            with out.block("else"):
                _put_back(layout, out)
        else:
            _put_back(layout, out)
        out.line("if (pkt->len > pkt->truncate) pkt->len = pkt->truncate;")
        out.line("return 0;")
    out.line()


def _put_back(layout: Layout, out: Emitter) -> None:
    for name in dict.fromkeys(layout.program.deparser):
        if layout.has_writes(name) and layout.plan.parsed(name) and layout.size(name):
            copy = layout.pack(name, f"pkt->data + {layout.offset(name)}")
            out.line(f"if ({layout.needs_writing(name)}) {copy} {comment(name)}")


def _put_in_front(layout: Layout, out: Emitter) -> None:
    headers = [name for name in layout.program.deparser if layout.size(name)]
    with out.block(f"if (pkt->room + pkt->parsed < {max_header_bytes(layout)}u)"):
        sizes = " + ".join(f"{layout.valid(name)} * {layout.length(name)}" for name in headers)
        out.line(f"if ({sizes or '0u'} > pkt->room + pkt->parsed) return -1;")
    out.line("uint8_t *h = pkt->data + pkt->parsed;")
    for name in reversed(headers):
        copy = f"h -= {layout.length(name).removesuffix('u')}; {layout.pack(name, 'h')}"
        out.line(f"if ({layout.valid(name)}) {{ {copy} }} {comment(name)}")
    out.line("const uint32_t added = (uint32_t)(pkt->data - h);  /* modulo 2^32 */")
    out.line("pkt->data = h;")
    out.line("pkt->room -= added;")
    out.line("pkt->len += added;")
