# SPDX-License-Identifier: Apache-2.0
"""Frames of docs/dataplane.md as Python values: the tests' own encoder and decoder.

Written from `p4src/include/headers.p4`, and sharing no code with `hosts/`, so that an error in one of them
shows. Lengths and the IPv4 checksum are computed when a frame is encoded, unless a test overrides them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

ETHERTYPE_IPV4 = 0x0800
UDP_PORT_ROCE = 4791

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3

WRITE_ONLY = 0x0A
ACKNOWLEDGE = 0x11
CNP = 0x81

ACK = 0x1F
NAK = 0x60

EVENT_DATA = 1
EVENT_FORGIVEN = 2

BLOCK = 512
"""Bytes of a scoreboard block."""
MAX_RANGE = 32 * BLOCK
"""Largest range of one packet, bytes."""
WINDOW = 127 * 64 * BLOCK
"""A flow's window, bytes."""

ETHERNET_IPV4_UDP_BYTES = 14 + 20 + 8
TRIMMED_BYTES = ETHERNET_IPV4_UDP_BYTES + 12 + 16
"""Length of a trimmed frame."""

OWNERS = 1 << 11

# Code points of the tests' own profile; the programs have none built in.
DSCP_GRADIENT = 10
DSCP_GRADIENT_TRIMMED = 12
DSCP_DATA = 18
DSCP_DATA_TRIMMED = 20
DSCP_CONTROL = 46


class WireError(ValueError):
    """Bytes that are not a RoCE frame of this project."""


def queue_pair(step_slot: int, owner: int, flow_slot: int) -> int:
    """The 24-bit queue pair number: step slot 3, owner 11, flow slot 10 bits."""
    assert 0 <= step_slot < 8 and 0 <= owner < OWNERS and 0 <= flow_slot < 1024
    return step_slot << 21 | owner << 10 | flow_slot


def split_queue_pair(qp: int) -> tuple[int, int, int]:
    """(step slot, owner, flow slot)."""
    return qp >> 21, qp >> 10 & 0x7FF, qp & 0x3FF


def ipv4_checksum(header: bytes) -> int:
    """One's complement sum (RFC 1071) of a header whose checksum field is 0."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)


@dataclass(frozen=True, slots=True)
class Reth:
    """RDMA extended transport header: the range in its message, and where feedback goes."""

    virtual_addr: int
    dma_len: int
    source_qp: int
    virtual_addr_high: int = 0
    rkey_high: int = 0

    def encode(self) -> bytes:
        rkey = self.rkey_high << 24 | self.source_qp
        return struct.pack("!IIII", self.virtual_addr_high, self.virtual_addr, rkey, self.dma_len)


@dataclass(frozen=True, slots=True)
class Feedback:
    """AETH and what follows it."""

    syndrome: int
    rcv_nxt: int
    range_start: int
    range_len: int
    msn: int = 0

    def encode(self) -> bytes:
        aeth = self.syndrome << 24 | self.msn
        return struct.pack("!IIII", aeth, self.rcv_nxt, self.range_start, self.range_len)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the NIC tells its host between RETH and payload."""

    event: int
    accept: int
    reserved: int = 0

    def encode(self) -> bytes:
        return struct.pack("!II", self.event << 24 | self.reserved, self.accept)


