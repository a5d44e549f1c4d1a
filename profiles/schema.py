# SPDX-License-Identifier: Apache-2.0
"""A profile: every parameter of a run, free of the machine it runs on.

Sizes of queues and windows are in packets (full data frames), times in packet times (one full data frame at
link rate), rates as parts per million of the link rate. `[scale] factor` divides every size and time, so a
profile keeps the proportions of the fabric it is modelled on. `Profile.at_rate` makes bytes, nanoseconds and
bits per second of it. What a `[study]` moves and computes is in bytes and ns, and never scaled.

Comments name the values of the paper's simulated fabric (400 Gb/s, 4,132-byte frames).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from profiles.reader import ProfileError, limits

ETHERNET_IPV4_UDP_BTH_RETH_BYTES = 14 + 20 + 8 + 12 + 16
"""Headers of a data frame; all that is left of a trimmed one. Feedback has AETH + range instead: as long."""

PPM = 1_000_000


class Family(enum.StrEnum):
    """Kinds of topology."""

    FAT_TREE = "fat_tree"
    LEAF_SPINE = "leaf_spine"


class WindowKind(enum.StrEnum):
    """Where a flow's window comes from."""

    FIXED = "fixed"
    """`window_packets` for every flow."""
    PATH = "path"
    """The bandwidth-delay product of the flow's own path, `window_packets` at most."""


class WindowBasis(enum.StrEnum):
    """What counts as in flight."""

    UNSETTLED = "unsettled"
    """Bytes sent that are not settled."""
    CUMULATIVE = "cumulative"
    """Everything from rcv_nxt to the end of what was sent."""


class Flows(enum.StrEnum):
    """Which flows something concerns."""

    NONE = "none"
    DATA = "data"
    """All that carry no gradients."""
    ALL = "all"


class Exemption(enum.StrEnum):
    """How long an eligible flow's sender ignores congestion signals."""

    PAPER = "paper"
    """While the budget is not exhausted."""
    NEVER = "never"
    """The eligible flag is never sent: forgiveness alone."""
    NEVER_ENDS = "never_ends"
    """The exhausted flag is never sent: once exempt, always exempt."""


@dataclass(frozen=True, slots=True)
class Wire:
    """Sizes on the wire, bytes.

    weight_adjust, weight_minimum: on a simulated link a frame takes the time of max(its length +
    weight_adjust, weight_minimum) bytes, so that it can weigh what it weighed in the study.
    """

    payload_bytes: int = field(metadata=limits(1, 16_384, "32 blocks of 512 bytes fit one range"))
    block_bytes: int = field(metadata=limits(512, 512, "compiled into the NIC's scoreboard"))
    weight_adjust: int = field(default=0, metadata=limits(-ETHERNET_IPV4_UDP_BTH_RETH_BYTES, 1000))
    weight_minimum: int = field(default=0, metadata=limits(0, 1500))

    def __post_init__(self) -> None:
        if self.payload_bytes % self.block_bytes:
            raise ProfileError(
                f"payload_bytes is {self.payload_bytes}; give a multiple of block_bytes ({self.block_bytes})"
            )

    @property
    def frame_bytes(self) -> int:
        """A full data frame, Ethernet header on, without FCS."""
        return self.payload_bytes + ETHERNET_IPV4_UDP_BTH_RETH_BYTES

    @property
    def trimmed_frame_bytes(self) -> int:
        """A trimmed data frame, and a feedback frame."""
        return ETHERNET_IPV4_UDP_BTH_RETH_BYTES

    def weight_bytes(self, frame_bytes: int) -> int:
        """What a frame weighs on a link."""
        return max(frame_bytes + self.weight_adjust, self.weight_minimum)


@dataclass(frozen=True, slots=True)
class Dscp:
    """Traffic classes and trim state: Ultra Ethernet's names, values of the operator's choice."""

    gradient: int = field(metadata=limits(1, 63))
    gradient_trimmed: int = field(metadata=limits(1, 63))
    data: int = field(metadata=limits(1, 63))
    data_trimmed: int = field(metadata=limits(1, 63))
    control: int = field(metadata=limits(1, 63))

    def __post_init__(self) -> None:
        values = (self.gradient, self.gradient_trimmed, self.data, self.data_trimmed, self.control)
        if len(set(values)) != len(values):
            raise ProfileError(f"gradient ... control are {values}; give five different values")


