# SPDX-License-Identifier: Apache-2.0
"""Meters -> C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target.bmjson.model import Expr, FieldRef, Meter, Primitive
from target.bmjson.node import JsonError
from target.codegen.arrays import meter_name
from target.codegen.exprs import Value

if TYPE_CHECKING:
    from target.codegen.primitives import PrimitiveGen


def execute(prims: PrimitiveGen, meter: Meter, place: str, dest: Expr) -> None:
    """The colour of the packet at hand, by the meter at `place`, goes to `dest`."""
    units = "pkt->ingress_len" if meter.type == "bytes" else "1"
    colour = prims.gen.store(f"sw_meter_execute({place}, st->now_ns, {units}, pkt->ingress_len)", 1)
    if isinstance(dest, FieldRef) and not prims.layout.is_live(dest):
        prims.out.line(f"(void){colour};")
    else:
        prims.store_value(dest, Value(colour, 1, 0, 2, True))


def emit_execute(prims: PrimitiveGen, call: Primitive) -> None:
    """`execute_meter`. An index beyond the array leaves the destination as it is."""
    meter_arg, index_arg, dest_arg = prims.args(call, 3)
    name = prims.object(meter_arg, "meter_array", call)
    meter = prims.program.meters[name]
    if meter.direct_table is not None:
        raise JsonError(f"{call.place}: {name!r} is a direct meter, which its table executes")
    index = prims.expr(index_arg, call)
    i = prims.gen.store(prims.gen.exact_u64(index), 1)
    with prims.checked(i, index, meter.size):
        execute(prims, meter, f"{meter_name(prims.program, name)} + {i}", prims.expr(dest_arg, call))
