# SPDX-License-Identifier: Apache-2.0
"""Entities that this target does not offer yet: each is refused by name, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.p4runtime.entities.base import Undo
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import P4Error, unimplemented


class MissingHandler:
    """Answers UNIMPLEMENTED. `objects`: the attribute of P4Info that lists such objects.

    A read with wildcards of something the program does not declare has an empty answer, so that clients which
    read "everything" work with programs that use only what is there."""

    def __init__(self, kind: str, objects: str) -> None:
        self._kind = kind
        self._objects = objects

    def p4_id(self, entity: p4r.Entity) -> int:
        return 0

    def _error(self) -> P4Error:
        return unimplemented(f"entity {self._kind} is not supported yet")

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        raise self._error()

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        if getattr(pipeline.config.p4info, self._objects):
            raise self._error()
        return iter(())
