# SPDX-License-Identifier: Apache-2.0
"""Match keys and actions between P4Runtime messages and the engine's integers.

Rules: P4Runtime specification 1.5, "Match Format" and "Action Specification".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from finsy.proto import p4r

from target.api import FieldMatch
from target.p4runtime import bytestrings
from target.p4runtime.p4info import (
    Action,
    ActionProfile,
    MatchField,
    MatchKind,
    P4InfoIndex,
    Scope,
    Table,
    Value,
)
from target.p4runtime.status import invalid_argument, permission_denied, unimplemented

Key = tuple[FieldMatch, ...]


class MatchList(Protocol):
    """A message's repeated field of `FieldMatch`."""

    def add(self, *, field_id: int) -> p4r.FieldMatch: ...


def decode_value(value: Value, data: bytes, what: str) -> int:
    """One value as an integer. UNIMPLEMENTED for a translated string: no number is defined for it."""
    if value.string:
        raise unimplemented(f"{what}: translation of SDN strings is not supported")
    return bytestrings.decode(data, value.bitwidth, what)


def decode_key(table: Table, match: Iterable[p4r.FieldMatch]) -> Key:
    """The key of an entry, fields that were left out as "don't care".

    Raises INVALID_ARGUMENT or OUT_OF_RANGE, naming the field.
    """
    return decode_fields(table.what, table.fields, match)


def decode_fields(owner: str, fields: Iterable[MatchField], match: Iterable[p4r.FieldMatch]) -> Key:
    """The same for whatever has match fields; `owner` names it in messages."""
    given: dict[int, p4r.FieldMatch] = {}
    for field_match in match:
        if field_match.field_id in given:
            raise invalid_argument(f"{owner}: match field {field_match.field_id} is given twice")
        given[field_match.field_id] = field_match
    key: list[FieldMatch] = []
    for field in fields:
        item = given.pop(field.id, None)
        what = f"{owner}, match field {field.name!r}" if field.name else f"{owner}, match field {field.id}"
        key.append(_dont_care(field, what) if item is None else _decode_field(field, item, what))
    if given:
        unknown = ", ".join(str(i) for i in sorted(given))
        raise invalid_argument(f"{owner} has no match field with id {unknown}")
    return tuple(key)


def _dont_care(field: MatchField, what: str) -> FieldMatch:
    match field.kind:
        case MatchKind.EXACT:
            raise invalid_argument(f"{what} is missing; an exact field can't be left out")
        case MatchKind.RANGE:
            return (0, (1 << field.bitwidth) - 1)
        case MatchKind.OPTIONAL if not field.as_ternary:
            return ()
        case _:
            return (0, 0)


def _decode_field(field: MatchField, item: p4r.FieldMatch, what: str) -> FieldMatch:
    given = item.WhichOneof("field_match_type")
    if given != field.kind.value:
        raise invalid_argument(f"{what} is {field.kind.value}, the request gives {given or 'no match'}")
    match field.kind:
        case MatchKind.EXACT:
            return (decode_value(field, item.exact.value, what),)
        case MatchKind.OPTIONAL:
            value = decode_value(field, item.optional.value, what)
            return (value, (1 << field.bitwidth) - 1) if field.as_ternary else (value,)
        case MatchKind.LPM:
            return _decode_lpm(field, item.lpm, what)
        case MatchKind.TERNARY:
            value = decode_value(field, item.ternary.value, what)
            mask = decode_value(field, item.ternary.mask, f"{what}, mask")
            if mask == 0:
                raise invalid_argument(f"{what}: mask is 0; leave the field out for don't care")
            if value & ~mask:
                raise invalid_argument(f"{what}: value {value:#x} has bits outside mask {mask:#x}")
            return (value, mask)
        case MatchKind.RANGE:
            low = decode_value(field, item.range.low, f"{what}, low")
            high = decode_value(field, item.range.high, f"{what}, high")
            if low > high:
                raise invalid_argument(f"{what}: low {low:#x} is above high {high:#x}")
            if low == 0 and high == (1 << field.bitwidth) - 1:
                raise invalid_argument(f"{what}: the range is everything; leave the field out for don't care")
            return (low, high)


