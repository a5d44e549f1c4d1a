# SPDX-License-Identifier: Apache-2.0
"""`MeterEntry` and `DirectMeterEntry` (P4Runtime specification 1.5, section of these names)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.p4runtime.entities.base import Undo, asked_indices, only_modify
from target.p4runtime.entities.meter_data import (
    check_cleared,
    cleared,
    counter_message,
    decode_config,
    encode_config,
)
from target.p4runtime.entities.table import direct_places, find_entry
from target.p4runtime.p4info import Meter, Table
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import invalid_argument


def _meter(pipeline: Pipeline, meter_id: int) -> Meter:
    meter = pipeline.index.meters.get(meter_id)
    if meter is None:
        raise pipeline.index.no_such("meter", meter_id)
    return meter


class MeterEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.meter_entry.meter_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.meter_entry
        meter = _meter(pipeline, request.meter_id)
        what = f"meter {meter.name!r}"
        only_modify(operation, what)
        indices = asked_indices(request, meter.size, what)
        config = decode_config(meter, request.config) if request.HasField("config") else None
        clear = request.HasField("counter_data")
        if clear:
            check_cleared(request.counter_data, what)
        device = pipeline.device
        before = [device.meter_read(meter.name, i) for i in indices]
        for i in indices:
            device.meter_write(meter.name, i, config)
            if clear:
                device.meter_write_marked(meter.name, i, cleared())

        def undo() -> None:
            for i, state in zip(indices, before, strict=True):
                device.meter_write(meter.name, i, state.config)
                if clear:
                    device.meter_write_marked(meter.name, i, state)

        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.meter_entry
        if request.meter_id == 0:
            if request.HasField("index"):
                raise invalid_argument("a read of all meters (meter_id 0) can't give an index")
            meters = list(pipeline.index.meters.values())
        else:
            meters = [_meter(pipeline, request.meter_id)]
        for meter in meters:
            for i in asked_indices(request, meter.size, f"meter {meter.name!r}"):
                state = pipeline.device.meter_read(meter.name, i)
                out = p4r.Entity()
                out.meter_entry.meter_id = meter.id
                out.meter_entry.index.index = i
                if state.config is not None:
                    out.meter_entry.config.CopyFrom(encode_config(state.config))
                if request.HasField("counter_data"):
                    out.meter_entry.counter_data.CopyFrom(counter_message(state))
                yield out


class DirectMeterEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.direct_meter_entry.table_entry.table_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.direct_meter_entry
        table, meter = _direct(pipeline, request)
        what = f"the direct meter of table {table.name!r}"
        only_modify(operation, what)
        if request.table_entry.is_default_action:
            raise invalid_argument(f"table {table.name!r}: misses are not metered, there is no default meter")
        entry = find_entry(pipeline, table, request.table_entry)
        config = decode_config(meter, request.config) if request.HasField("config") else None
        clear = request.HasField("counter_data")
        if clear:
            check_cleared(request.counter_data, what)
        device, place = pipeline.device, (table.name, entry.key, entry.priority)
        before = device.direct_meter_read(*place)
        device.direct_meter_write(*place, config)
        if clear:
            device.direct_meter_write_marked(*place, cleared())

        def undo() -> None:
            device.direct_meter_write(*place, before.config)
            if clear:
                device.direct_meter_write_marked(*place, before)

        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.direct_meter_entry
        if request.table_entry.table_id == 0:
            if request.table_entry.match:
                raise invalid_argument("a read of all direct meters (table_id 0) can't give a match")
            tables = [t for t in pipeline.index.tables.values() if t.direct_meter_id]
        else:
            tables = [_direct(pipeline, request)[0]]
        if request.table_entry.is_default_action:
            raise invalid_argument("misses are not metered: the default entry has no meter")
        for named, place in direct_places(pipeline, tables, request.table_entry):
            state = pipeline.device.direct_meter_read(*place)
            out = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=named))
            if state.config is not None:
                out.direct_meter_entry.config.CopyFrom(encode_config(state.config))
            if request.HasField("counter_data"):
                out.direct_meter_entry.counter_data.CopyFrom(counter_message(state))
            yield out


def _direct(pipeline: Pipeline, request: p4r.DirectMeterEntry) -> tuple[Table, Meter]:
    if not request.HasField("table_entry"):
        raise invalid_argument("direct meter entry without table_entry")
    table = pipeline.index.table(request.table_entry.table_id)
    if not table.direct_meter_id:
        raise invalid_argument(f"table {table.name!r} has no direct meter")
    return table, pipeline.index.direct_meters[table.direct_meter_id]
