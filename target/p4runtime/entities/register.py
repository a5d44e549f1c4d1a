# SPDX-License-Identifier: Apache-2.0
"""`RegisterEntry`, read and write (P4Runtime specification 1.5, section of that name)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from target.p4runtime.entities.base import Undo, check_index, only_modify
from target.p4runtime.p4data import Scalar
from target.p4runtime.p4info import Register
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import invalid_argument, unimplemented


class RegisterEntryHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.register_entry.register_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.register_entry
        register = _register(pipeline, request.register_id)
        what = f"register {register.name!r}"
        only_modify(operation, what)
        if request.HasField("index"):
            check_index(request.index.index, register.size, what)
        if not request.HasField("data"):
            raise invalid_argument(f"{what}: data is unset")
        value = _scalar(register).decode(request.data, what)
        device, index = pipeline.device, request.index.index
        if request.HasField("index"):
            before = device.register_read(register.name, index)
            device.register_write(register.name, index, value)
            return lambda: device.register_write(register.name, index, before)
        all_before = device.register_read_all(register.name)
        device.register_write_all(register.name, value)

        def undo() -> None:
            for i, old in enumerate(all_before):
                device.register_write(register.name, i, old)

        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.register_entry
        if request.register_id == 0:
            if request.HasField("index"):
                raise invalid_argument("a read of all registers (register_id 0) can't give an index")
            registers = [r for r in pipeline.index.registers.values() if r.scalar is not None]
        else:
            registers = [_register(pipeline, request.register_id)]
        for register in registers:
            scalar = _scalar(register)
            if request.HasField("index"):
                index = request.index.index
                check_index(index, register.size, f"register {register.name!r}")
                values = [(index, pipeline.device.register_read(register.name, index))]
            else:
                values = list(enumerate(pipeline.device.register_read_all(register.name)))
            for i, value in values:
                yield p4r.Entity(
                    register_entry=p4r.RegisterEntry(
                        register_id=register.id, index=p4r.Index(index=i), data=scalar.encode(value)
                    )
                )


def _register(pipeline: Pipeline, register_id: int) -> Register:
    register = pipeline.index.registers.get(register_id)
    if register is None:
        raise pipeline.index.no_such("register", register_id)
    return register


def _scalar(register: Register) -> Scalar:
    if register.scalar is None:
        raise unimplemented(f"register {register.name!r}: its elements are no bit, int, bool or enum")
    return register.scalar
