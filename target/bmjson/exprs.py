# SPDX-License-Identifier: Apache-2.0
"""Reads the type-value objects of a BMv2 JSON: expressions and primitive arguments."""

from __future__ import annotations

from collections.abc import Container

from target.bmjson.model import (
    Argument,
    BoolConst,
    Const,
    Expr,
    FieldRef,
    HeaderRef,
    HeaderType,
    Local,
    Lookahead,
    ObjectRef,
    Op,
    Primitive,
    Program,
    RegisterRef,
    StackField,
    StackRef,
    Text,
    UnionRef,
    UnionStackRef,
    Vector,
)
from target.bmjson.node import Node

_UNARY = {"not", "~", "valid", "d2b", "b2d", "last_stack_index", "size_stack", "valid_union"}
_BINARY = {
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "and", "or",
    "two_comp_mod", "usat_cast", "sat_cast", "dereference_header_stack", "dereference_union_stack",
    "access_field", "access_union_header",
}  # fmt: skip
_RENAMED = {
    "dereference_stack": "dereference_header_stack",
    "==h": "==",
    "!=h": "!=",
    "==u": "==",
    "!=u": "!=",
    "==b": "==",
    "!=b": "!=",
}
_MAX_DEPTH = 200


class ExprReader:
    """Reads expressions against the headers and objects that a `Program` declares so far."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def field(self, node: Node) -> FieldRef:
        """A 2-tuple (header, field)."""
        header_node, field_node = node.elements(2)
        header, name = header_node.string(), field_node.string()
        if header not in self.program.headers:
            # A JSON may use the target's own name for an aliased field.
            alias = self.program.aliases.get(f"{header}.{name}")
            if alias is not None:
                return alias
            header_node.fail(f"there is no header {header!r}")
        if name != "$valid$" and all(f.name != name for f in self.program.headers[header].type.fields):
            alias = self.program.aliases.get(f"{header}.{name}")
            if alias is not None:
                return alias
            field_node.fail(f"header {header!r} has no field {name!r}")
        return FieldRef(header, name)

    def header(self, node: Node) -> str:
        name = node.string()
        if name not in self.program.headers:
            node.fail(f"there is no header {name!r}")
        return name

    def stack(self, node: Node) -> str:
        name = node.string()
        if name not in self.program.stacks:
            node.fail(f"there is no header stack {name!r}")
        return name

    def union_stack(self, node: Node) -> str:
        return self._known(node, self.program.union_stacks, "stack of header unions")

    def union_member(self, stack: Node, member: Node) -> tuple[str, int, HeaderType]:
        """(stack of unions, index of the member, its type)."""
        name = self.union_stack(stack)
        kind = self.program.union_stacks[name].type
        if member.string() not in dict(kind.members):
            member.fail(f"header union {kind.name!r} has no member {member.string()!r}")
        index = kind.index(member.string())
        return name, index, kind.members[index][1]

    @staticmethod
    def _known(node: Node, pool: Container[str], what: str) -> str:
        name = node.string()
        if name not in pool:
            node.fail(f"there is no {what} {name!r}")
        return name

    def expr(self, node: Node, params: int = 0, depth: int = 0) -> Expr:
        """An expression. `params`: how many run-time data values the enclosing action has."""
        if depth > _MAX_DEPTH:
            node.fail(f"expressions may nest {_MAX_DEPTH} deep at most")
        if isinstance(node.value, dict) and "op" in node.value:
            return self._op(node, params, depth)
        node.keys("type value", "bitwidth")
        kind, value = node["type"].string(), node["value"]
        if kind == "expression":
            return self.expr(value, params, depth + 1)
        if kind == "field":
            return self.field(value)
        if kind == "hexstr":
            return Const(value.hexstr())
        if kind == "bool":
            return BoolConst(value.boolean())
        if kind in ("local", "runtime_data"):
            return Local(value.integer(0, params - 1))
        if kind == "header":
            return HeaderRef(self.header(value))
        if kind == "header_stack":
            return StackRef(self.stack(value))
        if kind == "header_union":
            return UnionRef(self._known(value, self.program.unions, "header union"))
        if kind == "header_union_stack":
            return UnionStackRef(self.union_stack(value))
        if kind == "stack_field":
            stack_node, field_node = value.elements(2)
            stack = self.stack(stack_node)
            name = field_node.string()
            if all(f.name != name for f in self.program.stacks[stack].type.fields):
                field_node.fail(f"stack {stack!r} has no field {name!r}")
            return StackField(stack, name)
        if kind == "union_stack_field":
            stack_node, member_node, field_node = value.elements(3)
            stack, member, element = self.union_member(stack_node, member_node)
            name = field_node.string()
            if all(f.name != name for f in element.fields):
                field_node.fail(f"header {member_node.string()!r} has no field {name!r}")
            return StackField(stack, name, member)
        if kind == "lookahead":
            offset, width = value.elements(2)
            return Lookahead(offset.integer(0, 1 << 20), width.integer(1, 1 << 16))
        if kind == "register":
            array, index = value.elements(2)
            if array.string() not in self.program.registers:
                array.fail(f"there is no register array {array.string()!r}")
            return RegisterRef(array.string(), self.expr(index, params, depth + 1))
        node.fail(f"type {kind!r} is not supported in an expression")

    def _op(self, node: Node, params: int, depth: int) -> Expr:
        node.keys("op left right", "cond")
        op = node["op"].string()
        op = _RENAMED.get(op, op)
        left, right = node["left"], node["right"]

        def sub(part: Node) -> Expr:
            return self.expr(part, params, depth + 1)

        if op == "?":
            return Op("?", sub(left), sub(right), sub(node["cond"]))
        if op in _UNARY:
            if not left.is_null():
                left.fail(f"operator {op!r} takes one operand, on the right")
            return Op(op, None, sub(right))
        if op in ("+", "-") and left.is_null():
            return Op(op, Const(0), sub(right))
        if op in ("access_field", "access_union_header"):
            return Op(op, sub(left), Const(right.integer(0)))
        if op in _BINARY:
            return Op(op, sub(left), sub(right))
        node["op"].fail(f"operator {op!r} is not supported")

    def argument(self, node: Node, params: int) -> Argument:
        """One argument of a primitive."""
        node.keys("type value", "bitwidth")
        kind, value = node["type"].string(), node["value"]
        program = self.program
        pools: dict[str, dict[str, object]] = {
            "calculation": dict(program.calculations),
            "register_array": dict(program.registers),
            "counter_array": dict(program.counters),
            "meter_array": dict(program.meters),
        }
        if kind in pools:
            name = value.string()
            if name not in pools[kind]:
                value.fail(f"there is no {kind} {name!r}")
            return ObjectRef(kind, name)
        if kind == "string":
            return Text(value.string())
        if kind == "parameters_vector":
            # A compiler may write an empty vector as an object.
            items = value.elements() if value.value != {} else []
            return Vector(tuple(self.expr(item, params) for item in items))
        return self.expr(node, params)

    def primitive(self, node: Node, params: int) -> Primitive:
        node.keys("op parameters", "source_info")
        args = tuple(self.argument(arg, params) for arg in node["parameters"].elements())
        return Primitive(node["op"].string(), args, node.path, source_line(node))


def source_line(node: Node) -> str:
    """`file.p4:12` where the JSON says so, for comments; "" elsewhere."""
    info = node.value.get("source_info") if isinstance(node.value, dict) else None
    if not isinstance(info, dict):
        return ""
    name, line = info.get("filename"), info.get("line")
    if not isinstance(name, str) or not isinstance(line, int):
        return ""
    return f"{name.rsplit('/', 1)[-1]}:{line}"
