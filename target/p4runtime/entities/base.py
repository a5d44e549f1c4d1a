# SPDX-License-Identifier: Apache-2.0
"""What every kind of entity offers: a write that can be undone, and a read with wildcards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from finsy.proto import p4r

from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import invalid_argument, out_of_range

Undo = Callable[[], None]


class EntityHandler(Protocol):
    """One kind of the `Entity` message's alternatives."""

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        """Apply one update and return what takes it back.

        Raises P4Error or `DeviceError`, and then nothing has changed."""

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The entities that match; fields that are unset are wildcards. Raises P4Error or `DeviceError`."""

    def p4_id(self, entity: p4r.Entity) -> int:
        """The P4Info id that a role must own, 0 for an entity that P4Info does not list."""


def only_modify(operation: p4r.Update.Type.ValueType, what: str) -> None:
    """Raises INVALID_ARGUMENT for INSERT and DELETE of what always exists."""
    if operation != p4r.Update.MODIFY:
        name = p4r.Update.Type.Name(operation)
        raise invalid_argument(f"{what} always exists: {name} is not allowed, use MODIFY")


def check_index(index: int, size: int, what: str) -> None:
    """Raises INVALID_ARGUMENT for a negative index and OUT_OF_RANGE for one beyond the array."""
    if index < 0:
        raise invalid_argument(f"{what}: index {index} is negative")
    if index >= size:
        raise out_of_range(f"{what}: index {index} is beyond the last element {size - 1}")


def asked_indices(request: p4r.CounterEntry | p4r.MeterEntry, size: int, what: str) -> range:
    """The one that is given, else all. Raises as `check_index`."""
    if not request.HasField("index"):
        return range(size)
    check_index(request.index.index, size, what)
    return range(request.index.index, request.index.index + 1)
