# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server in memory: keeps what is written, answers reads, lets a test tamper with it.

It knows no P4: it stands for a device of which only the P4Runtime side matters.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent import futures
from types import TracebackType
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_code, rpc_status

Answer = Callable[[p4r.PacketOut], p4r.PacketIn | None]


class FakeDevice(p4r_grpc.P4RuntimeServicer):
    """One device. `refuse`: why an update is refused, or None. `answer`: PacketOut -> PacketIn or silence."""

    def __init__(self, device_id: int = 1, socket: str = "") -> None:
        self.device_id = device_id
        self.entities: dict[bytes, p4r.Entity] = {}
        self.pipelines = 0
        self.refuse: Callable[[p4r.Update], str | None] = lambda update: None
        self.answer: Answer = lambda packet: None
        self.primary = True
        self.pipeline_error: str | None = None
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        if socket:
            self._server.add_insecure_port(f"unix:{socket}")
            self.address = f"unix:{socket}"
        else:
            self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> FakeDevice:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()

    # --- P4Runtime
    def StreamChannel(self, requests: Iterator[p4r.StreamMessageRequest], context: Any) -> Iterator[Any]:
        answers: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        for request in requests:
            if request.HasField("arbitration"):
                code = rpc_code.OK if self.primary else rpc_code.ALREADY_EXISTS
                update = p4r.MasterArbitrationUpdate()
                update.CopyFrom(request.arbitration)
                update.status.CopyFrom(rpc_status.Status(code=code))
                answers.put(p4r.StreamMessageResponse(arbitration=update))
            elif request.HasField("packet"):
                packet = self.answer(request.packet)
                if packet is not None:
                    answers.put(p4r.StreamMessageResponse(packet=packet))
            while not answers.empty():
                yield answers.get()

    def Capabilities(self, request: Any, context: Any) -> Any:
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        return p4r.GetForwardingPipelineConfigResponse()

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        if self.pipeline_error is not None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.pipeline_error)
        self.pipelines += 1
        self.entities.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    def Write(self, request: Any, context: Any) -> Any:
        errors = []
        for update in request.updates:
            key = self._key(update.entity)
            said = self.refuse(update)
            code = rpc_code.INVALID_ARGUMENT
            exists = key in self.entities
            if said is None and update.type == p4r.Update.INSERT and exists:
                said, code = "there already", rpc_code.ALREADY_EXISTS
            if said is None and update.type == p4r.Update.DELETE and not exists:
                said, code = "not there", rpc_code.NOT_FOUND
            if said is None:
                if update.type == p4r.Update.DELETE:
                    del self.entities[key]
                else:
                    entity = p4r.Entity()
                    entity.CopyFrom(update.entity)
                    self.entities[key] = entity
            errors.append(p4r.Error(canonical_code=rpc_code.OK if said is None else code, message=said or ""))
        if any(error.canonical_code for error in errors):
            status = rpc_status.Status(code=rpc_code.UNKNOWN, message="some updates failed")
            for error in errors:
                status.details.add().Pack(error)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
        return p4r.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        for wanted in request.entities:
            kind = wanted.WhichOneof("entity")
            if kind == "counter_entry":
                entity = p4r.Entity()
                entity.CopyFrom(wanted)
                cell = wanted.counter_entry
                entity.counter_entry.data.packet_count = (cell.counter_id & 0xFF) * 1000 + cell.index.index
                yield p4r.ReadResponse(entities=[entity])
                continue
            for entity in list(self.entities.values()):
                if entity.WhichOneof("entity") != kind:
                    continue
                if kind == "table_entry":
                    table, default = wanted.table_entry.table_id, wanted.table_entry.is_default_action
                    if (entity.table_entry.table_id, entity.table_entry.is_default_action) != (
                        table,
                        default,
                    ):
                        continue
                yield p4r.ReadResponse(entities=[entity])

    @staticmethod
    def _key(entity: p4r.Entity) -> bytes:
        key = p4r.Entity()
        key.CopyFrom(entity)
        if key.HasField("table_entry"):
            key.table_entry.ClearField("action")
        else:
            group = key.packet_replication_engine_entry.multicast_group_entry
            del group.replicas[:]
        return bytes(key.SerializeToString(deterministic=True))
