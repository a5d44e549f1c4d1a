# SPDX-License-Identifier: Apache-2.0
"""Reads the header unions of a BMv2 JSON and the stacks of them."""

from __future__ import annotations

from target.bmjson.model import HeaderType, Program, Union, UnionStack, UnionType
from target.bmjson.node import Node


def read_unions(root: Node, program: Program, types: dict[str, HeaderType], ids: dict[int, str]) -> None:
    """`types`: header types by name; `ids`: names of headers by their id in the JSON."""
    union_types: dict[str, UnionType] = {}
    for item in root.get("header_union_types", []).elements():
        item.keys("name id headers", "source_info")
        members: dict[str, HeaderType] = {}
        for entry in item["headers"].elements():
            name, type_name = entry.elements(2)
            if name.string() in members:
                name.fail(f"the member {name.string()!r} is already taken")
            if type_name.string() not in types:
                type_name.fail(f"there is no header type {type_name.string()!r}")
            members[name.string()] = types[type_name.string()]
        if not members:
            item.fail("a union needs one header at least")
        kind = item["name"].string()
        if kind in union_types:
            item.fail(f"the name {kind!r} is already taken")
        union_types[kind] = UnionType(kind, tuple(members.items()))
    union_ids: dict[int, str] = {}
    for item in root.get("header_unions", []).elements():
        _union(item, program, _type(item, union_types), ids, union_ids)
    for item in root.get("header_union_stacks", []).elements():
        _stack(item, program, _type(item, union_types), union_ids)


def _type(item: Node, union_types: dict[str, UnionType]) -> UnionType:
    name = item["union_type"].string()
    if name not in union_types:
        item["union_type"].fail(f"there is no header union type {name!r}")
    return union_types[name]


def _union(
    item: Node, program: Program, kind: UnionType, ids: dict[int, str], union_ids: dict[int, str]
) -> None:
    item.keys("name id union_type header_ids", "source_info pi_omit")
    taken = {name for union in program.unions.values() for name in union.headers}
    headers: list[str] = []
    for entry, (member, header_type) in zip(
        item["header_ids"].elements(len(kind.members)), kind.members, strict=True
    ):
        if entry.integer() not in ids:
            entry.fail(f"there is no header with id {entry.integer()}")
        name = ids[entry.integer()]
        if program.headers[name].type is not header_type:
            entry.fail(f"header {name!r} has another type than the member {member!r}")
        if program.headers[name].metadata or program.headers[name].local:
            entry.fail(f"{name!r} is metadata and can't be in a union")
        if name in taken or name in headers:
            entry.fail(f"header {name!r} is in a union already")
        headers.append(name)
    name = item["name"].string()
    if name in program.unions or name in program.headers:
        item.fail(f"the name {name!r} is already taken")
    number = item["id"].integer()
    if number in union_ids:
        item["id"].fail(f"the id {number} is already taken")
    union_ids[number] = name
    program.unions[name] = Union(name, kind, tuple(headers))


def _stack(item: Node, program: Program, kind: UnionType, union_ids: dict[int, str]) -> None:
    item.keys("name id union_type header_union_ids", "size source_info pi_omit")
    unions: list[str] = []
    for entry in item["header_union_ids"].elements():
        if entry.integer() not in union_ids:
            entry.fail(f"there is no header union with id {entry.integer()}")
        name = union_ids[entry.integer()]
        if program.unions[name].type is not kind:
            entry.fail(f"header union {name!r} has another type than the stack")
        unions.append(name)
    if not unions:
        item.fail("a stack needs one element at least")
    name = item["name"].string()
    if name in program.union_stacks or name in program.stacks:
        item.fail(f"the name {name!r} is already taken")
    program.union_stacks[name] = UnionStack(name, kind, tuple(unions))
