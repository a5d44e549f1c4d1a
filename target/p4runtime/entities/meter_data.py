# SPDX-License-Identifier: Apache-2.0
"""Meter configurations and counts by colour between messages and the device."""

from __future__ import annotations

from finsy.proto import p4r

from target.api import MeterConfig, MeterState
from target.p4runtime.p4info import Meter, MeterType
from target.p4runtime.status import invalid_argument

_INT64 = (1 << 63) - 1
_COLOURS = ("green", "yellow", "red")


def decode_config(meter: Meter, message: p4r.MeterConfig) -> MeterConfig:
    """Raises INVALID_ARGUMENT for what the meter's type does not have."""
    what = f"meter {meter.name!r}"
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(message, name) < 0:
            raise invalid_argument(f"{what}: {name} {getattr(message, name)} is negative")
    if meter.type is not MeterType.ONE_RATE and message.eburst:
        raise invalid_argument(f"{what} is a {meter.type.value} meter: eburst must be unset")
    if meter.type is MeterType.TWO_RATES:
        if message.cir > message.pir:
            raise invalid_argument(f"{what}: cir {message.cir} is above pir {message.pir}")
    elif (message.pir, message.pburst) != (message.cir, message.cburst):
        raise invalid_argument(
            f"{what} is a {meter.type.value} meter: pir and pburst must be equal to cir and cburst"
        )
    single = meter.type is MeterType.ONE_RATE
    return MeterConfig(message.cir, message.cburst, message.pir, message.pburst, message.eburst, single)


def encode_config(config: MeterConfig) -> p4r.MeterConfig:
    return p4r.MeterConfig(
        cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst, eburst=config.eburst
    )


def counter_message(state: MeterState) -> p4r.MeterCounterData:
    message = p4r.MeterCounterData()
    for colour, (packets, octets) in zip(_COLOURS, state.marked, strict=True):
        data = getattr(message, colour)
        data.packet_count, data.byte_count = min(packets, _INT64), min(octets, _INT64)
        data.SetInParent()
    return message


def check_cleared(message: p4r.MeterCounterData, what: str) -> None:
    """Counts by colour can only be set to 0. Raises INVALID_ARGUMENT."""
    for colour in _COLOURS:
        data = getattr(message, colour)
        if data.packet_count or data.byte_count:
            raise invalid_argument(f"{what}: the counts can only be cleared, {colour} is not 0")


def cleared() -> MeterState:
    return MeterState()
