# SPDX-License-Identifier: Apache-2.0
"""`PacketReplicationEngineEntry`: multicast groups and clone sessions (P4Runtime specification 1.5).

Ranges are v1model's on BMv2: ports of 9 bits, group and replica ids of 16, sessions 1 to 32767.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from finsy.proto import p4r

from target.p4runtime import bytestrings
from target.p4runtime.entities.base import Undo
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import already_exists, invalid_argument, not_found, out_of_range, unimplemented

MAX_GROUP: Final = 0xFFFF
MAX_INSTANCE: Final = 0xFFFF
MAX_SESSION: Final = 0x7FFF
PORT_BITS: Final = 9
MAX_PACKET_LENGTH: Final = 0xFFFF
_SDN_PORT_CPU: Final = 0xFFFFFFFD

Replicas = list[tuple[int, int]]


class ReplicationEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return 0

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.packet_replication_engine_entry
        match request.WhichOneof("type"):
            case "multicast_group_entry":
                return _write_group(pipeline, operation, request.multicast_group_entry)
            case "clone_session_entry":
                return _write_session(pipeline, operation, request.clone_session_entry)
        raise invalid_argument("packet replication entry is neither a multicast group nor a clone session")

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.packet_replication_engine_entry
        kind = request.WhichOneof("type")
        if kind is None:
            raise invalid_argument(
                "packet replication entry is neither a multicast group nor a clone session"
            )
        if kind == "multicast_group_entry":
            yield from _read_groups(pipeline, request.multicast_group_entry.multicast_group_id)
        else:
            yield from _read_sessions(pipeline, request.clone_session_entry.session_id)


def _decode_replicas(pipeline: Pipeline, replicas: Iterable[p4r.Replica], what: str) -> Replicas:
    result: Replicas = []
    for replica in replicas:
        if replica.backup_replicas:
            raise unimplemented(f"{what}: backup replicas are not supported")
        match replica.WhichOneof("port_kind"):
            case "egress_port":
                port = replica.egress_port
            case "port":
                port = bytestrings.decode(replica.port, 32, f"{what}, port")
            case _:
                raise invalid_argument(f"{what}: a replica has no port")
        if port == _SDN_PORT_CPU and pipeline.device.cpu_port is not None:
            port = pipeline.device.cpu_port
        if port >> PORT_BITS:
            raise invalid_argument(f"{what}: port {port} does not fit within {PORT_BITS} bits")
        if replica.instance > MAX_INSTANCE:
            raise invalid_argument(f"{what}: instance {replica.instance} is above {MAX_INSTANCE}")
        if (port, replica.instance) in result:
            raise invalid_argument(f"{what}: two replicas have port {port} and instance {replica.instance}")
        result.append((port, replica.instance))
    return result


def _encode_replicas(replicas: Replicas) -> list[p4r.Replica]:
    return [p4r.Replica(port=bytestrings.encode(port), instance=instance) for port, instance in replicas]


def _check_presence(operation: p4r.Update.Type.ValueType, exists: bool, what: str) -> None:
    if operation == p4r.Update.INSERT and exists:
        raise already_exists(f"{what} exists already")
    if operation != p4r.Update.INSERT and not exists:
        raise not_found(f"{what} does not exist")


# --- multicast groups


def _write_group(
    pipeline: Pipeline, operation: p4r.Update.Type.ValueType, request: p4r.MulticastGroupEntry
) -> Undo:
    group = request.multicast_group_id
    what = f"multicast group {group}"
    if group == 0:
        raise invalid_argument("multicast group id 0 is no group")
    if group > MAX_GROUP:
        raise out_of_range(f"{what} is above the largest, {MAX_GROUP}")
    device = pipeline.device
    before = device.mcast_groups().get(group)
    form = pipeline.groups.get(group)
    _check_presence(operation, before is not None, what)
    if operation == p4r.Update.DELETE:
        device.mcast_group_delete(group)
        pipeline.groups.pop(group, None)
    else:
        device.mcast_group_set(group, _decode_replicas(pipeline, request.replicas, what))
        pipeline.groups[group] = _copy(request)

    def undo() -> None:
        if before is None:
            device.mcast_group_delete(group)
            pipeline.groups.pop(group, None)
        else:
            device.mcast_group_set(group, before)
            if form is not None:
                pipeline.groups[group] = form

    return undo


def _copy(request: p4r.MulticastGroupEntry) -> p4r.MulticastGroupEntry:
    copy = p4r.MulticastGroupEntry()
    copy.CopyFrom(request)
    _canonical(copy.replicas)
    return copy


def _canonical(replicas: Iterable[p4r.Replica]) -> None:
    for replica in replicas:
        if replica.WhichOneof("port_kind") == "port":
            replica.port = bytestrings.encode(int.from_bytes(replica.port, "big"))


def _read_groups(pipeline: Pipeline, wanted: int) -> Iterator[p4r.Entity]:
    groups = pipeline.device.mcast_groups()
    if wanted and wanted not in groups:
        raise not_found(f"multicast group {wanted} does not exist")
    for group, replicas in groups.items():
        if wanted not in (0, group):
            continue
        out = p4r.Entity()
        entry = out.packet_replication_engine_entry.multicast_group_entry
        form = pipeline.groups.get(group)
        if form is not None and _decode_replicas(pipeline, form.replicas, "") == replicas:
            entry.CopyFrom(form)
        else:
            entry.multicast_group_id = group
            entry.replicas.extend(_encode_replicas(replicas))
        yield out


# --- clone sessions


def _write_session(
    pipeline: Pipeline, operation: p4r.Update.Type.ValueType, request: p4r.CloneSessionEntry
) -> Undo:
    session = request.session_id
    what = f"clone session {session}"
    if not 0 < session <= MAX_SESSION:
        raise invalid_argument(f"clone session id {session} is outside 1..{MAX_SESSION}")
    device = pipeline.device
    before = device.clone_sessions().get(session)
    form = pipeline.sessions.get(session)
    _check_presence(operation, before is not None, what)
    if operation == p4r.Update.DELETE:
        device.clone_session_delete(session)
        pipeline.sessions.pop(session, None)
    else:
        if request.class_of_service:
            raise unimplemented(f"{what}: class of service is not supported, clones have priority 0")
        if not 0 <= request.packet_length_bytes <= MAX_PACKET_LENGTH:
            raise invalid_argument(
                f"{what}: packet length {request.packet_length_bytes} is outside 0..{MAX_PACKET_LENGTH}"
            )
        replicas = _decode_replicas(pipeline, request.replicas, what)
        device.clone_session_set(session, replicas, request.packet_length_bytes)
        copy = p4r.CloneSessionEntry()
        copy.CopyFrom(request)
        _canonical(copy.replicas)
        pipeline.sessions[session] = copy

    def undo() -> None:
        if before is None:
            device.clone_session_delete(session)
            pipeline.sessions.pop(session, None)
        else:
            device.clone_session_set(session, *before)
            if form is not None:
                pipeline.sessions[session] = form

    return undo


def _read_sessions(pipeline: Pipeline, wanted: int) -> Iterator[p4r.Entity]:
    sessions = pipeline.device.clone_sessions()
    if wanted and wanted not in sessions:
        raise not_found(f"clone session {wanted} does not exist")
    for session, (replicas, length) in sessions.items():
        if wanted not in (0, session):
            continue
        out = p4r.Entity()
        entry = out.packet_replication_engine_entry.clone_session_entry
        form = pipeline.sessions.get(session)
        if form is not None and _decode_replicas(pipeline, form.replicas, "") == replicas:
            entry.CopyFrom(form)
        else:
            entry.session_id = session
            entry.replicas.extend(_encode_replicas(replicas))
            entry.packet_length_bytes = length
        yield out