@dataclass(frozen=True, slots=True)
class Scale:
    """`factor`: what all queue sizes, windows, delays and timers are divided by."""

    factor: int = field(metadata=limits(1, 1000))


@dataclass(frozen=True, slots=True)
class Fabric:
    """Topology and links.

    k: of a fat-tree (even). leaves, spines, hosts_per_leaf: of a leaf-spine. access_delay_packets,
    fabric_delay_packets: one-way propagation NIC-switch and switch-switch, packet times. host_rate_ppm: rate
    between host and its NIC, of the link rate; 0 = not limited. core_rate_ppm: rate of links between
    switches, of the link rate; 250,000 = oversubscribed four times. spray: data packets choose among
    equal-cost paths one by one (else by flow). Feedback always by flow. seed: of the switches' draws; switch
    i has seed + i. rate_bps: the link rate; 0 = from a calibration of the machine.
    """

    family: Family
    access_delay_packets: float = field(metadata=limits(0))
    fabric_delay_packets: float = field(metadata=limits(0))
    spray: bool
    seed: int = field(metadata=limits(0, 2**31))
    k: int = field(default=0, metadata=limits(0, 254))
    leaves: int = field(default=0, metadata=limits(0))
    spines: int = field(default=0, metadata=limits(0))
    hosts_per_leaf: int = field(default=0, metadata=limits(0))
    host_rate_ppm: int = field(default=0, metadata=limits(0))
    core_rate_ppm: int = field(default=PPM, metadata=limits(1, 1_000 * PPM))
    rate_bps: int = field(default=0, metadata=limits(0))

    def __post_init__(self) -> None:
        if self.family is Family.FAT_TREE and (self.k < 2 or self.k % 2):
            raise ProfileError(f"k is {self.k}; a fat-tree needs an even k of 2 or more")
        if self.family is Family.LEAF_SPINE:
            for name in ("leaves", "spines", "hosts_per_leaf"):
                if getattr(self, name) < 1:
                    raise ProfileError(f"{name} is {getattr(self, name)}; a leaf-spine needs 1 or more")


@dataclass(frozen=True, slots=True)
class IngressLimit:
    """Second limit, per ingress port on the switch's shared buffer.

    A frame is admitted while the port's bytes above `reserve` fit in (shared - all bytes admitted) >>
    alpha_shift.
    """

    reserve_packets: float = field(metadata=limits(0))
    shared_packets: float = field(metadata=limits(1))
    alpha_shift: int = field(metadata=limits(0, 31))


@dataclass(frozen=True, slots=True)
class Queue:
    """Queues of a port.

    data_limit_packets: at which data is trimmed (1,015). kmin, kmax: ECN marking of data (194, 775), pmax at
    kmax (20 %). trimmed_capacity_headers: frames that fit the queue of trimmed headers (21,845).
    trimmed_share_percent: of the link while data waits, where the target can do it; 0 = strict priority.
    headroom_percent: real capacity of the data queue beyond the limit, so that nothing admitted is ever lost.
    """

    data_limit_packets: float = field(metadata=limits(1))
    kmin_packets: float = field(metadata=limits(0))
    kmax_packets: float = field(metadata=limits(0))
    pmax_ppm: int = field(metadata=limits(0, PPM))
    trimmed_capacity_headers: float = field(metadata=limits(1))
    feedback_capacity_headers: float = field(metadata=limits(1))
    trimmed_share_percent: int = field(default=0, metadata=limits(0, 99))
    headroom_percent: int = field(default=300, metadata=limits(100))
    ingress: IngressLimit | None = None

    def __post_init__(self) -> None:
        if self.kmin_packets >= self.kmax_packets:
            raise ProfileError(
                f"kmin_packets is {self.kmin_packets}; give less than kmax_packets ({self.kmax_packets})"
            )


