# SPDX-License-Identifier: Apache-2.0
"""The draws of docs/dataplane.md, "Draws", computed by the tests' own code."""

from __future__ import annotations

import zlib

MASK32 = 0xFFFFFFFF


def mix(h: int) -> int:
    """The 32-bit finaliser of MurmurHash3: takes away CRC's linearity."""
    h ^= h >> 16
    h = h * 0x85EBCA6B & MASK32
    h ^= h >> 13
    h = h * 0xC2B2AE35 & MASK32
    return h ^ h >> 16


def draw(*fields: tuple[int, int]) -> int:
    """32 bits from fields of (value, bits), big-endian and one after the other."""
    data = b"".join(value.to_bytes(bits // 8) for value, bits in fields)
    return mix(zlib.crc32(data))


def forgive(seed: int, dest_qp: int, virtual_addr: int, draws_before: int) -> int:
    """Draw(P), compared with `forgive_threshold`. `draws_before`: of this flow so far."""
    return draw((3, 8), (seed, 32), (dest_qp, 24), (virtual_addr, 32), (draws_before, 32))


def source_port(dest_qp: int, source_qp: int) -> int:
    """The UDP source port that the sender's NIC writes: path entropy from the queue pairs."""
    return 0xC000 + draw((4, 8), (dest_qp, 24), (source_qp, 24)) % (1 << 14)


def member(
    seed: int,
    members: int,
    src_ip: int,
    dst_ip: int,
    protocol: int = 17,
    src_port: int = 0,
    dst_port: int = 4791,
    psn: int = 0,
) -> int:
    """The switch's choice among equal-cost paths. `psn`: 0 unless sprayed."""
    return _of_packet(1, seed, src_ip, dst_ip, protocol, src_port, dst_port, psn) * members >> 32


def mark(
    seed: int,
    src_ip: int,
    dst_ip: int,
    protocol: int = 17,
    src_port: int = 0,
    dst_port: int = 4791,
    psn: int = 0,
) -> int:
    """The draw of an ECN mark. `psn`: for what is not RoCE, the IPv4 identification."""
    return _of_packet(2, seed, src_ip, dst_ip, protocol, src_port, dst_port, psn)


def is_marked(draw_value: int, queued: int, kmin: int, kmax: int, pmax: int) -> bool:
    """Marking with `queued` bytes behind the packet; `pmax`: probability at kmax, times 2^32."""
    if queued <= kmin:
        return False
    if queued > kmax:
        return True
    return draw_value * (kmax - kmin) < pmax * (queued - kmin)


def _of_packet(
    kind: int, seed: int, src: int, dst: int, protocol: int, src_port: int, dst_port: int, psn: int
) -> int:
    return draw(
        (kind, 8), (seed, 32), (src, 32), (dst, 32), (protocol, 8), (src_port, 16), (dst_port, 16), (psn, 32)
    )
