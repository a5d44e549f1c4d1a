# SPDX-License-Identifier: Apache-2.0
"""The gRPC service `p4.v1.P4Runtime`: RPCs go to device sessions, errors become statuses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from finsy.proto import p4r, p4r_grpc

from target.p4runtime.batch import read_batch, write_batch
from target.p4runtime.roles import RoleConfig
from target.p4runtime.session import DeviceSession, Stream
from target.p4runtime.status import (
    DETAILS_KEY,
    BatchError,
    P4Error,
    grpc_code,
    internal,
    not_found,
    permission_denied,
)

API_VERSION: Final = "1.5.0"
"""The P4Runtime version that is implemented, as `Capabilities` reports it."""

_INLINE: Final = 64
"""Reading or writing at most this many entities takes less time than handing it to another thread."""
_CHUNK_BYTES: Final = 1 << 20
"""A read's answer is cut into messages of about this size: clients refuse more than 4 MB by default."""

Context = Any
"""`grpc.aio.ServicerContext`; its stubs and the generated servicer's disagree about its parameters."""

_LOG = logging.getLogger(__name__)


class P4RuntimeService(p4r_grpc.P4RuntimeServicer):
    """The devices of one server, by device id."""

    def __init__(self, sessions: Mapping[int, DeviceSession]) -> None:
        self._sessions = sessions

    def _session(self, device_id: int) -> DeviceSession:
        session = self._sessions.get(device_id)
        if session is None:
            known = ", ".join(str(i) for i in sorted(self._sessions))
            raise not_found(f"no device {device_id}, this server has {known}")
        return session

    # --- unary

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: Context
    ) -> p4r.CapabilitiesResponse:
        try:
            if request.device_id:
                self._session(request.device_id)
            return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)
        except P4Error as error:
            await _abort(context, error)

    async def Write(self, request: p4r.WriteRequest, context: Context) -> p4r.WriteResponse:
        try:
            session = self._session(request.device_id)
            election_id = request.election_id if request.HasField("election_id") else None
            session.arbiter.check_primary(request.role, election_id)
            async with session.lock:
                # Another client may have become primary while this one waited.
                role = session.arbiter.check_primary(request.role, election_id)
                await _write(session, request, role)
            session.log.debug("write: %d update(s)", len(request.updates))
            return p4r.WriteResponse()
        except BatchError as error:
            await _abort_batch(context, error)
        except P4Error as error:
            await _abort(context, error)
        except Exception:
            await _abort_unexpected(context, "Write")

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        try:
            session = self._session(request.device_id)
            election_id = request.election_id if request.HasField("election_id") else None
            session.arbiter.check_primary(request.role, election_id)
            config = request.config if request.HasField("config") else None
            async with session.lock:
                role = session.arbiter.check_primary(request.role, election_id)
                if not role.can_push_pipeline:
                    raise permission_denied(f"role {request.role!r} may not set the pipeline config")
                await _finish(session.set_config(request.action, config))
            action = p4r.SetForwardingPipelineConfigRequest.Action.Name(request.action)
            session.log.info("pipeline config: %s done", action)
            return p4r.SetForwardingPipelineConfigResponse()
        except P4Error as error:
            await _abort(context, error)
        except Exception:
            await _abort_unexpected(context, "SetForwardingPipelineConfig")

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        try:
            session = self._session(request.device_id)
            async with session.lock:
                config = session.configs.get(request.response_type)
            return p4r.GetForwardingPipelineConfigResponse(config=config)
        except P4Error as error:
            await _abort(context, error)

    # --- streaming

    async def Read(self, request: p4r.ReadRequest, context: Context) -> AsyncIterator[p4r.ReadResponse]:
        try:
            session = self._session(request.device_id)
            role = session.arbiter.role_config(request.role) if request.role else None
            async with session.lock:
                pipeline = session.configs.require()
                if len(request.entities) <= _INLINE and all(map(_names_one, request.entities)):
                    entities, failure = read_batch(pipeline, request.entities, role)
                else:
                    entities, failure = await session.in_worker(read_batch, pipeline, request.entities, role)
            for response in _chunks(entities):
                yield response
            if failure is not None:
                raise failure
        except BatchError as error:
            await _abort_batch(context, error)
        except P4Error as error:
            await _abort(context, error)
        except Exception:
            await _abort_unexpected(context, "Read")

    async def StreamChannel(  # type: ignore[override]
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> None:
        session: DeviceSession | None = None
        stream: Stream | None = None
        writer: asyncio.Task[None] | None = None
        try:
            async for request in request_iterator:
                if request.WhichOneof("update") == "arbitration":
                    if session is None or stream is None:
                        session = self._session(request.arbitration.device_id)
                        stream = session.open_stream()
                        writer = asyncio.create_task(_send_all(stream, context))
                    await session.arbitrate(stream, request.arbitration)
                elif session is not None and stream is not None:
                    session.stream_request(stream, request)
                # Before its first arbitration message a stream belongs to no device: nobody can answer.
        except P4Error as error:
            await _abort(context, error)
        finally:
            if writer is not None:
                writer.cancel()
            if session is not None and stream is not None:
                await asyncio.shield(session.close_stream(stream))


async def _write(session: DeviceSession, request: p4r.WriteRequest, role: RoleConfig) -> None:
    pipeline = session.configs.require()
    args = (pipeline, request.updates, request.atomicity, role, session.configs.write_log)
    if len(request.updates) <= _INLINE:
        write_batch(*args)
    else:
        await _finish(session.in_worker(write_batch, *args))


def _names_one(entity: p4r.Entity) -> bool:
    """Does a read of it find one thing at most, and so end at once?"""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return entity.table_entry.table_id != 0 and (
                entity.table_entry.is_default_action or bool(entity.table_entry.match)
            )
        case "counter_entry":
            return entity.counter_entry.HasField("index")
        case "register_entry":
            return entity.register_entry.HasField("index")
        case "meter_entry":
            return entity.meter_entry.HasField("index")
        case "direct_meter_entry":
            return bool(entity.direct_meter_entry.table_entry.match)
        case "digest_entry":
            return True
        case "action_profile_member":
            return entity.action_profile_member.member_id != 0
        case "action_profile_group":
            return entity.action_profile_group.group_id != 0
        case "direct_counter_entry":
            return bool(entity.direct_counter_entry.table_entry.match)
    return False


async def _send_all(stream: Stream, context: Context) -> None:
    while True:
        message = await stream.next()
        try:
            await context.write(message)
        except Exception as error:
            # The client is gone, in one of many ways; the reading side notices and cleans up.
            _LOG.debug("stream write failed: %s", error)
            return


async def _finish(work: Any) -> None:
    """Await `work` to its end even if the client cancels: a half-done write must not run beside the next."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _chunks(entities: Iterable[p4r.Entity]) -> Iterator[p4r.ReadResponse]:
    response = p4r.ReadResponse()
    size = 0
    for entity in entities:
        response.entities.append(entity)
        size += entity.ByteSize() + 8
        if size >= _CHUNK_BYTES:
            yield response
            response = p4r.ReadResponse()
            size = 0
    if response.entities:
        yield response


async def _abort(context: Context, error: P4Error) -> NoReturn:
    await context.abort(grpc_code(error.code), error.message)
    raise AssertionError("abort returns never")


async def _abort_batch(context: Context, error: BatchError) -> NoReturn:
    await context.abort(grpc.StatusCode.UNKNOWN, error.message, ((DETAILS_KEY, error.details()),))
    raise AssertionError("abort returns never")


async def _abort_unexpected(context: Context, rpc: str) -> NoReturn:
    """A fault of this server: the client gets INTERNAL, the log the whole story."""
    _LOG.exception("%s failed unexpectedly", rpc)
    await _abort(context, internal(f"{rpc} failed unexpectedly; see the target's log"))
