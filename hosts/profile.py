# SPDX-License-Identifier: Apache-2.0
"""What a configuration of `profiles` means for a host's transport."""

from __future__ import annotations

from typing import Any

from hosts.config import DcqcnConfig, TransportConfig
from profiles import Configuration


def transport_settings(configuration: Configuration) -> dict[str, Any]:
    """Fields of `TransportConfig` but the address and dcqcn."""
    transport, payload = configuration.transport, configuration.wire.payload_bytes
    return {
        "line_rate_bps": configuration.dcqcn.line_rate_bps,
        "payload_bytes": payload,
        "overhead_bytes": configuration.wire.weight_bytes(configuration.wire.frame_bytes) - payload,
        "window_bytes": transport.window_bytes,
        "window_basis": str(transport.window_basis),
        "scale_window": transport.scale_window,
        "rto_ns": transport.rto_ns,
        "repeat_tail": transport.repeat_tail,
        "window_repairs": transport.window_repairs,
        "gap_repair_ns": transport.gap_repair_ns,
        "ignore_beyond_gap": str(transport.ignore_beyond_gap),
        "blocked_stops_timer": transport.blocked_stops_timer,
        "catch_up_ns": 4 * configuration.packet_ns,
        "gradient_dscp": configuration.dscp.gradient,
        "data_dscp": configuration.dscp.data,
    }


def dcqcn_settings(configuration: Configuration) -> dict[str, Any] | None:
    """Fields of `DcqcnConfig`; None: rate control is off."""
    dcqcn = configuration.dcqcn
    if not dcqcn.enabled:
        return None
    return {
        "gain": 2.0**-dcqcn.gain_shift,
        "alpha_period_ns": dcqcn.alpha_period_ns,
        "decrease_period_ns": dcqcn.decrease_period_ns,
        "increase_period_ns": dcqcn.increase_period_ns,
        "fast_recovery_stages": dcqcn.fast_recovery_stages,
        "additive_bps": dcqcn.additive_bps,
        "hyper_bps": dcqcn.hyper_bps,
        "min_bps": dcqcn.minimum_rate_bps,
        "clamp_target": dcqcn.clamp_target,
    }


def transport_config(configuration: Configuration, address: str, **changes: Any) -> TransportConfig:
    """One host's transport. changes: fields set otherwise. Raises hosts.config.ConfigError."""
    dcqcn = dcqcn_settings(configuration)
    fields = transport_settings(configuration) | changes
    return TransportConfig(address=address, dcqcn=DcqcnConfig(**dcqcn) if dcqcn else None, **fields)