@dataclass(frozen=True, slots=True)
class Roce:
    """Ethernet / IPv4 / UDP / BTH and whatever follows, by opcode."""

    opcode: int
    dest_qp: int
    psn: int = 0
    dscp: int = DSCP_GRADIENT
    ecn: int = ECT0
    solicited: int = 0
    reth: Reth | None = None
    feedback: Feedback | None = None
    delivery: Delivery | None = None
    payload: bytes = b""
    eth_dst: int = 0x020000000002
    eth_src: int = 0x020000000001
    src_ip: int = 0x0A000001
    dst_ip: int = 0x0A000002
    udp_src: int = 0xC123
    udp_dst: int = UDP_PORT_ROCE
    udp_checksum: int = 0
    identification: int = 0
    ip_flags: int = 0
    ttl: int = 64
    mig_req: int = 0
    pad_count: int = 0
    version: int = 0
    p_key: int = 0xFFFF
    fecn: int = 0
    becn: int = 0
    exemption_eligible: int = 0
    budget_exhausted: int = 0
    reserved6: int = 0
    ack_req: int = 0
    reserved7: int = 0

    def but(self, **changes: Any) -> Roce:
        """A copy with the named fields changed."""
        return replace(self, **changes)

    def bth(self) -> bytes:
        flags = self.solicited << 7 | self.mig_req << 6 | self.pad_count << 4 | self.version
        notice = (
            self.fecn << 7
            | self.becn << 6
            | self.exemption_eligible << 5
            | self.budget_exhausted << 4
            | self.reserved6
        )
        return struct.pack(
            "!BBHII",
            self.opcode,
            flags,
            self.p_key,
            notice << 24 | self.dest_qp,
            (self.ack_req << 7 | self.reserved7) << 24 | self.psn,
        )

    def encode(self, ip_len: int | None = None, udp_len: int | None = None) -> bytes:
        """The frame's bytes. `ip_len`, `udp_len`: what to write instead of the true lengths."""
        body = self.bth()
        for part in (self.reth, self.feedback, self.delivery):
            if part is not None:
                body += part.encode()
        if self.opcode == CNP:
            body += bytes(16)
        body += self.payload
        udp = struct.pack(
            "!HHHH",
            self.udp_src,
            self.udp_dst,
            8 + len(body) if udp_len is None else udp_len,
            self.udp_checksum,
        )
        total = 20 + len(udp) + len(body) if ip_len is None else ip_len
        ethernet = self.eth_dst.to_bytes(6) + self.eth_src.to_bytes(6) + ETHERTYPE_IPV4.to_bytes(2)
        return ethernet + self._ipv4(total) + udp + body

    def _ipv4(self, total_len: int) -> bytes:
        def header(checksum: int) -> bytes:
            return struct.pack(
                "!BBHHHBBHII",
                0x45,
                self.dscp << 2 | self.ecn,
                total_len,
                self.identification,
                self.ip_flags << 13,
                self.ttl,
                17,
                checksum,
                self.src_ip,
                self.dst_ip,
            )

        return header(ipv4_checksum(header(0)))

    def __bytes__(self) -> bytes:
        return self.encode()

    def __len__(self) -> int:
        return len(self.encode())

    @property
    def length(self) -> int:
        """Bytes of the frame."""
        return len(self.encode())

    def trimmed(self, dscp: int) -> Roce:
        """What a switch makes of it when a limit is exceeded."""
        return self.but(dscp=dscp, payload=b"")


