# SPDX-License-Identifier: Apache-2.0
"""Static entries of the tables as a P4Runtime write request."""

from __future__ import annotations

from finsy.proto import p4r

from .. import annos as an
from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..mid.flat import FlatProgram
from ..types import BOOL, Enum, base_type
from .ids import SymbolTable
from .p4types import control_width, padded

_PRIORITY_KINDS = frozenset({"ternary", "range", "optional"})


def constant(e: ir.Expr) -> int:
    """Number the control plane uses for a constant; raises a diagnostic if it is none."""
    t = base_type(e.type)
    if isinstance(e, ir.EnumLit) and isinstance(t, Enum):
        return t.members.index(e.name)
    n = as_int(e)
    if n is None:
        raise fail("E025", "this must be known at compile time", e.span)
    return n


class EntryBuilder:
    """Builds the request of one program, with the ids in `symbols`."""

    def __init__(self, program: FlatProgram, symbols: SymbolTable) -> None:
        self.program = program
        self.symbols = symbols

    def build(self) -> p4r.WriteRequest:
        """Static entries."""
        request = p4r.WriteRequest()
        for c in self.program.controls:
            for t in c.tables:
                if an.is_hidden(t.annos) or not t.entries:
                    continue
                ranked = any(k.match_kind in _PRIORITY_KINDS for k in t.keys)
                for i, e in enumerate(t.entries):
                    update = request.updates.add(type=p4r.Update.INSERT)
                    entry = update.entity.table_entry
                    entry.table_id = self.symbols.id("table", t.name)
                    for fid, (k, key) in enumerate(zip(e.keys, t.keys, strict=True), 1):
                        self._entry_key(entry, fid, k, key)
                    entry.action.action.action_id = self.symbols.id("action", e.call.action.name)
                    for pid, (p, a) in enumerate(zip(e.call.action.params, e.call.args, strict=True), 1):
                        if a is not None:
                            entry.action.action.params.add(
                                param_id=pid,
                                value=padded(constant(a), control_width(base_type(p.type)) or 1),
                            )
                    entry.is_const = t.entries_const or e.const
                    if ranked:
                        entry.priority = len(t.entries) - i if t.entries_const else (e.priority or 1)
        return request

    def _entry_key(self, entry: p4r.TableEntry, fid: int, k: ir.Expr, key: ir.Key) -> None:
        t = base_type(key.expr.type)
        width = 1 if t == BOOL else control_width(t) or 32
        ones = (1 << width) - 1
        if isinstance(k, ir.AnyKey):
            return
        if isinstance(k, ir.MaskKey):
            value, mask = constant(k.value) & ones, constant(k.mask) & ones
            value &= mask
            if mask == 0:
                return
        else:
            mask = ones
            value = 0 if isinstance(k, ir.RangeKey) else constant(k) & ones
        kind = key.match_kind
        if kind == "range":
            lo, hi = (
                (constant(k.lo) & ones, constant(k.hi) & ones)
                if isinstance(k, ir.RangeKey)
                else (value, value)
            )
            if (lo, hi) == (0, ones):
                return
            m = entry.match.add(field_id=fid)
            m.range.low, m.range.high = padded(lo, width), padded(hi, width)
            return
        m = entry.match.add(field_id=fid)
        if kind == "exact":
            m.exact.value = padded(value, width)
        elif kind == "lpm":
            m.lpm.value, m.lpm.prefix_len = padded(value, width), mask.bit_count()
        elif kind == "ternary":
            m.ternary.value, m.ternary.mask = padded(value, width), padded(mask, width)
        elif kind == "optional":
            m.optional.value = padded(value, width)
