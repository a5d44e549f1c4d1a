# SPDX-License-Identifier: Apache-2.0
"""The transport core without a clock or a socket: packets and `now` in, packets and a wake-up time out.

`hosts.transport.Transport` drives one from UDP and the wall clock; tests and simulations drive it themselves.
The rules are in hosts/core/include/transport.h."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, TypeAlias

from hosts.config import ConfigError, TransportConfig, parse_address
from hosts.native import Native, load

Buffer: TypeAlias = Any
"""Anything with the buffer protocol, C-contiguous: bytes, bytearray, memoryview, a numpy array."""


class TransportError(Exception):
    """A request that the transport refuses; the state is as before."""


class UnknownMessageError(TransportError):
    """No such message or queue pair, or no longer."""


class BusyError(TransportError):
    """The queue pair already carries a message."""


class ExhaustedError(TransportError):
    """All queue pairs are in use."""


class Status(enum.Enum):
    """What became of a packet."""

    ACCEPTED = 0
    MALFORMED = -6
    UNKNOWN_QP = -7


class TrafficClass(enum.Enum):
    """Chooses the DSCP. Only GRADIENT may be forgiven."""

    GRADIENT = 0
    DATA = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [start, start + length_bytes) of a message."""

    start: int
    length_bytes: int

    @property
    def end(self) -> int:
        return self.start + self.length_bytes


@dataclass(frozen=True, slots=True)
class FlowStats:
    """One message. For a sender, `packets` are sent and `first_bytes` sent for the first time; for a
    receiver, deliveries by the NIC and bytes settled by data. Times 0: not yet. Rates when asked."""

    posted_ns: int
    first_ns: int
    completed_ns: int
    packets: int
    first_bytes: int
    retransmitted_bytes: int
    retransmitted_packets: int
    acks: int
    naks: int
    signals: int
    rate_cuts: int
    rtos: int
    forgiven_bytes: int
    rate_bps: int
    alpha_q31: int
    settled_bytes: int
    first_exempt_ns: int
    """When a sender's feedback first said eligible and not exhausted; 0: never."""
    flag_changes: int
    """Of the exhausted flag on the feedback, which starts clear."""
    exempt_ns: int
    obeying_again_ns: int
    """Obeying after having been exempt."""
    signals_before_exempt: int


@dataclass(frozen=True, slots=True)
class Stats:
    """One host, since its start, over all messages."""

    sent_packets: int
    first_bytes: int
    retransmitted_bytes: int
    retransmitted_packets: int
    acks: int
    naks: int
    signals: int
    rate_cuts: int
    rtos: int
    sent_messages: int
    failed_messages: int
    received_packets: int
    received_bytes: int
    forgiven_bytes: int
    received_messages: int
    double_settlements: int
    unknown_qp: int
    """Deliveries for which no message was posted: their bytes are lost."""
    late_feedback: int
    """Feedback for which there was no message any more: harmless."""
    malformed: int
    bad_feedback: int
    exempt_messages: int
    """Sent messages that were exempt at some time, by the flags on their feedback."""
    obeying_again_messages: int
    """Of these: obeyed congestion control again later."""
    flag_changes: int
    exempt_ns: int
    """This and the next: up to the last change of a flag, or the message's completion."""
    obeying_again_ns: int
    signals_after_exempt: int
    """Congestion signals taken by messages that had been exempt."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Every byte is settled at the receiver: arrived or forgiven. The message is released."""

    message: int
    qp: int
    cookie: int
    time_ns: int
    length_bytes: int
    stats: FlowStats


@dataclass(frozen=True, slots=True)
class Failed:
    """Too many timeouts without progress: given up. The message is released."""

    message: int
    qp: int
    cookie: int
    time_ns: int
    length_bytes: int
    stats: FlowStats


@dataclass(frozen=True, slots=True)
class Received:
    """Every byte is settled here. `length_bytes` below `posted_bytes`: the message ended early, as a
    placeholder for a shed one does."""

    message: int
    qp: int
    cookie: int
    time_ns: int
    length_bytes: int
    posted_bytes: int
    forgiven: tuple[Range, ...]
    """Merged, ascending. The buffer was not written there."""
    stats: FlowStats


