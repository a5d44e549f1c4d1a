# SPDX-License-Identifier: Apache-2.0
"""What a transport is told at its start, checked once: a wrong value is one line that names the field."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any, Literal

BLOCK_BYTES = 512
MAX_PAYLOAD_BYTES = 16384
SCOREBOARD_SPAN_BYTES = 126 * 64 * BLOCK_BYTES
"""How far beyond rcv_nxt the NIC's scoreboard reaches at least: its window is 127 words from the start of
the word that rcv_nxt is in (p4src/include/sizes.p4)."""

WindowBasis = Literal["unsettled", "cumulative"]
Flows = Literal["none", "data", "all"]
"""Which flows something concerns: data those that carry no gradients."""

MAX_RATE_BPS = 1 << 50
Q31 = 1 << 31


# Fields that the native structures call the same and hold in the same unit.
_SAME_NAME = (
    *(
        "line_rate_bps",
        "payload_bytes",
        "overhead_bytes",
        "window_bytes",
        "span_bytes",
        "rto_ns",
        "rto_limit",
    ),
    *("first_owner", "catch_up_ns", "gradient_dscp", "data_dscp", "ttl", "port_paced"),
    *("repeat_tail", "window_repairs", "blocked_stops_timer", "gap_repair_ns", "scale_window"),
)
_DCQCN_SAME_NAME = (
    *("alpha_period_ns", "decrease_period_ns", "increase_period_ns", "fast_recovery_stages"),
    *("additive_bps", "hyper_bps", "min_bps", "clamp_target"),
)


class ConfigError(ValueError):
    """A field out of its range: names the field, the value and what is allowed."""


def check(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise ConfigError(f"{name} = {value!r}: must be {allowed}")


def check_int(name: str, value: object, low: int, high: int) -> None:
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    check(good, name, value, f"an integer from {low} to {high}")


@dataclass(frozen=True, slots=True)
class DcqcnConfig:
    """DCQCN's reaction point, HPCC simulator variant (hosts/core/include/transport.h has the rules).

    Defaults are those of the paper's study at 400 Gb/s. `for_line_rate` scales them."""

    gain: float = 1 / 256
    """g, EWMA gain of alpha; 0 to 1, rounded to a multiple of 2^-31."""
    initial_alpha: float = 1.0
    """alpha at the first signal."""
    first_signal_factor: float = 1.0
    """The rate is multiplied by it at the first signal; rounded to parts per million."""
    alpha_period_ns: int = 1_000
    decrease_period_ns: int = 4_000
    increase_period_ns: int = 900_000
    fast_recovery_stages: int = 1
    additive_bps: int = 200_000_000
    hyper_bps: int = 400_000_000
    min_bps: int = 400_000_000
    clamp_target: bool = False

    def __post_init__(self) -> None:
        for name in ("gain", "initial_alpha"):
            value = getattr(self, name)
            check(isinstance(value, (int, float)) and 0 <= value <= 1, f"dcqcn.{name}", value, "from 0 to 1")
        check(
            isinstance(self.first_signal_factor, (int, float)) and 1e-6 <= self.first_signal_factor <= 1,
            "dcqcn.first_signal_factor",
            self.first_signal_factor,
            "from 0.000001 to 1",
        )
        for name in ("alpha_period_ns", "decrease_period_ns", "increase_period_ns"):
            check_int(f"dcqcn.{name}", getattr(self, name), 1, 1 << 50)
        check_int("dcqcn.fast_recovery_stages", self.fast_recovery_stages, 0, 1_000_000)
        for name in ("additive_bps", "hyper_bps"):
            check_int(f"dcqcn.{name}", getattr(self, name), 0, MAX_RATE_BPS)
        check_int("dcqcn.min_bps", self.min_bps, 1, MAX_RATE_BPS)

    @classmethod
    def for_line_rate(cls, line_rate_bps: int, *, time_scale: float = 1.0) -> DcqcnConfig:
        """The study's parameters in proportion to a line rate: increases and the minimum are 1/2000, 1/1000
        and 1/1000 of it. `time_scale` multiplies the periods, for slower packets and longer round trips."""
        check_int("line_rate_bps", line_rate_bps, 1, MAX_RATE_BPS)
        check(time_scale > 0, "time_scale", time_scale, "above 0")
        return cls(
            alpha_period_ns=max(1, round(1_000 * time_scale)),
            decrease_period_ns=max(1, round(4_000 * time_scale)),
            increase_period_ns=max(1, round(900_000 * time_scale)),
            additive_bps=max(1, line_rate_bps // 2000),
            hyper_bps=max(1, line_rate_bps // 1000),
            min_bps=max(1, line_rate_bps // 1000),
        )


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """One host's transport. `dcqcn` None: every flow sends at line rate."""

    address: str
    """This host's IPv4 address."""
    line_rate_bps: int
    payload_bytes: int = 1024
    overhead_bytes: int = 70
    """Bytes of a data packet on the wire besides payload, for pacing."""
    window_bytes: int = 0
    """New data goes out while less than this is in the window; 0: no window."""
    window_basis: WindowBasis = "unsettled"
    """What is in the window: sent bytes that are not settled, or everything from rcv_nxt to the end of what
    was sent."""
    scale_window: bool = False
    """The window shrinks in proportion to the flow's rate (VAR_WIN of the study)."""
    span_bytes: int = SCOREBOARD_SPAN_BYTES
    rto_ns: int = 1_000_000
    rto_limit: int = 1024
    """Expiries without progress until a message fails."""
    first_owner: int = 1
    """Owner tag of each slot's first use; a restarted host continues after its last."""
    catch_up_ns: int = 2_000_000
    """A wake-up may be late by this much and still be made up for, so that pacing is right on average."""
    port_paced: bool = False
    """A port behind the transport fetches each packet when its line is free, so that only the flows' own
    rates pace here. With `catch_up_ns` 0 a flow's next packet is then due its gap after the last one went
    out, to the nanosecond; fractions of one are kept."""
    repeat_tail: bool = False
    """When the timeout expires, the flow goes back to rcv_nxt and sends all from there on again, as in the
    paper's study; else it repeats only what is not settled."""
    window_repairs: bool = False
    """Repairs need room in the window too, as in the study: a flow whose window is full when the packet at
    rcv_nxt is lost waits for its timeout. Only with `repeat_tail`, which empties the window. A window that
    the rate alone has opened is seen when anything arrives, or leaves, or times out."""
    blocked_stops_timer: bool = False
    """While a flow's next packet could have left by its pacing and has not (its window is full, or all of it
    is sent), no timer wakes the other flows: their packets leave when something arrives, or right behind
    another. A quirk of the study's NIC. Only with `port_paced`."""
    gap_repair_ns: int = 0
    """An ACK for bytes beyond rcv_nxt has the packet at rcv_nxt sent again, once for each rcv_nxt and again
    after this long: the study's gap NACK, which our NIC leaves to the sender. 0: never."""
    ignore_beyond_gap: Flows = "none"
    """Of these flows an ACK for bytes beyond rcv_nxt, but one that starts a gap repair, carries no congestion
    signal and restarts no timeout: the study's receiver says nothing about such packets. Forgiven ranges,
    about which it does speak, can't be told apart, so "all" is for runs without forgiveness."""
    gradient_dscp: int = 8
    data_dscp: int = 10
    ttl: int = 64
    mac: int = 0
    """Source MAC address; matters only where whole frames are used."""
    dcqcn: DcqcnConfig | None = field(default_factory=DcqcnConfig)

    def __post_init__(self) -> None:
        parse_address("address", self.address)
        check_int("line_rate_bps", self.line_rate_bps, 1, MAX_RATE_BPS)
        check_int("payload_bytes", self.payload_bytes, BLOCK_BYTES, MAX_PAYLOAD_BYTES)
        check(
            self.payload_bytes % BLOCK_BYTES == 0,
            "payload_bytes",
            self.payload_bytes,
            f"a multiple of {BLOCK_BYTES}",
        )
        check_int("overhead_bytes", self.overhead_bytes, 0, 1024)
        check_int("window_bytes", self.window_bytes, 0, (1 << 63) - 1)
        check(
            self.window_basis in ("unsettled", "cumulative"),
            "window_basis",
            self.window_basis,
            "'unsettled' or 'cumulative'",
        )
        check_int("span_bytes", self.span_bytes, self.payload_bytes, (1 << 32) - 1)
        check_int("rto_ns", self.rto_ns, 1, 1 << 52)
        check_int("rto_limit", self.rto_limit, 1, (1 << 32) - 1)
        check_int("first_owner", self.first_owner, 0, 2047)
        check_int("catch_up_ns", self.catch_up_ns, 0, 1 << 40)
        check_int("gap_repair_ns", self.gap_repair_ns, 0, 1 << 52)
        check(
            self.ignore_beyond_gap in ("none", "data", "all"),
            "ignore_beyond_gap",
            self.ignore_beyond_gap,
            "'none', 'data' or 'all'",
        )
        for name in ("scale_window", "port_paced", "repeat_tail", "window_repairs", "blocked_stops_timer"):
            value = getattr(self, name)
            check(isinstance(value, bool), name, value, "True or False")
        check(
            self.repeat_tail or not self.window_repairs,
            "window_repairs",
            self.window_repairs,
            "False without repeat_tail",
        )
        check(
            self.port_paced or not self.blocked_stops_timer,
            "blocked_stops_timer",
            self.blocked_stops_timer,
            "False without port_paced",
        )
        for name in ("gradient_dscp", "data_dscp"):
            check_int(name, getattr(self, name), 0, 63)
        check(self.gradient_dscp != self.data_dscp, "data_dscp", self.data_dscp, "other than gradient_dscp")
        check_int("ttl", self.ttl, 1, 255)
        check_int("mac", self.mac, 0, (1 << 48) - 1)
        if self.dcqcn is not None:
            check(
                self.dcqcn.min_bps <= self.line_rate_bps,
                "dcqcn.min_bps",
                self.dcqcn.min_bps,
                f"at most line_rate_bps ({self.line_rate_bps})",
            )

    def fill(self, native: Any) -> None:
        """Write into a `transport_config_t`."""
        for name in _SAME_NAME:
            setattr(native, name, getattr(self, name))
        native.src_addr = parse_address("address", self.address)
        native.src_mac = self.mac
        native.window_basis = ("unsettled", "cumulative").index(self.window_basis)
        native.ignore_beyond_gap = ("none", "data", "all").index(self.ignore_beyond_gap)
        native.dcqcn.enabled = self.dcqcn is not None
        if self.dcqcn is None:
            return
        for name in _DCQCN_SAME_NAME:
            setattr(native.dcqcn, name, getattr(self.dcqcn, name))
        native.dcqcn.gain_q31 = round(self.dcqcn.gain * Q31)
        native.dcqcn.initial_alpha_q31 = round(self.dcqcn.initial_alpha * Q31)
        native.dcqcn.first_signal_ppm = max(1, round(self.dcqcn.first_signal_factor * 1_000_000))


def parse_address(name: str, address: str) -> int:
    """An IPv4 address as an integer. Raises ConfigError naming `name`."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError:
        raise ConfigError(f"{name} = {address!r}: must be an IPv4 address such as 10.0.0.1") from None
