# SPDX-License-Identifier: Apache-2.0
"""Calculations (hash inputs and checksums): the inputs' bits joined, then one of v1model's algorithms.

BMv2 leaves out fields of invalid headers. So each calculation packs its words at fixed places for the case
that all its headers are valid, and bit by bit where some are not.
"""

from __future__ import annotations

from target.bmjson.model import Calculation, Const, FieldRef, HeaderRef, Program
from target.bmjson.node import JsonError
from target.codegen.bounds import limbs
from target.codegen.emitter import Emitter, c_u64, comment
from target.codegen.exprs import ExprGen
from target.codegen.layout import Layout

ALGORITHMS = {
    "crc32": "crc32",
    "crc32_custom": "crc32",
    "crc16": "crc16",
    "crc16_custom": "crc16",
    "crcCCITT": "crcCCITT",
    "csum16": "csum16",
    "cksum16": "csum16",
    "xor16": "xor16",
    "xor32": "xor32",
    "identity": "identity",
}

Piece = tuple[str, int]
"""C expression of a uint64_t without bits beyond its width, and the width (1..64)."""

VarPiece = tuple[str, int, str]
"""A varbit field: C expression of its header's bytes, bits before it, C expression of its bytes."""


def calc_name(program: Program, name: str, where: str) -> str:
    """`where`: the part of the program that calls it, as each has its own place for metadata."""
    return f"calc_{where}_{list(program.calculations).index(name)}"


def check_calculation(calc: Calculation) -> None:
    """Raises JsonError for what is not supported."""
    if calc.algo not in ALGORITHMS:
        raise JsonError(f"{calc.place}.algo: hash algorithm {calc.algo!r} is not supported")
    if _has_payload(calc) and ALGORITHMS[calc.algo] != "csum16":
        raise JsonError(f"{calc.place}.input: a payload is supported for csum16 only")


def _has_payload(calc: Calculation) -> bool:
    return any(item.kind == "payload" for item in calc.inputs)


def emit_calculation(calc: Calculation, layout: Layout, out: Emitter, where: str) -> None:
    """`uint64_t calc_WHERE_N(st, pkt, p, m)`."""
    program = layout.program
    payload = _has_payload(calc)
    name = calc_name(program, calc.name, where)
    out.line(f"{comment(calc.name)}")
    state = "const struct sw_state *st, const struct sw_packet *pkt"
    with out.block(f"PART uint64_t {name}({state}, const struct phv *p, const struct meta *m)"):
        out.line("(void)st; (void)pkt; (void)p; (void)m;")
        headers = _headers(calc, program)
        if any(name in layout.varbits for name in headers):
            _emit_dynamic(calc, layout, out, payload)
        elif headers:
            with out.block(f"if ({layout.all_valid(headers)})"):
                _emit_fixed(calc, layout, out, set(headers), payload)
            if len(headers) == 1:
                _emit_fixed(calc, layout, out, set(), payload)
            else:
                _emit_dynamic(calc, layout, out, payload)
        else:
            _emit_fixed(calc, layout, out, set(), payload)
    out.line()


def _headers(calc: Calculation, program: Program) -> list[str]:
    names: list[str] = []
    for item in calc.inputs:
        name = _header_of(item.value)
        if name is not None and not program.headers[name].metadata and name not in names:
            names.append(name)
    return names


def _header_of(value: object) -> str | None:
    if isinstance(value, FieldRef):
        return value.header
    return value.name if isinstance(value, HeaderRef) else None


