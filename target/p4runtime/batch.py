# SPDX-License-Identifier: Apache-2.0
"""Batches of `Write` and `Read` (P4Runtime specification 1.5, "`Write` RPC" and "`Read` RPC")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from finsy.proto import p4r, rpc_code

from target.api import DeviceError
from target.p4runtime.entities import handler_of
from target.p4runtime.entities.base import Undo
from target.p4runtime.pipeline import Pipeline, p4_error
from target.p4runtime.roles import RoleConfig
from target.p4runtime.status import (
    BatchError,
    P4Error,
    internal,
    invalid_argument,
    permission_denied,
    unimplemented,
)

_CONTINUE = p4r.WriteRequest.CONTINUE_ON_ERROR
_ROLLBACK = p4r.WriteRequest.ROLLBACK_ON_ERROR
_ATOMIC = p4r.WriteRequest.DATAPLANE_ATOMIC


def write_batch(
    pipeline: Pipeline,
    updates: Sequence[p4r.Update],
    atomicity: p4r.WriteRequest.Atomicity.ValueType = _CONTINUE,
    role: RoleConfig | None = None,
    log: list[p4r.Update] | None = None,
) -> None:
    """Apply the updates in order; what was applied, and stayed, is appended to `log`.

    Raises BatchError if any failed: with CONTINUE_ON_ERROR all others are applied, with ROLLBACK_ON_ERROR
    none. Raises P4Error if the batch was not attempted at all.
    """
    if atomicity not in (_CONTINUE, _ROLLBACK, _ATOMIC):
        raise invalid_argument(f"atomicity {atomicity} is none of the three modes")
    if atomicity == _ATOMIC and len(updates) > 1:
        raise unimplemented(
            f"DATAPLANE_ATOMIC is possible for one update, the batch has {len(updates)}; "
            "ROLLBACK_ON_ERROR undoes all of them if one fails"
        )
    errors: list[P4Error | None] = []
    undos: list[Undo] = []
    applied: list[p4r.Update] = []
    failed = False
    for update in updates:
        try:
            undo = _write_one(pipeline, update, role)
        except (P4Error, DeviceError) as error:
            errors.append(error if isinstance(error, P4Error) else p4_error(error))
            failed = True
            if atomicity != _CONTINUE:
                break
        else:
            errors.append(None)
            applied.append(update)
            if atomicity != _CONTINUE:
                undos.append(undo)
    if failed and atomicity != _CONTINUE:
        errors = _roll_back(undos, errors, len(updates))
    elif log is not None:
        log.extend(applied)
    if failed:
        raise BatchError("Write", errors)


def _write_one(pipeline: Pipeline, update: p4r.Update, role: RoleConfig | None) -> Undo:
    if update.type not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
        raise invalid_argument(f"update type {update.type} is none of INSERT, MODIFY, DELETE")
    handler = handler_of(update.entity)
    if role is not None and not role.may_use(handler.p4_id(update.entity)):
        raise permission_denied(f"the role does not own {_name(pipeline, handler.p4_id(update.entity))}")
    return handler.write(pipeline, update.type, update.entity)


def _name(pipeline: Pipeline, p4_id: int) -> str:
    return repr(pipeline.index.names.get(p4_id, "an entity outside P4Info"))


def _roll_back(undos: list[Undo], errors: list[P4Error | None], total: int) -> list[P4Error | None]:
    """Undo the applied updates, last first. What was undone or not attempted is ABORTED."""
    result: list[P4Error | None] = [
        error or P4Error(rpc_code.ABORTED, "rolled back: another update of the batch failed")
        for error in errors
    ]
    for undo in reversed(undos):
        try:
            undo()
        except DeviceError as error:
            result[len(errors) - 1] = internal(f"the rollback itself failed: {error.message}")
    rest = total - len(errors)
    result += [P4Error(rpc_code.ABORTED, "not attempted: another update of the batch failed")] * rest
    return result


def read_batch(
    pipeline: Pipeline, requests: Iterable[p4r.Entity], role: RoleConfig | None = None
) -> tuple[list[p4r.Entity], BatchError | None]:
    """All entities that the requests ask for, and the error to end with if some requests failed."""
    found: list[p4r.Entity] = []
    errors: list[P4Error | None] = []
    for request in requests:
        try:
            handler = handler_of(request)
            entities = [
                entity
                for entity in handler.read(pipeline, request)
                if role is None or role.may_use(handler.p4_id(entity))
            ]
        except (P4Error, DeviceError) as error:
            errors.append(error if isinstance(error, P4Error) else p4_error(error))
        else:
            found += entities
            errors.append(None)
    return found, BatchError("Read", errors) if any(errors) else None
