# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON text -> `Program`. Strict: what is not known is refused, naming the element, never ignored."""

from __future__ import annotations

from collections.abc import Container

from target.bmjson.calculations import MAX_WIDTH, calc_input
from target.bmjson.controls import read_pipeline
from target.bmjson.exprs import ExprReader
from target.bmjson.model import (
    Action,
    Calculation,
    Checksum,
    Counter,
    Expr,
    FieldList,
    FieldRef,
    FieldType,
    Header,
    HeaderType,
    Meter,
    Param,
    Program,
    Register,
    Stack,
    ValueSet,
)
from target.bmjson.node import Node, parse
from target.bmjson.parsers import read_parser
from target.bmjson.unions import read_unions

DEFAULT_SET_SIZE = 1024
"""Members of a value set whose size the JSON does not give."""

MAX_VARBIT = 8 * 2048
"""Widest field of variable length, in bits."""

_ROOT_OPTIONAL = (
    "program header_types headers header_stacks header_union_types header_unions header_union_stacks "
    "field_lists errors enums parsers parse_vsets deparsers meter_arrays counter_arrays register_arrays "
    "calculations learn_lists actions pipelines checksums force_arith extern_instances field_aliases"
)


_CORE_ERRORS = (
    "NoError PacketTooShort NoMatch StackOutOfBounds HeaderTooShort ParserTimeout ParserInvalidArgument"
)


def load(text: str) -> Program:
    """Read and check a BMv2 JSON. Raises JsonError."""
    root = parse(text)
    root.keys("__meta__", _ROOT_OPTIONAL)
    root["__meta__"].keys("version", "compiler")
    major, minor = root["__meta__"]["version"].elements(2)
    if major.integer() != 2:
        major.fail(f"format version {major.integer()}.{minor.integer()} is not supported, expected 2.x")
    for item in root.get("extern_instances", []).elements():
        kind = item["type"].value if item.has("type") else None
        item.fail(f"extern type {kind!r} is not known; beyond v1model's externs this target has none")

    program = Program()
    types = _header_types(root)
    ids = _headers(root, program, types)
    _stacks(root, program, types, ids)
    read_unions(root, program, types, ids)
    _aliases(root, program)
    exprs = ExprReader(program)
    _externs(root, program, exprs)
    _actions(root, program, exprs)
    for item in root.get("parse_vsets", []).elements():
        item.keys("name id compressed_bitwidth", "source_info max_size")
        name, width = _new_name(item, program.vsets), item["compressed_bitwidth"].integer(1, MAX_WIDTH)
        size = item.get("max_size", DEFAULT_SET_SIZE).integer(0, 2**31 - 1)
        program.vsets[name] = ValueSet(name, width, size, ())
    _parser(root, program, exprs)
    _deparser(root, program, exprs)
    for item in root.get("pipelines", []).elements():
        name = item["name"].string()
        if name not in ("ingress", "egress"):
            item.fail(f"pipeline {name!r} is unknown, expected ingress and egress")
        setattr(program, name, read_pipeline(item, program, exprs))
    _check_bindings(root, program)
    _checksums(root, program, exprs)
    _required_fields(root, program)
    return program


def _new_name(item: Node, known: Container[str]) -> str:
    name = item["name"].string()
    if name in known:
        item.fail(f"the name {name!r} is already taken")
    return name


def _header_types(root: Node) -> dict[str, HeaderType]:
    types: dict[str, HeaderType] = {}
    for item in root["header_types"].elements():
        item.keys("name id fields", "source_info max_length length_exp")
        if item.has("length_exp"):
            item["length_exp"].fail("a length expression in a header type (P4_14) is not supported")
        fields: list[FieldType] = []
        for entry in item["fields"].elements():
            parts = entry.elements()
            if len(parts) not in (2, 3):
                entry.fail("expected [name, width] or [name, width, signed]")
            name = parts[0].string()
            if any(f.name == name for f in fields):
                entry.fail(f"the field name {name!r} is already taken")
            signed = len(parts) == 3 and parts[2].flag()
            if parts[1].value == "*":
                if signed or any(f.varbit for f in fields):
                    entry.fail("a header may have one field of variable length, and it has no sign")
                fields.append(FieldType(name, 0, varbit=True))
                continue
            fields.append(FieldType(name, parts[1].integer(2 if signed else 1, MAX_WIDTH), signed))
        if any(f.varbit for f in fields):
            fields = _with_varbit(item, fields)
        name = item["name"].string()
        if name in types:
            item.fail(f"the name {name!r} is already taken")
        types[name] = HeaderType(name, tuple(fields))
    return types


