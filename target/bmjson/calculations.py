# SPDX-License-Identifier: Apache-2.0
"""Reads the inputs of hashes and checksums in a BMv2 JSON."""

from __future__ import annotations

from target.bmjson.exprs import ExprReader
from target.bmjson.model import CalcInput, HeaderRef, Program
from target.bmjson.node import Node

MAX_WIDTH = 2048
"""Widest field, in bits (the limit of p4c-bm2-ss)."""


def calc_input(entry: Node, program: Program, exprs: ExprReader) -> CalcInput:
    kind = entry["type"].string()
    if kind == "payload":
        entry.keys("type", "value")
        return CalcInput("payload", None, 0)
    entry.keys("type value", "bitwidth")
    if kind == "field":
        ref = exprs.field(entry["value"])
        return CalcInput("field", ref, program.field_type(ref).width)
    if kind == "hexstr":
        width = entry["bitwidth"].integer(1, MAX_WIDTH)
        return CalcInput("hexstr", exprs.expr(entry), width)
    if kind == "header":
        name = exprs.header(entry["value"])
        return CalcInput("header", HeaderRef(name), program.headers[name].type.width)
    entry["type"].fail(f"{kind!r} is not supported as a calculation's input")
