# SPDX-License-Identifier: Apache-2.0
"""Do P4Info and BMv2 JSON describe one and the same program?

They come from one compilation; files of two different builds load here and there and then fail at the first
write. So every object of P4Info is looked up in the JSON, by name and by shape, before anything is applied.
The JSON may hold more: hidden tables and actions have no control-plane name.
"""

from __future__ import annotations

from dataclasses import replace

from finsy.proto import p4i

from target.bmjson.model import Program
from target.bmjson.model import Table as JsonTable
from target.p4runtime.p4info import Action, MatchField, MatchKind, P4InfoIndex, Register, Table
from target.p4runtime.status import P4Error, invalid_argument


def check(p4info: p4i.P4Info, index: P4InfoIndex, program: Program) -> None:
    """Raises INVALID_ARGUMENT, naming the first object that is missing in the JSON or of another shape.

    Notes in `index` what P4Info does not say: which optional fields are ternary for the device."""
    for table in list(index.tables.values()):
        json_table = program.tables.get(table.name)
        if json_table is None:
            raise _missing("table", table.name)
        _check_table(table, json_table, index, program)
        index.tables[table.id] = replace(
            table,
            fields=tuple(
                replace(f, as_ternary=f.kind is MatchKind.OPTIONAL and key.match == "ternary")
                for f, key in zip(table.fields, json_table.key, strict=True)
            ),
        )
    for counter in index.counters.values():
        json_counter = program.counters.get(counter.name)
        if json_counter is None or json_counter.direct_table is not None:
            raise _missing("counter", counter.name)
        _same("counter", counter.name, "size", counter.size, json_counter.size)
    for direct in p4info.direct_counters:
        json_counter = program.counters.get(direct.preamble.name)
        if json_counter is None or json_counter.direct_table is None:
            raise _missing("direct counter", direct.preamble.name)
        wanted = index.names.get(direct.direct_table_id, "?")
        _same("direct counter", direct.preamble.name, "table", wanted, json_counter.direct_table)
    for register in index.registers.values():
        _check_register(register, program)
    for name in [m.preamble.name for m in p4info.meters] + [m.preamble.name for m in p4info.direct_meters]:
        if name not in program.meters:
            raise _missing("meter", name)
    for value_set in p4info.value_sets:
        if value_set.preamble.name not in program.vsets:
            raise _missing("value set", value_set.preamble.name)
    profiles = {**program.ingress.profiles, **program.egress.profiles}
    for profile in p4info.action_profiles:
        if profile.preamble.name not in profiles:
            raise _missing("action profile", profile.preamble.name)


def _missing(kind: str, name: str) -> P4Error:
    return invalid_argument(
        f"P4Info has {kind} {name!r}, the device config has not; compile both files together"
    )


def _same(kind: str, name: str, what: str, in_p4info: object, in_json: object) -> None:
    if in_p4info != in_json:
        raise invalid_argument(
            f"{kind} {name!r}: {what} is {in_p4info!r} in P4Info but {in_json!r} in the device config; "
            "compile both files together"
        )


def _check_table(table: Table, json_table: JsonTable, index: P4InfoIndex, program: Program) -> None:
    _same("table", table.name, "number of key fields", len(table.fields), len(json_table.key))
    for field, key in zip(table.fields, json_table.key, strict=True):
        where = f"{table.name}, key field {field.name}"
        _same("table", where, "match type", *_match_types(field, key.match))
        if field.bitwidth and not field.translated:
            _same("table", where, "bitwidth", field.bitwidth, key.width)
    in_json = {program.actions[i].name: program.actions[i] for i in json_table.action_ids}
    for action_id in table.actions:
        action = index.actions[action_id]
        json_action = in_json.get(action.name)
        if json_action is None:
            raise invalid_argument(
                f"table {table.name!r}: P4Info has action {action.name!r}, the device config has not; "
                "compile both files together"
            )
        _check_action(action, tuple(p.width for p in json_action.params))
    _same("table", table.name, "direct counter", bool(table.direct_counter_id), json_table.counters)
    _same("table", table.name, "action profile", bool(table.implementation_id), bool(json_table.profile))


def _match_types(field: MatchField, in_json: str) -> tuple[str, str]:
    # The JSON writes an exact match on a validity bit as "valid", and p4c writes an optional match as the
    # ternary match that it is.
    if in_json == "valid":
        in_json = "exact"
    if in_json == "ternary" and field.kind is MatchKind.OPTIONAL:
        in_json = "optional"
    return field.kind.value, in_json


def _check_action(action: Action, widths: tuple[int, ...]) -> None:
    _same("action", action.name, "number of parameters", len(action.params), len(widths))
    for param, width in zip(action.params, widths, strict=True):
        if param.bitwidth and not param.translated:
            _same("action", f"{action.name}, parameter {param.name}", "bitwidth", param.bitwidth, width)


def _check_register(register: Register, program: Program) -> None:
    json_register = program.registers.get(register.name)
    if json_register is None:
        raise _missing("register", register.name)
    _same("register", register.name, "size", register.size, json_register.size)
    if register.scalar is not None:
        _same("register", register.name, "bitwidth", register.scalar.bitwidth, json_register.width)
