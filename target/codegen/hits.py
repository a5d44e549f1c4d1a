# SPDX-License-Identifier: Apache-2.0
"""What a hit does besides its action: the time of the last hit, the direct meter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target.bmjson.model import Table
from target.codegen.meters import execute
from target.codegen.primitives import PrimitiveGen

if TYPE_CHECKING:
    from target.codegen.control import ControlGen

METERED, AGEING = 2, 4
"""enum sw_feature"""


def emit_hit(control: ControlGen, table: Table, condition: str) -> None:
    """Behind the lookup: `condition` says whether there is an entry `e`."""
    if (table.meter is None and not table.timeout) or not table.key:
        return
    with control.out.block(f"if ({condition})"):
        if table.timeout:
            control.out.line("sw_extra(e)->hit_ns = st->now_ns;")
        if table.meter is None:
            return
        meter = control.program.meters[table.meter]
        assert meter.target is not None
        prims = PrimitiveGen(control.layout, control.out, (), control.where)
        prims.gen.place = table.place
        execute(prims, meter, "sw_extra(e)->meter", meter.target)
