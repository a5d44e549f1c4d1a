# SPDX-License-Identifier: Apache-2.0
"""P4Runtime servers: one address each, any number in one process, on one event loop.

`P4RuntimeServer` belongs to an asyncio program; `ServerThread` runs servers for everybody else.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
from finsy.proto import p4r, p4r_grpc

from target.api import DeviceApi
from target.p4runtime.address import BindError, check_free, unix_path
from target.p4runtime.service import P4RuntimeService
from target.p4runtime.session import DeviceSession, Workers

DEFAULT_ADDRESS: Final = "127.0.0.1:9559"
"""Loopback, on the port that IANA assigned to P4Runtime."""
MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
_WORKERS: Final = max(2, len(os.sched_getaffinity(0)))
"""Threads for what takes long: compiling a program, large reads and writes."""
_OPTIONS: Final = (
    # Two servers on one port would share its clients between them.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    # A client whose machine is gone must not stay primary for hours.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients may look after the server in the same way, as often as they like.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """PEM texts. With `client_ca` and `require_client`, clients need a certificate of that authority."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None
    require_client: bool = False

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_ca,
            require_client_auth=self.require_client,
        )


class P4RuntimeServer:
    """One address with one or several devices behind it. Create and use it on a running event loop."""

    def __init__(
        self,
        address: str,
        devices: Sequence[DeviceApi],
        *,
        tls: TlsConfig | None = None,
        workers: Workers | None = None,
    ) -> None:
        ids = [d.device_id for d in devices]
        if len(set(ids)) != len(ids):
            raise ValueError(f"device ids at {address} are not unique: {ids}")
        self.address = address
        self._devices = devices
        self._tls = tls
        self._own_workers = Workers(_WORKERS) if workers is None else None
        self._workers = workers or self._own_workers
        self._server: grpc.aio.Server | None = None
        self._socket: Path | None = None
        self.sessions: dict[int, DeviceSession] = {}

    async def start(self) -> None:
        """Listen. Afterwards `address` names the real port if 0 was asked for. Raises BindError."""
        assert self._workers is not None
        check_free(self.address)
        server = grpc.aio.server(options=_OPTIONS)
        try:
            if self._tls is None:
                port = server.add_insecure_port(self.address)
            else:
                port = server.add_secure_port(self.address, self._tls.credentials())
        except RuntimeError as error:
            raise BindError(self.address, _reason(error)) from None
        self.sessions = {d.device_id: DeviceSession(d, self._workers) for d in self._devices}
        p4r_grpc.add_P4RuntimeServicer_to_server(P4RuntimeService(self.sessions), server)
        await server.start()
        self._server = server
        path = unix_path(self.address)
        if path is not None:
            self._socket = path
        elif port and self.address.endswith(":0"):
            self.address = f"{self.address.removesuffix(':0')}:{port}"

    async def stop(self) -> None:
        """Finish what writes, end all streams, and leave no socket file."""
        for session in self.sessions.values():
            async with session.lock:
                session.close()
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        if self._own_workers is not None:
            self._own_workers.close()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)
            self._socket = None

    async def __aenter__(self) -> P4RuntimeServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What to serve where."""

    address: str
    devices: tuple[DeviceApi, ...]
    tls: TlsConfig | None = None


class ServerThread:
    """Servers on an event loop in a thread of their own, for programs without one.

    loop: one that runs in a thread already, and goes on afterwards.
    """

    def __init__(self, endpoints: Sequence[Endpoint], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._endpoints = endpoints
        self._servers: list[P4RuntimeServer] = []
        self._thread: threading.Thread | None = None
        if loop is None:
            self._thread = threading.Thread(target=self._run, name="p4runtime", daemon=True)
        self._loop = loop or asyncio.new_event_loop()
        self._started = False
        self._workers = Workers(_WORKERS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self) -> list[str]:
        """Start all servers; the addresses they listen on. Raises BindError, and then none runs."""
        self._started = True
        if self._thread is not None:
            self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        except BaseException:
            self.stop()
            raise
        return [server.address for server in self._servers]

    async def _start(self) -> None:
        for endpoint in self._endpoints:
            server = P4RuntimeServer(
                endpoint.address, endpoint.devices, tls=endpoint.tls, workers=self._workers
            )
            await server.start()
            self._servers.append(server)

    def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._workers.close()

    async def _stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))

    def set_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Give every device a pipeline config, as a client's VERIFY_AND_COMMIT would. Raises P4Error."""
        asyncio.run_coroutine_threadsafe(self._set_config(config), self._loop).result()

    async def _set_config(self, config: p4r.ForwardingPipelineConfig) -> None:
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        for server in self._servers:
            for session in server.sessions.values():
                async with session.lock:
                    await session.set_config(action, config)

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _reason(error: RuntimeError) -> str:
    text = str(error)
    return "the address can't be bound" if "Failed to bind" in text else text
