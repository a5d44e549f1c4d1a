# SPDX-License-Identifier: Apache-2.0
"""Control of an embedded device in the same process, through `target.api` and by the program's names."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Mapping, Sequence
from json import loads
from pathlib import Path

from finsy.proto import p4i

from target.api import DeviceApi, FieldMatch, TableEntry
from tests.support.control import Match, Names, PacketIn


class DirectControl:
    """`control.Control` without gRPC."""

    def __init__(self, device: DeviceApi, p4info: Path, json: Path) -> None:
        self._device = device
        self._names = Names(p4info)
        self._json = json.read_text()
        program = loads(self._json)
        self._registers = [register["name"] for register in program["register_arrays"]]
        self._counters = [(c["name"], c["size"]) for c in program["counter_arrays"] if not c["is_direct"]]
        self._entries: set[tuple[str, tuple[FieldMatch, ...], int]] = set()
        self._defaults: set[str] = set()
        self._packets: queue.Queue[bytes] = queue.Queue()
        device.set_packet_in(self._packets.put)

    def reset(self) -> None:
        """Everything as after a pipeline push; only the first time is there one, the rest is many times
        faster."""
        if not self._device.has_pipeline():
            self._device.load_pipeline(self._json)
        for entry in self._entries:
            self._device.table_delete(*entry)
        for table in self._defaults:
            self._device.table_set_default(table, None)
        self._entries.clear()
        self._defaults.clear()
        for register in self._registers:
            self._device.register_write_all(register, 0)
        for counter, size in self._counters:
            for index in range(size):
                self._device.counter_write(counter, index, 0, 0)
        for group in self._device.mcast_groups():
            self._device.mcast_group_delete(group)
        while not self._packets.empty():
            self._packets.get_nowait()

    def _key(self, table: p4i.Table, key: Mapping[str, Match]) -> tuple[FieldMatch, ...]:
        result: list[FieldMatch] = []
        for field, value in self._names.fields(table, key):
            if value is None:
                assert field.match_type != p4i.MatchField.EXACT, f"{field.name}: needs a value"
                value = (0, 0)
            result.append(value if isinstance(value, tuple) else (value,))
        return tuple(result)

    def _entry(
        self, table: str, key: Mapping[str, Match], action: str, priority: int, params: Mapping[str, int]
    ) -> tuple[str, TableEntry]:
        info = self._names.table(table)
        chosen = self._names.action(info, action)
        args = tuple(value for _, value in self._names.args(chosen, params))
        return info.preamble.name, TableEntry(self._key(info, key), chosen.preamble.name, args, priority)

    def insert(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None:
        name, entry = self._entry(table, key, action, entry_priority, params)
        self._device.table_insert(name, entry)
        self._entries.add((name, entry.key, entry_priority))

    def modify(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None:
        self._device.table_modify(*self._entry(table, key, action, entry_priority, params))

    def delete(self, table: str, key: Mapping[str, Match], priority: int = 0) -> None:
        info = self._names.table(table)
        entry = (info.preamble.name, self._key(info, key), priority)
        self._device.table_delete(*entry)
        self._entries.discard(entry)

    def set_default(self, table: str, action: str, **params: int) -> None:
        info = self._names.table(table)
        chosen = self._names.action(info, action)
        args = tuple(value for _, value in self._names.args(chosen, params))
        self._device.table_set_default(info.preamble.name, chosen.preamble.name, args)
        self._defaults.add(info.preamble.name)

    def counter(self, name: str, index: int = 0) -> int:
        return self._device.counter_read(self._names.counter(name).preamble.name, index)[0]

    def counters(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.counter(name) for name in names}

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._device.mcast_group_set(group, replicas)

    def packet_out(self, payload: bytes = b"", **metadata: int) -> None:
        fields = self._names.packet_metadata("packet_out").metadata
        if {field.name for field in fields} != set(metadata):
            raise KeyError(f"packet_out: fields {[f.name for f in fields]}, got {sorted(metadata)}")
        header, bits = 0, 0
        for field in fields:
            header = header << field.bitwidth | metadata[field.name]
            bits += field.bitwidth
        self._device.packet_out(header.to_bytes(bits // 8) + payload)

    def packet_in(self, timeout: float = 5.0) -> PacketIn | None:
        try:
            packet = self._packets.get(timeout=timeout) if timeout else self._packets.get_nowait()
        except queue.Empty:
            return None
        fields = self._names.packet_metadata("packet_in").metadata
        left = sum(field.bitwidth for field in fields)
        size = left // 8
        header = int.from_bytes(packet[:size])
        values: dict[str, int] = {}
        for field in fields:
            left -= field.bitwidth
            values[field.name] = header >> left & ((1 << field.bitwidth) - 1)
        return values, packet[size:]

    def close(self) -> None:
        self._device.set_packet_in(None)
