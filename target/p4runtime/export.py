# SPDX-License-Identifier: Apache-2.0
"""The whole forwarding state of a pipeline as updates that would make it again."""

from __future__ import annotations

from finsy.proto import p4r

from target.p4runtime.entities import HANDLERS
from target.p4runtime.pipeline import Pipeline


def export_state(pipeline: Pipeline) -> list[p4r.Update]:
    """Everything that differs from a freshly loaded pipeline, in an order that can be replayed."""
    updates: list[p4r.Update] = []
    for kind in ("action_profile_member", "action_profile_group"):
        request = p4r.Entity()
        getattr(request, kind).SetInParent()
        updates += [
            p4r.Update(type=p4r.Update.INSERT, entity=entity)
            for entity in HANDLERS[kind].read(pipeline, request)
        ]
    updates += _entries(pipeline)
    updates += _defaults(pipeline)
    for kind in ("counter_entry", "register_entry", "meter_entry"):
        request = p4r.Entity()
        getattr(request, kind).SetInParent()
        updates += [
            p4r.Update(type=p4r.Update.MODIFY, entity=entity)
            for entity in HANDLERS[kind].read(pipeline, request)
            if not _is_zero(entity)
        ]
    request = p4r.Entity()
    request.value_set_entry.SetInParent()
    updates += [
        p4r.Update(type=p4r.Update.MODIFY, entity=entity)
        for entity in HANDLERS["value_set_entry"].read(pipeline, request)
        if entity.value_set_entry.members
    ]
    request = p4r.Entity()
    request.digest_entry.SetInParent()
    updates += [
        p4r.Update(type=p4r.Update.INSERT, entity=entity)
        for entity in HANDLERS["digest_entry"].read(pipeline, request)
    ]
    replication = HANDLERS["packet_replication_engine_entry"]
    for kind in ("multicast_group_entry", "clone_session_entry"):
        request = p4r.Entity()
        getattr(request.packet_replication_engine_entry, kind).SetInParent()
        updates += [
            p4r.Update(type=p4r.Update.INSERT, entity=entity)
            for entity in replication.read(pipeline, request)
        ]
    return updates


def _entries(pipeline: Pipeline) -> list[p4r.Update]:
    request = p4r.Entity()
    request.table_entry.counter_data.SetInParent()
    request.table_entry.meter_config.SetInParent()
    updates: list[p4r.Update] = []
    for entity in HANDLERS["table_entry"].read(pipeline, request):
        entry = entity.table_entry
        counted = bool(entry.counter_data.packet_count or entry.counter_data.byte_count)
        if not counted:
            entry.ClearField("counter_data")
        if not entry.HasField("action"):
            # An action that P4Info does not list belongs to an entry of the program itself.
            continue
        if not entry.is_const:
            updates.append(p4r.Update(type=p4r.Update.INSERT, entity=entity))
        elif counted or entry.HasField("meter_config"):
            entry.ClearField("action")
            entry.is_const = False
            updates.append(p4r.Update(type=p4r.Update.MODIFY, entity=entity))
    return updates


def _defaults(pipeline: Pipeline) -> list[p4r.Update]:
    """Default actions that a controller has set."""
    request = p4r.Entity()
    request.table_entry.is_default_action = True
    return [
        p4r.Update(type=p4r.Update.MODIFY, entity=entity)
        for entity in HANDLERS["table_entry"].read(pipeline, request)
        if entity.table_entry.table_id in pipeline.defaults_set
    ]


def _is_zero(entity: p4r.Entity) -> bool:
    if entity.WhichOneof("entity") == "counter_entry":
        return not (entity.counter_entry.data.packet_count or entity.counter_entry.data.byte_count)
    if entity.WhichOneof("entity") == "meter_entry":
        return not entity.meter_entry.HasField("config")
    data = entity.register_entry.data
    value = getattr(data, data.WhichOneof("data") or "bitstring")
    return not any(value) if isinstance(value, bytes) else not value