def decode(frame: bytes, delivered: bool = False, checksum: bool = True) -> Roce:
    """The RoCE frame in `frame`; `delivered`: it came from a NIC to its host, so data carries a delivery
    header.

    Checks the lengths and the IPv4 checksum. Raises WireError.
    """
    if len(frame) < ETHERNET_IPV4_UDP_BYTES + 12:
        raise WireError(f"{len(frame)} bytes are too short for a RoCE frame")
    if frame[12:15] != b"\x08\x00\x45":
        raise WireError("not IPv4 without options")
    ip = frame[14:34]
    (_, tos, ip_len, identification, fragment, ttl, protocol, header_checksum, src_ip, dst_ip) = (
        struct.unpack("!BBHHHBBHII", ip)
    )
    if checksum and ipv4_checksum(ip[:10] + b"\0\0" + ip[12:]) != header_checksum:
        raise WireError("wrong IPv4 checksum")
    udp_src, udp_dst, udp_len, udp_checksum = struct.unpack("!HHHH", frame[34:42])
    if protocol != 17 or udp_dst != UDP_PORT_ROCE:
        raise WireError("not RoCE")
    if ip_len != len(frame) - 14 or udp_len != ip_len - 20:
        raise WireError(f"lengths: frame {len(frame)}, IPv4 {ip_len}, UDP {udp_len}")
    opcode, flags, p_key, qp, last = struct.unpack("!BBHII", frame[42:54])
    rest = frame[54:]
    reth: Reth | None = None
    feedback: Feedback | None = None
    delivery: Delivery | None = None
    needs = {WRITE_ONLY: 24 if delivered else 16, ACKNOWLEDGE: 16, CNP: 16}.get(opcode, 0)
    if len(rest) < needs:
        raise WireError(f"{len(rest)} bytes after BTH, opcode {opcode:#x} needs {needs}")
    if opcode == WRITE_ONLY:
        high, addr, rkey, dma_len = struct.unpack("!IIII", rest[:16])
        reth = Reth(addr, dma_len, rkey & 0xFFFFFF, high, rkey >> 24)
        rest = rest[16:]
        if delivered:
            event, accept = struct.unpack("!II", rest[:8])
            delivery = Delivery(event >> 24, accept, event & 0xFFFFFF)
            rest = rest[8:]
    elif opcode == ACKNOWLEDGE:
        aeth, rcv_nxt, start, length = struct.unpack("!IIII", rest[:16])
        feedback = Feedback(aeth >> 24, rcv_nxt, start, length, aeth & 0xFFFFFF)
        rest = rest[16:]
    elif opcode == CNP:
        if rest[:16] != bytes(16):
            raise WireError("a notification's 16 bytes are not zero")
        rest = rest[16:]
    notice = qp >> 24
    return Roce(
        opcode=opcode,
        dest_qp=qp & 0xFFFFFF,
        psn=last & 0xFFFFFF,
        dscp=tos >> 2,
        ecn=tos & 3,
        solicited=flags >> 7,
        reth=reth,
        feedback=feedback,
        delivery=delivery,
        payload=rest,
        eth_dst=int.from_bytes(frame[0:6]),
        eth_src=int.from_bytes(frame[6:12]),
        src_ip=src_ip,
        dst_ip=dst_ip,
        udp_src=udp_src,
        udp_dst=udp_dst,
        udp_checksum=udp_checksum,
        identification=identification,
        ip_flags=fragment >> 13,
        ttl=ttl,
        mig_req=flags >> 6 & 1,
        pad_count=flags >> 4 & 3,
        version=flags & 15,
        p_key=p_key,
        fecn=notice >> 7,
        becn=notice >> 6 & 1,
        exemption_eligible=notice >> 5 & 1,
        budget_exhausted=notice >> 4 & 1,
        reserved6=notice & 15,
        ack_req=last >> 31,
        reserved7=last >> 24 & 0x7F,
    )


def data(
    dest_qp: int,
    offset: int,
    length: int,
    *,
    source_qp: int = 0x000777,
    psn: int = 0,
    end: bool = False,
    dscp: int = DSCP_GRADIENT,
    **fields: Any,
) -> Roce:
    """A data packet of `length` payload bytes at `offset`; `end`: it ends its message.

    The payload is a pattern of the offset, so that a byte delivered at the wrong place shows.
    """
    pattern = b"".join(((offset + at) // 4 & 0xFFFFFFFF).to_bytes(4) for at in range(0, length, 4))[:length]
    return Roce(
        opcode=WRITE_ONLY,
        dest_qp=dest_qp,
        psn=psn,
        dscp=dscp,
        solicited=int(end),
        reth=Reth(offset, length, source_qp),
        payload=pattern,
        **fields,
    )


def trimmed(dest_qp: int, offset: int, length: int, *, dscp: int | None = None, **options: Any) -> Roce:
    """The header that is left of `data(...)` after a trim."""
    full = data(dest_qp, offset, length, **options)
    if dscp is None:
        dscp = {DSCP_GRADIENT: DSCP_GRADIENT_TRIMMED, DSCP_DATA: DSCP_DATA_TRIMMED}[full.dscp]
    return full.trimmed(dscp)
