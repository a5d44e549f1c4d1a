# SPDX-License-Identifier: Apache-2.0
"""Checksum updates and the deparser -> C.

Where every valid header still stands where it was parsed, the written fields are patched into the frame.
Else the headers are built aside from the frame's bytes and the written fields, then put in front of the
payload.
"""

from __future__ import annotations

from target.bmjson.model import BoolConst, Checksum
from target.codegen.emitter import Emitter, comment
from target.codegen.exprs import ExprGen, Value
from target.codegen.hashing import calc_name
from target.codegen.layout import Layout
from target.codegen.primitives import PrimitiveGen


def checksum_test(check: Checksum, layout: Layout, out: Emitter) -> tuple[str, str]:
    """(call of the calculation, C condition for the checksum to apply)."""
    gen = ExprGen(layout, out, place=check.place)
    test = layout.valid(check.target.header)
    if check.condition is not None and check.condition != BoolConst(True):
        test = f"{test} && {gen.boolean(check.condition)}"
    return f"{calc_name(layout.program, check.calculation)}(st, pkt, p)", test


def max_header_bytes(layout: Layout) -> int:
    return sum(layout.program.headers[h].type.width // 8 for h in layout.program.deparser)


def emit_deparser(layout: Layout, out: Emitter) -> None:
    """`static int run_deparser(st, pkt)`."""
    program = layout.program
    headers = list(program.deparser)
    with out.block("static int run_deparser(struct sw_state *st, struct sw_packet *pkt)"):
        out.line("struct phv *p = (struct phv *)pkt->phv;")
        out.line("(void)st; (void)p;")
        prims = PrimitiveGen(layout, out, (), "deparser")
        for check in program.checksums:
            if not check.update:
                continue
            with out.block():
                calc, test = checksum_test(check, layout, out)
                # An update writes the field even where the header is invalid; nobody sees it then.
                with out.block(f"if ({test})"):
                    name = prims.gen.store(calc, 1)
                    prims.store_value(check.target, Value(name, 1, 0, 2**64 - 1, True))
        for call in program.deparser_primitives:
            prims.emit(call)
        out.line("uint32_t pos = 0;")
        out.line("int moved = 0;")
        for name in headers:
            size = program.headers[name].type.width // 8
            test = f"moved |= {layout.offset(name)} != pos; pos += {size};"
            out.line(f"if ({layout.valid(name)}) {{ {test} }} {comment(name)}")
        with out.block("if (!moved && pos == pkt->parsed)"):
            for name in headers:
                _patch(name, f"pkt->data + {layout.offset(name)}", layout, out)
        with out.block("else"):
            out.line(f"uint8_t head[{max_header_bytes(layout)} + SW_SLACK];")
            out.line("uint8_t *h = head;")
            out.line("(void)h;")
            out.line("if (pos > pkt->parsed && pos - pkt->parsed > pkt->room) return -1;")
            for name in headers:
                size = program.headers[name].type.width // 8
                if size == 0:
                    continue
                with out.block(f"if ({layout.valid(name)})"):
                    place = f"pkt->data + {layout.offset(name)}"
                    out.line(f"if ({layout.offset(name)} != SW_NO_OFFSET) memcpy(h, {place}, {size});")
                    out.line(f"else memset(h, 0, {size});")
                    _put(name, "h", layout, out)
                    out.line(f"h += {size};")
            out.line("pkt->data += pkt->parsed; pkt->data -= pos;")
            out.line("pkt->room += pkt->parsed; pkt->room -= pos;")
            out.line("pkt->capacity -= pkt->parsed; pkt->capacity += pos;")
            out.line("pkt->len -= pkt->parsed; pkt->len += pos;")
            out.line("memcpy(pkt->data, head, pos);")
        out.line("if (pkt->len > pkt->truncate) pkt->len = pkt->truncate;")
        out.line("return 0;")
    out.line()


def _patch(name: str, place: str, layout: Layout, out: Emitter) -> None:
    if any(layout.is_written(ref) for ref in layout.live_fields(name)):
        with out.block(f"if ({layout.valid(name)})"):
            out.line(f"uint8_t *h = {place};")
            _put(name, "h", layout, out)


def _put(name: str, base: str, layout: Layout, out: Emitter) -> None:
    for ref in layout.live_fields(name):
        if not layout.is_written(ref):
            continue
        width, bit, code = layout.program.field_type(ref).width, layout.bit_offset(ref), layout.field(ref)
        kind = "bits" if width <= 64 else "bits128" if width <= 128 else "wide"
        out.line(f"sw_put_{kind}({base}, {bit}, {width}, {code});")
