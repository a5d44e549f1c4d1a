# SPDX-License-Identifier: Apache-2.0
"""Registers, counters and meters: where their elements are in the memory that all of a kind share."""

from __future__ import annotations

from itertools import accumulate

from target.bmjson.model import Program
from target.codegen.bounds import limbs
from target.codegen.emitter import Emitter, comment
from target.codegen.layout import ctype

_LINE = 64
"""Bytes of a cache line: a register starts on one."""


def register_bytes(width: int) -> int:
    """Bytes of one register cell in memory."""
    for size in (1, 2, 4, 8, 16):
        if width <= 8 * size:
            return size
    return 8 * limbs(width)


def register_offsets(program: Program) -> list[int]:
    """Bytes before each register, and of all together."""
    sizes = (
        (r.size * register_bytes(r.width) + _LINE - 1) // _LINE * _LINE for r in program.registers.values()
    )
    return list(accumulate(sizes, initial=0))


def counter_offsets(program: Program) -> list[int]:
    """Counters before each array, and all together."""
    return list(accumulate((c.size for c in program.counters.values()), initial=0))


def meter_offsets(program: Program) -> list[int]:
    """Meters before each array, and all together. Direct ones are with the entries."""
    return list(accumulate((m.size for m in program.meters.values()), initial=0))


def meter_name(program: Program, name: str) -> str:
    """C expression of an array's first meter."""
    return f"T{list(program.meters).index(name)}"


def register_name(program: Program, name: str) -> str:
    """C expression of a register's first cell."""
    return f"R{list(program.registers).index(name)}"


def counter_name(program: Program, name: str) -> str:
    """C expression of an array's first counter."""
    return f"C{list(program.counters).index(name)}"


def emit_arrays(program: Program, out: Emitter) -> None:
    """Macros with these names, for functions with `st` in scope."""
    for register, offset in zip(program.registers.values(), register_offsets(program), strict=False):
        kind = ctype(register.width) if register.width <= 128 else "uint64_t"
        name = register_name(program, register.name)
        out.line(f"#define {name} (({kind} *)(st->cells + UINT64_C({offset}))) {comment(register.name)}")
    for counter, offset in zip(program.counters.values(), counter_offsets(program), strict=False):
        name = counter_name(program, counter.name)
        out.line(f"#define {name} (st->counters + {offset}u) {comment(counter.name)}")
    for meter, offset in zip(program.meters.values(), meter_offsets(program), strict=False):
        name = meter_name(program, meter.name)
        out.line(f"#define {name} (st->meters + {offset}u) {comment(meter.name)}")
    out.line()