def _pieces(calc: Calculation, layout: Layout, out: Emitter) -> list[tuple[str | None, Piece | VarPiece]]:
    """(header that must be valid or None, piece) in order."""
    gen = ExprGen(layout, out, place=calc.place)
    result: list[tuple[str | None, Piece | VarPiece]] = []
    for item in calc.inputs:
        if item.kind == "payload":
            continue
        owner = _header_of(item.value)
        if owner is not None and layout.program.headers[owner].metadata:
            owner = None
        exprs: list[FieldRef | Const] = []
        if isinstance(item.value, HeaderRef):
            header = layout.program.headers[item.value.name]
            exprs += [FieldRef(header.name, f.name) for f in header.type.fields]
        elif isinstance(item.value, FieldRef | Const):
            exprs.append(item.value)
        for expr in exprs:
            if isinstance(expr, FieldRef) and layout.is_varbit(expr):
                place, bit, _ = layout.spot(expr)
                result.append((owner, (place, bit, layout.var_length(expr.header))))
                continue
            width = layout.program.field_type(expr).width if isinstance(expr, FieldRef) else item.width
            result.extend((owner, piece) for piece in split(expr, width, gen))
    return result


def split(expr: FieldRef | Const, width: int, gen: ExprGen) -> list[Piece]:
    """The `width` low bits of a value as pieces of 64 bits at most, highest first."""
    if width <= 64:
        return [(gen.number(expr, width), width)]
    if isinstance(expr, Const):
        n = limbs(width)
        return [
            (c_u64(expr.value >> 64 * i & (2 ** min(64, width - 64 * i) - 1)), min(64, width - 64 * i))
            for i in reversed(range(n))
        ]
    code = gen.field(expr)
    if width <= 128:
        return [(f"(uint64_t)({code} >> 64)", width - 64), (f"(uint64_t){code}", 64)]
    n = limbs(width)
    return [(f"{code}[{i}]", min(64, width - 64 * i)) for i in reversed(range(n))]


def pack(pieces: list[Piece]) -> tuple[list[str], int]:
    """Words that hold the pieces one after the other, first bit highest, and the number of bits."""
    words: list[list[str]] = []
    position = 0
    for code, width in pieces:
        word, used = divmod(position, 64)
        while len(words) <= (position + width - 1) // 64:
            words.append([])
        space = 64 - used
        if width <= space:
            words[word].append(f"{code} << {space - width}" if space > width else code)
        else:
            words[word].append(f"{code} >> {width - space}")
            words[word + 1].append(f"{code} << {64 - (width - space)}")
        position += width
    return [" | ".join(f"({term})" for term in terms) for terms in words], position


def _finish(calc: Calculation, words: str, bits: str, payload: bool, out: Emitter) -> None:
    algo = ALGORITHMS[calc.algo]
    if not payload:
        out.line(f"return sw_hash_{algo}(st->constants, {words}, {bits});")
        return
    out.line(f"return sw_csum_with_payload(pkt, sw_sum16({words}, {bits}), {bits});")


def _emit_fixed(calc: Calculation, layout: Layout, out: Emitter, valid: set[str], payload: bool) -> None:
    pieces = [piece for owner, piece in _pieces(calc, layout, out) if owner is None or owner in valid]
    words, bits = pack([piece for piece in pieces if len(piece) == 2])
    out.line(f"const uint64_t w[{max(1, len(words))}] = {{{', '.join(words) or '0'}}};")
    _finish(calc, "w", str(bits), payload, out)


def _emit_dynamic(calc: Calculation, layout: Layout, out: Emitter, payload: bool) -> None:
    pieces = _pieces(calc, layout, out)
    room = sum(
        8 * layout.varbits[name].room for name in _headers(calc, layout.program) if name in layout.varbits
    )
    total = room + sum(piece[1] for _, piece in pieces if len(piece) == 2)
    out.line(f"uint64_t words[{total // 64 + 2}] = {{0}};")
    out.line("struct sw_bits b = {words, 0};")
    for owner, piece in pieces:
        test = f"if ({layout.valid(owner)}) " if owner is not None else ""
        put = "sw_bits_put" if len(piece) == 2 else "sw_varbit_hash"
        out.line(f"{test}{put}(&b, {', '.join(map(str, piece))});")
    _finish(calc, "words", "b.count", payload, out)
