# SPDX-License-Identifier: Apache-2.0
"""The two Thrift calls that BMv2 has no P4Runtime for: depth and rate of a queue.

Thrift's binary protocol, strict, over TCP; service `simple_switch` (BMv2's simple_switch.thrift). A process
of `simple_switch_CLI` for each of 36 devices would take most of a boot.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

_VERSION_CALL, _VERSION_MASK, _REPLY = 0x80010001, 0xFFFF0000, 2
_STOP, _I32, _I64 = 0, 8, 10
_SUCCESS_FIELD = 0

TIMEOUT_SECONDS = 30.0


class ThriftError(RuntimeError):
    """A call that BMv2 refused, or that got no answer. One line."""


class QueueClient:
    """A connection to one BMv2's Thrift server. Raises ThriftError."""

    def __init__(self, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_SECONDS)
        except OSError as error:
            raise ThriftError(f"no Thrift server at {self._address}: {error.strerror or error}") from None

    def __enter__(self) -> QueueClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def set_depth(self, port: int, priority: int, packets: int) -> None:
        """Capacity of a queue, packets."""
        self._call("set_egress_priority_queue_depth", port, priority, struct.pack(">bhi", _I32, 3, packets))

    def set_rate(self, port: int, priority: int, packets_per_second: int) -> None:
        """Rate of a queue; 0 = not limited."""
        rate = struct.pack(">bhq", _I64, 3, packets_per_second)
        self._call("set_egress_priority_queue_rate", port, priority, rate)

    def _call(self, method: str, port: int, priority: int, last: bytes) -> None:
        name = f"simple_switch:{method}".encode()
        head = struct.pack(">II", _VERSION_CALL, len(name)) + name + struct.pack(">i", 0)
        fields = struct.pack(">bhi", _I32, 1, port) + struct.pack(">bhi", _I32, 2, priority) + last
        try:
            self._socket.sendall(head + fields + bytes([_STOP]))
            code = self._answer(method)
        except OSError as error:
            raise ThriftError(f"{self._address}: {method}: {error.strerror or error}") from None
        if code != 0:
            raise ThriftError(
                f"{self._address}: {method}(port {port}, priority {priority}): refused, code {code}"
            )

    def _answer(self, method: str) -> int:
        """The i32 result of a call."""
        version, length = struct.unpack(">II", self._read(8))
        self._read(length + 4)
        if version & _VERSION_MASK != _VERSION_CALL & _VERSION_MASK or version & 0xFF != _REPLY:
            raise ThriftError(
                f"{self._address}: {method} isn't known there; use BMv2 1.15.2 or later with Thrift"
            )
        kind, field = struct.unpack(">bh", self._read(3))
        if (kind, field) != (_I32, _SUCCESS_FIELD):
            raise ThriftError(f"{self._address}: {method}: an answer of an unknown form")
        (code,) = struct.unpack(">i", self._read(4))
        self._read(1)
        return int(code)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ThriftError(f"{self._address}: the connection was closed; does this BMv2 have Thrift?")
            data += more
        return data
