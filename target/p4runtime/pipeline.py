# SPDX-License-Identifier: Apache-2.0
"""One pipeline of one device: P4Info, the device that runs it, and what the controller wants remembered.

The device keeps tables and counters; what means nothing to a dataplane (a controller's metadata of an entry,
the form in which a replica's port was written) is kept here, so that a read gives back what was written
(P4Runtime specification 1.5, "Read-Write Symmetry").
"""

from __future__ import annotations

from dataclasses import dataclass, field

from finsy.proto import p4r

from target.api import DeviceApi, DeviceError, FieldMatch
from target.p4runtime.p4info import P4InfoIndex
from target.p4runtime.status import P4Error, code_value

EntryKey = tuple[tuple[FieldMatch, ...], int]
"""An entry's key and priority; None stands for the default entry."""


@dataclass(frozen=True, slots=True)
class EntryNotes:
    """What a controller attached to an entry."""

    controller_metadata: int = 0
    metadata: bytes = b""
    action_set: p4r.ActionProfileActionSet | None = None
    """As it was written, in canonical form."""

    def __bool__(self) -> bool:
        return bool(self.controller_metadata or self.metadata or self.action_set is not None)


@dataclass
class Pipeline:
    """The pipeline that reads and writes refer to. `config` is what the client sent, word for word."""

    config: p4r.ForwardingPipelineConfig
    index: P4InfoIndex
    device: DeviceApi
    notes: dict[tuple[int, EntryKey | None], EntryNotes] = field(default_factory=dict)
    groups: dict[int, p4r.MulticastGroupEntry] = field(default_factory=dict)
    sessions: dict[int, p4r.CloneSessionEntry] = field(default_factory=dict)
    profile_groups: dict[tuple[int, int], p4r.ActionProfileGroup] = field(default_factory=dict)
    """By action profile and group id."""
    defaults_set: set[int] = field(default_factory=set)
    """Tables whose default action is a controller's, not the program's."""

    def get_notes(self, table_id: int, key: EntryKey | None) -> EntryNotes:
        return self.notes.get((table_id, key), _NO_NOTES)

    def set_notes(self, table_id: int, key: EntryKey | None, notes: EntryNotes) -> None:
        if notes:
            self.notes[(table_id, key)] = notes
        else:
            self.notes.pop((table_id, key), None)


_NO_NOTES = EntryNotes()


def p4_error(error: DeviceError) -> P4Error:
    """A device's refusal as a P4Runtime error: its codes are gRPC's names."""
    return P4Error(code_value(error.code), error.message)
