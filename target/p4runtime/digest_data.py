# SPDX-License-Identifier: Apache-2.0
"""Samples of a digest as `P4Data`: structs, tuples, headers and scalars, filled in the order of their leaves.

P4Runtime specification 1.5, "Representation of Arbitrary P4 Types".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from finsy.proto import p4d, p4t

from target.p4runtime import bytestrings
from target.p4runtime.p4data import scalar_type
from target.p4runtime.status import invalid_argument

Encoder = Callable[[Iterator[int]], p4d.P4Data]
"""Takes the values of its leaves."""


def encoder(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo, what: str) -> tuple[Encoder, int]:
    """The encoder of a type, and how many values it takes. Raises INVALID_ARGUMENT for other types."""
    scalar = scalar_type(spec, types)
    if scalar is not None:
        return lambda values: scalar.encode(next(values)), 1
    match spec.WhichOneof("type_spec"):
        case "struct" if spec.struct.name in types.structs:
            return _struct([m.type_spec for m in types.structs[spec.struct.name].members], types, what)
        case "tuple":
            return _tuple(list(spec.tuple.members), types, what)
        case "header" if spec.header.name in types.headers:
            return _header(types.headers[spec.header.name])
        case "enum" if spec.enum.name in types.enums:
            return _names([m.name for m in types.enums[spec.enum.name].members], "enum"), 1
        case "error":
            return _names(list(types.error.members), "error"), 1
        case "new_type" if spec.new_type.name in types.new_types:
            kind = types.new_types[spec.new_type.name]
            if kind.WhichOneof("representation") == "original_type":
                return encoder(kind.original_type, types, what)
            return lambda values: p4d.P4Data(bitstring=bytestrings.encode(next(values))), 1
    raise invalid_argument(f"P4Info: {what}: its type is not supported")


def _parts(specs: list[p4t.P4DataTypeSpec], types: p4t.P4TypeInfo, what: str) -> tuple[list[Encoder], int]:
    parts = [encoder(spec, types, what) for spec in specs]
    return [part for part, _ in parts], sum(count for _, count in parts)


def _struct(specs: list[p4t.P4DataTypeSpec], types: p4t.P4TypeInfo, what: str) -> tuple[Encoder, int]:
    parts, count = _parts(specs, types, what)

    def encode(values: Iterator[int]) -> p4d.P4Data:
        return p4d.P4Data(struct=p4d.P4StructLike(members=[part(values) for part in parts]))

    return encode, count


def _tuple(specs: list[p4t.P4DataTypeSpec], types: p4t.P4TypeInfo, what: str) -> tuple[Encoder, int]:
    parts, count = _parts(specs, types, what)

    def encode(values: Iterator[int]) -> p4d.P4Data:
        return p4d.P4Data(tuple=p4d.P4StructLike(members=[part(values) for part in parts]))

    return encode, count


def _header(spec: p4t.P4HeaderTypeSpec) -> tuple[Encoder, int]:
    count = len(spec.members)

    def encode(values: Iterator[int]) -> p4d.P4Data:
        strings = [bytestrings.encode(next(values)) for _ in range(count)]
        return p4d.P4Data(header=p4d.P4Header(is_valid=True, bitstrings=strings))

    return encode, count


def _names(names: list[str], kind: str) -> Encoder:
    def encode(values: Iterator[int]) -> p4d.P4Data:
        value = next(values)
        name = names[value] if value < len(names) else str(value)
        return p4d.P4Data(error=name) if kind == "error" else p4d.P4Data(enum=name)

    return encode
