# SPDX-License-Identifier: Apache-2.0
"""What a table entry has besides its action: direct counter, direct meter, idle timeout.

P4Runtime specification 1.5, "Direct Resources": what is unset in a write stays, except the meter's config,
which a MODIFY resets.
"""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r

from target.api import DeviceError, MeterState
from target.p4runtime.entities.base import Undo
from target.p4runtime.entities.meter_data import (
    check_cleared,
    cleared,
    counter_message,
    decode_config,
    encode_config,
)
from target.p4runtime.p4info import Table
from target.p4runtime.pipeline import EntryKey, Pipeline
from target.p4runtime.status import invalid_argument

_INT64 = (1 << 63) - 1


def counter_data(packets: int, octets: int) -> p4r.CounterData:
    """Both fields are int64 on the wire: a larger count stays at the largest."""
    return p4r.CounterData(packet_count=min(packets, _INT64), byte_count=min(octets, _INT64))


def check_counter_data(data: p4r.CounterData, what: str) -> tuple[int, int]:
    """(packets, bytes) to write. Raises INVALID_ARGUMENT for a negative count."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid_argument(
            f"{what}: counts can't be negative ({data.packet_count} packets, {data.byte_count} bytes)"
        )
    return data.packet_count, data.byte_count


def check_idle_timeout(table: Table, request: p4r.TableEntry) -> None:
    """Raises INVALID_ARGUMENT where the table has none."""
    if request.idle_timeout_ns or request.HasField("time_since_last_hit"):
        if not table.idle_timeout:
            raise invalid_argument(f"table {table.name!r} has no idle timeout in P4Info")
        if request.idle_timeout_ns < 0:
            raise invalid_argument(f"table {table.name!r}: idle_timeout_ns is negative")


def check_resources(pipeline: Pipeline, table: Table, request: p4r.TableEntry) -> None:
    """Everything of a write that can be refused beforehand. Raises P4Error."""
    what = f"table {table.name!r}"
    if request.HasField("time_since_last_hit"):
        raise invalid_argument(f"{what}: time_since_last_hit must be unset in a write")
    check_idle_timeout(table, request)
    for name in ("meter_config", "meter_counter_data"):
        if request.HasField(name) and not table.direct_meter_id:
            raise invalid_argument(f"{what} has no direct meter, {name} must be unset")
    if request.HasField("meter_config"):
        decode_config(pipeline.index.direct_meters[table.direct_meter_id], request.meter_config)
    if request.HasField("meter_counter_data"):
        check_cleared(request.meter_counter_data, what)
    if request.HasField("counter_data"):
        if not table.direct_counter_id:
            raise invalid_argument(f"{what} has no direct counter, counter_data must be unset")
        check_counter_data(request.counter_data, what)


@dataclass(frozen=True, slots=True)
class Resources:
    """What an entry has at a time."""

    counts: tuple[int, int] | None
    meter: MeterState | None
    timeout_ns: int | None


def resources_of(pipeline: Pipeline, table: Table, entry_key: EntryKey) -> Resources:
    device, place = pipeline.device, (table.name, *entry_key)
    return Resources(
        device.direct_counter_read(*place) if table.direct_counter_id else None,
        device.direct_meter_read(*place) if table.direct_meter_id else None,
        device.entry_timeout(*place) if table.idle_timeout else None,
    )


def restore(pipeline: Pipeline, table: Table, entry_key: EntryKey, resources: Resources) -> None:
    device, place = pipeline.device, (table.name, *entry_key)
    if resources.counts is not None:
        device.direct_counter_write(*place, *resources.counts)
    if resources.meter is not None:
        device.direct_meter_write(*place, resources.meter.config)
        device.direct_meter_write_marked(*place, resources.meter)
    if resources.timeout_ns is not None and device.entry_timeout(*place) != resources.timeout_ns:
        device.entry_set_timeout(*place, resources.timeout_ns)


def write_resources(
    pipeline: Pipeline, table: Table, request: p4r.TableEntry, entry_key: EntryKey, inserted: bool
) -> Undo:
    """Raises DeviceError, and then they are as before."""
    resets = bool(table.direct_meter_id) and not inserted
    asked = request.HasField("meter_config") or request.HasField("meter_counter_data")
    ages = table.idle_timeout and (not inserted or bool(request.idle_timeout_ns))
    if not (resets or asked or ages or request.HasField("counter_data")):
        return _nothing
    before = resources_of(pipeline, table, entry_key)

    def undo() -> None:
        restore(pipeline, table, entry_key, before)

    device, place = pipeline.device, (table.name, *entry_key)
    try:
        if request.HasField("counter_data"):
            device.direct_counter_write(*place, *check_counter_data(request.counter_data, table.name))
        if request.HasField("meter_config"):
            meter = pipeline.index.direct_meters[table.direct_meter_id]
            device.direct_meter_write(*place, decode_config(meter, request.meter_config))
        elif resets:
            device.direct_meter_write(*place, None)
        if request.HasField("meter_counter_data"):
            device.direct_meter_write_marked(*place, cleared())
        if ages and request.idle_timeout_ns != before.timeout_ns:
            device.entry_set_timeout(*place, request.idle_timeout_ns)
    except DeviceError:
        undo()
        raise
    return undo


def _nothing() -> None:
    """The undo of a write that changed nothing."""


def read_resources(
    pipeline: Pipeline, table: Table, request: p4r.TableEntry, entry_key: EntryKey, out: p4r.TableEntry
) -> None:
    """Fill in the idle timeout and what the request asks for."""
    device, place = pipeline.device, (table.name, *entry_key)
    if request.HasField("counter_data") and table.direct_counter_id:
        out.counter_data.CopyFrom(counter_data(*device.direct_counter_read(*place)))
    if table.idle_timeout:
        out.idle_timeout_ns = device.entry_timeout(*place)
        if request.HasField("time_since_last_hit"):
            out.time_since_last_hit.elapsed_ns = device.entry_idle_ns(*place)
            out.time_since_last_hit.SetInParent()
    wants = request.HasField("meter_config"), request.HasField("meter_counter_data")
    if table.direct_meter_id and any(wants):
        state = device.direct_meter_read(*place)
        if wants[0] and state.config is not None:
            out.meter_config.CopyFrom(encode_config(state.config))
        if wants[1]:
            out.meter_counter_data.CopyFrom(counter_message(state))
