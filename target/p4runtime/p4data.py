# SPDX-License-Identifier: Apache-2.0
"""`P4Data` for the types that one integer can hold: `bit<W>`, `int<W>`, `bool`, and names of these.

The engine keeps an element as an unsigned integer of the element's width; signed values are two's complement
in it (P4Runtime specification 1.5, "Representation of Arbitrary P4 Types").
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from finsy.proto import p4d, p4t

from target.p4runtime import bytestrings
from target.p4runtime.status import invalid_argument


class ScalarKind(enum.Enum):
    BIT = "bit"
    INT = "int"
    BOOL = "bool"
    ENUM = "serializable enum"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type that fits one integer. `members` maps a serializable enum's names to values."""

    kind: ScalarKind
    bitwidth: int
    members: tuple[tuple[str, int], ...] = ()

    def decode(self, data: p4d.P4Data, what: str) -> int:
        """The element as the engine keeps it. Raises INVALID_ARGUMENT or OUT_OF_RANGE, naming `what`."""
        given = data.WhichOneof("data")
        match self.kind:
            case ScalarKind.BOOL if given == "bool":
                return int(data.bool)
            case ScalarKind.BIT if given == "bitstring":
                return bytestrings.decode(data.bitstring, self.bitwidth, what)
            case ScalarKind.INT if given == "bitstring":
                value = bytestrings.decode_signed(data.bitstring, self.bitwidth, what)
                return value & ((1 << self.bitwidth) - 1)
            case ScalarKind.ENUM if given == "enum_value":
                return bytestrings.decode(data.enum_value, self.bitwidth, what)
            case ScalarKind.ENUM if given == "enum":
                for name, value in self.members:
                    if name == data.enum:
                        return value
                raise invalid_argument(f"{what}: {data.enum!r} is no member of the enum")
        wanted = {ScalarKind.BOOL: "bool", ScalarKind.ENUM: "enum_value"}.get(self.kind, "bitstring")
        raise invalid_argument(f"{what}: data is {given or 'unset'}, the register's type wants {wanted}")

    def encode(self, value: int) -> p4d.P4Data:
        match self.kind:
            case ScalarKind.BOOL:
                return p4d.P4Data(bool=bool(value))
            case ScalarKind.INT:
                sign = 1 << (self.bitwidth - 1)
                return p4d.P4Data(bitstring=bytestrings.encode_signed((value & (sign - 1)) - (value & sign)))
            case ScalarKind.ENUM:
                return p4d.P4Data(enum_value=bytestrings.encode(value))
            case ScalarKind.BIT:
                return p4d.P4Data(bitstring=bytestrings.encode(value))


def scalar_type(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> Scalar | None:
    """The scalar a type specification stands for, or None if it is none (struct, header, stack...)."""
    match spec.WhichOneof("type_spec"):
        case "bool":
            return Scalar(ScalarKind.BOOL, 1)
        case "bitstring":
            match spec.bitstring.WhichOneof("type_spec"):
                case "bit":
                    return Scalar(ScalarKind.BIT, spec.bitstring.bit.bitwidth)
                case "int":
                    return Scalar(ScalarKind.INT, spec.bitstring.int.bitwidth)
        case "serializable_enum":
            enum_spec = types.serializable_enums.get(spec.serializable_enum.name)
            if enum_spec is not None:
                return Scalar(
                    ScalarKind.ENUM,
                    enum_spec.underlying_type.bitwidth,
                    tuple((m.name, int.from_bytes(m.value, "big")) for m in enum_spec.members),
                )
        case "new_type":
            new_type = types.new_types.get(spec.new_type.name)
            if new_type is not None and new_type.WhichOneof("representation") == "original_type":
                return scalar_type(new_type.original_type, types)
            if new_type is not None and new_type.translated_type.WhichOneof("sdn_type") == "sdn_bitwidth":
                return Scalar(ScalarKind.BIT, new_type.translated_type.sdn_bitwidth)
    return None
