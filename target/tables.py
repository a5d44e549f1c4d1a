# SPDX-License-Identifier: Apache-2.0
"""The control side of one table: checks entries, packs keys and arguments, remembers entries in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from target import native
from target.api import DeviceError, FieldMatch, MeterConfig, MeterState, TableEntry
from target.bmjson import JsonError, Program
from target.bmjson.model import Action, KeyField, Table
from target.codegen.bounds import limbs
from target.codegen.control import KeyPart, TableLayout, arg_words
from target.meters import check_config, check_marked, native_config, native_view, state_of
from target.profiles import Held, ProfileControl, check_arguments

if TYPE_CHECKING:
    from target.engine import Engine

_WORD = (1 << 64) - 1

_Identity: TypeAlias = tuple[tuple[FieldMatch, ...], int]


def _invalid(message: str) -> DeviceError:
    return DeviceError("INVALID_ARGUMENT", message)


class TableControl:
    """Entries of one table of a loaded program."""

    def __init__(
        self,
        engine: Engine,
        pipeline: Any,
        table: Table,
        program: Program,
        layout: TableLayout,
        profile: ProfileControl | None = None,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        """`numbers`: of the actions within the profile."""
        self._engine = engine
        self._ffi, self._lib, self._pipeline = engine.ffi, engine.lib, pipeline
        self.table = table
        self.layout = layout
        self.profile = profile
        self._numbers = numbers or {}
        self._held: dict[_Identity, Held] = {}
        self._pointed_at: object = None
        self._timeouts: dict[_Identity, tuple[int, int]] = {}
        """(time to live, cookie) of the entries that have one."""
        self._by_cookie: dict[int, _Identity] = {}
        self._last_cookie = 0
        self._actions = {program.actions[i].name: program.actions[i] for i in table.action_ids}
        if table.default is not None:
            self._actions.setdefault(
                program.actions[table.default[0]].name, program.actions[table.default[0]]
            )
        self._by_id = {a.id: a for a in self._actions.values()}
        self._entries: dict[_Identity, TableEntry] = {}
        self._has_priority = any(f.match in ("ternary", "range", "optional") for f in table.key)
        self._default = self._program_default()
        self.is_const = table.entries is not None
        if layout.index >= 0:
            self._install_default()
            self._install_const_entries()

    def _program_default(self) -> tuple[str, tuple[int, ...]] | None:
        if self.table.default is None:
            return None
        return self._by_id[self.table.default[0]].name, self.table.default[1]

    # --- checks and packing

    def _check_action(self, name: str, args: tuple[int, ...]) -> Action:
        action = self._actions.get(name)
        if action is None:
            raise _invalid(f"{name!r} is not an action of table {self.table.name!r}")
        check_arguments(action, args)
        return action

    def _check_field(self, match: FieldMatch, field: KeyField) -> tuple[int, int, FieldMatch]:
        """(value, mask, canonical match) of one key field; for a range the mask is 0."""
        where = f"key field {field.name!r} of {self.table.name!r}"
        width = field.width
        ones = (1 << width) - 1
        kind = field.match
        if kind == "optional" and match == ():
            return 0, 0, ()
        expected = {"exact": 1, "valid": 1, "optional": 1}.get(kind, 2)
        # A compiler writes an optional field as a ternary one; its entries may come in either form.
        if kind == "ternary" and len(match) < 2:
            match = (match[0], ones) if match else (0, 0)
        if len(match) != expected:
            raise _invalid(f"{where}: expected {expected} numbers for {kind!r}, got {len(match)}")
        if any(v < 0 for v in match):
            raise _invalid(f"{where}: negative number")
        value = match[0]
        if value > ones:
            raise _invalid(f"{where}: {value:#x} does not fit {width} bits")
        if kind == "lpm":
            if match[1] > width:
                raise _invalid(f"{where}: prefix length {match[1]} is more than {width}")
            mask = ones ^ (ones >> match[1])
        elif kind == "ternary":
            mask = match[1]
        elif kind == "range":
            if match[1] > ones or match[1] < value:
                raise _invalid(f"{where}: {value}..{match[1]} is not a range of {width} bits")
            return 0, 0, match
        else:
            mask = ones
        if mask > ones:
            raise _invalid(f"{where}: mask {mask:#x} does not fit {width} bits")
        if value & ~mask:
            raise _invalid(f"{where}: {value:#x} has bits outside its mask {mask:#x}")
        return value, mask, match

    def _pack(
        self, key: tuple[FieldMatch, ...], priority: int
    ) -> tuple[_Identity, tuple[Any, Any, Any, int]]:
        """The entry's identity, and (key, mask, ranges, priority) for the C interface."""
        table = self.table
        if not table.key:
            raise _invalid(f"table {table.name!r} has no key, it takes no entries")
        if len(key) != len(table.key):
            raise _invalid(f"table {table.name!r} has {len(table.key)} key fields, got {len(key)}")
        if self._has_priority:
            if not 0 <= priority < 2**31:
                raise _invalid(f"priority {priority}: expected 0..2^31-1")
        elif priority:
            raise _invalid(f"table {table.name!r} takes no priority")
        values, masks = [0] * self.layout.words, [0] * self.layout.words
        ranges: list[int] = []
        canonical: list[FieldMatch] = []
        native_priority = priority
        for match, field, part in zip(key, table.key, self.layout.parts, strict=True):
            value, mask, form = self._check_field(match, field)
            canonical.append(form)
            if field.mask is not None:
                value, mask = value & field.mask, mask & field.mask
            if field.match == "range":
                ranges.extend(word for bound in form for word in number_words(bound, field.width))
            elif field.match == "lpm" and not self._has_priority:
                native_priority = form[1]
            put_part(values, part, value)
            put_part(masks, part, mask)
        ffi = self._ffi
        packed = (
            ffi.new("uint64_t[]", values),
            ffi.new("uint64_t[]", masks) if self.layout.match else ffi.NULL,
            ffi.new("uint64_t[]", ranges) if ranges else ffi.NULL,
            native_priority,
        )
        return (tuple(canonical), priority), packed

    def _call(self, action: Action, args: tuple[int, ...]) -> tuple[int, Any, int]:
        """(action, arguments, their words) for the C interface."""
        words = arg_words(action.params, args)
        number = action.id if self.profile is None else self._numbers[action.name]
        return number, (self._ffi.new("uint64_t[]", words) if words else self._ffi.NULL), len(words)

    def _hold(self, entry: TableEntry, former: Held | None = None) -> Held | None:
        """Take hold of what an indirect table's entry leads to."""
        name = self.table.name
        if self.profile is None:
            if entry.target is not None:
                raise _invalid(f"table {name!r} is direct: give an action, not a member, group or action set")
            return None
        if entry.target is None:
            raise _invalid(f"table {name!r} is indirect: give a member, a group or an action set")
        return self.profile.hold(entry.target, former)

    def _release(self, held: Held | None) -> None:
        if held is not None and self.profile is not None:
            self.profile.release(held)

    def _leads_to(self, entry: TableEntry, held: Held | None) -> tuple[int, Any, int]:
        if held is None:
            return self._call(self._check_action(entry.action, entry.args), entry.args)
        kind = native.TO_GROUP if held.group else native.TO_MEMBER
        return kind, self._ffi.new("uint64_t[]", [held.handle]), 1

    def _check(self, status: int) -> None:
        from target.pipeline import check

        check(self._engine, status, f"table {self.table.name!r}")

    # --- entries

    def _mutable(self) -> None:
        if self.is_const:
            raise _invalid(f"the entries of table {self.table.name!r} are const")

    def insert(self, entry: TableEntry) -> None:
        self._mutable()
        if len(self._entries) >= self.table.size:
            raise DeviceError("RESOURCE_EXHAUSTED", f"table {self.table.name!r} is full ({self.table.size})")
        self._insert(entry, False)

    def _insert(self, entry: TableEntry, const: bool) -> None:
        if self.profile is None:
            self._check_action(entry.action, entry.args)
        identity, packed = self._pack(entry.key, entry.priority)
        if identity in self._entries:
            raise DeviceError("ALREADY_EXISTS", f"table {self.table.name!r} has this entry already")
        held = self._hold(entry)
        try:
            status = self._lib.sw_table_insert(
                self._pipeline, self.layout.index, *packed, *self._leads_to(entry, held)
            )
            self._check(status)
        except DeviceError:
            self._release(held)
            raise
        self._remember(identity, replace(entry, key=identity[0], const=const), held)

    def _remember(self, identity: _Identity, entry: TableEntry, held: Held | None) -> None:
        self._entries[identity] = entry
        if held is not None:
            self._held[identity] = held

    def modify(self, entry: TableEntry) -> None:
        self._mutable()
        if self.profile is None:
            self._check_action(entry.action, entry.args)
        identity, packed = self._find(entry.key, entry.priority)
        held = self._hold(entry, self._held.get(identity))
        try:
            status = self._lib.sw_table_modify(
                self._pipeline, self.layout.index, *packed, *self._leads_to(entry, held)
            )
            self._check(status)
        except DeviceError:
            self._release(held)
            raise
        self._release(self._held.pop(identity, None))
        self._remember(identity, replace(entry, key=identity[0], const=False), held)

    def delete(self, key: tuple[FieldMatch, ...], priority: int) -> None:
        self._mutable()
        identity, packed = self._find(key, priority)
        self._check(self._lib.sw_table_delete(self._pipeline, self.layout.index, *packed))
        del self._entries[identity]
        self._release(self._held.pop(identity, None))
        self._forget_timeout(identity)

    def _find(
        self, key: tuple[FieldMatch, ...], priority: int
    ) -> tuple[_Identity, tuple[Any, Any, Any, int]]:
        identity, packed = self._pack(key, priority)
        if identity not in self._entries:
            raise DeviceError("NOT_FOUND", f"table {self.table.name!r} has no such entry")
        return identity, packed

    def entries(self) -> list[TableEntry]:
        return list(self._entries.values())

    def entry(self, key: tuple[FieldMatch, ...], priority: int) -> TableEntry:
        return self._entries[self._find(key, priority)[0]]

    # --- default action

    def default(self) -> tuple[str, tuple[int, ...]] | None:
        return self._default

    def set_default(self, action: str | None, args: tuple[int, ...]) -> None:
        table = self.table
        wanted = self._program_default() if action is None else (action, args)
        if wanted is not None:
            self._check_action(*wanted)
        program_default = self._program_default()
        if wanted != program_default and program_default is not None:
            if table.default_const and wanted is not None and wanted[0] != program_default[0]:
                raise _invalid(f"the default action of table {table.name!r} is const")
            if table.default_const and table.default_args_const:
                raise _invalid(f"the default entry of table {table.name!r} is const")
        if wanted == self._default:
            return
        previous = self._default
        self._default = wanted
        try:
            self._install_default()
        except DeviceError:
            self._default = previous
            raise

    def _install_default(self) -> None:
        call: tuple[int, Any, int] = (native.NO_ACTION, self._ffi.NULL, 0)
        if self._default is not None:
            call = self._call(self._actions[self._default[0]], self._default[1])
        status = self._lib.sw_table_set_default(self._pipeline, self.layout.index, *call)
        self._check(status)

    def _install_const_entries(self) -> None:
        entries = self.table.entries or ()
        for number, item in enumerate(entries):
            # In the JSON the smaller number wins; here, as in P4Runtime, the larger.
            highest = max(e.priority for e in entries)
            priority = highest - item.priority + 1 if self._has_priority else 0
            key = tuple(
                self._const_match(values, field)
                for values, field in zip(item.key, self.table.key, strict=True)
            )
            entry = TableEntry(key, self._by_id[item.action_id].name, item.args, priority)
            try:
                self._insert(entry, True)
            except DeviceError as error:
                raise JsonError(f"{self.table.place}.entries[{number}]: {error.message}") from None

    @staticmethod
    def _const_match(values: tuple[int, ...], field: KeyField) -> FieldMatch:
        ones = (1 << field.width) - 1
        if field.match == "optional":
            return () if values[1] == 0 else (values[0],)
        if field.match == "ternary":
            return values[0] & values[1], values[1]
        if field.match == "lpm":
            return values[0] & (ones ^ (ones >> values[1])), values[1]
        return values

    # --- direct counters

    def _with_counter(self) -> None:
        if not self.table.counters:
            raise DeviceError("FAILED_PRECONDITION", f"table {self.table.name!r} has no direct counter")

    def counter_read(self, key: tuple[FieldMatch, ...], priority: int) -> tuple[int, int]:
        self._with_counter()
        _, packed = self._find(key, priority)
        view = self._ffi.new("struct sw_entry_view *")
        self._check(self._lib.sw_table_read(self._pipeline, self.layout.index, *packed, view))
        return int(view.packets), int(view.bytes)

    def counter_write(self, key: tuple[FieldMatch, ...], priority: int, packets: int, octets: int) -> None:
        self._with_counter()
        if not 0 <= packets < 2**64 or not 0 <= octets < 2**64:
            raise _invalid("counts are 0..2^64-1")
        _, packed = self._find(key, priority)
        status = self._lib.sw_table_write_counter(self._pipeline, self.layout.index, *packed, packets, octets)
        self._check(status)

    # --- idle entries

    def _ages(self) -> None:
        if not self.table.timeout:
            raise DeviceError("FAILED_PRECONDITION", f"table {self.table.name!r} supports no timeouts")

    def timeout(self, key: tuple[FieldMatch, ...], priority: int) -> int:
        self._ages()
        return self._timeouts.get(self._find(key, priority)[0], (0, 0))[0]

    def set_timeout(self, key: tuple[FieldMatch, ...], priority: int, timeout_ns: int) -> None:
        self._ages()
        if not 0 <= timeout_ns < 2**63:
            raise _invalid(f"timeout {timeout_ns}: expected 0..2^63-1 ns")
        identity, _ = self._find(key, priority)
        self._last_cookie += 1
        cookie = self._last_cookie
        place = self._entry_key(key, priority)
        self._check(self._lib.sw_table_set_ttl(*place, timeout_ns, cookie))
        self._forget_timeout(identity)
        if timeout_ns:
            self._timeouts[identity] = (timeout_ns, cookie)
            self._by_cookie[cookie] = identity

    def _forget_timeout(self, identity: _Identity) -> None:
        self._by_cookie.pop(self._timeouts.pop(identity, (0, 0))[1], None)

    def idle_ns(self, key: tuple[FieldMatch, ...], priority: int) -> int:
        self._ages()
        elapsed = self._ffi.new("uint64_t *")
        self._check(self._lib.sw_table_idle(*self._entry_key(key, priority), elapsed))
        return int(elapsed[0])

    def idle_entries(self, cookies: list[int]) -> tuple[_Identity, ...]:
        """Those entries of a notice that are still there, with the same timeout."""
        return tuple(self._by_cookie[c] for c in cookies if c in self._by_cookie)

    # --- direct meters

    def _meter_key(self, key: tuple[FieldMatch, ...], priority: int) -> tuple[Any, int, Any]:
        if self.table.meter is None:
            raise DeviceError("FAILED_PRECONDITION", f"table {self.table.name!r} has no direct meter")
        return self._entry_key(key, priority)

    def _entry_key(self, key: tuple[FieldMatch, ...], priority: int) -> tuple[Any, int, Any]:
        """(pipeline, table, `struct sw_entry_key *`) of an entry."""
        _, packed = self._find(key, priority)
        result = self._ffi.new("struct sw_entry_key *", packed)
        self._pointed_at = packed  # the structure does not keep its arrays alive
        return self._pipeline, self.layout.index, result

    def meter_read(self, key: tuple[FieldMatch, ...], priority: int) -> MeterState:
        view = native_view(self._ffi)
        self._check(self._lib.sw_table_read_meter(*self._meter_key(key, priority), view))
        return state_of(view)

    def meter_write(self, key: tuple[FieldMatch, ...], priority: int, config: MeterConfig | None) -> None:
        check_config(config, f"table {self.table.name!r}")
        place = self._meter_key(key, priority)
        self._check(self._lib.sw_table_set_meter(*place, native_config(self._ffi, config)))

    def meter_write_marked(self, key: tuple[FieldMatch, ...], priority: int, state: MeterState) -> None:
        check_marked(state, f"table {self.table.name!r}")
        place = self._meter_key(key, priority)
        self._check(self._lib.sw_table_write_marks(*place, native_view(self._ffi, state)))


def number_words(value: int, width: int) -> list[int]:
    """A number of `width` bits as 64-bit words, low word first."""
    return [value >> 64 * i & _WORD for i in range(limbs(width))]


def put_part(words: list[int], part: KeyPart, value: int) -> None:
    """Write a field of a key into the key's words, which are zero there."""
    if part.width <= 64:
        words[part.word] |= value << part.shift
        return
    for i in range(limbs(part.width)):
        words[part.word + i] = value >> 64 * i & _WORD
