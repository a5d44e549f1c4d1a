# SPDX-License-Identifier: Apache-2.0
"""The control side of a parser value set: checks members, packs them, replaces them all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from target.api import DeviceError, InRange, Masked, SetMember
from target.bmjson.model import ValueSet
from target.codegen.control import TableLayout
from target.tables import number_words, put_part

if TYPE_CHECKING:
    from target.engine import Engine


def check_members(vset: ValueSet, members: Sequence[SetMember]) -> list[SetMember]:
    """The members, each once, in order. INVALID_ARGUMENT or RESOURCE_EXHAUSTED for what can't be one."""
    what = f"value set {vset.name!r}"
    if len(members) > vset.size:
        raise DeviceError("RESOURCE_EXHAUSTED", f"{what} takes {vset.size} members, got {len(members)}")
    for member in members if vset.widths else ():
        if len(member) != len(vset.widths):
            raise DeviceError(
                "INVALID_ARGUMENT", f"{what} has {len(vset.widths)} fields, a member has {len(member)}"
            )
        for number, (field, width) in enumerate(zip(member, vset.widths, strict=True)):
            _check_field(f"{what}, field {number + 1}", field, width)
    return list(dict.fromkeys(members))


def _check_field(where: str, field: Masked | InRange, width: int) -> None:
    numbers = (field.value, field.mask) if isinstance(field, Masked) else (field.low, field.high)
    if any(n < 0 or n >> width for n in numbers):
        raise DeviceError("INVALID_ARGUMENT", f"{where}: a number does not fit {width} bits")
    if isinstance(field, Masked) and field.value & ~field.mask:
        raise DeviceError("INVALID_ARGUMENT", f"{where}: {field.value:#x} has bits outside its mask")
    if isinstance(field, InRange) and field.low > field.high:
        raise DeviceError("INVALID_ARGUMENT", f"{where}: {field.low:#x}..{field.high:#x} is no range")


class ValueSetControl:
    """Members of one value set of a loaded program."""

    def __init__(self, engine: Engine, pipeline: Any, vset: ValueSet, layout: TableLayout | None) -> None:
        """`layout` None: no transition uses the set."""
        self._engine = engine
        self._pipeline = pipeline
        self._vset = vset
        self._layout = layout
        self._members: list[SetMember] = []

    def members(self) -> list[SetMember]:
        return list(self._members)

    def replace(self, members: Sequence[SetMember]) -> None:
        wanted = check_members(self._vset, members)
        if self._layout is not None:
            self._install(wanted, self._layout)
        self._members = wanted

    def _install(self, wanted: list[SetMember], layout: TableLayout) -> None:
        from target.pipeline import check

        keys: list[int] = []
        masks: list[int] = []
        ranges: list[int] = []
        for member in wanted:
            key, mask = [0] * layout.words, [0] * layout.words
            for field, part in zip(member, layout.parts, strict=True):
                bounds = (0, (1 << part.width) - 1)
                if isinstance(field, Masked):
                    put_part(key, part, field.value)
                    put_part(mask, part, field.mask)
                else:
                    bounds = (field.low, field.high)
                ranges += [word for bound in bounds for word in number_words(bound, part.width)]
            keys += key
            masks += mask
        ffi = self._engine.ffi
        arrays = [ffi.new("uint64_t[]", words or [0]) for words in (keys, masks, ranges)]
        status = self._engine.lib.sw_table_replace(self._pipeline, layout.index, len(wanted), *arrays)
        check(self._engine, status, f"value set {self._vset.name!r}")