def _with_varbit(item: Node, fields: list[FieldType]) -> list[FieldType]:
    """The fields, that of variable length with all the bits that `max_length` leaves to it."""
    if not item.has("max_length"):
        item.fail("a field of variable length needs 'max_length', the header's largest size in bytes")
    fixed = sum(f.width for f in fields)
    room = 8 * item["max_length"].integer(1, 1 << 16) - fixed
    if fixed % 8:
        item.fail(f"a header must be a whole number of bytes, without its varbit field it is {fixed} bits")
    if not 0 < room <= MAX_VARBIT:
        item["max_length"].fail(f"it leaves {room} bits to the varbit field, expected 1..{MAX_VARBIT}")
    return [FieldType(f.name, room, varbit=True) if f.varbit else f for f in fields]


def _headers(root: Node, program: Program, types: dict[str, HeaderType]) -> dict[int, str]:
    ids: dict[int, str] = {}
    for item in root["headers"].elements():
        item.keys("name id header_type metadata", "pi_omit source_info initially_valid")
        name, type_name = item["name"].string(), item["header_type"].string()
        if name in program.headers:
            item.fail(f"the name {name!r} is already taken")
        if type_name not in types:
            item["header_type"].fail(f"there is no header type {type_name!r}")
        local = item["metadata"].boolean() and types[type_name].varbit is not None
        header = Header(name, types[type_name], item["metadata"].boolean() and not local, local)
        if not header.metadata and header.type.width % 8:
            item.fail(f"a header must be a whole number of bytes, this one is {header.type.width} bits")
        program.headers[name] = header
        number = item["id"].integer()
        if number in ids:
            item["id"].fail(f"the id {number} is already taken")
        ids[number] = name
    return ids


def _stacks(root: Node, program: Program, types: dict[str, HeaderType], ids: dict[int, str]) -> None:
    for item in root.get("header_stacks", []).elements():
        item.keys("name id header_type header_ids", "size source_info pi_omit")
        type_name = item["header_type"].string()
        if type_name not in types:
            item["header_type"].fail(f"there is no header type {type_name!r}")
        names: list[str] = []
        for entry in item["header_ids"].elements():
            if entry.integer() not in ids:
                entry.fail(f"there is no header with id {entry.integer()}")
            name = ids[entry.integer()]
            if program.headers[name].type.name != type_name:
                entry.fail(f"header {name!r} has another type than the stack")
            names.append(name)
        if not names:
            item.fail("a stack needs one element at least")
        name = item["name"].string()
        if name in program.stacks:
            item.fail(f"the name {name!r} is already taken")
        program.stacks[name] = Stack(name, types[type_name], tuple(names))


def _aliases(root: Node, program: Program) -> None:
    exprs = ExprReader(program)
    for item in root.get("field_aliases", []).elements():
        alias, target = item.elements(2)
        program.aliases[alias.string()] = exprs.field(target)
    for item in root.get("errors", []).elements():
        name, code = item.elements(2)
        program.errors[name.string()] = code.integer(0, 2**31 - 2)
    for item in root.get("enums", []).elements():
        item.keys("name entries", "source_info")
    if not program.errors:
        program.errors.update({name: i for i, name in enumerate(_CORE_ERRORS.split())})


