# SPDX-License-Identifier: Apache-2.0
"""RoCE packets out of pcap files, decoded for recounting.

Decoded here by hand and not by the encoders of `hosts/`, so that a mistake there
cannot hide itself. Layouts: p4src/include/headers.p4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITE_ONLY, ACKNOWLEDGE, CNP = 0x0A, 0x11, 0x81
NAK = 0x60
DELIVERY_DATA, DELIVERY_FORGIVEN = 1, 2

_ETH, _IP, _UDP, _BTH, _RETH = 14, 20, 8, 12, 16
_BTH_AT = _ETH + _IP + _UDP
_AFTER_BTH = _BTH_AT + _BTH
_AFTER_RETH = _AFTER_BTH + _RETH

_FILE_HEADER = 24

# Magic numbers of the classic capture format: (byte order, nanoseconds per tick).
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


class CaptureError(Exception):
    """A capture that can't be read: the message names the file."""


@dataclass(frozen=True, slots=True)
class Data:
    """A data packet or a trimmed header. length, offset: bytes of the message's range."""

    time_ns: int
    src: int
    dst: int
    dscp: int
    ce: bool
    qp: int
    source_qp: int
    psn: int
    offset: int
    length: int
    last: bool
    event: int
    """Delivery event and mask: 0 and 0 on the wire, set on a NIC's host port."""
    accept: int

    @property
    def key(self) -> tuple[int, int, int]:
        """(sender address, sender's queue pair, PSN): one packet sent."""
        return self.src, self.source_qp, self.psn


@dataclass(frozen=True, slots=True)
class Feedback:
    """An acknowledgement (syndrome ACK) or a retransmission request (NAK)."""

    time_ns: int
    src: int
    dst: int
    qp: int
    psn: int
    becn: bool
    eligible: bool
    exhausted: bool
    nak: bool
    rcv_nxt: int
    start: int
    length: int

    @property
    def key(self) -> tuple[int, int, int]:
        """The key of the data packet that this answers."""
        return self.dst, self.qp, self.psn


@dataclass(frozen=True, slots=True)
class Notification:
    """A congestion notification packet."""

    time_ns: int
    src: int
    dst: int
    qp: int


def read_frames(path: Path) -> Iterator[tuple[int, bytes]]:
    """(time in ns, frame as captured) of every record of a classic pcap file."""
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise CaptureError(f"{path}: {problem.strerror}") from None
    if raw[:4] not in _MAGIC or len(raw) < _FILE_HEADER:
        raise CaptureError(f"{path}: not a pcap file")
    order, tick = _MAGIC[raw[:4]]
    record = struct.Struct(order + "IIII")
    at, end = _FILE_HEADER, len(raw)
    while at < end:
        if at + record.size > end:
            raise CaptureError(f"{path}: cut off in the middle of a packet")
        seconds, fraction, captured, _ = record.unpack_from(raw, at)
        at += record.size
        if at + captured > end:
            raise CaptureError(f"{path}: cut off in the middle of a packet")
        yield seconds * 1_000_000_000 + fraction * tick, raw[at : at + captured]
        at += captured


_ip = struct.Struct(">BBHHHBBHII")
_bth = struct.Struct(">BBHII")
_reth = struct.Struct(">QII")
_feedback = struct.Struct(">IIII")
_delivery = struct.Struct(">BBHI")


def read_roce(path: Path, delivered_to: int | None = None) -> Iterator[Data | Feedback | Notification]:
    """The RoCE packets of a capture, in its order.

    delivered_to: the host's address, when taken between a NIC and its host, where
        data for the host carries the delivery header.

    Raises CaptureError, for a RoCE packet too short for its headers as well.
    """
    for number, (time_ns, frame) in enumerate(read_frames(path), 1):
        try:
            packet = _decode(time_ns, frame, delivered_to)
        except struct.error:
            raise CaptureError(f"{path}: packet {number}: {len(frame)} bytes are too few") from None
        if packet is not None:
            yield packet


def _decode(time_ns: int, frame: bytes, delivered_to: int | None) -> Data | Feedback | Notification | None:
    """None: not a RoCE packet, or of an opcode that nobody here sends."""
    if len(frame) < _AFTER_BTH or frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return None
    _, tos, _, _, _, _, _, _, src, dst = _ip.unpack_from(frame, _ETH)
    if frame[36:38] != b"\x12\xb7":
        return None
    opcode, bits, _, flags_qp, ack_psn = _bth.unpack_from(frame, _BTH_AT)
    flags, qp, psn = flags_qp >> 24, flags_qp & 0xFFFFFF, ack_psn & 0xFFFFFF
    if opcode == WRITE_ONLY:
        offset, rkey, length = _reth.unpack_from(frame, _AFTER_BTH)
        event = accept = 0
        if dst == delivered_to:
            event, _, _, accept = _delivery.unpack_from(frame, _AFTER_RETH)
        return Data(
            time_ns, src, dst, tos >> 2, tos & 3 == 3, qp, rkey & 0xFFFFFF, psn, offset, length,
            bool(bits & 0x80), event, accept,
        )  # fmt: skip
    elif opcode == ACKNOWLEDGE:
        aeth, rcv_nxt, start, length = _feedback.unpack_from(frame, _AFTER_BTH)
        return Feedback(
            time_ns, src, dst, qp, psn, bool(flags & 0x40), bool(flags & 0x20), bool(flags & 0x10),
            aeth >> 24 == NAK, rcv_nxt, start, length,
        )  # fmt: skip
    elif opcode == CNP:
        return Notification(time_ns, src, dst, qp)
    return None
