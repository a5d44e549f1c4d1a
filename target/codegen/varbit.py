# SPDX-License-Identifier: Apache-2.0
"""Fields of variable length: where they are, and the statements that move their headers.

The field's bytes follow one another in the header's room, which has place for the longest; `length` says how
many there are. See sw_varbit.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from target.bmjson.model import FieldRef, HeaderType
from target.bmjson.node import JsonError


@dataclass(frozen=True, slots=True)
class VarField:
    """The varbit field of a header type."""

    name: str
    before: int
    """Bits in front of it."""
    room: int
    """Bytes at most."""
    size: int
    """Bytes of the other fields."""


def var_field(header_type: HeaderType) -> VarField | None:
    index = header_type.varbit
    if index is None:
        return None
    before = sum(f.width for f in header_type.fields[:index])
    field = header_type.fields[index]
    return VarField(field.name, before, field.width // 8, header_type.width // 8)


def refuse_varbit(ref: FieldRef, header_type: HeaderType, place: str) -> None:
    """Raise JsonError where a field of variable length can't stand."""
    index = header_type.varbit
    if index is not None and header_type.fields[index].name == ref.field:
        raise JsonError(f"{place}: the varbit field {ref.header}.{ref.field} can't be used here")
