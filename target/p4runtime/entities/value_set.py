# SPDX-License-Identifier: Apache-2.0
"""`ValueSetEntry`: a set is written as a whole (P4Runtime specification 1.5, section of that name)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.api import FieldMatch, InRange, Masked, SetMember
from target.p4runtime.entities.base import Undo, only_modify
from target.p4runtime.match import Key, decode_fields, encode_fields
from target.p4runtime.p4info import MatchKind, ValueSet
from target.p4runtime.pipeline import Pipeline


class ValueSetEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.value_set_entry.value_set_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        vset = _value_set(pipeline, entity.value_set_entry.value_set_id)
        only_modify(operation, vset.what)
        members = [
            _member(vset, decode_fields(vset.what, vset.fields, member.match))
            for member in entity.value_set_entry.members
        ]
        before = pipeline.device.value_set_members(vset.name)
        pipeline.device.value_set_replace(vset.name, members)
        return lambda: pipeline.device.value_set_replace(vset.name, before)

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        wanted = entity.value_set_entry.value_set_id
        sets = [_value_set(pipeline, wanted)] if wanted else list(pipeline.index.value_sets.values())
        for vset in sets:
            entry = p4r.ValueSetEntry(value_set_id=vset.id)
            for member in pipeline.device.value_set_members(vset.name):
                encode_fields(vset.fields, _key(vset, member), entry.members.add().match)
            yield p4r.Entity(value_set_entry=entry)


def _value_set(pipeline: Pipeline, set_id: int) -> ValueSet:
    found = pipeline.index.value_sets.get(set_id)
    if found is None:
        raise pipeline.index.no_such("value set", set_id)
    return found


def _member(vset: ValueSet, key: Key) -> SetMember:
    """A key as values under masks, and ranges."""
    member: list[Masked | InRange] = []
    for field, match in zip(vset.fields, key, strict=True):
        ones = (1 << field.bitwidth) - 1
        if field.kind is MatchKind.RANGE:
            member.append(InRange(*match))
        elif not match:
            member.append(Masked(0, 0))
        elif field.kind is MatchKind.LPM:
            member.append(Masked(match[0], ones ^ (ones >> match[1])))
        else:
            member.append(Masked(match[0], match[1] if field.kind is MatchKind.TERNARY else ones))
    return tuple(member)


def _key(vset: ValueSet, member: SetMember) -> Key:
    key: list[FieldMatch] = []
    for field, part in zip(vset.fields, member, strict=True):
        if isinstance(part, InRange):
            key.append((part.low, part.high))
        elif field.kind is MatchKind.LPM:
            key.append((part.value, part.mask.bit_count()))
        elif field.kind is MatchKind.TERNARY:
            key.append((part.value, part.mask))
        else:
            key.append((part.value,) if part.mask else ())
    return tuple(key)
