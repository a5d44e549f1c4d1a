# SPDX-License-Identifier: Apache-2.0
"""A profile at one link rate: bytes, nanoseconds, bits per second, and the thresholds the P4 programs compare
with.

Integers throughout, so that a run's configuration reproduces to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiles.schema import (
    Dscp,
    Exemption,
    Fabric,
    Fault,
    Flows,
    Study,
    WindowBasis,
    WindowKind,
    Wire,
    Workload,
)


@dataclass(frozen=True, slots=True)
class Links:
    """rate_bps: of links between NIC and switch; core_rate_bps: between switches; host_rate_bps: 0 = not
    limited.
    """

    rate_bps: int
    core_rate_bps: int
    host_rate_bps: int
    access_delay_ns: int
    fabric_delay_ns: int


@dataclass(frozen=True, slots=True)
class IngressBytes:
    """Arguments of `limit_ingress`."""

    reserve_bytes: int
    shared_bytes: int
    alpha_shift: int


@dataclass(frozen=True, slots=True)
class QueueBytes:
    """Limits the P4 programs keep (data_limit, kmin, kmax; pmax times 2^32) and the capacities the target
    keeps.

    Capacities are per port, above every limit: what is admitted is never lost.
    """

    data_limit_bytes: int
    kmin_bytes: int
    kmax_bytes: int
    pmax_2e32: int
    data_capacity_bytes: int
    trimmed_capacity_bytes: int
    feedback_capacity_bytes: int
    trimmed_share_percent: int
    ingress: IngressBytes | None


@dataclass(frozen=True, slots=True)
class DcqcnRates:
    """Rate control in bits per second and ns. g = 2^-gain_shift."""

    enabled: bool
    line_rate_bps: int
    minimum_rate_bps: int
    additive_bps: int
    hyper_bps: int
    gain_shift: int
    alpha_period_ns: int
    decrease_period_ns: int
    increase_period_ns: int
    fast_recovery_stages: int
    clamp_target: bool


@dataclass(frozen=True, slots=True)
class TransportBytes:
    """window_bytes: of payload; the most a flow may have in flight where `window` is "path"."""

    window_bytes: int
    scale_window: bool
    rto_ns: int
    window: WindowKind
    window_basis: WindowBasis
    repeat_tail: bool
    window_repairs: bool
    gap_repair_ns: int
    ignore_beyond_gap: Flows
    blocked_stops_timer: bool


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """forgive_threshold: P times 2^32, up to 2^32. notification_interval_us: 0 = an echo on every
    acknowledgement.
    """

    p_low_ppm: int
    p_high_ppm: int
    forgive_threshold: int
    vesting: bool
    exemption: Exemption
    eligible: bool
    notification_interval_us: int
    forgiveness_echoes: bool
    trimmed_starts_flow: bool

    def p_ppm(self, critical: bool) -> int:
        """P_low on a critical step, else P_high; parts per million."""
        return self.p_low_ppm if critical else self.p_high_ppm


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that a run needs to know, saved beside its results (`to_json`, `from_json`).

    packet_ns: one packet time, rounded up.
    """

    profile: str
    packet_ns: int
    wire: Wire
    dscp: Dscp
    fabric: Fabric
    links: Links
    queue: QueueBytes
    dcqcn: DcqcnRates
    transport: TransportBytes
    budget: BudgetPolicy
    workload: Workload
    study: Study | None
    faults: tuple[Fault, ...]

    def path_window_bytes(self, access_links: int, fabric_links: int) -> int:
        """The window of a flow over so many links, bytes of payload.

        "path": link rate x (2 x propagation + the serialisation of a payload per link, each in whole ns), as
        the study's simulator computes a host pair's bandwidth-delay product; `window_bytes` at most.
        """
        if self.transport.window is WindowKind.FIXED:
            return self.transport.window_bytes
        links = self.links
        propagation = access_links * links.access_delay_ns + fabric_links * links.fabric_delay_ns
        round_trip = 2 * propagation
        for count, rate in ((access_links, links.rate_bps), (fabric_links, links.core_rate_bps)):
            round_trip += count * (self.wire.payload_bytes * 8 * 1_000_000_000 // rate)
        window = round_trip * links.rate_bps // 8_000_000_000
        return min(max(window, self.wire.payload_bytes), self.transport.window_bytes)

    def to_json(self) -> str:
        """Exact and readable; keys in a fixed order."""
        from profiles import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str, where: str = "configuration") -> Configuration:
        """The object that `to_json` wrote. Raises ProfileError in one line."""
        from profiles import from_json

        return from_json(cls, text, where)
