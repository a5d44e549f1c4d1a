# SPDX-License-Identifier: Apache-2.0
"""What a test asks of a device's control plane, by the names of the program, whichever way it goes there.

Two ways: `p4rt.P4RuntimeControl` (gRPC, either target) and `direct.DirectControl` (an embedded device in
the same process). Names may be full (`NicIngress.steps`) or a unique suffix (`steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from finsy.proto import p4i
from google.protobuf import text_format

Match: TypeAlias = int | tuple[int, int]
"""Exact: the value. lpm: (value, prefix length). Ternary: (value, mask)."""

PacketIn: TypeAlias = tuple[dict[str, int], bytes]
"""(metadata fields, payload)"""


class Control(Protocol):
    """Tables, counters, groups and packet I/O of one device."""

    def reset(self) -> None:
        """Push the pipeline again: empty tables, registers and counters at 0."""

    def insert(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None: ...
    def modify(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None: ...
    def delete(self, table: str, key: Mapping[str, Match], priority: int = 0) -> None: ...
    def set_default(self, table: str, action: str, **params: int) -> None: ...
    def counter(self, name: str, index: int = 0) -> int:
        """Packets counted in one cell."""

    def counters(self, names: Iterable[str]) -> dict[str, int]:
        """Packets counted in the first cell of each."""

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Create a multicast group of (port, replica id)."""

    def packet_out(self, payload: bytes = b"", **metadata: int) -> None: ...
    def packet_in(self, timeout: float = 5.0) -> PacketIn | None:
        """The next packet-in, or None after `timeout` seconds."""

    def close(self) -> None: ...


Named = TypeVar("Named")


class Names:
    """P4Info, looked up by name."""

    def __init__(self, path: Path) -> None:
        self.info: p4i.P4Info = text_format.Parse(path.read_text(), p4i.P4Info())
        self.tables = {t.preamble.name: t for t in self.info.tables}
        self.actions = {a.preamble.name: a for a in self.info.actions}
        self.counters = {c.preamble.name: c for c in self.info.counters}

    @staticmethod
    def _find(kind: str, among: Mapping[str, Named], name: str) -> Named:
        if name in among:
            return among[name]
        found = [key for key in among if key.endswith("." + name)]
        if len(found) != 1:
            raise KeyError(f"{kind} {name!r}: {'several match' if found else 'none'} among {sorted(among)}")
        return among[found[0]]

    def table(self, name: str) -> p4i.Table:
        return self._find("table", self.tables, name)

    def counter(self, name: str) -> p4i.Counter:
        return self._find("counter", self.counters, name)

    def action(self, table: p4i.Table, name: str) -> p4i.Action:
        """An action of this table."""
        ids = {ref.id for ref in table.action_refs}
        return self._find(
            f"action of {table.preamble.name}",
            {key: action for key, action in self.actions.items() if action.preamble.id in ids},
            name,
        )

    def args(self, action: p4i.Action, params: Mapping[str, int]) -> list[tuple[p4i.Action.Param, int]]:
        """Parameters with their values, in the action's order."""
        names = {param.name for param in action.params}
        if names != set(params):
            raise KeyError(f"{action.preamble.name}: parameters {sorted(names)}, got {sorted(params)}")
        return [(param, params[param.name]) for param in action.params]

    def fields(self, table: p4i.Table, key: Mapping[str, Match]) -> list[tuple[p4i.MatchField, Match | None]]:
        """Key fields with their values (None: don't care), in the table's order.

        A field may be named by the last part of its name: `dst_addr` for `hdr.ipv4.dst_addr`."""
        left = dict(key)
        result: list[tuple[p4i.MatchField, Match | None]] = []
        for field in table.match_fields:
            short = field.name.rpartition(".")[2]
            result.append((field, left.pop(field.name, left.pop(short, None))))
        if left:
            names = [field.name for field in table.match_fields]
            raise KeyError(f"{table.preamble.name}: key fields {names}, not {sorted(left)}")
        return result

    def packet_metadata(self, name: str) -> p4i.ControllerPacketMetadata:
        """`packet_in` or `packet_out`."""
        for header in self.info.controller_packet_metadata:
            if header.preamble.name == name:
                return header
        raise KeyError(f"the program has no {name} header")
