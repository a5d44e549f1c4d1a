# SPDX-License-Identifier: Apache-2.0
"""The state of a device without its dataplane: what a saved, not yet committed pipeline is written to.

`VERIFY_AND_SAVE` lets a client write against a pipeline that does not run yet, and `RECONCILE_AND_COMMIT`
must know beforehand whether the old state fits the new pipeline. Both use this copy of the device's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from target.api import DeviceError, FieldMatch, PortCounters, TableEntry
from target.bmjson.model import Program, Table
from target.p4runtime.shadow_resources import ShadowResources

_PRIORITY_MATCHES = ("ternary", "range", "optional")

Key = tuple[tuple[FieldMatch, ...], int]


class ShadowDevice(ShadowResources):
    """A `DeviceApi` that holds state only. It forwards nothing, and packet I/O is refused."""

    def __init__(
        self,
        program: Program,
        name: str,
        device_id: int,
        cpu_port: int | None,
        ports: Mapping[int, str] | None = None,
    ) -> None:
        self._name = name
        self._device_id = device_id
        self._cpu_port = cpu_port
        self._ports = dict(ports or {})
        self._reset(program)

    def _reset(self, program: Program) -> None:
        self._reset_resources(program)
        self._entries: dict[str, dict[Key, TableEntry]] = {}
        self._defaults: dict[str, tuple[str, tuple[int, ...]] | None] = {}
        for table in program.tables.values():
            self._entries[table.name] = self._initial_entries(table)
            self._defaults[table.name] = self._program_default(table)
        self._direct: dict[tuple[str, Key], tuple[int, int]] = {}
        self._counters: dict[tuple[str, int], tuple[int, int]] = {}
        self._registers = {r.name: [0] * r.size for r in program.registers.values()}
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._sessions: dict[int, tuple[list[tuple[int, int]], int]] = {}

    def _initial_entries(self, table: Table) -> dict[Key, TableEntry]:
        entries: dict[Key, TableEntry] = {}
        ranked = any(k.match in _PRIORITY_MATCHES for k in table.key)
        declared = table.entries or ()
        for entry in declared:
            # In the JSON the smaller priority wins; in P4Runtime the larger.
            priority = len(declared) + 1 - entry.priority if ranked else 0
            action = self._program.actions[entry.action_id].name
            match = tuple(
                values if k.match != "optional" else values[:1] if values[1] else ()
                for k, values in zip(table.key, entry.key, strict=True)
            )
            entries[(match, priority)] = TableEntry(match, action, entry.args, priority=priority, const=True)
        return entries

    def _program_default(self, table: Table) -> tuple[str, tuple[int, ...]] | None:
        if table.default is None:
            return None
        action_id, args = table.default
        return self._program.actions[action_id].name, args

    @property
    def name(self) -> str:
        return self._name

    @property
    def device_id(self) -> int:
        return self._device_id

    @property
    def cpu_port(self) -> int | None:
        return self._cpu_port

    # --- pipeline

    def load_pipeline(self, bmv2_json: str) -> None:
        raise DeviceError("UNIMPLEMENTED", "a saved pipeline can't be replaced in place")

    def verify_pipeline(self, bmv2_json: str) -> None:
        raise DeviceError("UNIMPLEMENTED", "a saved pipeline verifies nothing")

    def has_pipeline(self) -> bool:
        return True

    # --- tables

    def _table(self, table: str) -> dict[Key, TableEntry]:
        if table not in self._entries:
            raise DeviceError("NOT_FOUND", f"no table {table!r} in the pipeline")
        return self._entries[table]

    def _check_action(self, table: str, action: str, args: Sequence[int]) -> None:
        declared = self._program.tables[table]
        for action_id in declared.action_ids:
            known = self._program.actions[action_id]
            if known.name == action:
                if len(known.params) != len(args):
                    raise DeviceError(
                        "INVALID_ARGUMENT",
                        f"action {action!r} takes {len(known.params)} argument(s), got {len(args)}",
                    )
                for param, value in zip(known.params, args, strict=True):
                    if value.bit_length() > param.width:
                        raise DeviceError(
                            "INVALID_ARGUMENT",
                            f"argument {param.name!r} of {action!r} does not fit {param.width} bits",
                        )
                return
        raise DeviceError("INVALID_ARGUMENT", f"table {table!r} has no action {action!r}")

    def tables(self) -> Sequence[str]:
        return list(self._entries)

    def table_insert(self, table: str, entry: TableEntry) -> None:
        entries = self._table(table)
        if self._profile_of(table) is None:
            self._check_action(table, entry.action, entry.args)
        if (entry.key, entry.priority) in entries:
            raise DeviceError("ALREADY_EXISTS", f"table {table!r} has an entry with this key")
        if len(entries) >= self._program.tables[table].size:
            raise DeviceError(
                "RESOURCE_EXHAUSTED",
                f"table {table!r} is full: {self._program.tables[table].size} entries",
            )
        self._hold(table, entry)
        entries[(entry.key, entry.priority)] = entry

    def table_modify(self, table: str, entry: TableEntry) -> None:
        entries = self._table(table)
        if self._profile_of(table) is None:
            self._check_action(table, entry.action, entry.args)
        if (entry.key, entry.priority) not in entries:
            self._no_entry(table)
        self._hold(table, entry)
        entries[(entry.key, entry.priority)] = entry

    def table_delete(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> None:
        if self._table(table).pop((key, priority), None) is None:
            self._no_entry(table)
        self._direct.pop((table, (key, priority)), None)
        self._forget_entry(table, (key, priority))

    def _no_entry(self, table: str) -> NoReturn:
        raise DeviceError("NOT_FOUND", f"table {table!r} has no entry with this key")

    def table_entries(self, table: str) -> list[TableEntry]:
        return list(self._table(table).values())

    def table_entry(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> TableEntry:
        entry = self._table(table).get((key, priority))
        if entry is None:
            self._no_entry(table)
        return entry

    def table_default(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        self._table(table)
        return self._defaults[table]

    def table_set_default(self, table: str, action: str | None, args: tuple[int, ...] = ()) -> None:
        self._table(table)
        declared = self._program.tables[table]
        if action is None:
            self._defaults[table] = self._program_default(declared)
            return
        self._check_action(table, action, args)
        if declared.default_const:
            raise DeviceError("FAILED_PRECONDITION", f"the default action of table {table!r} is constant")
        self._defaults[table] = (action, args)

    # --- counters and registers

    def _direct_key(self, table: str, key: tuple[FieldMatch, ...], priority: int) -> tuple[str, Key]:
        self.table_entry(table, key, priority)
        if not self._program.tables[table].counters:
            raise DeviceError("FAILED_PRECONDITION", f"table {table!r} has no direct counter")
        return table, (key, priority)

    def direct_counter_read(
        self, table: str, key: tuple[FieldMatch, ...], priority: int = 0
    ) -> tuple[int, int]:
        return self._direct.get(self._direct_key(table, key, priority), (0, 0))

    def direct_counter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, packets: int, octets: int
    ) -> None:
        self._direct[self._direct_key(table, key, priority)] = (packets, octets)

    def counter_size(self, counter: str) -> int:
        if counter not in self._program.counters:
            raise DeviceError("NOT_FOUND", f"no counter {counter!r} in the pipeline")
        return self._program.counters[counter].size

    def _counter_index(self, counter: str, index: int) -> tuple[str, int]:
        if not 0 <= index < self.counter_size(counter):
            raise DeviceError("INVALID_ARGUMENT", f"counter {counter!r} has no index {index}")
        return counter, index

    def counter_read(self, counter: str, index: int) -> tuple[int, int]:
        return self._counters.get(self._counter_index(counter, index), (0, 0))

    def counter_write(self, counter: str, index: int, packets: int, octets: int) -> None:
        self._counters[self._counter_index(counter, index)] = (packets, octets)

    def _register(self, register: str) -> list[int]:
        if register not in self._registers:
            raise DeviceError("NOT_FOUND", f"no register {register!r} in the pipeline")
        return self._registers[register]

    def register_size(self, register: str) -> int:
        return len(self._register(register))

    def register_width(self, register: str) -> int:
        self._register(register)
        return self._program.registers[register].width

    def register_read(self, register: str, index: int) -> int:
        self._check_element(register, index)
        return self._register(register)[index]

    def register_read_all(self, register: str) -> list[int]:
        return list(self._register(register))

    def _check_element(self, register: str, index: int, value: int = 0) -> None:
        if not 0 <= index < len(self._register(register)):
            raise DeviceError("INVALID_ARGUMENT", f"register {register!r} has no index {index}")
        if value < 0 or value.bit_length() > self.register_width(register):
            raise DeviceError("INVALID_ARGUMENT", f"value does not fit register {register!r}")

    def register_write(self, register: str, index: int, value: int) -> None:
        self._check_element(register, index, value)
        self._registers[register][index] = value

    def register_write_all(self, register: str, value: int) -> None:
        elements = self._register(register)
        if elements:
            self._check_element(register, 0, value)
        elements[:] = [value] * len(elements)

    # --- packet replication

    def mcast_group_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._groups[group] = list(replicas)

    def mcast_group_delete(self, group: int) -> None:
        if self._groups.pop(group, None) is None:
            raise DeviceError("NOT_FOUND", f"no multicast group {group}")

    def mcast_groups(self) -> dict[int, list[tuple[int, int]]]:
        return {group: list(replicas) for group, replicas in self._groups.items()}

    def clone_session_set(
        self, session: int, replicas: Sequence[tuple[int, int]], packet_length: int = 0
    ) -> None:
        self._sessions[session] = (list(replicas), packet_length)

    def clone_session_delete(self, session: int) -> None:
        if self._sessions.pop(session, None) is None:
            raise DeviceError("NOT_FOUND", f"no clone session {session}")

    def clone_sessions(self) -> dict[int, tuple[list[tuple[int, int]], int]]:
        return {session: (list(replicas), n) for session, (replicas, n) in self._sessions.items()}

    # --- packet I/O and ports

    def packet_out(self, packet: bytes) -> None:
        raise DeviceError("FAILED_PRECONDITION", "the pipeline is saved but not committed")

    def set_packet_in(self, handler: Callable[[bytes], None] | None) -> None:
        """A saved pipeline sends no packets: the handler is never called."""

    def packet_in_drops(self) -> int:
        return 0

    def ports(self) -> Mapping[int, str]:
        return dict(self._ports)

    def port_counters(self, port: int) -> PortCounters:
        raise DeviceError("NOT_FOUND", f"a saved pipeline has no port {port}")
