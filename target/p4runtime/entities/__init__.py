# SPDX-License-Identifier: Apache-2.0
"""The entities of P4Runtime, one module for each kind, found by the name in `Entity`'s oneof."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from finsy.proto import p4r

from target.p4runtime.entities.base import EntityHandler
from target.p4runtime.entities.counter import CounterEntryHandler, DirectCounterEntryHandler
from target.p4runtime.entities.digest import DigestHandler
from target.p4runtime.entities.meter import DirectMeterEntryHandler, MeterEntryHandler
from target.p4runtime.entities.missing import MissingHandler
from target.p4runtime.entities.profile import GroupHandler, MemberHandler
from target.p4runtime.entities.register import RegisterEntryHandler
from target.p4runtime.entities.replication import ReplicationEntryHandler
from target.p4runtime.entities.table import TableEntryHandler
from target.p4runtime.entities.value_set import ValueSetEntryHandler
from target.p4runtime.status import invalid_argument

HANDLERS: Final[Mapping[str, EntityHandler]] = MappingProxyType(
    {
        "table_entry": TableEntryHandler(),
        "counter_entry": CounterEntryHandler(),
        "direct_counter_entry": DirectCounterEntryHandler(),
        "register_entry": RegisterEntryHandler(),
        "packet_replication_engine_entry": ReplicationEntryHandler(),
        "action_profile_member": MemberHandler(),
        "action_profile_group": GroupHandler(),
        "meter_entry": MeterEntryHandler(),
        "direct_meter_entry": DirectMeterEntryHandler(),
        "value_set_entry": ValueSetEntryHandler(),
        "digest_entry": DigestHandler(),
        "extern_entry": MissingHandler("ExternEntry", "externs"),
    }
)


def handler_of(entity: p4r.Entity) -> EntityHandler:
    """Raises INVALID_ARGUMENT if the entity is unset."""
    kind = entity.WhichOneof("entity")
    if kind is None:
        raise invalid_argument("entity is unset")
    return HANDLERS[kind]
