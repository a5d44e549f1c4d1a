# SPDX-License-Identifier: Apache-2.0
"""One device over P4Runtime: arbitration, pipeline, entities, counters and packets.

Built on finsy's client, schema and entities. Every error is a `ControllerError` that names the device and the
entity.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import grpc
from finsy import P4Client, P4ClientError, P4CounterEntry, P4PacketIn, P4PacketOut, P4Schema
from finsy.proto import U128, p4r, p4r_grpc

from controller.entities import Entity, Entry, Key, content, identity, text_of
from controller.errors import ControllerError
from controller.programs import Program

CONNECT_SECONDS = 20.0
PIPELINE_SECONDS = 120.0
UPDATES_PER_WRITE = 500

Operation: TypeAlias = Literal["insert", "modify", "delete"]
_OPERATIONS = {"insert": p4r.Update.INSERT, "modify": p4r.Update.MODIFY, "delete": p4r.Update.DELETE}
_OK = 0

logging.getLogger("finsy").addHandler(logging.NullHandler())
LOGGER = logging.getLogger("forgive.controller")


class Device:
    """A connection to one device. The newest controller is primary: election ids are start times.

    Remembers what it wrote, so that `verify` can compare it with what the device holds. schema: the
    program's, if it has been read already.
    """

    def __init__(
        self, name: str, address: str, device_id: int, program: Program, schema: P4Schema | None = None
    ) -> None:
        self.name = name
        self.address = address
        self.device_id = device_id
        self.program = program
        self.schema = schema or P4Schema(program.p4info, program.json)
        self._election = U128.encode(time.time_ns())
        self._client: P4Client | None = None
        self._reader: asyncio.Task[None] | None = None
        self._wanted: dict[Key, tuple[Entity, p4r.Entity]] = {}
        self._packet_handler: Callable[[P4PacketIn], None] | None = None
        self._lost: str | None = None

    # --- connection
    async def connect(self, push: bool = True) -> None:
        """Become primary and, if `push`, load the program: the device then starts from empty tables and
        counters.
        """
        client = P4Client(self.address, wait_for_ready=False)
        await client.open(schema=self.schema)
        self._client = client
        try:
            await self._arbitrate(client)
            if push:
                await self._push(client)
        except BaseException:
            await self.close()
            raise
        self._reader = asyncio.create_task(self._read_stream(client), name=f"{self.name} stream")

    async def close(self) -> None:
        """Leave. Safe to call twice."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _arbitrate(self, client: P4Client) -> None:
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id, election_id=self._election)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.send(p4r.StreamMessageRequest(arbitration=update))
                while True:
                    answer = await client.receive()
                    if answer.WhichOneof("update") == "arbitration":
                        break
        except TimeoutError:
            raise self._error(
                f"no answer from {self.address} in {CONNECT_SECONDS:.0f} s; is the target alive?"
            ) from None
        except P4ClientError as error:
            if error.code.name == "UNAVAILABLE":
                raise self._error(f"no P4Runtime server at {self.address}; start the target first") from None
            raise self._refused("arbitration", error) from None
        except RuntimeError:  # finsy's word for an end of stream
            raise self._error(
                f"{self.address} closed the stream; is its device id {self.device_id}?"
            ) from None
        if answer.arbitration.status.code != _OK:
            primary = U128.decode(answer.arbitration.election_id)
            raise self._error(f"another controller is primary (election id {primary}); stop it first")

    async def push(self) -> None:
        """Load the program again: tables, counters and registers start from nothing."""
        await self._push(self._connected())

    async def _push(self, client: P4Client) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=self._election,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=self.schema.get_pipeline_config(),
        )
        assert client.channel is not None
        stub: Any = p4r_grpc.P4RuntimeStub(client.channel)  # a first load compiles: longer than finsy waits
        try:
            await stub.SetForwardingPipelineConfig(request, timeout=PIPELINE_SECONDS)
        except grpc.RpcError as error:
            wrapped = P4ClientError(error, "SetForwardingPipelineConfig")
            raise self._refused(f"program {self.program.name}", wrapped) from None
        self._wanted.clear()

    async def _read_stream(self, client: P4Client) -> None:
        try:
            while True:
                message = await client.receive()
                kind = message.WhichOneof("update")
                if kind == "packet" and self._packet_handler is not None:
                    self._packet_handler(P4PacketIn.decode(message, self.schema))
                elif kind == "arbitration" and message.arbitration.status.code != _OK:
                    self._lost = "another controller took over as primary"
                elif kind == "error":
                    LOGGER.warning("%s: stream error: %s", self.name, message.error.message)
        except (P4ClientError, RuntimeError):
            self._lost = f"lost the connection to {self.address}; is the target alive?"

    def _connected(self) -> P4Client:
        if self._client is None:
            raise self._error("not connected; call connect first")
        if self._lost is not None:
            raise self._error(self._lost)
        return self._client

    def _error(self, text: str) -> ControllerError:
        return ControllerError(f"{self.name}: {text}")

    def _refused(self, what: object, error: P4ClientError) -> ControllerError:
        if error.code.name == "UNAVAILABLE":
            return self._error(f"{what}: {self.address} doesn't answer any more; is the target alive?")
        said = " ".join(error.message.split()) or "no reason given"
        return self._error(f"{what}: {error.code.name}: {said}")

    # --- entities
    async def write(self, operation: Operation, entities: Iterable[Entity]) -> None:
        """Insert, modify or delete, in order. Raises ControllerError naming the first entity that was
        refused.
        """
        client = self._connected()
        encoded = [(entity, self._encode(entity)) for entity in entities]
        for start in range(0, len(encoded), UPDATES_PER_WRITE):
            batch = encoded[start : start + UPDATES_PER_WRITE]
            request = p4r.WriteRequest(
                device_id=self.device_id,
                election_id=self._election,
                updates=[self._update(operation, entity, message) for entity, message in batch],
            )
            try:
                await client.request(request)
            except P4ClientError as error:
                raise self._write_error(operation, batch, error) from None
            for entity, message in batch:
                if operation == "delete":
                    self._wanted.pop(identity(message), None)
                else:
                    self._wanted[identity(message)] = (entity, message)

    @staticmethod
    def _update(operation: Operation, entity: Entity, message: p4r.Entity) -> p4r.Update:
        default = isinstance(entity, Entry) and entity.key is None
        return p4r.Update(type=p4r.Update.MODIFY if default else _OPERATIONS[operation], entity=message)

    def _encode(self, entity: Entity) -> p4r.Entity:
        try:
            return entity.encode(self.schema)
        except (ValueError, KeyError) as error:
            raise self._error(
                f"{entity}: {' '.join(str(error).split())} (program {self.program.name})"
            ) from None

    def _write_error(
        self, operation: Operation, batch: Sequence[tuple[Entity, p4r.Entity]], error: P4ClientError
    ) -> ControllerError:
        if not error.details:
            return self._refused(f"{operation} {batch[0][0]}", error)
        index = min(error.details)
        detail = error.details[index]
        said = " ".join(detail.message.split()) or "no reason given"
        return self._error(f"{operation} {batch[index][0]}: {detail.canonical_code.name}: {said}")

    async def read(self, entities: Sequence[p4r.Entity]) -> list[p4r.Entity]:
        """What the device answers to a read of these (wildcards allowed)."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=entities)
        found: list[p4r.Entity] = []
        try:
            async for answer in self._connected().request_iter(request):
                found.extend(answer.entities)
        except P4ClientError as error:
            raise self._refused("read", error) from None
        return found

    async def verify(self) -> int:
        """Read every table, default action and multicast group back and compare with what was written.

        Returns how many entities agreed. Raises ControllerError for the first that is missing, different or
        extra.
        """
        held = {identity(m): m for m in await self.read(self._everything())}
        for key, (entity, message) in self._wanted.items():
            answer = held.pop(key, None)
            if answer is None:
                raise self._error(f"{entity} was written and isn't there")
            if content(answer) != content(message):
                raise self._error(f"{entity} was written, but the device has {text_of(answer, self.schema)}")
        for answer in held.values():
            if not self._is_own(answer):
                raise self._error(f"{text_of(answer, self.schema)} is there and nobody wrote it")
        return len(self._wanted)

    def _everything(self) -> list[p4r.Entity]:
        reads = [p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id)) for table in self.schema.tables]
        defaults = {
            m.table_entry.table_id for e, m in self._wanted.values() if isinstance(e, Entry) and e.key is None
        }
        reads += [
            p4r.Entity(table_entry=p4r.TableEntry(table_id=i, is_default_action=True))
            for i in sorted(defaults)
        ]
        groups = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
        return [*reads, p4r.Entity(packet_replication_engine_entry=groups)]

    @staticmethod
    def _is_own(message: p4r.Entity) -> bool:
        """Entries that the program itself declares, and its own default actions."""
        entry = message.table_entry
        return message.WhichOneof("entity") == "table_entry" and (entry.is_const or entry.is_default_action)

    # --- counters
    async def counters(self, cells: Sequence[tuple[str, int]]) -> list[int]:
        """Packets counted in cells of (counter, index), in that order, by one request."""
        try:
            messages = [P4CounterEntry(name, index=index).encode(self.schema) for name, index in cells]
        except (ValueError, KeyError) as error:
            raise self._error(
                f"counter: {' '.join(str(error).split())} (program {self.program.name})"
            ) from None
        found = {
            (m.counter_entry.counter_id, m.counter_entry.index.index): m.counter_entry.data.packet_count
            for m in await self.read(messages)
        }
        result = []
        for (name, index), message in zip(cells, messages, strict=True):
            cell = (message.counter_entry.counter_id, index)
            if cell not in found:
                raise self._error(f"counter {name}[{index}]: the device didn't answer it")
            result.append(found[cell])
        return result

    # --- packets
    def on_packet(self, handler: Callable[[P4PacketIn], None] | None) -> None:
        """Who gets the packets that the device sends to the controller; called on the event loop."""
        self._packet_handler = handler

    async def send_packet(self, metadata: Mapping[str, int], payload: bytes = b"") -> None:
        """A PacketOut with the program's packet_out header."""
        try:
            await self._connected().send(P4PacketOut(payload, **metadata).encode_update(self.schema))
        except P4ClientError as error:
            raise self._refused("packet out", error) from None