@dataclass(frozen=True, slots=True)
class Dcqcn:
    """Sender's rate control: the study's "Mellanox DCQCN".

    enabled: false = fixed link rate inside the window. additive, hyper, minimum: of the link rate (500,
    1,000, 1,000 ppm). gain_shift: g = 2^-shift (8). alpha_period (12.1), decrease_period (48.4),
    increase_period (10,890): packet times. fast_recovery_stages: increase events before the additive one (1).
    clamp_target: lower the target rate at every cut.
    """

    enabled: bool
    additive_ppm: int = field(metadata=limits(1, PPM))
    hyper_ppm: int = field(metadata=limits(1, PPM))
    minimum_ppm: int = field(metadata=limits(1, PPM))
    gain_shift: int = field(metadata=limits(1, 16))
    alpha_period_packets: float = field(metadata=limits(0.001))
    decrease_period_packets: float = field(metadata=limits(0.001))
    increase_period_packets: float = field(metadata=limits(0.001))
    fast_recovery_stages: int = field(metadata=limits(0, 100))
    clamp_target: bool


@dataclass(frozen=True, slots=True)
class Transport:
    """Selective repeat.

    window_packets: bytes in flight per flow, in packets (851, the bandwidth-delay product). scale_window: the
    window shrinks with the rate. rto_packets: retransmission timeout, packet times (12,100). window: where a
    flow's window comes from. window_basis: what counts as in flight.

    The study's repairs (hosts/config.py says more). repeat_tail: a timeout sends all from rcv_nxt again.
    window_repairs: repairs wait for the window, too (only with repeat_tail).
    gap_repair_packets: an answer beyond rcv_nxt has the packet there sent again, at most this often, packet
    times; 0 = never. ignore_beyond_gap: of these flows such an answer is otherwise no signal and restarts no
    timeout; "all" only where nothing is forgiven. blocked_stops_timer: while a flow is blocked, no timer
    wakes the others of its host (simulated time only).
    """

    window_packets: float = field(metadata=limits(1))
    scale_window: bool
    rto_packets: float = field(metadata=limits(1))
    window: WindowKind = WindowKind.FIXED
    window_basis: WindowBasis = WindowBasis.UNSETTLED
    repeat_tail: bool = False
    window_repairs: bool = False
    gap_repair_packets: float = field(default=0, metadata=limits(0))
    ignore_beyond_gap: Flows = Flows.NONE
    blocked_stops_timer: bool = False

    def __post_init__(self) -> None:
        if self.window_repairs and not self.repeat_tail:
            raise ProfileError("window_repairs is true; set repeat_tail to true, too")


@dataclass(frozen=True, slots=True)
class Budget:
    """The loss budget and the policy parameters of the NIC's step entry.

    p_low_ppm, p_high_ppm: loss probability of critical steps and of the rest (paper: 5,000 and 100,000).
    forgive_ppm: P, the probability of forgiving what the vesting rule allows. notification_interval_packets:
    0 = an echo on every acknowledgement, else one notification packet per flow and interval, packet times.
    forgiveness_echoes: the acknowledgement of a forgiven range always carries the echo (the study's
    simulator); false: only if the trimmed header was marked (the paper). trimmed_starts_flow: a trimmed
    header starts its flow at the receiver (the paper); false: only data does, and a header that comes before
    is requested without flags, charged to nobody (the study's simulator).
    """

    p_low_ppm: int = field(metadata=limits(0, PPM - 1))
    p_high_ppm: int = field(metadata=limits(0, PPM - 1))
    forgive_ppm: int = field(metadata=limits(0, PPM))
    vesting: bool
    exemption: Exemption
    eligible: bool
    notification_interval_packets: float = field(default=0, metadata=limits(0))
    forgiveness_echoes: bool = False
    trimmed_starts_flow: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """What the hosts do.

    ranks: data-parallel ranks. rank_stride: rank r runs on host 1 + r * rank_stride; the hosts between run
    the tensor-parallel-like traffic, tp_share_ppm of all bytes. gradient_bytes: per rank and step, before the
    model rounds it. seeds: one run each. detector_*: Accordion's criterion.
    """

    ranks: int = field(metadata=limits(2))
    rank_stride: int = field(metadata=limits(1))
    steps: int = field(metadata=limits(1))
    gradient_bytes: int = field(metadata=limits(4))
    tp_share_ppm: int = field(metadata=limits(0, PPM - 1))
    seeds: tuple[int, ...] = field(metadata=limits(0, 2**63 - 1))
    detector_threshold: float = field(metadata=limits(0.000001))
    detector_window: int = field(metadata=limits(1))

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ProfileError("seeds is empty; give at least one number")