def _decode_lpm(field: MatchField, lpm: p4r.FieldMatch.LPM, what: str) -> FieldMatch:
    value = decode_value(field, lpm.value, what)
    if lpm.prefix_len == 0:
        raise invalid_argument(f"{what}: prefix length is 0; leave the field out for don't care")
    if not 0 < lpm.prefix_len <= field.bitwidth:
        raise invalid_argument(f"{what}: prefix length {lpm.prefix_len} is outside 1..{field.bitwidth}")
    if value & ((1 << (field.bitwidth - lpm.prefix_len)) - 1):
        raise invalid_argument(f"{what}: value {value:#x} has bits beyond prefix length {lpm.prefix_len}")
    return (value, lpm.prefix_len)


def encode_key(table: Table, key: Key, out: p4r.TableEntry) -> None:
    """Append the key's fields to `out.match`, canonical, without the don't-care ones."""
    encode_fields(table.fields, key, out.match)


def encode_fields(fields: Iterable[MatchField], key: Key, out: MatchList) -> None:
    for field, item in zip(fields, key, strict=True):
        match field.kind:
            case MatchKind.EXACT:
                out.add(field_id=field.id).exact.value = bytestrings.encode(item[0])
            case MatchKind.OPTIONAL if item[1] if field.as_ternary else item:
                out.add(field_id=field.id).optional.value = bytestrings.encode(item[0])
            case MatchKind.LPM if item[1]:
                lpm = out.add(field_id=field.id).lpm
                lpm.value = bytestrings.encode(item[0])
                lpm.prefix_len = item[1]
            case MatchKind.TERNARY if item[1]:
                ternary = out.add(field_id=field.id).ternary
                ternary.value = bytestrings.encode(item[0])
                ternary.mask = bytestrings.encode(item[1])
            case MatchKind.RANGE if item != (0, (1 << field.bitwidth) - 1):
                bounds = out.add(field_id=field.id).range
                bounds.low = bytestrings.encode(item[0])
                bounds.high = bytestrings.encode(item[1])


def check_priority(table: Table, priority: int) -> None:
    """A priority must be there exactly where the key needs one. Raises INVALID_ARGUMENT."""
    if table.needs_priority and priority <= 0:
        raise invalid_argument(
            f"table {table.name!r} has a ternary, range or optional field: priority must be positive, "
            f"it is {priority}"
        )
    if not table.needs_priority and priority != 0:
        raise invalid_argument(
            f"table {table.name!r} has no ternary, range or optional field: priority must be 0, "
            f"it is {priority}"
        )


def decode_action(
    index: P4InfoIndex, owner: Table | ActionProfile, action: p4r.Action, *, default: bool
) -> tuple[str, tuple[int, ...]]:
    """The action's full name and its arguments in the order of its parameters.

    Raises INVALID_ARGUMENT (no such action in this table, arguments), OUT_OF_RANGE (a value too wide), or
    PERMISSION_DENIED (the action's scope forbids it here).
    """
    scope = owner.actions.get(action.action_id)
    known = index.actions.get(action.action_id)
    if known is None:
        raise index.no_such("action", action.action_id)
    if scope is None:
        raise invalid_argument(f"{owner.what} has no action {known.name!r}")
    allowed = (Scope.TABLE_AND_DEFAULT, Scope.DEFAULT_ONLY if default else Scope.TABLE_ONLY)
    if scope not in allowed:
        raise permission_denied(
            f"action {known.name!r} of {owner.what} is {scope.value}; "
            f"it can't be {'the default action' if default else 'in an entry'}"
        )
    return known.name, _decode_params(known, action)


def _decode_params(known: Action, action: p4r.Action) -> tuple[int, ...]:
    given: dict[int, bytes] = {}
    for param in action.params:
        if param.param_id in given:
            raise invalid_argument(f"action {known.name!r}: parameter {param.param_id} is given twice")
        given[param.param_id] = param.value
    args: list[int] = []
    for param_info in known.params:
        what = f"action {known.name!r}, parameter {param_info.name!r}"
        data = given.pop(param_info.id, None)
        if data is None:
            raise invalid_argument(f"{what} is missing")
        args.append(decode_value(param_info, data, what))
    if given:
        unknown = ", ".join(str(i) for i in sorted(given))
        raise invalid_argument(f"action {known.name!r} has no parameter with id {unknown}")
    return tuple(args)


def encode_action(index: P4InfoIndex, name: str, args: tuple[int, ...], out: p4r.Action) -> bool:
    """Fill `out`; False if the action is not in P4Info (hidden from the control plane)."""
    known = index.actions_by_name.get(name)
    if known is None or len(known.params) != len(args):
        return False
    out.action_id = known.id
    for param, value in zip(known.params, args, strict=True):
        out.params.add(param_id=param.id, value=bytestrings.encode(value))
    return True
