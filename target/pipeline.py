# SPDX-License-Identifier: Apache-2.0
"""One loaded program: its tables, counters and registers by name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from target import build, native
from target.api import DeviceError, IdleEntries, MeterConfig, MeterState, Notice
from target.bmjson import Program, load
from target.bmjson.model import Counter, Meter, Register
from target.codegen import Generated, generate
from target.codegen.arrays import register_bytes
from target.meters import check_config, check_marked, native_config, native_view, state_of
from target.notices import SW_NOTICE_DIGEST, DigestControl
from target.profile_places import native_profile
from target.profiles import ProfileControl
from target.tables import TableControl
from target.value_sets import ValueSetControl

if TYPE_CHECKING:
    from target.engine import Engine

_CODES = {
    native.NOT_FOUND: "NOT_FOUND",
    native.EXISTS: "ALREADY_EXISTS",
    native.INVALID: "INVALID_ARGUMENT",
    native.FULL: "RESOURCE_EXHAUSTED",
    native.STATE: "FAILED_PRECONDITION",
    native.MEMORY: "RESOURCE_EXHAUSTED",
    native.SYSTEM: "FAILED_PRECONDITION",
}


def check(engine: Engine, status: int, what: str) -> None:
    """Raise a DeviceError for a negative status of the C interface."""
    if status >= 0:
        return
    detail = engine.error() if status == native.SYSTEM else "out of memory" if status == native.MEMORY else ""
    raise DeviceError(_CODES[status], f"{what}: {detail}" if detail else what)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=8)
def _translate(bmv2_json: str) -> tuple[Program, Generated]:
    """Kept for the next device with the same JSON: a fabric has many of a kind."""
    program = load(bmv2_json)
    return program, generate(program)


def compile_pipeline(bmv2_json: str) -> tuple[Program, Generated, Path]:
    """JSON text -> model, generated code and its description, shared object. JsonError, BuildError."""
    program, generated = _translate(bmv2_json)
    return program, generated, build.program_library(generated.source)


class Pipeline:
    """A program on a device. Made with its const entries and default actions in place."""

    def __init__(self, engine: Engine, handle: Any, program: Program, generated: Generated) -> None:
        self.engine = engine
        self._ffi, self._lib = engine.ffi, engine.lib
        self.handle = handle
        self.program = program
        self._counters = generated.counters
        self._value_sets = {
            name: ValueSetControl(engine, handle, vset, generated.sets.get(name))
            for name, vset in program.vsets.items()
        }
        self._registers = generated.registers
        self.serial = int(self._lib.sw_pipeline_serial(handle))
        lists = list(program.learn_lists.values())
        widths = [[program.field_type(ref).width for ref in item.fields] for item in lists]
        self.digests = DigestControl(engine, handle, lists, widths)
        self._profiles = {
            name: native_profile(engine, handle, program, number, generated.profiles[name])
            for number, name in enumerate(program.profiles)
        }
        self._tables = {
            name: TableControl(
                engine,
                handle,
                table,
                program,
                generated.tables[name],
                None if table.profile is None else self._profiles[table.profile],
                {} if table.profile is None else generated.profiles[table.profile],
            )
            for name, table in program.tables.items()
        }

    def table(self, name: str) -> TableControl:
        found = self._tables.get(name)
        if found is None:
            raise DeviceError("NOT_FOUND", f"there is no table {name!r}")
        return found

    def notice(self, kind: int, number: int, list_id: int, time_ns: int, words: list[int]) -> Notice | None:
        """A notice of the runtime in terms of the program; None if it names nothing that is still there."""
        if kind == SW_NOTICE_DIGEST:
            return self.digests.decode(number, list_id, time_ns, words)
        table = next(t for t in self._tables.values() if t.layout.index == number)
        entries = table.idle_entries(words)
        return IdleEntries(table.table.name, entries, time_ns) if entries else None

    def profile(self, name: str) -> ProfileControl:
        found = self._profiles.get(name)
        if found is None:
            raise DeviceError("NOT_FOUND", f"there is no action profile {name!r}")
        return found

    def value_set(self, name: str) -> ValueSetControl:
        found = self._value_sets.get(name)
        if found is None:
            raise DeviceError("NOT_FOUND", f"there is no parser value set {name!r}")
        return found

    # --- counters

    def counter(self, name: str) -> Counter:
        found = self.program.counters.get(name)
        if found is None or found.direct_table is not None:
            raise DeviceError("NOT_FOUND", f"there is no indirect counter {name!r}")
        return found

    def _index(self, index: int, size: int, name: str) -> int:
        if not 0 <= index < size:
            raise DeviceError("INVALID_ARGUMENT", f"index {index} of {name!r}: expected 0..{size - 1}")
        return index

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        self._index(index, self.counter(name).size, name)
        values = self._ffi.new("uint64_t[2]")
        status = self._lib.sw_counter_read(self.handle, self._counters[name], index, values, values + 1)
        check(self.engine, status, name)
        return int(values[0]), int(values[1])

    def counter_write(self, name: str, index: int, packets: int, octets: int) -> None:
        self._index(index, self.counter(name).size, name)
        if not 0 <= packets < 2**64 or not 0 <= octets < 2**64:
            raise DeviceError("INVALID_ARGUMENT", f"{name!r}: counts are 0..2^64-1")
        check(
            self.engine,
            self._lib.sw_counter_write(self.handle, self._counters[name], index, packets, octets),
            name,
        )

    # --- meters

    def meter(self, name: str) -> Meter:
        found = self.program.meters.get(name)
        if found is None or found.direct_table is not None:
            raise DeviceError("NOT_FOUND", f"there is no indirect meter {name!r}")
        return found

    def _meter_cell(self, name: str, index: int) -> tuple[Any, int, int]:
        self._index(index, self.meter(name).size, name)
        return self.handle, list(self.program.meters).index(name), index

    def meter_read(self, name: str, index: int) -> MeterState:
        view = native_view(self._ffi)
        check(self.engine, self._lib.sw_meter_read(*self._meter_cell(name, index), view), name)
        return state_of(view)

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        check_config(config, f"meter {name!r}")
        status = self._lib.sw_meter_set(*self._meter_cell(name, index), native_config(self._ffi, config))
        check(self.engine, status, name)

    def meter_write_marked(self, name: str, index: int, state: MeterState) -> None:
        check_marked(state, f"meter {name!r}")
        view = native_view(self._ffi, state)
        check(self.engine, self._lib.sw_meter_write_marks(*self._meter_cell(name, index), view), name)

    # --- registers

    def register(self, name: str) -> Register:
        found = self.program.registers.get(name)
        if found is None:
            raise DeviceError("NOT_FOUND", f"there is no register {name!r}")
        return found

    def register_read(self, name: str, index: int, count: int) -> list[int]:
        register = self.register(name)
        if count:
            self._index(index, register.size, name)
        size = register_bytes(register.width)
        data = self._ffi.new(f"uint8_t[{max(1, size * count)}]")
        check(
            self.engine,
            self._lib.sw_register_read(self.handle, self._registers[name], index, count, data),
            name,
        )
        raw = bytes(self._ffi.buffer(data, size * count))
        return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]

    def _cell(self, register: Register, value: int) -> bytes:
        if value < 0 or value >> register.width:
            raise DeviceError(
                "INVALID_ARGUMENT", f"{register.name!r}: {value} does not fit {register.width} bits"
            )
        return value.to_bytes(register_bytes(register.width), "little")

    def register_write(self, name: str, index: int, value: int) -> None:
        register = self.register(name)
        self._index(index, register.size, name)
        data = self._cell(register, value)
        status = self._lib.sw_register_write(self.handle, self._registers[name], index, 1, data)
        check(self.engine, status, name)

    def register_fill(self, name: str, value: int) -> None:
        register = self.register(name)
        data = self._cell(register, value)
        check(self.engine, self._lib.sw_register_fill(self.handle, self._registers[name], data), name)