class FaultKind(enum.StrEnum):
    """What goes wrong (virtual/faults.py says what each does)."""

    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    LOSS = "loss"
    NIC_RESTART = "nic_restart"


@dataclass(frozen=True, slots=True)
class Fault:
    """An event of a run in simulated time.

    at_ns: never scaled. what: a link by its ends ("leaf1-spine2"), a NIC or its host for a restart. ppm: of
    frames lost from then on. reroute: the controller takes the link out of all routes, or back in, at once.
    """

    at_ns: int = field(metadata=limits(0))
    kind: FaultKind
    what: str
    ppm: int = field(default=0, metadata=limits(0, PPM))
    reroute: bool = False


@dataclass(frozen=True, slots=True)
class Burst:
    """Background traffic that is never eligible.

    At the first gradient message of `step`, ranks 0 to `sources` - 1 send `message_bytes` each to `receiver`
    (a source that is the receiver is left out).
    """

    step: int = field(metadata=limits(1))
    sources: int = field(metadata=limits(1))
    receiver: int = field(metadata=limits(0))
    message_bytes: int = field(metadata=limits(1, 2**31))


@dataclass(frozen=True, slots=True)
class Study:
    """A tensor- and data-parallel training job as the paper's simulator ran it.

    Rank r runs on host r + 1. A tensor-parallel group is `tensor_parallel` consecutive ranks (those of a
    leaf); a data-parallel group has every `tensor_parallel`-th rank. A step of a rank is a chain: for each of
    `microbatches` twice (compute `compute_ns`, tensor-parallel all-reduce of `tp_bytes`), then the gradient
    all-reduce of `dp_bytes`, then compute. An all-reduce of b bytes is streams of floor(b / `streams`) bytes
    one after another, one more for a remainder; a message is an equal share of a stream, rounded down.
    dp_width: gradient messages a rank has in flight. critical_steps: numbered from 1.

    endpoint_delay_ns: from a message's arrival to the release of what waits for it. memory_gb_per_second:
    what is reduced is written once and read twice at this rate first; 0 = no time. counted_arrivals: messages
    from a peer count as the next that are due from it, whichever they are (the study). start_spread_ns: each
    rank begins its first step later by a fixed draw below it, as if a step had gone before; 0 = all at once.
    """

    tensor_parallel: int = field(metadata=limits(1))
    data_parallel: int = field(metadata=limits(2))
    steps: int = field(metadata=limits(1, 10_000))
    microbatches: int = field(metadata=limits(0))
    compute_ns: int = field(metadata=limits(0))
    tp_bytes: int = field(metadata=limits(1))
    dp_bytes: int = field(metadata=limits(1))
    streams: int = field(metadata=limits(1))
    dp_width: int = field(metadata=limits(1))
    critical_steps: tuple[int, ...] = field(metadata=limits(1))
    endpoint_delay_ns: int = field(default=0, metadata=limits(0))
    memory_gb_per_second: int = field(default=0, metadata=limits(0))
    counted_arrivals: bool = False
    start_spread_ns: int = field(default=0, metadata=limits(0))
    burst: Burst | None = None

    def __post_init__(self) -> None:
        if self.dp_width >= self.data_parallel:
            raise ProfileError(
                f"dp_width is {self.dp_width}; give at most data_parallel - 1 ({self.data_parallel - 1})"
            )
        for name, ranks in (("tp_bytes", self.tensor_parallel), ("dp_bytes", self.data_parallel)):
            if getattr(self, name) < self.streams * ranks:
                raise ProfileError(
                    f"{name} is {getattr(self, name)}; {self.streams} streams among {ranks} ranks need a "
                    "byte each"
                )
        if self.burst is not None and not self.burst.receiver < self.ranks:
            raise ProfileError(f"burst.receiver is {self.burst.receiver}; give a rank below {self.ranks}")
        if self.burst is not None and not self.burst.sources <= self.ranks:
            raise ProfileError(f"burst.sources is {self.burst.sources}; there are {self.ranks} ranks")

    @property
    def ranks(self) -> int:
        return self.tensor_parallel * self.data_parallel
