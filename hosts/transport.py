# SPDX-License-Identifier: Apache-2.0
"""The transport of a host on a real network: one UDP socket, the wall clock, a native thread.

Python sees messages. Every method may be called from any thread."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hosts.config import ConfigError, DcqcnConfig, TransportConfig, check_int, parse_address
from hosts.endpoint import (
    Buffer,
    BusyError,
    DoubleSettlement,
    Endpoint,
    Event,
    ExhaustedError,
    Failed,
    FlowStats,
    Range,
    Received,
    Sent,
    Stats,
    TrafficClass,
    TransportError,
    UnknownMessageError,
)

__all__ = [
    "BusyError",
    "ConfigError",
    "DcqcnConfig",
    "DoubleSettlement",
    "DriverStats",
    "Event",
    "ExhaustedError",
    "Failed",
    "FlowStats",
    "Range",
    "Received",
    "Sent",
    "SocketError",
    "Stats",
    "TrafficClass",
    "Transport",
    "TransportConfig",
    "TransportError",
    "UnknownMessageError",
]

ROCE_PORT = 4791


class SocketError(OSError):
    """The UDP socket could not be opened; one line with address and cause."""


@dataclass(frozen=True, slots=True)
class DriverStats:
    """The native thread and its socket."""

    wakeups: int
    receive_calls: int
    send_calls: int
    send_errors: int
    """Packets the kernel refused: recovered by the retransmission timeout."""
    receive_errors: int
    truncated: int
    socket_drops: int
    """Packets that found the socket's receive buffer full."""
    cpu_ns: int


class Transport:
    """`Transport(config)` opens the socket and starts the thread; `close` ends both.

    `quantum_ns`: the thread sleeps at least this long between looks, so that packets due close together go
    out in one system call. `realtime` 1 to 99: the thread gets that real-time priority, so that pacing
    holds on a machine that is short of processors; needs privilege. Times in events and statistics count
    from the opening. Raises SocketError, BuildError."""

    def __init__(
        self,
        config: TransportConfig,
        *,
        port: int = ROCE_PORT,
        socket_bytes: int = 8 << 20,
        quantum_ns: int = 50_000,
        realtime: int = 0,
    ) -> None:
        check_int("port", port, 0, 65535)
        check_int("socket_bytes", socket_bytes, 1 << 12, 1 << 29)
        check_int("quantum_ns", quantum_ns, 0, 1_000_000_000)
        check_int("realtime", realtime, 0, 99)
        self.config = config
        self._endpoint = Endpoint(config)
        self._ffi, self._lib = self._endpoint._ffi, self._endpoint._lib
        native = self._ffi.new("udp_driver_config_t *")
        native.address = parse_address("address", config.address)
        native.port = port
        native.socket_bytes = socket_bytes
        native.quantum_ns = quantum_ns
        native.realtime = realtime
        out = self._ffi.new("udp_driver_t **")
        status = self._lib.udp_driver_open(self._endpoint._handle, native, out)
        if status != 0:
            self._endpoint.close()
            cause = os.strerror(-status)
            hint = ""
            if -status == errno.EADDRNOTAVAIL:
                hint = ": no interface here has this address"
            elif -status == errno.EADDRINUSE:
                hint = ": another transport runs here"
            elif -status == errno.EPERM:
                hint = f": realtime = {realtime} needs root or CAP_SYS_NICE; use 0"
            raise SocketError(-status, f"cannot open UDP {config.address}:{port}: {cause}{hint}")
        self._endpoint._detach()
        self._driver: Any = out[0]
        self._now = self._ffi.new("uint64_t *")
        self.port = int(self._lib.udp_driver_port(self._driver))

    def close(self) -> None:
        """Stop the thread and forget every message. May be called twice."""
        driver, self._driver = self._driver, None
        if driver is not None:
            self._lib.udp_driver_close(driver)
            self._endpoint.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_driver", None) is not None:
            self.close()

    @contextmanager
    def _locked(self, *, wake: bool = False) -> Iterator[tuple[Endpoint, int]]:
        if self._driver is None:
            raise TransportError("the transport is closed")
        self._lib.udp_driver_enter(self._driver, self._now)
        try:
            yield self._endpoint, int(self._now[0])
        finally:
            self._lib.udp_driver_leave(self._driver, int(wake))

    def now_ns(self) -> int:
        """The transport's clock."""
        with self._locked() as (_, now):
            return now

    def alloc_receive_qp(self, step_slot: int = 0) -> int:
        """A queue pair to hand to a sender. `step_slot` 0 to 7 selects the NIC's step entry."""
        with self._locked() as (endpoint, _):
            return endpoint.alloc_receive_qp(step_slot)

    def free_receive_qp(self, qp: int) -> None:
        with self._locked() as (endpoint, _):
            endpoint.free_receive_qp(qp)

    def post_send(
        self,
        *,
        destination: str | int,
        dst_qp: int,
        data: Buffer | None = None,
        length_bytes: int | None = None,
        traffic_class: TrafficClass = TrafficClass.DATA,
        window_bytes: int = 0,
        cookie: int = 0,
    ) -> int:
        """As `Endpoint.post_send`. `data` must stay unchanged until Sent or Failed."""
        with self._locked(wake=True) as (endpoint, now):
            return endpoint.post_send(
                now,
                destination=destination,
                dst_qp=dst_qp,
                data=data,
                length_bytes=length_bytes,
                traffic_class=traffic_class,
                window_bytes=window_bytes,
                cookie=cookie,
            )

    def post_receive(
        self, *, qp: int, buffer: Buffer | None = None, length_bytes: int | None = None, cookie: int = 0
    ) -> int:
        """As `Endpoint.post_receive`."""
        with self._locked() as (endpoint, now):
            return endpoint.post_receive(now, qp=qp, buffer=buffer, length_bytes=length_bytes, cookie=cookie)

    def release(self, message: int) -> None:
        with self._locked() as (endpoint, _):
            endpoint.release(message)

    def retire(self, message: int, qp: int) -> None:
        """Release a received message and free its queue pair, once its sender is known to have finished."""
        with self._locked() as (endpoint, _):
            endpoint.retire(message, qp)

    def events(self) -> list[Event]:
        """What happened since the last call, without waiting."""
        with self._locked() as (endpoint, _):
            taken = list(endpoint.events())
            self._lib.udp_driver_events_seen(self._driver)
            return taken

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """Events; blocks until there is one, or the time is over: then an empty list."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if taken := self.events():
                return taken
            # In slices, so that Ctrl-C is seen soon.
            left = 0.2 if deadline is None else min(0.2, deadline - time.monotonic())
            if left <= 0:
                return []
            self._lib.udp_driver_wait(self._driver, int(left * 1e9))

    def event_fd(self) -> int:
        """Readable while events may wait, for selectors and asyncio; `events` clears it."""
        with self._locked():
            return int(self._lib.udp_driver_event_fd(self._driver))

    def flow_stats(self, message: int) -> FlowStats:
        with self._locked() as (endpoint, now):
            return endpoint.flow_stats(now, message)

    def stats(self) -> Stats:
        with self._locked() as (endpoint, _):
            return endpoint.stats()

    def driver_stats(self) -> DriverStats:
        if self._driver is None:
            raise TransportError("the transport is closed")
        native = self._ffi.new("udp_driver_stats_t *")
        self._lib.udp_driver_get_stats(self._driver, native)
        return DriverStats(*(int(getattr(native, name)) for name in DriverStats.__dataclass_fields__))
