# SPDX-License-Identifier: Apache-2.0
"""One device as P4Runtime clients see it: arbitration, configs, streams, and packets in and out.

Everything here runs on the server's event loop, except `packet_in`, which the engine calls from its own
thread. A device's reads, writes and configs happen one after the other (`lock`); what may take long runs in a
worker thread meanwhile, so that other devices and streams go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from finsy.proto import p4r, rpc_code
from google.protobuf.message import Message

from target.api import DeviceApi, DeviceError, Notice
from target.p4runtime.arbitration import Arbiter, Client, Outcome
from target.p4runtime.config import ConfigStore
from target.p4runtime.entities.digest import digest_of
from target.p4runtime.notices import stream_message
from target.p4runtime.packetio import decode_packet_in, encode_packet_out
from target.p4runtime.pipeline import p4_error
from target.p4runtime.status import P4Error, permission_denied, unimplemented

T = TypeVar("T")

PACKET_QUEUE: Final = 16384
"""Packets that may wait for the event loop; the engine's own queue comes before it."""

STREAM_QUEUE: Final = 4096
"""Packets and errors that may wait for one slow client; what is beyond is dropped and counted."""


class Workers:
    """Threads for what takes long, shared by all devices of a process. For use on one event loop."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="p4runtime-worker")
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def run(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def turn(self, content: bytes) -> asyncio.Lock:
        """The lock of one content: many devices are given the same program at once, one is enough to compile
        it, and the others would only take the processors from it."""
        return self._turns.setdefault(hash(content), asyncio.Lock())

    def close(self) -> None:
        self._executor.shutdown()


class Stream:
    """What waits to be sent to one client."""

    def __init__(self) -> None:
        self.client = Client()
        self.closed = False
        self.drops = 0
        self._queue: deque[p4r.StreamMessageResponse] = deque()
        self._ready = asyncio.Event()

    def send(self, message: p4r.StreamMessageResponse, *, droppable: bool = True) -> None:
        """Queue a message. Arbitration messages are never dropped."""
        if droppable and len(self._queue) >= STREAM_QUEUE:
            self.drops += 1
            return
        self._queue.append(message)
        self._ready.set()

    async def next(self) -> p4r.StreamMessageResponse:
        while not self._queue:
            self._ready.clear()
            await self._ready.wait()
        return self._queue.popleft()


class DeviceSession:
    """The P4Runtime side of one device."""

    def __init__(self, device: DeviceApi, workers: Workers) -> None:
        self.device = device
        self.arbiter = Arbiter(device.device_id)
        self.configs = ConfigStore(device)
        self.lock = asyncio.Lock()
        self.log = logging.getLogger(f"target.p4runtime.{device.name}")
        self._workers = workers
        self._streams: dict[Client, Stream] = {}
        self._loop = asyncio.get_running_loop()
        self._packets: deque[bytes] = deque()
        self._drain_scheduled = False
        self._closed = False
        self.packet_drops = 0
        device.set_packet_in(self.packet_in)
        device.set_notices(self.notice)

    def close(self) -> None:
        self._closed = True
        self.device.set_packet_in(None)
        self.device.set_notices(None)

    async def in_worker(self, function: Callable[..., T], *args: object) -> T:
        """Run something long in a worker thread. The caller holds the lock."""
        return await self._workers.run(function, *args)

    async def set_config(
        self,
        action: p4r.SetForwardingPipelineConfigRequest.Action.ValueType,
        config: p4r.ForwardingPipelineConfig | None,
    ) -> None:
        """`ConfigStore.set` in a worker thread, one at a time for each program. The caller holds the lock."""
        async with self._workers.turn(b"" if config is None else config.p4_device_config):
            await self.in_worker(self.configs.set, action, config)

    # --- streams

    def open_stream(self) -> Stream:
        stream = Stream()
        self._streams[stream.client] = stream
        return stream

    async def close_stream(self, stream: Stream) -> None:
        stream.closed = True
        self._streams.pop(stream.client, None)
        if stream.drops:
            self.log.warning("a slow client lost %d message(s)", stream.drops)
        await self._inform(self.arbiter.remove(stream.client))

    async def arbitrate(self, stream: Stream, message: p4r.MasterArbitrationUpdate) -> None:
        """Raises P4Error, which ends the stream."""
        outcome = self.arbiter.update(stream.client, message)
        self.log.debug("arbitration: role %r, election id %s", stream.client.role, stream.client.election_id)
        await self._inform(outcome)

    async def _inform(self, outcome: Outcome) -> None:
        for client in outcome.inform:
            self._notify(client)
        if outcome.then is not None:
            # The new primary is told when what the former one wrote is finished.
            async with self.lock:
                if self.arbiter.is_primary(outcome.then):
                    self._notify(outcome.then)

    def _notify(self, client: Client) -> None:
        stream = self._streams.get(client)
        if stream is not None:
            stream.send(
                p4r.StreamMessageResponse(arbitration=self.arbiter.notification(client)), droppable=False
            )

    # --- packets

    def stream_request(self, stream: Stream, request: p4r.StreamMessageRequest) -> None:
        """A stream message other than arbitration. What is refused is answered by a stream error."""
        try:
            if not self.arbiter.is_primary(stream.client):
                raise permission_denied("Not primary: the message is dropped")
            if request.WhichOneof("update") == "digest_ack":
                self._acknowledge(stream, request.digest_ack)
                return
            if request.WhichOneof("update") != "packet":
                raise unimplemented(f"stream message {request.WhichOneof('update')} is not supported")
            pipeline = self.configs.running
            if pipeline is None:
                pipeline = self.configs.require()
            self.device.packet_out(encode_packet_out(pipeline.index.packet_out, request.packet))
        except P4Error as error:
            stream.send(_stream_error(error, request))
        except DeviceError as error:
            stream.send(_stream_error(p4_error(error), request))

    def _acknowledge(self, stream: Stream, message: p4r.DigestListAck) -> None:
        pipeline = self.configs.running or self.configs.require()
        digest = digest_of(pipeline, message.digest_id)
        if not self.arbiter.role_config(stream.client.role or "").may_use(digest.id):
            raise permission_denied(f"the role does not own digest {digest.name!r}")
        self.device.digest_acknowledge(digest.name, message.list_id)

    def notice(self, notice: Notice) -> None:
        """A digest's list or idle entries. Called by the engine, from any thread; never blocks."""
        if not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._tell, notice)
            except RuntimeError:
                # The loop is closed: the server has stopped.
                self._closed = True

    def _tell(self, notice: Notice) -> None:
        pipeline = self.configs.running
        found = None if pipeline is None else stream_message(pipeline, notice)
        if found is None:
            return
        for client, config in self.arbiter.primaries():
            stream = self._streams.get(client)
            if stream is not None and config.may_use(found[0]):
                stream.send(found[1])

    def packet_in(self, packet: bytes) -> None:
        """A packet for the CPU. Called by the engine, from any thread; never blocks."""
        if self._closed:
            return
        if len(self._packets) >= PACKET_QUEUE:
            self.packet_drops += 1
            return
        self._packets.append(packet)
        if not self._drain_scheduled:
            self._drain_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop is closed: the server has stopped.
                self._closed = True

    def _drain(self) -> None:
        self._drain_scheduled = False
        while self._packets:
            self._deliver(self._packets.popleft())

    def _deliver(self, packet: bytes) -> None:
        pipeline = self.configs.running
        if pipeline is None:
            return
        message = decode_packet_in(pipeline.index.packet_in, packet)
        if message is None:
            self.log.warning(
                "packet to the CPU of %d byte(s) is shorter than its packet_in header; dropped", len(packet)
            )
            return
        response = p4r.StreamMessageResponse(packet=message)
        for client, config in self.arbiter.primaries():
            stream = self._streams.get(client)
            if stream is not None and config.wants_packet(message.metadata):
                stream.send(response)


def _stream_error(error: P4Error, request: p4r.StreamMessageRequest) -> p4r.StreamMessageResponse:
    response = p4r.StreamMessageResponse()
    response.error.canonical_code = error.code
    response.error.message = error.message
    details: Message
    match request.WhichOneof("update"):
        case "packet":
            details = response.error.packet_out
            response.error.packet_out.packet_out.CopyFrom(request.packet)
        case "digest_ack":
            details = response.error.digest_list_ack
            response.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
        case "other":
            details = response.error.other
            response.error.other.other.CopyFrom(request.other)
        case _:
            response.error.canonical_code = rpc_code.INVALID_ARGUMENT
            response.error.message = "the stream message is empty"
            details = response.error.other
    details.SetInParent()
    return response
