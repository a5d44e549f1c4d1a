# SPDX-License-Identifier: Apache-2.0
"""The project's own target as the device under test: in memory, its clock moved by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import ParamSpec, TypeVar

from target.api import DeviceError, MeterConfig, TableEntry
from target.bmjson import JsonError
from target.engine import Engine
from tests.stf.dut import DutError, Entry
from tests.stf.language import Rate
from tests.stf.program import Action, Array, Table

PACKET_NS = 100_000
"""Time that passes with every packet sent: what it causes is over by then."""
WAIT_NS = 1_000_000_000

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _ask(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    try:
        return function(*args, **kwargs)
    except (DeviceError, JsonError) as error:
        raise DutError(str(error)) from None


class EmbeddedDut:
    """A device of its own engine. `ports`: those that the test speaks of."""

    def __init__(self, program: str, ports: Sequence[int]) -> None:
        """Raises DutError for a program that the target refuses."""
        self._engine = Engine()
        try:
            self._device = self._engine.add_device("dut", 1)
            for port in ports:
                _ask(self._device.add_port, port)
            _ask(self._device.load_pipeline, program)
        except BaseException:
            self._engine.close()
            raise
        self._received: dict[int, list[bytes]] = {port: [] for port in ports}
        self._entries: dict[str, list[Entry | None]] = {}
        self._nodes: list[tuple[int, tuple[int, ...]]] = []
        self._groups: dict[int, list[int]] = {}
        self._mirrors: dict[int, int] = {}

    def insert(self, entry: Entry) -> None:
        _ask(
            self._device.table_insert,
            entry.table.name,
            TableEntry(entry.key, entry.action.name, entry.args, entry.priority or 0),
        )
        self._entries.setdefault(entry.table.name, []).append(entry)

    def remove(self, entry: Entry) -> None:
        _ask(self._device.table_delete, entry.table.name, entry.key, entry.priority or 0)
        entries = self._entries[entry.table.name]
        entries[entries.index(entry)] = None

    def _by_handle(self, table: str, handle: int) -> Entry:
        """Entries have handles 0, 1, ... in the order in which they were added, as in BMv2."""
        entries = self._entries.get(table, ())
        entry = entries[handle] if 0 <= handle < len(entries) else None
        if entry is None:
            raise DutError(f"table {table!r} has no entry with handle {handle}")
        return entry

    def set_default(self, table: Table, action: Action, args: tuple[int, ...]) -> None:
        _ask(self._device.table_set_default, table.name, action.name, args)

    # --- replication: the device has groups of replicas, the language has nodes

    def mirror_to_port(self, session: int, port: int) -> None:
        self._mirrors.pop(session, None)
        _ask(self._device.clone_session_set, session, [(port, 0)])

    def mirror_to_group(self, session: int, group: int) -> None:
        _ask(self._device.clone_session_set, session, self._replicas(group))
        self._mirrors[session] = group

    def mirror_delete(self, session: int) -> None:
        self._mirrors.pop(session, None)
        _ask(self._device.clone_session_delete, session)

    def mirror_get(self, session: int) -> None:
        if session not in self._device.clone_sessions():
            raise DutError(f"there is no mirror session {session}")

    def _replicas(self, group: int) -> list[tuple[int, int]]:
        nodes = (self._nodes[node] for node in self._groups.get(group, ()))
        return [(port, rid) for rid, ports in nodes for port in ports]

    def _push(self, group: int) -> None:
        _ask(self._device.mcast_group_set, group, self._replicas(group))
        for session, mirrored in self._mirrors.items():
            if mirrored == group:
                _ask(self._device.clone_session_set, session, self._replicas(group))

    def group_create(self, group: int) -> None:
        if group in self._groups:
            raise DutError(f"multicast group {group} is there already")
        self._groups[group] = []
        self._push(group)

    def node_create(self, rid: int, ports: Sequence[int]) -> None:
        self._nodes.append((rid, tuple(sorted(ports))))

    def node_update(self, node: int, ports: Sequence[int]) -> None:
        self._nodes[self._node(node)] = (self._nodes[node][0], tuple(sorted(ports)))
        for group, nodes in self._groups.items():
            if node in nodes:
                self._push(group)

    def node_associate(self, group: int, node: int) -> None:
        if group not in self._groups:
            raise DutError(f"there is no multicast group {group}")
        self._groups[group].append(self._node(node))
        self._push(group)

    def _node(self, node: int) -> int:
        if not 0 <= node < len(self._nodes):
            raise DutError(f"there is no multicast node {node}")
        return node

    # --- counters, registers, meters

    def counter_read(self, counter: Array, index: int) -> tuple[int, int]:
        if counter.table is not None:
            return self.direct_counter_read(counter, self._by_handle(counter.table, index))
        return _ask(self._device.counter_read, counter.name, index)

    def direct_counter_read(self, counter: Array, entry: Entry) -> tuple[int, int]:
        return _ask(self._device.direct_counter_read, entry.table.name, entry.key, entry.priority or 0)

    def counter_write(self, counter: Array, index: int, packets: int, octets: int) -> None:
        if counter.table is not None:
            entry = self._by_handle(counter.table, index)
            key, priority = entry.key, entry.priority or 0
            _ask(self._device.direct_counter_write, counter.table, key, priority, packets, octets)
            return
        _ask(self._device.counter_write, counter.name, index, packets, octets)

    def register_read(self, register: Array, index: int) -> int:
        return _ask(self._device.register_read, register.name, index)

    def register_write(self, register: Array, index: int, value: int) -> None:
        _ask(self._device.register_write, register.name, index, value)

    def register_reset(self, register: Array) -> None:
        _ask(self._device.register_write_all, register.name, 0)

    def meter_get(self, meter: Array, index: int) -> None:
        if meter.table is None:
            _ask(self._device.meter_read, meter.name, index)
        else:
            entry = self._by_handle(meter.table, index)
            _ask(self._device.direct_meter_read, meter.table, entry.key, entry.priority or 0)

    def meter_set(self, meter: Array, index: int | None, rates: Sequence[Rate]) -> None:
        config = _meter_config(meter, rates)
        if meter.table is not None:
            entries = self._entries.get(meter.table, ()) if index is None else ()
            for entry in entries if index is None else (self._by_handle(meter.table, index),):
                if entry is not None:
                    _ask(self._device.direct_meter_write, meter.table, entry.key, entry.priority or 0, config)
            return
        for cell in range(_ask(self._device.meter_size, meter.name)) if index is None else (index,):
            _ask(self._device.meter_write, meter.name, cell, config)

    # --- packets

    def send(self, port: int, data: bytes) -> None:
        _ask(self._device.inject, port, data)
        self._advance(PACKET_NS)

    def wait(self) -> None:
        self._advance(WAIT_NS)

    def _advance(self, ns: int) -> None:
        _ask(self._engine.run_until, self._engine.now_ns + ns)

    def received(self, expected: Mapping[int, int]) -> Mapping[int, list[bytes]]:
        for port, packets in self._received.items():
            packets += _ask(self._device.collect, port)
        return self._received

    def close(self) -> None:
        self._engine.close()


def _meter_config(meter: Array, rates: Sequence[Rate]) -> MeterConfig:
    if len(rates) != 2:
        raise DutError(f"meter {meter.name!r} takes 2 rates, got {len(rates)}")
    per_second = [Decimal(rate.per_microsecond) * 10**6 for rate in rates]
    for rate, value in zip(rates, per_second, strict=True):
        if value != int(value):
            raise DutError(
                f"meter {meter.name!r}: {rate.per_microsecond} a microsecond is no whole number a second"
            )
    return MeterConfig(int(per_second[0]), rates[0].burst, int(per_second[1]), rates[1].burst)