@dataclass(frozen=True, slots=True)
class DoubleSettlement:
    """The NIC delivered a block twice, which it promises not to. Reported once per message; the count of all
    is in `Stats.double_settlements`."""

    message: int
    qp: int
    cookie: int
    time_ns: int
    offset: int


Event: TypeAlias = Sent | Failed | Received | DoubleSettlement


@dataclass(frozen=True, slots=True)
class OutgoingPacket:
    """`frame_header`: Ethernet to RETH, 70 bytes; `payload`: bytes, or None where no payload is carried."""

    frame_header: bytes
    destination: int
    dscp: int
    payload_bytes: int
    payload: bytes | None
    retransmission: bool
    message: int

    @property
    def udp_payload(self) -> bytes:
        """From BTH on, as a UDP socket sends it; no payload if none is carried."""
        return self.frame_header[42:] + (self.payload or b"")

    @property
    def udp_payload_bytes(self) -> int:
        """Its length on the wire."""
        return len(self.frame_header) - 42 + self.payload_bytes


def _stats(cls: Any, native: Any) -> Any:
    return cls(*(getattr(native, f.name) for f in fields(cls)))


class Endpoint:
    """One host's transport. Not thread-safe. `now_ns` never falls between calls.

    Buffers stay referenced, and must not be resized, until the message is released."""

    def __init__(self, config: TransportConfig) -> None:
        self.config = config
        self._ffi, self._lib = load()
        self._handle: Native = self._create()
        self._owned = True
        self._init_scratch()

    def _init_scratch(self) -> None:
        self._buffers: dict[int, tuple[Any, int]] = {}
        self._own_qps: dict[int, int] = {}
        self._event = self._ffi.new("transport_event_t *")
        self._packet = self._ffi.new("transport_packet_t *")
        self._qp = self._ffi.new("uint32_t *")
        self._id = self._ffi.new("uint64_t *")

    def _create(self) -> Native:
        native = self._ffi.new("transport_config_t *")
        self.config.fill(native)
        out = self._ffi.new("transport_t **")
        status = self._lib.transport_create(native, out)
        if status == self._lib.TRANSPORT_INVALID:
            raise ConfigError("the native transport refuses this configuration")
        self._check(status, "create")
        return out[0]

    def _detach(self) -> Native:
        """The native handle, no longer destroyed by `close`."""
        self._owned = False
        return self._handle

    def close(self) -> None:
        """Forget every message. Afterwards no other method may be called."""
        if self._owned:
            self._owned = False
            self._lib.transport_destroy(self._handle)
        self._handle = self._ffi.NULL
        self._buffers.clear()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            self.close()

    def _check(self, status: int, what: str) -> None:
        lib = self._lib
        if status >= 0:
            return
        if status == lib.TRANSPORT_NO_MEMORY:
            raise MemoryError(what)
        if status == lib.TRANSPORT_BUSY:
            raise BusyError(f"{what}: the queue pair already carries a message; release it first")
        if status == lib.TRANSPORT_NOT_FOUND:
            raise UnknownMessageError(f"{what}: not allocated, or already released")
        if status == lib.TRANSPORT_EXHAUSTED:
            raise ExhaustedError(f"{what}: all {lib.TRANSPORT_SLOTS} are in use; release messages")
        raise ValueError(f"{what}: an argument is out of its range")

    # --- queue pairs

    def alloc_send_qp(self, step_slot: int = 0) -> int:
        self._check(self._lib.transport_alloc_send_qp(self._handle, step_slot, self._qp), "send queue pair")
        return int(self._qp[0])

    def alloc_receive_qp(self, step_slot: int = 0) -> int:
        """A queue pair to hand to the sender. `step_slot` 0 to 7 selects the NIC's step entry."""
        status = self._lib.transport_alloc_receive_qp(self._handle, step_slot, self._qp)
        self._check(status, "receive queue pair")
        return int(self._qp[0])

    def free_send_qp(self, qp: int) -> None:
        self._check(self._lib.transport_free_send_qp(self._handle, qp), f"queue pair {qp:#x}")

    def free_receive_qp(self, qp: int) -> None:
        """Only when the sender is known to have finished: its NIC must be answered until then."""
        self._check(self._lib.transport_free_receive_qp(self._handle, qp), f"queue pair {qp:#x}")

    # --- messages

    def post_send(
        self,
        now_ns: int,
        *,
        destination: str | int,
        dst_qp: int,
        data: Buffer | None = None,
        length_bytes: int | None = None,
        traffic_class: TrafficClass = TrafficClass.DATA,
        src_qp: int | None = None,
        step_slot: int = 0,
        window_bytes: int = 0,
        cookie: int = 0,
        dst_mac: int = 0,
    ) -> int:
        """Post a message and return its id. Without `data`, `length_bytes` of payload are not carried (a
        socket sends zeros). Without `src_qp` one is allocated, and freed at the end. `window_bytes` 0: the
        configured one.

        Raises ValueError, BusyError, ExhaustedError, UnknownMessageError."""
        pointer, keep, length = self._buffer(data, length_bytes, writable=False)
        own = src_qp is None
        qp = self.alloc_send_qp(step_slot) if src_qp is None else src_qp
        native = self._ffi.new("transport_send_t *")
        status = self._lib.TRANSPORT_INVALID
        try:
            native.cookie = cookie
            native.dst_mac = dst_mac
            native.dst_addr = (
                destination if isinstance(destination, int) else parse_address("destination", destination)
            )
            native.dst_qp = dst_qp
            native.src_qp = qp
            native.class_ = traffic_class.value
            native.data = pointer
            native.length_bytes = length
            native.window_bytes = window_bytes
            status = self._lib.transport_post_send(self._handle, now_ns, native, self._id)
            self._check(status, f"send to queue pair {dst_qp:#x}")
        finally:
            if own and status != self._lib.TRANSPORT_OK:
                self.free_send_qp(qp)
        message = int(self._id[0])
        self._buffers[message] = (keep, length)
        if own:
            self._own_qps[message] = qp
        return message

    def post_receive(
        self,
        now_ns: int,
        *,
        qp: int,
        buffer: Buffer | None = None,
        length_bytes: int | None = None,
        cookie: int = 0,
    ) -> int:
        """Expect a message of the buffer's length on a queue pair of ours, and return its id. Without
        `buffer`, payload is not stored. Post before the sender is told the queue pair: what comes earlier is
        lost.

        Raises ValueError, BusyError, UnknownMessageError."""
        pointer, keep, length = self._buffer(buffer, length_bytes, writable=True)
        native = self._ffi.new("transport_expect_t *")
        native.cookie = cookie
        native.qp = qp
        native.length_bytes = length
        native.buffer = pointer
        status = self._lib.transport_post_receive(self._handle, now_ns, native, self._id)
        self._check(status, f"receive on queue pair {qp:#x}")
        message = int(self._id[0])
        self._buffers[message] = (keep, length)
        return message

    def _buffer(self, data: Buffer | None, length: int | None, *, writable: bool) -> tuple[Any, Any, int]:
        if data is None:
            if length is None:
                raise ValueError("either data or length_bytes must be given")
            return self._ffi.NULL, None, length
        pointer = self._ffi.from_buffer("uint8_t[]", data, require_writable=writable)
        if length is not None and length != len(pointer):
            raise ValueError(f"length_bytes = {length}: data has {len(pointer)} bytes; leave it out")
        return pointer, (pointer, data), len(pointer)

    def release(self, message: int) -> None:
        """End a message in any state; a queue pair that `post_send` allocated is freed. Sent and Failed
        release by themselves; received messages are released here, or by `retire`. Raises
        UnknownMessageError."""
        self._check(self._lib.transport_release(self._handle, message), f"message {message:#x}")
        self._buffers.pop(message, None)
        if (qp := self._own_qps.pop(message, None)) is not None:
            self.free_send_qp(qp)

    def retire(self, message: int, qp: int) -> None:
        """Release a received message and free its queue pair."""
        self.release(message)
        self.free_receive_qp(qp)

    # --- packets and time

    def receive(self, now_ns: int, datagram: Buffer, wire_bytes: int | None = None) -> Status:
        """A packet from BTH on. `wire_bytes`: its true length, when not all payload is carried."""
        return self._receive(self._lib.transport_receive, now_ns, datagram, wire_bytes)

    def receive_frame(self, now_ns: int, frame: Buffer, wire_bytes: int | None = None) -> Status:
        """A packet from Ethernet on."""
        return self._receive(self._lib.transport_receive_frame, now_ns, frame, wire_bytes)

    def _receive(self, function: Native, now_ns: int, data: Buffer, wire_bytes: int | None) -> Status:
        pointer = self._ffi.from_buffer("uint8_t[]", data)
        size = len(pointer)
        length = size if wire_bytes is None else wire_bytes
        return Status(function(self._handle, now_ns, pointer, size, length))

    def poll(self, now_ns: int) -> OutgoingPacket | None:
        """A packet to send now, or None until `next_wake`."""
        packet = self._packet
        if self._lib.transport_poll(self._handle, now_ns, packet) != 1:
            return None
        payload = None
        if packet.payload != self._ffi.NULL:
            payload = bytes(self._ffi.buffer(packet.payload, packet.payload_bytes))
        return OutgoingPacket(
            frame_header=bytes(packet.header),
            destination=int(packet.dst_addr),
            dscp=int(packet.dscp),
            payload_bytes=int(packet.payload_bytes),
            payload=payload,
            retransmission=packet.retransmission != 0,
            message=int(packet.id),
        )

    def next_wake(self) -> int | None:
        """When `poll` must be called if nothing else happens; None: never. May be past, or for nothing."""
        wake = int(self._lib.transport_next_wake(self._handle))
        return None if wake == 0xFFFFFFFFFFFFFFFF else wake

    # --- results

    def events(self) -> Iterator[Event]:
        """What happened, oldest first."""
        while self._lib.transport_next_event(self._handle, self._event) == 1:
            yield self._take(self._event)

    def _take(self, event: Any) -> Event:
        lib = self._lib
        message, qp, cookie, time_ns = int(event.id), int(event.qp), int(event.cookie), int(event.time_ns)
        if event.type == lib.TRANSPORT_DOUBLE_SETTLEMENT:
            return DoubleSettlement(message, qp, cookie, time_ns, int(event.offset))
        released = message not in self._buffers
        stats = FlowStats(*([0] * len(fields(FlowStats)))) if released else self.flow_stats(time_ns, message)
        length = int(event.length_bytes)
        if event.type == lib.TRANSPORT_RECEIVED:
            posted = length if released else self._buffers[message][1]
            forgiven = () if released else self.forgiven(message)
            return Received(message, qp, cookie, time_ns, length, posted, forgiven, stats)
        if not released:
            self.release(message)
        kind = Sent if event.type == lib.TRANSPORT_SENT else Failed
        return kind(message, qp, cookie, time_ns, length, stats)

    def forgiven(self, message: int) -> tuple[Range, ...]:
        """The forgiven ranges of a received message so far, merged and ascending."""
        capacity = 16
        while True:
            ranges = self._ffi.new("transport_range_t[]", capacity)
            count = self._lib.transport_forgiven(self._handle, message, ranges, capacity)
            self._check(count, f"message {message:#x}")
            if count <= capacity:
                return tuple(Range(int(r.start), int(r.length_bytes)) for r in ranges[0:count])
            capacity = count

    def flow_stats(self, now_ns: int, message: int) -> FlowStats:
        native = self._ffi.new("transport_flow_stats_t *")
        status = self._lib.transport_flow_stats(self._handle, now_ns, message, native)
        self._check(status, f"message {message:#x}")
        result: FlowStats = _stats(FlowStats, native)
        return result

    def stats(self) -> Stats:
        native = self._ffi.new("transport_stats_t *")
        self._check(self._lib.transport_get_stats(self._handle, native), "statistics")
        result: Stats = _stats(Stats, native)
        return result
