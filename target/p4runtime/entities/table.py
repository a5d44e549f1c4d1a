# SPDX-License-Identifier: Apache-2.0
"""`TableEntry` (P4Runtime specification 1.5, section of that name)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finsy.proto import p4r

from target.api import DeviceError, TableEntry, Target
from target.p4runtime.entities.base import Undo
from target.p4runtime.entities.direct import (
    check_idle_timeout,
    check_resources,
    read_resources,
    resources_of,
    restore,
    write_resources,
)
from target.p4runtime.entities.indirect import decode_target, encode_target
from target.p4runtime.match import Key, check_priority, decode_action, decode_key, encode_action, encode_key
from target.p4runtime.p4info import Table
from target.p4runtime.pipeline import EntryKey, EntryNotes, Pipeline
from target.p4runtime.status import invalid_argument, not_found, permission_denied, unimplemented


class TableEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.table_entry.table_id

    # --- write

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.table_entry
        table = pipeline.index.table(request.table_id)
        if request.is_const:
            raise invalid_argument(f"table {table.name!r}: is_const must be false in a write")
        if request.is_default_action:
            return _write_default(pipeline, table, operation, request)
        if not table.fields:
            raise invalid_argument(f"table {table.name!r} has no key: it has no entries but the default one")
        check_priority(table, request.priority)
        key = decode_key(table, request.match)
        if operation == p4r.Update.INSERT:
            return _insert(pipeline, table, request, (key, request.priority))
        current = _current(pipeline, table, (key, request.priority))
        if current.const or table.is_const:
            return _modify_const(pipeline, table, operation, request, (key, request.priority))
        if operation == p4r.Update.MODIFY:
            return _modify(pipeline, table, request, current)
        return _delete(pipeline, table, current)

    # --- read

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.table_entry
        if request.table_id == 0:
            if request.match or request.HasField("action"):
                raise invalid_argument("a read of all tables can't be filtered by match or action")
            tables = list(pipeline.index.tables.values())
        else:
            tables = [pipeline.index.table(request.table_id)]
            check_idle_timeout(tables[0], request)
        for table in tables:
            if request.is_default_action:
                yield from _read_default(pipeline, table, request)
            else:
                yield from _read_entries(pipeline, table, request)


def find_entry(pipeline: Pipeline, table: Table, request: p4r.TableEntry) -> TableEntry:
    """The entry that `match` and `priority` name. Raises NOT_FOUND or what the key is refused for."""
    check_priority(table, request.priority)
    return _current(pipeline, table, (decode_key(table, request.match), request.priority))


def direct_places(
    pipeline: Pipeline, tables: Iterable[Table], request: p4r.TableEntry
) -> Iterator[tuple[p4r.TableEntry, tuple[str, Key, int]]]:
    """The entries that a read of a direct resource asks for: how each is named in the answer, and to the
    device (table, key, priority).
    """
    for table in tables:
        if request.match:
            entries = [find_entry(pipeline, table, request)]
        else:
            found = pipeline.device.table_entries(table.name)
            entries = [e for e in found if request.priority in (0, e.priority)]
        for entry in entries:
            named = p4r.TableEntry(table_id=table.id, priority=entry.priority)
            encode_key(table, entry.key, named)
            yield named, (table.name, entry.key, entry.priority)


def _current(pipeline: Pipeline, table: Table, entry_key: EntryKey) -> TableEntry:
    try:
        return pipeline.device.table_entry(table.name, *entry_key)
    except DeviceError as error:
        if error.code == "NOT_FOUND":
            raise not_found(f"table {table.name!r} has no entry with this key") from None
        raise


def _notes(request: p4r.TableEntry, action_set: p4r.ActionProfileActionSet | None) -> EntryNotes:
    return EntryNotes(request.controller_metadata, request.metadata, action_set)


def _entry(
    pipeline: Pipeline, table: Table, request: p4r.TableEntry, entry_key: EntryKey, former: Target | None
) -> tuple[TableEntry, p4r.ActionProfileActionSet | None]:
    """The entry for the device, and the canonical form of its action set. `former`: what it led to."""
    key, priority = entry_key
    if table.implementation_id:
        target, action_set = decode_target(pipeline, table, request.action, former)
        return TableEntry(key, "", (), priority=priority, target=target), action_set
    action, args = _action(pipeline, table, request)
    return TableEntry(key, action, args, priority=priority), None


def _action(pipeline: Pipeline, table: Table, request: p4r.TableEntry) -> tuple[str, tuple[int, ...]]:
    given = request.action.WhichOneof("type")
    if given != "action":
        raise invalid_argument(f"table {table.name!r} is direct: give an action, not {given or 'none'}")
    return decode_action(pipeline.index, table, request.action.action, default=request.is_default_action)


def _insert(pipeline: Pipeline, table: Table, request: p4r.TableEntry, entry_key: EntryKey) -> Undo:
    if table.is_const:
        raise permission_denied(f"table {table.name!r} is constant: no entry can be inserted")
    check_resources(pipeline, table, request)
    key, priority = entry_key
    entry, action_set = _entry(pipeline, table, request, entry_key, None)
    pipeline.device.table_insert(table.name, entry)
    pipeline.set_notes(table.id, entry_key, _notes(request, action_set))

    def undo() -> None:
        pipeline.device.table_delete(table.name, key, priority)
        pipeline.set_notes(table.id, entry_key, EntryNotes())

    try:
        write_resources(pipeline, table, request, entry_key, True)
    except DeviceError:
        undo()
        raise
    return undo


def _modify(pipeline: Pipeline, table: Table, request: p4r.TableEntry, current: TableEntry) -> Undo:
    check_resources(pipeline, table, request)
    entry_key = (current.key, current.priority)
    notes = pipeline.get_notes(table.id, entry_key)
    action_set = notes.action_set
    if request.HasField("action"):
        new, action_set = _entry(pipeline, table, request, entry_key, current.target)
        pipeline.device.table_modify(table.name, new)
    try:
        undo_resources = write_resources(pipeline, table, request, entry_key, False)
    except DeviceError:
        if request.HasField("action"):
            pipeline.device.table_modify(table.name, current)
        raise
    pipeline.set_notes(table.id, entry_key, _notes(request, action_set))

    def undo() -> None:
        if request.HasField("action"):
            pipeline.device.table_modify(table.name, current)
        undo_resources()
        pipeline.set_notes(table.id, entry_key, notes)

    return undo


def _modify_const(
    pipeline: Pipeline,
    table: Table,
    operation: p4r.Update.Type.ValueType,
    request: p4r.TableEntry,
    entry_key: EntryKey,
) -> Undo:
    """An immutable entry: only its direct resources can be written."""
    if operation != p4r.Update.MODIFY:
        raise permission_denied(f"table {table.name!r}: the entry is constant, it can't be deleted")
    if request.HasField("action"):
        raise permission_denied(f"table {table.name!r}: the entry is constant, leave the action unset")
    if request.idle_timeout_ns:
        raise invalid_argument(f"table {table.name!r}: the entry is constant, it has no idle timeout")
    check_resources(pipeline, table, request)
    return write_resources(pipeline, table, request, entry_key, False)


def _delete(pipeline: Pipeline, table: Table, current: TableEntry) -> Undo:
    entry_key = (current.key, current.priority)
    notes = pipeline.get_notes(table.id, entry_key)
    resources = resources_of(pipeline, table, entry_key)
    pipeline.device.table_delete(table.name, *entry_key)
    pipeline.set_notes(table.id, entry_key, EntryNotes())

    def undo() -> None:
        pipeline.device.table_insert(table.name, current)
        restore(pipeline, table, entry_key, resources)
        pipeline.set_notes(table.id, entry_key, notes)

    return undo


def _check_default_key(table: Table, request: p4r.TableEntry) -> None:
    if request.match:
        raise invalid_argument(f"table {table.name!r}: the default entry has no match, it must be empty")
    if request.priority:
        raise invalid_argument(f"table {table.name!r}: the default entry's priority must be 0")


def _write_default(
    pipeline: Pipeline, table: Table, operation: p4r.Update.Type.ValueType, request: p4r.TableEntry
) -> Undo:
    _check_default_key(table, request)
    if operation != p4r.Update.MODIFY:
        raise invalid_argument(
            f"table {table.name!r}: the default entry always exists, "
            f"{p4r.Update.Type.Name(operation)} is not allowed, use MODIFY"
        )
    if request.idle_timeout_ns or request.HasField("time_since_last_hit"):
        raise invalid_argument(f"table {table.name!r}: the default entry has no idle timeout")
    if table.const_default_action_id or table.implementation_id:
        raise permission_denied(f"table {table.name!r}: the default action is constant")
    for name, there in (
        ("counter_data", table.direct_counter_id),
        ("meter_config", table.direct_meter_id),
        ("meter_counter_data", table.direct_meter_id),
    ):
        if there and request.HasField(name):  # type: ignore[arg-type]
            raise unimplemented(f"table {table.name!r}: misses don't count, the default entry has no {name}")
    check_resources(pipeline, table, request)
    before = pipeline.device.table_default(table.name)
    notes = pipeline.get_notes(table.id, None)
    was_set = table.id in pipeline.defaults_set
    if request.HasField("action"):
        action, args = _action(pipeline, table, request)
        pipeline.device.table_set_default(table.name, action, args)
        pipeline.set_notes(table.id, None, _notes(request, None))
        pipeline.defaults_set.add(table.id)
    else:
        pipeline.device.table_set_default(table.name, None)
        pipeline.set_notes(table.id, None, EntryNotes())
        pipeline.defaults_set.discard(table.id)

    def undo() -> None:
        pipeline.set_notes(table.id, None, notes)
        if was_set and before is not None:
            pipeline.device.table_set_default(table.name, *before)
            pipeline.defaults_set.add(table.id)
        else:
            pipeline.device.table_set_default(table.name, None)
            pipeline.defaults_set.discard(table.id)

    return undo


def _read_default(pipeline: Pipeline, table: Table, request: p4r.TableEntry) -> Iterator[p4r.Entity]:
    _check_default_key(table, request)
    out = p4r.Entity()
    entry = out.table_entry
    entry.table_id = table.id
    entry.is_default_action = True
    default = pipeline.device.table_default(table.name)
    if default is None and table.implementation_id and table.const_default_action_id:
        # The device config has none for it: a miss does nothing.
        entry.action.action.action_id = table.const_default_action_id
    if default is not None and not encode_action(pipeline.index, *default, entry.action.action):
        entry.ClearField("action")
    if not _passes(pipeline, table, request, entry, None):
        return
    if request.HasField("counter_data") and table.direct_counter_id:
        # A miss has no entry, so it has no counter either: always zero, as on BMv2.
        entry.counter_data.SetInParent()
    yield out


def _read_entries(pipeline: Pipeline, table: Table, request: p4r.TableEntry) -> Iterator[p4r.Entity]:
    if not table.fields:
        return
    entries: list[TableEntry]
    if request.match:
        key = decode_key(table, request.match)
        if request.priority or not table.needs_priority:
            try:
                entries = [pipeline.device.table_entry(table.name, key, request.priority)]
            except DeviceError as error:
                if error.code != "NOT_FOUND":
                    raise
                return
        else:
            entries = [e for e in pipeline.device.table_entries(table.name) if e.key == key]
    else:
        entries = pipeline.device.table_entries(table.name)
    for current in entries:
        if request.priority and current.priority != request.priority:
            continue
        out = p4r.Entity()
        entry = out.table_entry
        entry.table_id = table.id
        encode_key(table, current.key, entry)
        entry.priority = current.priority
        entry.is_const = current.const
        entry_key = (current.key, current.priority)
        if current.target is not None:
            encode_target(current.target, pipeline.get_notes(table.id, entry_key), entry.action)
        elif not encode_action(pipeline.index, current.action, current.args, entry.action.action):
            entry.ClearField("action")
        if not _passes(pipeline, table, request, entry, entry_key):
            continue
        read_resources(pipeline, table, request, entry_key, entry)
        yield out


def _passes(
    pipeline: Pipeline,
    table: Table,
    request: p4r.TableEntry,
    entry: p4r.TableEntry,
    entry_key: EntryKey | None,
) -> bool:
    """Fill in the controller's notes, and whether the entry passes the request's other filters."""
    notes = pipeline.get_notes(table.id, entry_key)
    entry.controller_metadata = notes.controller_metadata
    entry.metadata = notes.metadata
    if request.HasField("action"):
        # By action alone: members, groups and action sets are no filter (clients send them nevertheless).
        wanted = request.action.action.action_id
        if wanted and wanted not in pipeline.index.actions:
            raise pipeline.index.no_such("action", wanted)
        if wanted and entry.action.action.action_id != wanted:
            return False
    if request.controller_metadata and request.controller_metadata != notes.controller_metadata:
        return False
    return not request.metadata or request.metadata == notes.metadata
