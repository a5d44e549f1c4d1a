# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime client on the bare stubs: sends what a test wants, right or wrong, and decodes the answer."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_status

TIMEOUT_S = 30


class RpcError(Exception):
    """A failed RPC: its code and message, and the code and message of each element (None: no details)."""

    def __init__(self, error: Any) -> None:
        self.code: str = error.code().name
        self.message: str = error.details()
        self.details: list[p4r.Error] | None = None
        self.status: rpc_status.Status | None = None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self.status = rpc_status.Status.FromString(value)
                self.details = []
                for item in self.status.details:
                    detail = p4r.Error()
                    assert item.Unpack(detail)
                    self.details.append(detail)
        super().__init__(f"{self.code}: {self.message}")

    @property
    def codes(self) -> list[str]:
        assert self.details is not None
        return [_name(d.canonical_code) for d in self.details]

    @property
    def messages(self) -> list[str]:
        assert self.details is not None
        return [d.message for d in self.details]


def _name(code: int) -> str:
    return next(c.name for c in grpc.StatusCode if c.value[0] == code)


class Stream:
    """One StreamChannel."""

    def __init__(self, stub: p4r_grpc.P4RuntimeStub, device_id: int) -> None:
        self._device_id = device_id
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._call: Any = stub.StreamChannel(iter(self._requests.get, None), timeout=TIMEOUT_S)

    def send(self, request: p4r.StreamMessageRequest) -> None:
        self._requests.put(request)

    def arbitrate(
        self,
        election_id: int | None,
        role: str | None = None,
        config: Any = None,
        device_id: int | None = None,
    ) -> None:
        message = p4r.MasterArbitrationUpdate(device_id=self._device_id if device_id is None else device_id)
        if election_id is not None:
            message.election_id.high = election_id >> 64
            message.election_id.low = election_id & (2**64 - 1)
        if role is not None:
            message.role.name = role
        if config is not None:
            message.role.config.Pack(config)
        self.send(p4r.StreamMessageRequest(arbitration=message))

    def receive(self) -> p4r.StreamMessageResponse:
        """The next message. Raises RpcError when the server has ended the stream."""
        try:
            response: p4r.StreamMessageResponse = next(self._call)
        except grpc.RpcError as error:
            raise RpcError(error) from None
        return response

    def background(self) -> list[p4r.StreamMessageResponse]:
        """A list that the messages from now on are added to, by a thread, until the stream ends."""
        messages: list[p4r.StreamMessageResponse] = []

        def listen() -> None:
            with contextlib.suppress(RpcError, StopIteration):
                while True:
                    messages.append(self.receive())

        threading.Thread(target=listen, daemon=True).start()
        return messages

    def status(self) -> tuple[str, int | None]:
        """The next message, an arbitration one: (status code, election id or None)."""
        message = self.receive()
        assert message.HasField("arbitration"), message
        election_id = None
        if message.arbitration.HasField("election_id"):
            election_id = (message.arbitration.election_id.high << 64) | message.arbitration.election_id.low
        return _name(message.arbitration.status.code), election_id

    def close(self) -> None:
        self._call.cancel()


class Client:
    """Unary RPCs as the client that `election_id` and `role` say, and streams."""

    def __init__(
        self,
        address: str,
        device_id: int = 1,
        options: tuple[tuple[str, int], ...] = (("grpc.max_metadata_size", 1 << 20),),
    ) -> None:
        self.address = address
        self.device_id = device_id
        self.election_id: int | None = 1
        self.role = ""
        self.channel = grpc.insecure_channel(address, options=options)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.streams: list[Stream] = []

    def stream(self) -> Stream:
        stream = Stream(self.stub, self.device_id)
        self.streams.append(stream)
        return stream

    def primary(self, election_id: int = 1, role: str | None = None, config: Any = None) -> Stream:
        """A stream that has become primary."""
        stream = self.stream()
        stream.arbitrate(election_id, role, config)
        assert stream.status() == ("OK", election_id)
        self.election_id = election_id
        self.role = role or ""
        return stream

    def _sign(self, request: Any) -> Any:
        request.device_id = self.device_id
        request.role = self.role
        if self.election_id is not None:
            request.election_id.high = self.election_id >> 64
            request.election_id.low = self.election_id & (2**64 - 1)
        return request

    def _call(self, rpc: Any, request: Any) -> Any:
        try:
            return rpc(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise RpcError(error) from None

    def set_config(
        self,
        config: p4r.ForwardingPipelineConfig | None,
        action: str = "VERIFY_AND_COMMIT",
    ) -> None:
        kind = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
        request = p4r.SetForwardingPipelineConfigRequest(action=kind, config=config)
        self._call(self.stub.SetForwardingPipelineConfig, self._sign(request))

    def get_config(self, response_type: str = "ALL") -> p4r.GetForwardingPipelineConfigResponse:
        kind = p4r.GetForwardingPipelineConfigRequest.ResponseType.Value(response_type)
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=kind)
        response: p4r.GetForwardingPipelineConfigResponse = self._call(
            self.stub.GetForwardingPipelineConfig, request
        )
        return response

    def write(self, *updates: p4r.Update, atomicity: str = "CONTINUE_ON_ERROR") -> None:
        request = p4r.WriteRequest(updates=updates, atomicity=p4r.WriteRequest.Atomicity.Value(atomicity))
        self._call(self.stub.Write, self._sign(request))

    def insert(self, *entities: p4r.Entity) -> None:
        self.write(*(p4r.Update(type=p4r.Update.INSERT, entity=e) for e in entities))

    def modify(self, *entities: p4r.Entity) -> None:
        self.write(*(p4r.Update(type=p4r.Update.MODIFY, entity=e) for e in entities))

    def delete(self, *entities: p4r.Entity) -> None:
        self.write(*(p4r.Update(type=p4r.Update.DELETE, entity=e) for e in entities))

    def responses(self, *entities: p4r.Entity) -> Iterator[p4r.ReadResponse]:
        request = p4r.ReadRequest(device_id=self.device_id, role=self.role, entities=entities)
        try:
            yield from self.stub.Read(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise RpcError(error) from None

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        return [entity for response in self.responses(*entities) for entity in response.entities]

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.channel.close()


def updates(kind: str, entities: Iterable[p4r.Entity]) -> list[p4r.Update]:
    return [p4r.Update(type=p4r.Update.Type.Value(kind), entity=e) for e in entities]
