# SPDX-License-Identifier: Apache-2.0
"""Tables, their entries, action profiles and selectors in BMv2 JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import annos as an
from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..types import BOOL, ERROR, ExternType, base_type
from .actions import source_info
from .expr import hex_value
from .layout import Json, scalar_width

if TYPE_CHECKING:
    from .bmv2 import Emitter

DEFAULT_SIZE = 1024
_SUPPORTED = frozenset({"exact", "lpm", "ternary", "range", "optional", "selector"})


class TableEmitter:
    """Tables of one pipeline; `profiles` collects its action profiles."""

    def __init__(self, top: Emitter) -> None:
        self.top = top
        self.profiles: list[Json] = []

    def emit(self, table: ir.Table, nexts: dict[str, str | None], base_next: str | None) -> Json:
        j: Json = {"name": table.name, "id": self.top.next_table(), "source_info": source_info(table.span)}
        j["key"] = [self._key(k) for k in table.keys if k.match_kind != "selector"]
        j["match_type"] = self._match_type(table)
        simple = self._implementation(table, j)
        j["max_size"] = self.top.table_size(table)
        counters = table.props.get("counters")
        j["with_counters"] = counters is not None
        if counters is not None:
            self._direct(table, counters, "direct_counter")
        timeout = table.props.get("support_timeout")
        j["support_timeout"] = (
            timeout is not None and isinstance(timeout.value, ir.Lit) and bool(timeout.value.value)
        )
        meters = table.props.get("meters")
        j["direct_meters"] = None if meters is None else self._direct(table, meters, "direct_meter").name
        j["action_ids"] = [self.top.action_id(r.action) for r in table.actions]
        j["actions"] = [r.action.name for r in table.actions]
        j["base_default_next"] = base_next
        j["next_tables"] = nexts
        if table.default is not None and simple:
            j["default_entry"] = {
                "action_id": self.top.action_id(table.default.action),
                "action_const": table.default_const,
                "action_data": self._data(table.default),
                "action_entry_const": table.default_const,
            }
        elif table.default is not None and table.default.action.name != "NoAction":
            self.top.diags.warning(
                "W106",
                f"table {table.name}: default_action is ignored, because it has an implementation",
                table.span,
            )
        if table.entries:
            j["entries"] = [self._entry(table, e, i) for i, e in enumerate(table.entries)]
        return j

    def _direct(self, table: ir.Table, p: ir.Property, kind: str) -> ir.Instance:
        e = p.value
        if (
            not isinstance(e, ir.InstanceRef)
            or not isinstance(e.type, ExternType)
            or e.type.decl.name != kind
        ):
            raise fail("E031", f"property '{p.name}' must name a {kind}", p.span)
        other = self.top.direct_tables.get(e.inst)
        if other is not None and other is not table:
            raise fail("E031", f"{e.inst.name} belongs to table {other.name} already", p.span)
        self.top.direct_tables[e.inst] = table
        return e.inst

    # -- keys ----------------------------------------------------------------------------------

    def _key(self, k: ir.Key) -> Json:
        if k.match_kind not in _SUPPORTED:
            raise fail("E040", f"match kind '{k.match_kind}' is not supported by the target", k.span)
        kind = "ternary" if k.match_kind == "optional" else k.match_kind
        j: Json = {"match_type": kind}
        if k.name is not None:
            j["name"] = k.name
        j["target"] = self.top.exprs.key_target(k.expr)
        j["mask"] = None
        return j

    def _match_type(self, table: ir.Table) -> str:
        kinds = [k.match_kind for k in table.keys]
        if kinds.count("lpm") > 1:
            raise fail(
                "E040", f"table {table.name} has several lpm keys; the target supports one", table.span
            )
        if "range" in kinds:
            return "range"
        if "ternary" in kinds or "optional" in kinds:
            return "ternary"
        return "lpm" if "lpm" in kinds else "exact"

    # -- action profiles -----------------------------------------------------------------------

    def _implementation(self, table: ir.Table, j: Json) -> bool:
        p = table.props.get("implementation")
        selector_keys = [k for k in table.keys if k.match_kind == "selector"]
        if p is None:
            if selector_keys:
                self.top.diags.warning(
                    "W106",
                    f"table {table.name} has selector keys but no action_selector, so they are ignored",
                    table.span,
                )
            j["type"] = "simple"
            return True
        e = p.value
        kind = e.type.decl.name if isinstance(e.type, ExternType) else ""
        if not isinstance(e, ir.InstanceRef) or kind not in ("action_profile", "action_selector"):
            raise fail("E031", "'implementation' must be an action_profile or action_selector", p.span)
        inst = e.inst
        j["type"] = "indirect" if kind == "action_profile" else "indirect_ws"
        j["action_profile"] = inst.name
        size = inst.args[0 if kind == "action_profile" else 1]
        profile: Json = {
            "name": inst.name,
            "id": 0,
            "source_info": source_info(inst.span),
            "max_size": (as_int(size) if size is not None else 0) or 0,
        }
        if kind == "action_selector":
            algo = inst.args[0]
            assert isinstance(algo, ir.EnumLit)
            inputs = [self._selector_input(k.expr) for k in selector_keys]
            profile["selector"] = {"algo": algo.name, "input": inputs}
        known = next((x for x in self.profiles if x["name"] == inst.name), None)
        if known is not None:
            if known.get("selector") != profile.get("selector"):
                raise fail(
                    "E040",
                    f"action selector {inst.name} is used by tables with different selector keys",
                    table.span,
                )
            return False
        profile["id"] = self.top.next_profile()
        self.profiles.append(profile)
        return False

    def _selector_input(self, e: ir.Expr) -> Json:
        return {"type": "field", "value": self.top.exprs.key_target(e)}

    # -- entries -------------------------------------------------------------------------------

    def _data(self, call: ir.ActionCall) -> list[str]:
        out = []
        for a in call.args:
            if isinstance(a, ir.EnumLit) and base_type(a.type) == ERROR:
                out.append(hex_value(self.top.errors[a.name]))
                continue
            n = self.constant(a)
            if n is None:
                raise fail(
                    "E025", "arguments of a default action or entry must be known at compile time", call.span
                )
            out.append(hex_value(n))
        return out

    def constant(self, e: ir.Expr | None) -> int | None:
        """Number that the target uses for a constant."""
        if e is None:
            return None
        if isinstance(e, ir.EnumLit):
            return int(self.top.exprs.value(e)["value"], 16)
        return as_int(e)

    def _entry(self, table: ir.Table, e: ir.Entry, index: int) -> Json:
        keys = []
        for k, key in zip(e.keys, table.keys, strict=True):
            if key.match_kind != "selector":
                keys.append(self._entry_key(k, key))
        marked = an.find(e.annos, "priority")
        priority = index + 1 if marked is None else an.int_arg(marked)
        return {
            "source_info": source_info(e.span),
            "match_key": keys,
            "action_entry": {
                "action_id": self.top.action_id(e.call.action),
                "action_data": self._data(e.call),
            },
            "priority": priority,
        }

    def _number(self, e: ir.Expr) -> int:
        n = self.constant(e)
        if n is None:
            raise fail("E025", "the keys of an entry must be known at compile time", e.span)
        return n

    def _entry_key(self, k: ir.Expr, key: ir.Key) -> Json:
        t = base_type(key.expr.type)
        width = 1 if t == BOOL else (scalar_width(t) or (32, False))[0]
        ones = (1 << width) - 1
        kind = "ternary" if key.match_kind == "optional" else key.match_kind
        j: Json = {"match_type": kind}

        def show(n: int) -> str:
            return hex_value(n & ones, width)

        if kind == "range":
            if isinstance(k, ir.RangeKey):
                lo, hi = self._number(k.lo), self._number(k.hi)
            elif isinstance(k, ir.AnyKey):
                lo, hi = 0, ones
            else:
                lo = hi = self._number(k)
            return {**j, "start": show(lo), "end": show(hi)}
        if isinstance(k, ir.AnyKey):
            value, mask = 0, 0
        elif isinstance(k, ir.MaskKey):
            value, mask = self._number(k.value), self._number(k.mask)
        else:
            value, mask = self._number(k), ones
        j["key"] = show(value & mask if kind != "exact" else value)
        if kind == "ternary":
            j["mask"] = show(mask)
        elif kind == "lpm":
            j["prefix_length"] = (mask & ones).bit_count()
        return j
