# SPDX-License-Identifier: Apache-2.0
"""A small synchronous P4Runtime client for tests, on finsy's stubs (the only ones in the project)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc

from tests.support.control import Match, Names, PacketIn

CHANNEL_OPTIONS = [("grpc.max_receive_message_length", 64 << 20)]


def canonical(value: int) -> bytes:
    """The shortest byte string of a value (P4Runtime specification, "Bytestrings")."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8))


class P4RuntimeControl:
    """`control.Control` over gRPC."""

    def __init__(self, address: str, device_id: int, p4info: Path, json: Path, timeout: float = 60.0) -> None:
        """Connect and become primary; does not push the pipeline. Raises TimeoutError."""
        self._names = Names(p4info)
        self._json = json.read_bytes()
        self._device_id = device_id
        self._election_id = U128.encode(1)
        self._timeout = timeout
        self._groups: list[int] = []
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        grpc.channel_ready_future(self._channel).result(timeout=timeout)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._arbitration: queue.Queue[int] = queue.Queue()
        self._packets: queue.Queue[p4r.PacketIn] = queue.Queue()
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read_stream, daemon=True)
        self._reader.start()
        update = p4r.MasterArbitrationUpdate(device_id=device_id, election_id=self._election_id)
        self._requests.put(p4r.StreamMessageRequest(arbitration=update))
        try:
            code = self._arbitration.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{address}: no answer to the arbitration") from None
        if code != 0:
            raise RuntimeError(f"{address}: another client is primary (status {code})")

    def _read_stream(self) -> None:
        try:
            for message in self._stream:
                if message.HasField("arbitration"):
                    self._arbitration.put(message.arbitration.status.code)
                elif message.HasField("packet"):
                    self._packets.put(message.packet)
        except grpc.RpcError:
            # The channel was closed, here or by the device; the next request says which.
            return

    def reset(self) -> None:
        self._delete_groups()
        config = p4r.ForwardingPipelineConfig(p4info=self._names.info, p4_device_config=self._json)
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=self._device_id,
                election_id=self._election_id,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=config,
            ),
            timeout=self._timeout,
        )
        while self.packet_in(0) is not None:
            pass

    def _delete_groups(self) -> None:
        """BMv2 keeps a group's replicas over a pipeline push, though P4Runtime then knows no group: so in
        time."""
        for group in self._groups:
            self._write(p4r.Update.DELETE, self._group_entity(group, ()))
        self._groups.clear()

    # --- entities

    def _write(self, kind: Any, entity: p4r.Entity) -> None:
        self._stub.Write(
            p4r.WriteRequest(
                device_id=self._device_id,
                election_id=self._election_id,
                updates=[p4r.Update(type=kind, entity=entity)],
            ),
            timeout=self._timeout,
        )

    def _key(self, table: p4i.Table, key: Mapping[str, Match]) -> Iterator[p4r.FieldMatch]:
        for field, value in self._names.fields(table, key):
            match = p4r.FieldMatch(field_id=field.id)
            if value is None:
                continue
            if field.match_type == p4i.MatchField.EXACT:
                assert isinstance(value, int), f"{field.name}: exact"
                match.exact.value = canonical(value)
            elif field.match_type == p4i.MatchField.LPM:
                assert isinstance(value, tuple), f"{field.name}: (value, prefix length)"
                match.lpm.value, match.lpm.prefix_len = canonical(value[0]), value[1]
            elif field.match_type == p4i.MatchField.TERNARY:
                assert isinstance(value, tuple), f"{field.name}: (value, mask)"
                match.ternary.value, match.ternary.mask = canonical(value[0]), canonical(value[1])
            else:
                raise NotImplementedError(f"{field.name}: match type {field.match_type}")
            yield match

    def _action(self, table: p4i.Table, name: str, params: Mapping[str, int]) -> p4r.TableAction:
        action = self._names.action(table, name)
        args = [
            p4r.Action.Param(param_id=param.id, value=canonical(value))
            for param, value in self._names.args(action, params)
        ]
        return p4r.TableAction(action=p4r.Action(action_id=action.preamble.id, params=args))

    def _entry(
        self, table: str, key: Mapping[str, Match], action: str, priority: int, params: Mapping[str, int]
    ) -> p4r.Entity:
        info = self._names.table(table)
        return p4r.Entity(
            table_entry=p4r.TableEntry(
                table_id=info.preamble.id,
                match=list(self._key(info, key)),
                action=self._action(info, action, params),
                priority=priority,
            )
        )

    def insert(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None:
        self._write(p4r.Update.INSERT, self._entry(table, key, action, entry_priority, params))

    def modify(
        self, table: str, key: Mapping[str, Match], action: str, entry_priority: int = 0, **params: int
    ) -> None:
        self._write(p4r.Update.MODIFY, self._entry(table, key, action, entry_priority, params))

    def delete(self, table: str, key: Mapping[str, Match], priority: int = 0) -> None:
        info = self._names.table(table)
        entry = p4r.TableEntry(table_id=info.preamble.id, match=list(self._key(info, key)), priority=priority)
        self._write(p4r.Update.DELETE, p4r.Entity(table_entry=entry))

    def set_default(self, table: str, action: str, **params: int) -> None:
        info = self._names.table(table)
        entry = p4r.TableEntry(
            table_id=info.preamble.id, action=self._action(info, action, params), is_default_action=True
        )
        self._write(p4r.Update.MODIFY, p4r.Entity(table_entry=entry))

    def _read(self, entities: Iterable[p4r.Entity]) -> list[p4r.Entity]:
        request = p4r.ReadRequest(device_id=self._device_id, entities=list(entities))
        return [
            entity
            for response in self._stub.Read(request, timeout=self._timeout)
            for entity in response.entities
        ]

    def counter(self, name: str, index: int = 0) -> int:
        info = self._names.counter(name)
        cell = p4r.CounterEntry(counter_id=info.preamble.id, index=p4r.Index(index=index))
        (entity,) = self._read([p4r.Entity(counter_entry=cell)])
        return int(entity.counter_entry.data.packet_count)

    def counters(self, names: Iterable[str]) -> dict[str, int]:
        ids = {self._names.counter(name).preamble.id: name for name in names}
        cells = [
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=id_, index=p4r.Index(index=0)))
            for id_ in ids
        ]
        return {
            ids[entity.counter_entry.counter_id]: int(entity.counter_entry.data.packet_count)
            for entity in self._read(cells)
        }

    @staticmethod
    def _group_entity(group: int, replicas: Sequence[tuple[int, int]]) -> p4r.Entity:
        entry = p4r.MulticastGroupEntry(multicast_group_id=group)
        for port, rid in replicas:
            entry.replicas.add(egress_port=port, instance=rid)
        return p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=entry)
        )

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._write(p4r.Update.INSERT, self._group_entity(group, replicas))
        self._groups.append(group)

    # --- packet I/O

    def packet_out(self, payload: bytes = b"", **metadata: int) -> None:
        fields = self._names.packet_metadata("packet_out").metadata
        if {field.name for field in fields} != set(metadata):
            raise KeyError(f"packet_out: fields {[f.name for f in fields]}, got {sorted(metadata)}")
        packet = p4r.PacketOut(
            payload=payload,
            metadata=[
                p4r.PacketMetadata(metadata_id=field.id, value=canonical(metadata[field.name]))
                for field in fields
            ],
        )
        self._requests.put(p4r.StreamMessageRequest(packet=packet))

    def packet_in(self, timeout: float = 5.0) -> PacketIn | None:
        try:
            packet = self._packets.get(timeout=timeout) if timeout else self._packets.get_nowait()
        except queue.Empty:
            return None
        names = {field.id: field.name for field in self._names.packet_metadata("packet_in").metadata}
        return {names[m.metadata_id]: int.from_bytes(m.value) for m in packet.metadata}, packet.payload

    def close(self) -> None:
        self._delete_groups()
        self._requests.put(None)
        self._stream.cancel()
        self._reader.join(timeout=5)
        self._channel.close()