def _externs(root: Node, program: Program, exprs: ExprReader) -> None:
    for item in root.get("register_arrays", []).elements():
        item.keys("name id size bitwidth", "source_info")
        name = _new_name(item, program.registers)
        width = item["bitwidth"].integer(1, MAX_WIDTH)
        program.registers[name] = Register(name, item["size"].integer(0, 2**31), width)
    for item in root.get("counter_arrays", []).elements():
        item.keys("name id", "is_direct size binding source_info")
        direct = item.get("is_direct", False).boolean()
        name = _new_name(item, program.counters)
        size = 0 if direct else item["size"].integer(0, 2**31)
        program.counters[name] = Counter(name, size, item["binding"].string() if direct else None)
    for item in root.get("meter_arrays", []).elements():
        item.keys("name id type rate_count", "is_direct size binding result_target source_info")
        direct = item.get("is_direct", False).boolean()
        name = _new_name(item, program.meters)
        kind = item["type"].string()
        if kind not in ("packets", "bytes"):
            item["type"].fail(f"{kind!r} is not a meter type, expected packets or bytes")
        if item["rate_count"].integer() != 2:
            item["rate_count"].fail("meters have 2 rates (RFC 2698)")
        target = exprs.field(item["result_target"]) if direct and item.has("result_target") else None
        size = 0 if direct else item["size"].integer(0, 2**31)
        bound = item["binding"].string() if direct else None
        program.meters[name] = Meter(name, size, kind, 2, bound, target)
    for item in root.get("calculations", []).elements():
        item.keys("name id algo input", "source_info")
        name = _new_name(item, program.calculations)
        inputs = tuple(calc_input(entry, program, exprs) for entry in item["input"].elements())
        program.calculations[name] = Calculation(name, item["algo"].string(), inputs, item.path)
    for key, lists in (("field_lists", program.field_lists), ("learn_lists", program.learn_lists)):
        for item in root.get(key, []).elements():
            item.keys("name id elements", "source_info")
            fields: list[FieldRef] = []
            for entry in item["elements"].elements():
                if entry["type"].string() != "field":
                    entry["type"].fail(f"{entry['type'].string()!r} is not supported in a field list")
                fields.append(exprs.field(entry["value"]))
            number = item["id"].integer(0, 65535)
            if number in lists:
                item["id"].fail(f"the id {number} is already taken")
            lists[number] = FieldList(number, item["name"].string(), tuple(fields))


def _actions(root: Node, program: Program, exprs: ExprReader) -> None:
    for item in root.get("actions", []).elements():
        item.keys("name id runtime_data primitives", "source_info")
        params: list[Param] = []
        for entry in item["runtime_data"].elements():
            entry.keys("name bitwidth", "source_info")
            # Width 0 stands for a translated type: P4Runtime carries it as a string of bytes.
            params.append(Param(entry["name"].string(), entry["bitwidth"].integer(1, MAX_WIDTH)))
        primitives = tuple(exprs.primitive(p, len(params)) for p in item["primitives"].elements())
        number = item["id"].integer()
        if number in program.actions:
            item["id"].fail(f"the id {number} is already taken")
        action = Action(item["name"].string(), number, tuple(params), primitives, item.path)
        program.actions[number] = action


def _parser(root: Node, program: Program, exprs: ExprReader) -> None:
    parsers = root.get("parsers", []).elements()
    if len(parsers) != 1:
        root.fail(f"expected one parser in 'parsers', got {len(parsers)}")
    program.parser = read_parser(parsers[0], program, exprs)


def _deparser(root: Node, program: Program, exprs: ExprReader) -> None:
    deparsers = root.get("deparsers", []).elements()
    if len(deparsers) != 1:
        root.fail(f"expected one deparser in 'deparsers', got {len(deparsers)}")
    item = deparsers[0]
    item.keys("name id order", "source_info primitives")
    program.deparser = tuple(exprs.header(entry) for entry in item["order"].elements())
    for name in program.deparser:
        if program.headers[name].metadata or program.headers[name].local:
            item["order"].fail(f"{name!r} is metadata and can't be sent")
    program.deparser_primitives = tuple(exprs.primitive(p, 0) for p in item.get("primitives", []).elements())


def _check_bindings(root: Node, program: Program) -> None:
    bindings = [("counter_arrays", c.name, c.direct_table) for c in program.counters.values()]
    bindings += [("meter_arrays", m.name, m.direct_table) for m in program.meters.values()]
    for kind, name, bound in bindings:
        if bound is not None and bound not in program.tables:
            root[kind].fail(f"{name!r} is bound to an unknown table {bound!r}")


def _checksums(root: Node, program: Program, exprs: ExprReader) -> None:
    checksums: list[Checksum] = []
    for item in root.get("checksums", []).elements():
        item.keys("name id target type calculation", "if_cond update verify source_info")
        if item["type"].string() != "generic":
            item["type"].fail(f"checksum type {item['type'].string()!r} is not supported")
        name = item["calculation"].string()
        if name not in program.calculations:
            item["calculation"].fail(f"there is no calculation {name!r}")
        condition: Expr | None = exprs.expr(item["if_cond"]) if item.has("if_cond") else None
        checksums.append(
            Checksum(
                exprs.field(item["target"]),
                name,
                condition,
                item.get("update", True).boolean(),
                item.get("verify", True).boolean(),
                item.path,
            )
        )
    program.checksums = tuple(checksums)


def _required_fields(root: Node, program: Program) -> None:
    for name in ("ingress_port", "packet_length", "instance_type", "egress_spec", "egress_port"):
        if program.standard(f"standard_metadata.{name}") is None:
            root.fail(f"the field standard_metadata.{name} is missing, v1model needs it")
