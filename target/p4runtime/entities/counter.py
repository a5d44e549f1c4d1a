# SPDX-License-Identifier: Apache-2.0
"""`CounterEntry` and `DirectCounterEntry` (P4Runtime specification 1.5, section of these names)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.p4runtime.entities.base import Undo, asked_indices, only_modify
from target.p4runtime.entities.direct import check_counter_data, counter_data
from target.p4runtime.entities.table import direct_places, find_entry
from target.p4runtime.p4info import Counter, Table
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import invalid_argument, unimplemented


class CounterEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.counter_entry.counter_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.counter_entry
        counter = _counter(pipeline, request.counter_id)
        what = f"counter {counter.name!r}"
        only_modify(operation, what)
        indices = asked_indices(request, counter.size, what)
        if not request.HasField("data"):
            return _nothing
        packets, octets = check_counter_data(request.data, what)
        device = pipeline.device
        before = [device.counter_read(counter.name, i) for i in indices]
        for i in indices:
            device.counter_write(counter.name, i, packets, octets)

        def undo() -> None:
            for i, counts in zip(indices, before, strict=True):
                device.counter_write(counter.name, i, *counts)

        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.counter_entry
        if request.counter_id == 0:
            if request.HasField("index"):
                raise invalid_argument("a read of all counters (counter_id 0) can't give an index")
            counters = list(pipeline.index.counters.values())
        else:
            counters = [_counter(pipeline, request.counter_id)]
        for counter in counters:
            for i in asked_indices(request, counter.size, f"counter {counter.name!r}"):
                data = counter_data(*pipeline.device.counter_read(counter.name, i))
                yield p4r.Entity(
                    counter_entry=p4r.CounterEntry(counter_id=counter.id, index=p4r.Index(index=i), data=data)
                )


class DirectCounterEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.direct_counter_entry.table_entry.table_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.direct_counter_entry
        table = _direct_table(pipeline, request)
        only_modify(operation, f"the direct counter of table {table.name!r}")
        if request.table_entry.is_default_action:
            raise unimplemented(f"table {table.name!r}: the default entry has no counter")
        entry = find_entry(pipeline, table, request.table_entry)
        if not request.HasField("data"):
            return _nothing
        packets, octets = check_counter_data(request.data, f"table {table.name!r}")
        device = pipeline.device
        before = device.direct_counter_read(table.name, entry.key, entry.priority)
        device.direct_counter_write(table.name, entry.key, entry.priority, packets, octets)

        def undo() -> None:
            device.direct_counter_write(table.name, entry.key, entry.priority, *before)

        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.direct_counter_entry
        if request.table_entry.table_id == 0:
            if request.table_entry.match:
                raise invalid_argument("a read of all direct counters (table_id 0) can't give a match")
            tables = [t for t in pipeline.index.tables.values() if t.direct_counter_id]
        else:
            tables = [_direct_table(pipeline, request)]
        if request.table_entry.is_default_action:
            raise unimplemented("the default entry has no counter: misses are not counted")
        for named, place in direct_places(pipeline, tables, request.table_entry):
            data = counter_data(*pipeline.device.direct_counter_read(*place))
            yield p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=named, data=data))


def _nothing() -> None:
    """The undo of a write that changed nothing."""


def _counter(pipeline: Pipeline, counter_id: int) -> Counter:
    counter = pipeline.index.counters.get(counter_id)
    if counter is None:
        raise pipeline.index.no_such("counter", counter_id)
    return counter


def _direct_table(pipeline: Pipeline, request: p4r.DirectCounterEntry) -> Table:
    if not request.HasField("table_entry"):
        raise invalid_argument("direct counter entry without table_entry")
    table = pipeline.index.table(request.table_entry.table_id)
    if not table.direct_counter_id:
        raise invalid_argument(f"table {table.name!r} has no direct counter")
    return table
