# SPDX-License-Identifier: Apache-2.0
"""Meter configurations and states between Python and the native runtime."""

from __future__ import annotations

from typing import Any

from target.api import DeviceError, MeterConfig, MeterState

_UNSET, _TWO_RATES, _ONE_RATE = range(3)
_LIMIT = 1 << 63


def check_config(config: MeterConfig | None, what: str) -> None:
    """Raises INVALID_ARGUMENT."""
    if config is None:
        return
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        value = getattr(config, name)
        if not 0 <= value < _LIMIT:
            raise DeviceError("INVALID_ARGUMENT", f"{what}: {name} {value} is outside 0..2^63-1")
    if config.single_rate:
        return
    if config.cir > config.pir:
        raise DeviceError(
            "INVALID_ARGUMENT", f"{what}: the committed rate {config.cir} is above the peak rate {config.pir}"
        )
    if config.eburst:
        raise DeviceError("INVALID_ARGUMENT", f"{what}: an excess burst needs a meter with one rate")


def check_marked(state: MeterState, what: str) -> None:
    if not all(0 <= count < 1 << 64 for pair in state.marked for count in pair):
        raise DeviceError("INVALID_ARGUMENT", f"{what}: counts are 0..2^64-1")


def native_config(ffi: Any, config: MeterConfig | None) -> Any:
    """`struct sw_meter_config *`."""
    result = ffi.new("struct sw_meter_config *")
    if config is None:
        return result
    result.mode = _ONE_RATE if config.single_rate else _TWO_RATES
    result.rate[0], result.burst[0] = config.cir, config.cburst
    result.rate[1] = 0 if config.single_rate else config.pir
    result.burst[1] = config.eburst if config.single_rate else config.pburst
    return result


def native_view(ffi: Any, state: MeterState | None = None) -> Any:
    """`struct sw_meter_view *`, with the counts of `state`."""
    result = ffi.new("struct sw_meter_view *")
    if state is not None:
        for colour, (packets, octets) in enumerate(state.marked):
            result.packets[colour], result.bytes[colour] = packets, octets
    return result


def state_of(view: Any) -> MeterState:
    config = view.config
    marked = tuple((int(view.packets[i]), int(view.bytes[i])) for i in range(3))
    found: MeterConfig | None = None
    cir, cburst = int(config.rate[0]), int(config.burst[0])
    if config.mode == _ONE_RATE:
        found = MeterConfig(cir, cburst, cir, cburst, int(config.burst[1]), True)
    elif config.mode == _TWO_RATES:
        found = MeterConfig(cir, cburst, int(config.rate[1]), int(config.burst[1]))
    return MeterState(found, (marked[0], marked[1], marked[2]))
