# SPDX-License-Identifier: Apache-2.0
"""Checksum updates and the deparser -> C.

Where every valid header still stands where it was parsed, the written fields are patched into the frame.
Else the headers are built aside from the frame's bytes and the written fields, then put in front of the
payload.
"""

from __future__ import annotations

from target.bmjson.model import BoolConst, Checksum
from target.codegen.emitter import Emitter, c_u64, comment
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
    largest = max((program.headers[h].type.width // 8 for h in headers), default=0)
    out.line(f"static const uint8_t no_header[{largest} + SW_SLACK];")
    with out.block("static int run_deparser(struct sw_state *st, struct sw_packet *pkt)"):
        out.line("struct phv *p = (struct phv *)pkt->phv;")
        out.line("(void)st; (void)p; (void)no_header;")
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
                    offset = layout.offset(name)
                    raw = f"{offset} == SW_NO_OFFSET ? no_header : pkt->data + {offset}"
                    out.line(f"const uint8_t *s = {raw};")
                    _write(name, True, layout, out)
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
            out.line("const uint8_t *s = h;")
            _write(name, False, layout, out)


def _chunks(size: int) -> list[tuple[int, int]]:
    """(first byte, bytes) of the pieces that a header is written in: words, then what is left."""
    result: list[tuple[int, int]] = []
    at = 0
    for step in (8, 4, 2, 1):
        while size - at >= step:
            result.append((at, step))
            at += step
    return result


def _write(name: str, whole: bool, layout: Layout, out: Emitter) -> None:
    """Write a header to `h`: written fields from the phv, the rest from the frame's bytes at `s`.

    Each piece is written once and never read back, for a load that overlaps fresh stores stalls. Without
    `whole`, `h` and `s` are the same place and pieces without a written field are left alone.
    """
    fields = [
        (layout.bit_offset(ref), layout.program.field_type(ref).width, layout.field(ref))
        for ref in layout.live_fields(name)
        if layout.is_written(ref)
    ]
    for first, count in _chunks(layout.program.headers[name].type.width // 8):
        low, bits = 8 * first, 8 * count
        terms: list[str] = []
        mask = 0
        for offset, width, code in fields:
            start, end = max(offset, low), min(offset + width, low + bits)
            if start >= end:
                continue
            taken = end - start
            shift = low + bits - end
            mask |= ((1 << taken) - 1) << shift
            value = _slice(code, width, offset + width - end, taken)
            terms.append(f"({value} << {shift})" if shift else value)
        if not mask:
            if whole:
                out.line(f"memcpy(h + {first}, s + {first}, {count});")
            continue
        rest = (1 << bits) - 1 & ~mask
        if rest:
            terms.append(f"(sw_get_bits(s + {first}, 0, {bits}) & {c_u64(rest)})")
        joined = " | ".join(terms)
        if count == 8:
            out.line(f"sw_store_be64(h + {first}, {joined});")
        else:
            out.line(f"sw_put_bits(h + {first}, 0, {bits}, {joined});")


def _slice(code: str, width: int, low: int, count: int) -> str:
    """`count` (1..64) bits of a field from bit `low` on, as a uint64_t without further bits."""
    if width <= 64:
        value = f"(uint64_t){code}"
        value = f"({value} >> {low})" if low else value
    elif width <= 128:
        value = f"(uint64_t)({code} >> {low})" if low else f"(uint64_t){code}"
    else:
        limb, bit = divmod(low, 64)
        value = f"{code}[{limb}]"
        if bit:
            value = f"({value} >> {bit})"
            if bit + count > 64:
                value = f"({value} | {code}[{limb + 1}] << {64 - bit})"
    if low + count == width or count == 64:
        return value
    return f"({value} & {c_u64((1 << count) - 1)})"
