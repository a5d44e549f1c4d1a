# SPDX-License-Identifier: Apache-2.0
"""Table entries and multicast groups by name, with a short text for messages, and comparable with what a
device says.

Names are those of the P4 program; P4Info gives the numbers. Values are integers; addresses are `IPv4Network`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from finsy import P4MulticastGroupEntry, P4Schema, P4TableAction, P4TableEntry, P4TableMatch
from finsy.proto import p4r

Value: TypeAlias = int | ipaddress.IPv4Network | tuple[int, int]
"""Exact: the number. lpm: a network. Ternary: (value, mask)."""

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A table entry; without a key it is the table's default action. Priority only for ternary keys, larger
    wins.
    """

    table: str
    action: str
    args: Mapping[str, int]
    key: Mapping[str, Value] | None = None
    priority: int = 0

    def __str__(self) -> str:
        args = ", ".join(f"{k}={v}" for k, v in self.args.items())
        if self.key is None:
            return f"{self.table} default {self.action}({args})"
        key = ", ".join(f"{k}={_shown(v)}" for k, v in self.key.items())
        return f"{self.table}[{key}] {self.action}({args})"

    def encode(self, schema: P4Schema) -> p4r.Entity:
        """The P4Runtime message. Raises ValueError for a name or value that P4Info refuses."""
        match = None if self.key is None else P4TableMatch({k: _match(v) for k, v in self.key.items()})
        action = P4TableAction(self.action, **self.args)
        entry = P4TableEntry(
            self.table,
            match=match,
            action=action,
            is_default_action=self.key is None,
            priority=self.priority,
        )
        return entry.encode(schema)


@dataclass(frozen=True, slots=True)
class Group:
    """A multicast group: replicas of (port, replica id)."""

    number: int
    replicas: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"multicast group {self.number} {', '.join(f'port {p} as {i}' for p, i in self.replicas)}"

    def encode(self, schema: P4Schema) -> p4r.Entity:
        return P4MulticastGroupEntry(self.number, replicas=list(self.replicas)).encode(schema)


Entity: TypeAlias = Entry | Group


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:#x}&{value[1]:#x}"
    return str(value)


def _match(value: Value) -> object:
    if isinstance(value, tuple):
        return f"{value[0]:#x}/&{value[1]:#x}"
    return str(value) if isinstance(value, ipaddress.IPv4Network) else value


def identity(message: p4r.Entity) -> Key:
    """What makes an entity unique on a device: its table and key, or its group number."""
    if message.WhichOneof("entity") == "packet_replication_engine_entry":
        return ("group", message.packet_replication_engine_entry.multicast_group_entry.multicast_group_id)
    entry = message.table_entry
    fields = sorted((m.field_id, *_field(m)) for m in entry.match)
    return ("entry", entry.table_id, tuple(fields), entry.priority, entry.is_default_action)


def content(message: p4r.Entity) -> Key:
    """What an entity says: its action with arguments as integers, or its replicas."""
    if message.WhichOneof("entity") == "packet_replication_engine_entry":
        group = message.packet_replication_engine_entry.multicast_group_entry
        return tuple(sorted((_replica_port(r), r.instance) for r in group.replicas))
    action = message.table_entry.action.action
    params = sorted((p.param_id, int.from_bytes(p.value, "big")) for p in action.params)
    return (action.action_id, *params)


def _replica_port(replica: p4r.Replica) -> int:
    return replica.egress_port or int.from_bytes(replica.port, "big")


def _field(match: p4r.FieldMatch) -> tuple[str, int, int]:
    kind = match.WhichOneof("field_match_type")
    if kind == "lpm":
        return ("lpm", int.from_bytes(match.lpm.value, "big"), match.lpm.prefix_len)
    if kind == "ternary":
        return (
            "ternary",
            int.from_bytes(match.ternary.value, "big"),
            int.from_bytes(match.ternary.mask, "big"),
        )
    if kind == "exact":
        return ("exact", int.from_bytes(match.exact.value, "big"), 0)
    raise ValueError(f"a {kind} key is none of ours")


def text_of(message: p4r.Entity, schema: P4Schema) -> str:
    """An entity that a device reported, for a message."""
    if message.WhichOneof("entity") == "packet_replication_engine_entry":
        group = message.packet_replication_engine_entry.multicast_group_entry
        replicas = tuple((_replica_port(r), r.instance) for r in group.replicas)
        return str(Group(group.multicast_group_id, replicas))
    entry = P4TableEntry.decode(message, schema)
    key = "default" if entry.is_default_action else f"[{entry.match_str(schema)}]"
    return f"{entry.table_id} {key} {entry.action_str(schema)}"
