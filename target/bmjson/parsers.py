# SPDX-License-Identifier: Apache-2.0
"""Reads the parser of a BMv2 JSON."""

from __future__ import annotations

from dataclasses import replace

from target.bmjson.exprs import ExprReader
from target.bmjson.model import (
    Advance,
    Const,
    Expr,
    Extract,
    FieldRef,
    HeaderType,
    Lookahead,
    Parser,
    ParserOp,
    ParseState,
    Program,
    SetField,
    StackField,
    Transition,
    Verify,
)
from target.bmjson.node import Node


def read_parser(item: Node, program: Program, exprs: ExprReader) -> Parser:
    item.keys("name id init_state parse_states", "source_info")
    states: dict[str, ParseState] = {}
    nodes = item["parse_states"].elements()
    for node in nodes:
        node.keys("name id parser_ops transitions transition_key", "source_info")
        name = node["name"].string()
        if name in states:
            node.fail(f"the name {name!r} is already taken")
        ops = tuple(_parser_op(op, program, exprs) for op in node["parser_ops"].elements())
        key = tuple(_key_part(part, exprs) for part in node["transition_key"].elements())
        widths = tuple(_key_width(part, program) for part in key)
        transitions = tuple(_transition(t, widths, program) for t in node["transitions"].elements())
        states[name] = ParseState(name, ops, key, widths, transitions)
    for node in nodes:
        for transition in node["transitions"].elements():
            target = transition["next_state"].opt_str()
            if target is not None and target not in states:
                transition["next_state"].fail(f"there is no parser state {target!r}")
    init = item["init_state"].opt_str()
    if init is not None and init not in states:
        item["init_state"].fail(f"there is no parser state {init!r}")
    return Parser(item["name"].string(), init, states)


def _parser_op(node: Node, program: Program, exprs: ExprReader) -> ParserOp:
    node.keys("op parameters", "source_info")
    op = node["op"].string()
    parameters = node["parameters"]
    if op in ("extract", "extract_VL"):
        target, *rest = parameters.elements(1 if op == "extract" else 2)
        length = exprs.expr(rest[0]) if rest else None
        target.keys("type value")
        kind = target["type"].string()
        if kind == "regular":
            header = exprs.header(target["value"])
            if program.headers[header].metadata or program.headers[header].local:
                target.fail(f"{header!r} is metadata and can't be extracted")
            return _extract(node, header, False, program.headers[header].type, length)
        if kind == "stack":
            stack = exprs.stack(target["value"])
            return _extract(node, stack, True, program.stacks[stack].type, length)
        if kind == "union_stack":
            stack_node, member_node = target["value"].elements(2)
            stack, member, element = exprs.union_member(stack_node, member_node)
            return _extract(node, stack, True, element, length, member)
        target["type"].fail(f"extracting into {kind!r} is not supported")
    if op == "set":
        dest, source = parameters.elements(2)
        if dest["type"].string() != "field":
            dest["type"].fail(f"expected a field, got {dest['type'].string()!r}")
        return SetField(exprs.field(dest["value"]), exprs.expr(source))
    if op == "verify":
        condition, error = parameters.elements(2)
        code: Expr = Const(error.integer()) if isinstance(error.value, int) else exprs.expr(error)
        return Verify(exprs.expr(condition), code)
    if op == "shift":
        (amount,) = parameters.elements(1)
        return Advance(Const(8 * amount.integer(0, 1 << 16)))
    if op == "advance":
        (amount,) = parameters.elements(1)
        return Advance(exprs.expr(amount))
    if op == "primitive":
        (call,) = parameters.elements(1)
        return exprs.primitive(call, 0)
    node["op"].fail(f"parser operation {op!r} is not supported")


def _extract(
    node: Node, target: str, is_stack: bool, kind: HeaderType, length: Expr | None, member: int | None = None
) -> Extract:
    if (kind.varbit is None) != (length is None):
        node["op"].fail(
            f"{target!r} has {'no' if kind.varbit is None else 'a'} varbit field, "
            f"expected {'extract' if kind.varbit is None else 'extract_VL'!r}"
        )
    return Extract(target, is_stack, length, member)


def _key_part(node: Node, exprs: ExprReader) -> Expr:
    expr = exprs.expr(node)
    if not isinstance(expr, FieldRef | StackField | Lookahead):
        node.fail("expected a field, a stack field or a lookahead")
    if isinstance(expr, FieldRef) and exprs.program.field_type(expr).varbit:
        node.fail("a varbit field can't be in a transition key")
    return expr


def _key_width(part: Expr, program: Program) -> int:
    if isinstance(part, Lookahead):
        return part.width
    if isinstance(part, StackField):
        header_type = program.headers[program.stack_headers(part.stack, part.member)[0]].type
        return header_type.fields[header_type.index(part.field)].width
    assert isinstance(part, FieldRef)
    return program.field_type(part).width


def _transition(node: Node, widths: tuple[int, ...], program: Program) -> Transition:
    node.keys("next_state", "type value mask")
    next_state = node["next_state"].opt_str()
    value = node.get("value", None)
    kind = node.get("type", "default" if value.value in (None, "default") else "hexstr").string()
    if kind == "default":
        return Transition(None, None, next_state)
    if kind == "parse_vset":
        return Transition(None, None, next_state, _value_set(node, widths, program))
    if kind != "hexstr":
        node["type"].fail(f"{kind!r} is not a transition type")
    # Each part of the key is padded to whole bytes, in the value and in the mask.
    bits = sum((w + 7) // 8 * 8 for w in widths)
    mask = node.get("mask", None)
    numbers = [value.hexstr(), (1 << bits) - 1 if mask.is_null() else mask.hexstr()]
    if not widths:
        node.fail("a transition on a value needs a transition key")
    for number in numbers:
        if number < 0 or number >> bits:
            node.fail(f"value or mask is wider than the transition key of {bits // 8} bytes")
    return Transition(_unpad(numbers[0], widths), _unpad(numbers[1], widths), next_state)


def _value_set(node: Node, widths: tuple[int, ...], program: Program) -> str:
    """The set's name. Its fields are those of the transition key, the same in every state that uses it."""
    name = node["value"].string()
    found = program.vsets.get(name)
    if found is None:
        node["value"].fail(f"there is no parser value set {name!r}")
    if node.has("mask"):
        node["mask"].fail("a mask for a parser value set is not supported")
    if sum(widths) != found.width or found.widths not in ((), widths):
        node["value"].fail(
            f"the transition key has {widths} bits, the value set has {found.widths or found.width}"
        )
    program.vsets[name] = replace(found, widths=widths)
    return name


def _unpad(padded: int, widths: tuple[int, ...]) -> int:
    """The parts' bits joined without the padding, first part highest."""
    result = 0
    shift = sum((w + 7) // 8 * 8 for w in widths)
    for width in widths:
        shift -= (width + 7) // 8 * 8
        result = result << width | (padded >> shift & ((1 << width) - 1))
    return result
