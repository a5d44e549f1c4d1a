# SPDX-License-Identifier: Apache-2.0
"""Entities of the test pipeline, short to write."""

from __future__ import annotations

from finsy.proto import p4r

from tests.target.p4runtime import program


def raw(value: int) -> bytes:
    """The canonical byte string."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def _action(entry: p4r.TableEntry, action: int, *args: bytes) -> None:
    entry.action.action.action_id = action
    for number, arg in enumerate(args, 1):
        entry.action.action.params.add(param_id=number, value=arg)


def exact(
    dst: int,
    port: int = 1,
    counter: tuple[int, int] | None = None,
    metadata: bytes = b"",
    cookie: int = 0,
) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.table_entry
    entry.table_id = program.EXACT_T
    entry.match.add(field_id=1).exact.value = raw(dst)
    _action(entry, program.FORWARD, raw(port))
    entry.metadata = metadata
    entry.controller_metadata = cookie
    if counter is not None:
        entry.counter_data.packet_count, entry.counter_data.byte_count = counter
    return entity


def lpm(src: int, prefix: int, port: int = 1, type_: int = 0x800) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.table_entry
    entry.table_id = program.LPM_T
    entry.match.add(field_id=1).exact.value = raw(type_)
    if prefix:
        match = entry.match.add(field_id=2).lpm
        match.value = raw(src << (48 - prefix))
        match.prefix_len = prefix
    _action(entry, program.FORWARD, raw(port))
    return entity


def acl(
    priority: int,
    dst: tuple[int, int] | None = None,
    type_: tuple[int, int] | None = None,
    port: int | None = None,
    action: int = program.DROP,
) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.table_entry
    entry.table_id = program.ACL_T
    entry.priority = priority
    if dst is not None:
        ternary = entry.match.add(field_id=1).ternary
        ternary.value, ternary.mask = raw(dst[0]), raw(dst[1])
    if type_ is not None:
        bounds = entry.match.add(field_id=2).range
        bounds.low, bounds.high = raw(type_[0]), raw(type_[1])
    if port is not None:
        entry.match.add(field_id=3).optional.value = raw(port)
    _action(entry, action)
    return entity


def scope(type_: int, action: int, *args: bytes) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.table_entry
    entry.table_id = program.SCOPE_T
    entry.match.add(field_id=1).exact.value = raw(type_)
    _action(entry, action, *args)
    return entity


def const_key(type_: int) -> p4r.TableEntry:
    entry = p4r.TableEntry(table_id=program.CONST_T)
    entry.match.add(field_id=1).exact.value = raw(type_)
    return entry


def default(table_id: int, action: int | None = None, *args: bytes) -> p4r.Entity:
    entity = p4r.Entity()
    entity.table_entry.table_id = table_id
    entity.table_entry.is_default_action = True
    if action is not None:
        _action(entity.table_entry, action, *args)
    return entity


def table(table_id: int, counters: bool = False, default: bool = False, priority: int = 0) -> p4r.Entity:
    """A read of whole tables."""
    entity = p4r.Entity()
    entity.table_entry.table_id = table_id
    entity.table_entry.is_default_action = default
    entity.table_entry.priority = priority
    if counters:
        entity.table_entry.counter_data.SetInParent()
    return entity


def counter(index: int | None = None, packets: int | None = None, octets: int = 0) -> p4r.Entity:
    entity = p4r.Entity()
    entity.counter_entry.counter_id = program.COUNTER
    if index is not None:
        entity.counter_entry.index.index = index
    if packets is not None:
        entity.counter_entry.data.packet_count = packets
        entity.counter_entry.data.byte_count = octets
    return entity


def all_counters() -> p4r.Entity:
    return p4r.Entity(counter_entry=p4r.CounterEntry())


def direct_counter(entry: p4r.TableEntry | None, packets: int | None = None, octets: int = 0) -> p4r.Entity:
    entity = p4r.Entity()
    entity.direct_counter_entry.SetInParent()
    if entry is not None:
        entity.direct_counter_entry.table_entry.CopyFrom(entry)
    if packets is not None:
        entity.direct_counter_entry.data.packet_count = packets
        entity.direct_counter_entry.data.byte_count = octets
    return entity


def register(register_id: int, index: int | None = None, value: bytes | None = None) -> p4r.Entity:
    entity = p4r.Entity()
    entity.register_entry.register_id = register_id
    if index is not None:
        entity.register_entry.index.index = index
    if value is not None:
        entity.register_entry.data.bitstring = value
    return entity


def all_registers() -> p4r.Entity:
    return p4r.Entity(register_entry=p4r.RegisterEntry())


def group(group_id: int, *replicas: tuple[int, int], old_form: bool = False) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.packet_replication_engine_entry.multicast_group_entry
    entry.multicast_group_id = group_id
    _replicas(entry, replicas, old_form)
    return entity


def clone_session(
    session: int, *replicas: tuple[int, int], length: int = 0, old_form: bool = False
) -> p4r.Entity:
    entity = p4r.Entity()
    entry = entity.packet_replication_engine_entry.clone_session_entry
    entry.session_id = session
    entry.packet_length_bytes = length
    _replicas(entry, replicas, old_form)
    return entity


def _replicas(
    entry: p4r.MulticastGroupEntry | p4r.CloneSessionEntry,
    replicas: tuple[tuple[int, int], ...],
    old_form: bool,
) -> None:
    for port, instance in replicas:
        replica = entry.replicas.add(instance=instance)
        if old_form:
            replica.egress_port = port
        else:
            replica.port = raw(port)


def all_groups() -> p4r.Entity:
    entity = p4r.Entity()
    entity.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    return entity


def all_sessions() -> p4r.Entity:
    entity = p4r.Entity()
    entity.packet_replication_engine_entry.clone_session_entry.SetInParent()
    return entity
