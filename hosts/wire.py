# SPDX-License-Identifier: Apache-2.0
"""The packets a host sees, encoded and decoded. For tests and tools: the transport has its own, in C.

The layout is decided in p4src/include/headers.p4; a test compares every constant here with that file. Packets
are given from BTH on, as a UDP socket sees them; `frame` adds Ethernet, IPv4 and UDP."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

ETHERTYPE_IPV4 = 0x0800
PROTO_UDP = 17
UDP_PORT_ROCE = 4791

ECN_NOT_ECT = 0
ECN_ECT1 = 1
ECN_ECT0 = 2
ECN_CE = 3

OPCODE_WRITE_ONLY = 0x0A
OPCODE_ACKNOWLEDGE = 0x11
OPCODE_CNP = 0x81

SYNDROME_ACK = 0x1F
SYNDROME_NAK = 0x60

DELIVERY_DATA = 1
DELIVERY_FORGIVEN = 2

ETHERNET_BYTES = 14
IPV4_BYTES = 20
UDP_BYTES = 8
BTH_BYTES = 12
RETH_BYTES = 16
AETH_BYTES = 4
FEEDBACK_BYTES = 12
DELIVERY_BYTES = 8
CNP_PAD_BYTES = 16

BLOCK_BYTES = 512
STEP_SLOT_WIDTH = 3
OWNER_WIDTH = 11
FLOW_SLOT_WIDTH = 10
MAX_RANGE_BLOCKS = 32

_BTH = struct.Struct(">BBHI I")
_RETH = struct.Struct(">IIII")
_FEEDBACK = struct.Struct(">III")
_SOLICITED = 0x80
_BECN = 0x40
_ELIGIBLE = 0x20
_EXHAUSTED = 0x10


class WireError(ValueError):
    """Bytes that are not such a packet: says what and where."""


@dataclass(frozen=True, slots=True)
class QueuePair:
    """What a queue pair number carries."""

    step_slot: int
    owner: int
    flow_slot: int

    @property
    def number(self) -> int:
        return (self.step_slot << OWNER_WIDTH | self.owner) << FLOW_SLOT_WIDTH | self.flow_slot

    @classmethod
    def from_number(cls, number: int) -> QueuePair:
        slot = number & ((1 << FLOW_SLOT_WIDTH) - 1)
        owner = number >> FLOW_SLOT_WIDTH & ((1 << OWNER_WIDTH) - 1)
        return cls(number >> (FLOW_SLOT_WIDTH + OWNER_WIDTH), owner, slot)


@dataclass(frozen=True, slots=True)
class Bth:
    opcode: int
    dest_qp: int
    psn: int
    solicited: bool = False
    fecn: bool = False
    becn: bool = False
    exemption_eligible: bool = False
    budget_exhausted: bool = False

    def encode(self) -> bytes:
        congestion = (
            (0x80 if self.fecn else 0)
            | (_BECN if self.becn else 0)
            | (_ELIGIBLE if self.exemption_eligible else 0)
            | (_EXHAUSTED if self.budget_exhausted else 0)
        )
        flags = _SOLICITED if self.solicited else 0
        return _BTH.pack(self.opcode, flags, 0xFFFF, congestion << 24 | self.dest_qp, self.psn)

    @classmethod
    def decode(cls, data: bytes) -> Bth:
        if len(data) < BTH_BYTES:
            raise WireError(f"{len(data)} bytes: shorter than a BTH ({BTH_BYTES})")
        opcode, flags, _, congestion_qp, psn = _BTH.unpack_from(data)
        congestion = congestion_qp >> 24
        return cls(
            opcode=opcode,
            dest_qp=congestion_qp & 0xFFFFFF,
            psn=psn & 0xFFFFFF,
            solicited=bool(flags & _SOLICITED),
            fecn=bool(congestion & 0x80),
            becn=bool(congestion & _BECN),
            exemption_eligible=bool(congestion & _ELIGIBLE),
            budget_exhausted=bool(congestion & _EXHAUSTED),
        )


@dataclass(frozen=True, slots=True)
class Data:
    """Sent by a host. `payload` None: trimmed, or not carried; `length_bytes` tells the original length."""

    bth: Bth
    offset: int
    source_qp: int
    length_bytes: int
    payload: bytes | None = None

    def encode(self) -> bytes:
        reth = _RETH.pack(0, self.offset, self.source_qp, self.length_bytes)
        return self.bth.encode() + reth + (self.payload or b"")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A data packet or a forgiven range, from the NIC to its host. Bit i of `accept`: the i-th block."""

    data: Data
    event: int
    accept: int

    def encode(self) -> bytes:
        headers = Data(self.data.bth, self.data.offset, self.data.source_qp, self.data.length_bytes).encode()
        return headers + struct.pack(">II", self.event << 24, self.accept) + (self.data.payload or b"")


