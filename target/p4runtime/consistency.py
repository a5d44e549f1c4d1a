# SPDX-License-Identifier: Apache-2.0
"""Do P4Info and BMv2 JSON describe one and the same program?

They come from one compilation; files of two different builds load here and there and then fail at the first
write. So every object of P4Info is looked up in the JSON, by name and by shape, before anything is applied.

The JSON may hold more: hidden tables and actions have no control-plane name. It may hold less, too: P4Info
lists what the program declares, and the compiler leaves out of the JSON what is never used. An object that is
missing counts as left out if the JSON has nothing of its kind that P4Info does not know; else it has another
name there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from finsy.proto import p4i

from target.bmjson.model import Program
from target.bmjson.model import Table as JsonTable
from target.p4runtime.p4info import Action, MatchField, MatchKind, P4InfoIndex, Register, Table, Value
from target.p4runtime.status import P4Error, invalid_argument

_HIDDEN_TABLE = "tbl_"
"""How p4c names the tables that it makes itself."""


def check(p4info: p4i.P4Info, index: P4InfoIndex, program: Program) -> None:
    """Raises INVALID_ARGUMENT, naming the first object that is missing in the JSON or of another shape.

    Completes `index` with what P4Info does not say: objects that were left out, widths of types without one,
    optional fields that are ternary for the device.
    """
    visible = [name for name in program.tables if not name.startswith(_HIDDEN_TABLE)]
    _find(index, "table", index.tables, visible)
    for table in list(index.tables.values()):
        if table.id in index.removed:
            del index.tables[table.id]
        else:
            index.tables[table.id] = _check_table(table, program.tables[table.name], index, program)
    indirect = [c.name for c in program.counters.values() if c.direct_table is None]
    _find(index, "counter", index.counters, indirect)
    _find(index, "register", index.registers, program.registers)
    for counter_id in [i for i in index.counters if i in index.removed]:
        del index.counters[counter_id]
    for register_id in [i for i in index.registers if i in index.removed]:
        del index.registers[register_id]
    for counter in index.counters.values():
        _same("counter", counter.name, "size", counter.size, program.counters[counter.name].size)
    for register in index.registers.values():
        _check_register(register, program)
    _check_direct_counters(p4info, index, program)
    _find(index, "meter", [*index.meters, *index.direct_meters], program.meters)
    _check_meters(index, program)
    _check_value_sets(index, program)
    _check_digests(index, program)
    _find(index, "action profile", index.profiles, program.profiles)
    for profile_id in [i for i in index.profiles if i in index.removed]:
        del index.profiles[profile_id]
    for profile in index.profiles.values():
        in_json = program.profiles[profile.name]
        _same("action profile", profile.name, "size", profile.size, in_json.size)
        selector = in_json.calculation is not None
        _same("action profile", profile.name, "selector", profile.with_selector, selector)


def _check_value_sets(index: P4InfoIndex, program: Program) -> None:
    _find(index, "value set", index.value_sets, program.vsets)
    for set_id, vset in list(index.value_sets.items()):
        if set_id in index.removed:
            del index.value_sets[set_id]
            continue
        in_json = program.vsets[vset.name]
        _same("value set", vset.name, "size", vset.size, in_json.size)
        if not in_json.widths:
            # No transition uses the set.
            continue
        widths = in_json.widths
        _same("value set", vset.name, "number of fields", len(vset.fields), len(widths))
        for field, width in zip(vset.fields, widths, strict=True):
            _check_width("value set", f"{vset.name}, field {field.name}", field, width)
        fields = tuple(
            replace(f, bitwidth=f.bitwidth or (0 if f.string else width))
            for f, width in zip(vset.fields, widths, strict=True)
        )
        index.value_sets[set_id] = replace(vset, fields=fields)


def _find(index: P4InfoIndex, kind: str, ids: Iterable[int], in_json: Collection[str]) -> None:
    """Every object is in the JSON, or noted as left out of it."""
    names = {index.names[i]: i for i in ids}
    missing = [name for name in names if name not in in_json]
    unknown = [name for name in in_json if name not in names]
    if missing and unknown:
        raise invalid_argument(
            f"P4Info has {kind} {missing[0]!r}, the device config has not (but {unknown[0]!r}); "
            "compile both files together"
        )
    index.removed.update(names[name] for name in missing)


def _same(kind: str, name: str, what: str, in_p4info: object, in_json: object) -> None:
    if in_p4info != in_json:
        raise _differ(f"{kind} {name!r}", what, in_p4info, in_json)


def _differ(where: str, what: str, in_p4info: object, in_json: object) -> P4Error:
    return invalid_argument(
        f"{where}: {what} is {in_p4info!r} in P4Info but {in_json!r} in the device config; "
        "compile both files together"
    )


def _check_table(table: Table, json_table: JsonTable, index: P4InfoIndex, program: Program) -> Table:
    _same("table", table.name, "number of key fields", len(table.fields), len(json_table.key))
    fields: list[MatchField] = []
    for field, key in zip(table.fields, json_table.key, strict=True):
        where = f"{table.name}, key field {field.name}"
        _same("table", where, "match type", *_match_types(field, key.match))
        _check_width("table", where, field, key.width)
        fields.append(
            replace(
                field,
                bitwidth=field.bitwidth or (0 if field.string else key.width),
                as_ternary=field.kind is MatchKind.OPTIONAL and key.match == "ternary",
            )
        )
    in_json = {program.actions[i].name: program.actions[i] for i in json_table.action_ids}
    for action_id in table.actions:
        action = index.actions[action_id]
        json_action = in_json.get(action.name)
        if json_action is None:
            raise invalid_argument(
                f"table {table.name!r}: P4Info has action {action.name!r}, the device config has not; "
                "compile both files together"
            )
        index.actions[action_id] = _check_action(action, tuple(p.width for p in json_action.params))
        index.actions_by_name[action.name] = index.actions[action_id]
    _same("table", table.name, "direct counter", bool(table.direct_counter_id), json_table.counters)
    _same("table", table.name, "idle timeout", table.idle_timeout, json_table.timeout)
    direct_meter = index.names[table.direct_meter_id] if table.direct_meter_id else None
    _same("table", table.name, "direct meter", direct_meter, json_table.meter)
    in_p4info = index.names[table.implementation_id] if table.implementation_id else None
    _same("table", table.name, "action profile", in_p4info, json_table.profile)
    return replace(table, fields=tuple(fields))


def _match_types(field: MatchField, in_json: str) -> tuple[str, str]:
    # The JSON writes an exact match on a validity bit as "valid", and p4c writes an optional match as the
    # ternary match that it is.
    if in_json == "valid":
        in_json = "exact"
    if in_json == "ternary" and field.kind is MatchKind.OPTIONAL:
        in_json = "optional"
    return field.kind.value, in_json


def _check_width(kind: str, where: str, value: Value, width: int) -> None:
    if value.bitwidth and not value.translated:
        _same(kind, where, "bitwidth", value.bitwidth, width)


def _check_action(action: Action, widths: tuple[int, ...]) -> Action:
    _same("action", action.name, "number of parameters", len(action.params), len(widths))
    params: list[Value] = []
    for param, width in zip(action.params, widths, strict=True):
        _check_width("action", f"{action.name}, parameter {param.name}", param, width)
        params.append(replace(param, bitwidth=param.bitwidth or (0 if param.string else width)))
    return replace(action, params=tuple(params))


def _check_direct_counters(p4info: p4i.P4Info, index: P4InfoIndex, program: Program) -> None:
    for direct in p4info.direct_counters:
        if direct.direct_table_id in index.removed:
            index.removed.add(direct.preamble.id)
            continue
        json_counter = program.counters.get(direct.preamble.name)
        in_p4info = index.names.get(direct.direct_table_id, "none")
        in_json = None if json_counter is None else json_counter.direct_table
        _same("direct counter", direct.preamble.name, "table", in_p4info, in_json or "none")


def _check_digests(index: P4InfoIndex, program: Program) -> None:
    lists = {item.name: item for item in program.learn_lists.values()}
    # A digest of a type without a name is numbered in both files, by different names.
    unknown = [name for name in lists if all(d.name != name for d in index.digests.values())]
    missing = [digest for digest in index.digests.values() if digest.name not in lists]
    if len(unknown) == len(missing):
        for digest, name in zip(missing, unknown, strict=True):
            index.digests[digest.id] = replace(digest, name=name)
    else:
        _find(index, "digest", index.digests, lists)
    for digest_id in [i for i in index.digests if i in index.removed]:
        del index.digests[digest_id]
    for digest in index.digests.values():
        _same("digest", digest.name, "number of fields", digest.leaves, len(lists[digest.name].fields))


def _check_meters(index: P4InfoIndex, program: Program) -> None:
    for meters in (index.meters, index.direct_meters):
        for meter_id in [i for i in meters if i in index.removed]:
            del meters[meter_id]
        for meter in list(meters.values()):
            if meter.table_id in index.removed:
                index.removed.add(meter.id)
                del meters[meter.id]
                continue
            in_json = program.meters[meter.name]
            _same("meter", meter.name, "unit", meter.unit, in_json.type)
            _same("meter", meter.name, "size", meter.size, in_json.size)
            table = index.names.get(meter.table_id) if meter.table_id else None
            _same("meter", meter.name, "table", table, in_json.direct_table)


def _check_register(register: Register, program: Program) -> None:
    json_register = program.registers[register.name]
    _same("register", register.name, "size", register.size, json_register.size)
    if register.scalar is not None:
        _same("register", register.name, "bitwidth", register.scalar.bitwidth, json_register.width)
