# SPDX-License-Identifier: Apache-2.0
"""A small model of the switch: routing, choice of path, byte-exact occupancy, trimming, marking.

From docs/dataplane.md alone. Time enters as batches: the frames of a batch come in at once and find every
port idle, so that at each port the first one leaves before the next is looked at, and the rest leaves by
priority afterwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.model import draws
from tests.support import wire

DATA, TRIMMED, FEEDBACK = 0, 1, 2
"""Priorities."""


@dataclass(frozen=True)
class TrafficClass:
    """An entry of `traffic_class`; the default is what a miss gives."""

    trimmable: bool = False
    trimmed_dscp: int = 0
    priority: int = DATA
    spray: bool = False


@dataclass(frozen=True)
class IngressLimit:
    reserve: int
    shared: int
    alpha_shift: int


@dataclass(frozen=True)
class Threshold:
    """An entry of `ecn_thresholds`."""

    kmin: int
    kmax: int
    pmax: int


@dataclass(frozen=True)
class Parsed:
    """What the switch reads of a frame."""

    src_ip: int
    dst_ip: int
    is_arp: bool
    dscp: int = 0
    ecn: int = 0
    protocol: int = 0
    src_port: int = 0
    dst_port: int = 0
    identification: int = 0
    psn: int | None = None
    """Of a RoCE packet."""
    is_roce_data: bool = False


@dataclass(frozen=True)
class Waiting:
    """A frame in a queue."""

    frame: bytes
    parsed: Parsed
    ingress: int
    priority: int


@dataclass
class SwitchModel:
    """Tables are plain dictionaries; a port's occupancy is that of its data queue, in bytes."""

    seed: int
    classes: dict[int, TrafficClass]
    routes: dict[int, int | tuple[int, ...]]
    """Host route -> port, or the ports of a group by member number."""
    queue_limits: dict[int, int] = field(default_factory=dict)
    ingress_limits: dict[int, IngressLimit] = field(default_factory=dict)
    thresholds: dict[int, Threshold] = field(default_factory=dict)
    counters: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(name, port) -> packets; counters of one cell have port 0."""
    queued: Counter[int] = field(default_factory=Counter)
    """Egress port -> bytes."""
    admitted: Counter[int] = field(default_factory=Counter)
    """Ingress port -> bytes."""

    def batch(self, frames: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
        """(ingress port, frame) of one instant -> frames that leave, by egress port and in order."""
        left: dict[int, list[bytes]] = {}
        queues: dict[int, list[Waiting]] = {}
        for ingress, frame in frames:
            admitted = self._ingress(ingress, frame)
            if admitted is None:
                continue
            port, waiting = admitted
            if port not in left:
                left[port] = [self._depart(port, waiting)]
            else:
                queues.setdefault(port, []).append(waiting)
        for port, queue in queues.items():
            # Python's sort is stable: first come, first served within a priority.
            for waiting in sorted(queue, key=lambda w: -w.priority):
                left[port].append(self._depart(port, waiting))
        return left

    def _ingress(self, ingress: int, frame: bytes) -> tuple[int, Waiting] | None:
        parsed = parse(frame)
        if parsed is None:
            self.counters["malformed", 0] += 1
            return None
        if not parsed.is_arp and frame[22] <= 1:
            self.counters["ttl_expired", 0] += 1
            return None
        kind = TrafficClass() if parsed.is_arp else self.classes.get(parsed.dscp, TrafficClass())
        port = self._route(parsed, kind.spray)
        if port is None:
            self.counters["no_route", 0] += 1
            return None
        frame = frame if parsed.is_arp else rewrite(frame, ttl=frame[22] - 1)
        if kind.priority != DATA:
            return port, Waiting(frame, parsed, ingress, kind.priority)
        if self._fits(port, ingress, len(frame)):
            self.queued[port] += len(frame)
            self.admitted[ingress] += len(frame)
            return port, Waiting(frame, parsed, ingress, DATA)
        if kind.trimmable and parsed.is_roce_data:
            self.counters["trimmed", port] += 1
            return port, Waiting(trim(frame, kind.trimmed_dscp), parsed, ingress, TRIMMED)
        self.counters["dropped", port] += 1
        return None

    def _route(self, parsed: Parsed, spray: bool) -> int | None:
        route = self.routes.get(parsed.dst_ip)
        if not isinstance(route, tuple):
            return route
        member = draws.member(
            self.seed,
            len(route),
            parsed.src_ip,
            parsed.dst_ip,
            parsed.protocol,
            parsed.src_port,
            parsed.dst_port,
            parsed.psn if spray and parsed.psn is not None else 0,
        )
        return route[member]

    def _fits(self, port: int, ingress: int, length: int) -> bool:
        if port in self.queue_limits and self.queued[port] + length > self.queue_limits[port]:
            return False
        limit = self.ingress_limits.get(ingress)
        if limit is None:
            return True
        spare = max(0, limit.shared - sum(self.admitted.values())) >> limit.alpha_shift
        return self.admitted[ingress] + length <= limit.reserve + spare

    def _depart(self, port: int, waiting: Waiting) -> bytes:
        self.counters["forwarded", port] += 1
        if waiting.priority != DATA:
            return waiting.frame
        self.queued[port] -= len(waiting.frame)
        self.admitted[waiting.ingress] -= len(waiting.frame)
        threshold = self.thresholds.get(port)
        if threshold is None or waiting.parsed.ecn not in (wire.ECT0, wire.ECT1):
            return waiting.frame
        p = waiting.parsed
        value = draws.mark(
            self.seed,
            p.src_ip,
            p.dst_ip,
            p.protocol,
            p.src_port,
            p.dst_port,
            p.identification if p.psn is None else p.psn,
        )
        if not draws.is_marked(value, self.queued[port], threshold.kmin, threshold.kmax, threshold.pmax):
            return waiting.frame
        self.counters["marked", port] += 1
        return rewrite(waiting.frame, ecn=wire.CE)


def parse(frame: bytes) -> Parsed | None:
    """None if it is malformed."""
    if frame[12:14] == b"\x08\x06":
        if len(frame) < 14 + 28:
            return None
        return Parsed(int.from_bytes(frame[28:32]), int.from_bytes(frame[38:42]), is_arp=True)
    if frame[12:14] != b"\x08\x00" or len(frame) < 34:
        return None
    version, words = frame[14] >> 4, frame[14] & 15
    total = int.from_bytes(frame[16:18])
    if version != 4 or words < 5 or len(frame) < 14 + 4 * words or not 4 * words <= total <= len(frame) - 14:
        return None
    protocol = frame[23]
    has_ports = words == 5 and int.from_bytes(frame[20:22]) & 0x3FFF == 0 and protocol in (6, 17)
    src_port, dst_port = (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38])) if has_ports else (0, 0)
    is_roce = protocol == 17 and dst_port == wire.UDP_PORT_ROCE
    return Parsed(
        src_ip=int.from_bytes(frame[26:30]),
        dst_ip=int.from_bytes(frame[30:34]),
        is_arp=False,
        dscp=frame[15] >> 2,
        ecn=frame[15] & 3,
        protocol=protocol,
        src_port=src_port,
        dst_port=dst_port,
        identification=int.from_bytes(frame[18:20]),
        psn=int.from_bytes(frame[51:54]) if is_roce else None,
        is_roce_data=is_roce and frame[42] == wire.WRITE_ONLY,
    )


def rewrite(
    frame: bytes, *, ttl: int | None = None, dscp: int | None = None, ecn: int | None = None
) -> bytes:
    """An IPv4 frame with these fields and a right checksum."""
    length = 4 * (frame[14] & 15)
    header = bytearray(frame[14 : 14 + length])
    header[8] = header[8] if ttl is None else ttl
    header[1] = (header[1] >> 2 if dscp is None else dscp) << 2 | (header[1] & 3 if ecn is None else ecn)
    header[10:12] = b"\0\0"
    header[10:12] = wire.ipv4_checksum(bytes(header)).to_bytes(2)
    return frame[:14] + bytes(header) + frame[14 + length :]


def trim(frame: bytes, dscp: int) -> bytes:
    """Ethernet to RETH, with both lengths rewritten."""
    cut = frame[: wire.TRIMMED_BYTES]
    ip_len, udp_len = wire.TRIMMED_BYTES - 14, wire.TRIMMED_BYTES - 34
    cut = cut[:16] + ip_len.to_bytes(2) + cut[18:38] + udp_len.to_bytes(2) + cut[40:]
    return rewrite(cut, dscp=dscp)
