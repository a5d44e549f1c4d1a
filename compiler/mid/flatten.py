# SPDX-License-Identifier: Apache-2.0
"""From the typed tree to the flat program: reads ``main`` and flattens the six blocks of V1Switch."""

from __future__ import annotations

from .. import ir
from ..diag import Diagnostics, fail
from ..source import Span
from ..types import BlockType, Struct, Type
from .flat import FlatProgram
from .inline import Frame, Names
from .parsers import ParserFlattener

_BLOCKS = ("parser", "verify checksum", "ingress", "egress", "compute checksum", "deparser")


def _blocks(main: ir.Instance) -> list[ir.Instance]:
    out = []
    for a, what in zip(main.args, _BLOCKS, strict=True):
        if isinstance(a, ir.Call) and isinstance(a.target, ir.Construct):
            out.append(a.target.inst)
        elif isinstance(a, ir.InstanceRef):
            out.append(a.inst)
        else:
            raise fail("E042", f"the {what} of V1Switch is missing", main.span)
    return out


def _named_struct(t: Type, what: str, span: Span) -> Struct:
    if not isinstance(t, Struct) or t.kind != "struct":
        raise fail("E042", f"the {what} type of V1Switch must be a struct, not {t}", span)
    return t


def flatten(program: ir.Program, diags: Diagnostics) -> FlatProgram:
    """Flat form of `program`, which must instantiate V1Switch as ``main``."""
    main = program.main
    if main is None:
        raise fail("E042", "the program has no 'main' package", hint="end it with V1Switch(...) main;")
    if not isinstance(main.type, BlockType) or main.type.proto.name != "V1Switch" or len(main.args) != 6:
        raise fail(
            "E042",
            f"'main' must be a V1Switch of v1model, not {main.type}",
            main.span,
            hint="include <v1model.p4> and end the program with V1Switch(...) main;",
        )
    blocks = _blocks(main)
    params = blocks[0].ctor.params
    headers = ir.VarSym("hdr", main.span, (), _named_struct(params[1].type, "headers", params[1].span))
    meta = ir.VarSym("meta", main.span, (), _named_struct(params[2].type, "metadata", params[2].span))
    std = ir.VarSym("standard_metadata", main.span, (), params[3].type)
    packet_in = ir.VarSym("packet_in", main.span, (), params[0].type)
    packet_out = ir.VarSym("packet_out", main.span, (), blocks[5].ctor.params[0].type)
    _check_headers(headers.type, params[1].span)

    def var(s: ir.VarSym) -> ir.Expr:
        return ir.Var(s.span, s.type, s)

    names = Names()
    f = ParserFlattener(diags, names)
    for inst in program.instances:
        top = Frame("")
        f.frame.instances[inst] = f.extern_instance(top, inst)
    shared = dict(f.frame.instances)
    f.externs = list(shared.values())
    hms = [var(headers), var(meta), var(std)]
    f.global_instances = shared
    parser = f.parser(blocks[0], [var(packet_in), *hms])
    verify = f.control("verify", blocks[1], hms[:2])
    ingress = f.control("ingress", blocks[2], hms)
    egress = f.control("egress", blocks[3], hms)
    compute = f.control("compute", blocks[4], hms[:2])
    deparser = f.control("deparser", blocks[5], [var(packet_out), hms[0]])
    return FlatProgram(
        headers, meta, std, parser, verify, ingress, egress, compute, deparser, f.externs, program, names
    )


def _check_headers(t: Type, span: Span) -> None:
    assert isinstance(t, Struct)
    for field in t.fields:
        inner = field.type
        while hasattr(inner, "elem"):
            inner = inner.elem
        if not isinstance(inner, Struct):
            raise fail(
                "E040",
                f"field '{field.name}' of {t}: the headers struct holds headers, stacks and unions only",
                field.span,
            )