@dataclass(frozen=True, slots=True)
class Feedback:
    """ACK: everything below rcv_nxt and the range is settled. NAK: the range is to be sent again."""

    bth: Bth
    nak: bool
    rcv_nxt: int
    range_start: int
    range_bytes: int

    def encode(self) -> bytes:
        aeth = struct.pack(">I", (SYNDROME_NAK if self.nak else SYNDROME_ACK) << 24)
        return self.bth.encode() + aeth + _FEEDBACK.pack(self.rcv_nxt, self.range_start, self.range_bytes)


@dataclass(frozen=True, slots=True)
class Notification:
    bth: Bth

    def encode(self) -> bytes:
        return self.bth.encode() + bytes(CNP_PAD_BYTES)


Packet: TypeAlias = Data | Delivery | Feedback | Notification


def _need(data: bytes, size: int, what: str) -> None:
    if len(data) < size:
        raise WireError(f"{len(data)} bytes: shorter than {what} ({size})")


def decode_data(data: bytes) -> Data:
    """A data packet on the wire, whole or trimmed."""
    _need(data, BTH_BYTES + RETH_BYTES, "BTH and RETH")
    high, offset, source_qp, length = _RETH.unpack_from(data, BTH_BYTES)
    if high != 0:
        raise WireError(f"virtual_addr_high = {high:#x}: must be 0")
    payload = data[BTH_BYTES + RETH_BYTES :]
    return Data(Bth.decode(data), offset, source_qp & 0xFFFFFF, length, payload or None)


def decode_delivery(data: bytes) -> Delivery:
    """A data opcode's packet from the NIC to its host."""
    _need(data, BTH_BYTES + RETH_BYTES + DELIVERY_BYTES, "BTH, RETH and delivery header")
    headers = decode_data(data[: BTH_BYTES + RETH_BYTES])
    event, accept = struct.unpack_from(">II", data, BTH_BYTES + RETH_BYTES)
    payload = data[BTH_BYTES + RETH_BYTES + DELIVERY_BYTES :]
    whole = Data(headers.bth, headers.offset, headers.source_qp, headers.length_bytes, payload or None)
    return Delivery(whole, event >> 24, accept)


def decode_feedback(data: bytes) -> Feedback:
    _need(data, BTH_BYTES + AETH_BYTES + FEEDBACK_BYTES, "BTH, AETH and feedback")
    syndrome = data[BTH_BYTES]
    if syndrome not in (SYNDROME_ACK, SYNDROME_NAK):
        raise WireError(f"syndrome = {syndrome:#x}: must be {SYNDROME_ACK:#x} or {SYNDROME_NAK:#x}")
    rcv_nxt, start, length = _FEEDBACK.unpack_from(data, BTH_BYTES + AETH_BYTES)
    return Feedback(Bth.decode(data), syndrome == SYNDROME_NAK, rcv_nxt, start, length)


def decode(data: bytes, *, from_nic: bool) -> Packet:
    """Any packet. `from_nic`: between a NIC and its host, where data carries a delivery header."""
    opcode = Bth.decode(data).opcode
    if opcode == OPCODE_WRITE_ONLY:
        return decode_delivery(data) if from_nic else decode_data(data)
    if opcode == OPCODE_ACKNOWLEDGE:
        return decode_feedback(data)
    if opcode == OPCODE_CNP:
        _need(data, BTH_BYTES + CNP_PAD_BYTES, "a notification")
        return Notification(Bth.decode(data))
    raise WireError(f"opcode = {opcode:#x}: not one of ours")


def block_count(length_bytes: int) -> int:
    return -(-length_bytes // BLOCK_BYTES)


def ipv4_checksum(header: bytes) -> int:
    """Of a header whose own field is 0; 0 for one whose field is right."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(
    udp_payload: bytes,
    *,
    src_addr: int,
    dst_addr: int,
    dscp: int,
    ecn: int = ECN_ECT0,
    src_mac: int = 0,
    dst_mac: int = 0,
    src_port: int = UDP_PORT_ROCE,
    ttl: int = 64,
    payload_bytes: int | None = None,
) -> bytes:
    """Ethernet, IPv4 and UDP around a packet. `payload_bytes`: its true length, if not all is carried."""
    udp_length = UDP_BYTES + (len(udp_payload) if payload_bytes is None else payload_bytes)
    tos = dscp << 2 | ecn
    ip = struct.pack(
        ">BBHHHBBHII", 0x45, tos, IPV4_BYTES + udp_length, 0, 0x4000, ttl, PROTO_UDP, 0, src_addr, dst_addr
    )
    ip = ip[:10] + struct.pack(">H", ipv4_checksum(ip)) + ip[12:]
    ethernet = dst_mac.to_bytes(6, "big") + src_mac.to_bytes(6, "big") + struct.pack(">H", ETHERTYPE_IPV4)
    return ethernet + ip + struct.pack(">HHHH", src_port, UDP_PORT_ROCE, udp_length, 0) + udp_payload
