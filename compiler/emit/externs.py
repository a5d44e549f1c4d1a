# SPDX-License-Identifier: Apache-2.0
"""v1model externs: calls as primitives, instances as arrays of counters, meters and registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import annos as an
from .. import ir
from ..check.fold import as_int
from ..diag import fail
from ..types import BOOL, Bits, ExternType, SerEnum, Stack, Struct, Tuple, base_type
from .actions import ActionEmitter, primitive, source_info
from .expr import hexstr
from .layout import Json

if TYPE_CHECKING:
    from .bmv2 import Emitter

HASHES = frozenset(
    {"crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16"}
)


class ExternEmitter:
    """Emits extern calls for the program of `top`."""

    def __init__(self, top: Emitter) -> None:
        self.top = top
        self._field_lists: dict[int, int] = {}
        self._learn_ids = 1
        self._meter_results: dict[ir.Instance, ir.Expr] = {}

    # -- calls ---------------------------------------------------------------------------------

    def call(self, s: ir.CallStmt, a: ActionEmitter) -> Json | None:
        """Primitive for the call `s` inside an action; None if it leaves no trace in the action."""
        target = s.call.target
        if isinstance(target, ir.ExternMethod):
            return self._method(s, target, a)
        assert isinstance(target, ir.ExternFunction)
        handler = getattr(self, f"_fn_{target.decl.name}", None)
        if handler is None and self.top.emit_externs:
            args = [a.simple(x) for x in s.call.args if x is not None]
            return primitive(target.decl.name, args, s.span)
        if handler is None:
            raise fail("E040", f"extern function {target.decl.name} is not supported by the target", s.span)
        result: Json | None = handler(s, a)
        return result

    def _method(self, s: ir.CallStmt, target: ir.ExternMethod, a: ActionEmitter) -> Json | None:
        t = target.obj.type
        assert isinstance(t, ExternType)
        kind, name = t.decl.name, target.decl.name
        if not isinstance(target.obj, ir.InstanceRef):
            raise fail("E040", f"{kind}.{name}() cannot be called here", s.span)
        inst = target.obj.inst
        args = [x for x in s.call.args if x is not None]
        if kind == "counter" and name == "count":
            return primitive("count", [_ref("counter_array", inst), a.simple(args[0])], s.span)
        if kind == "direct_counter":
            return None
        if kind == "meter" and name == "execute_meter":
            return primitive(
                "execute_meter", [_ref("meter_array", inst), a.simple(args[0]), a.exprs.data(args[1])], s.span
            )
        if kind == "direct_meter":
            self._meter_results[inst] = args[0]
            return None
        if kind == "register" and name == "read":
            return primitive(
                "register_read",
                [a.exprs.data(args[0]), _ref("register_array", inst), a.simple(args[1])],
                s.span,
            )
        if kind == "register" and name == "write":
            return primitive(
                "register_write", [_ref("register_array", inst), a.simple(args[0]), a.simple(args[1])], s.span
            )
        if self.top.emit_externs:
            operands = [a.simple(x) for x in args]
            return primitive(f"_{kind}_{name}", [_ref("extern", inst), *operands], s.span)
        raise fail("E040", f"{kind}.{name}() is not supported by the target", s.span)

    def _where(self, s: ir.CallStmt, block: str, what: str) -> None:
        if self.top.block != block:
            raise fail("E040", f"{what} can only be called in {block}", s.span)

    def _clone_prim(self, s: ir.CallStmt, what: str) -> str:
        kind = s.call.args[0]
        if not isinstance(kind, ir.EnumLit):
            raise fail("E025", "the clone type must be known at compile time", s.span)
        ingress = kind.name == "I2E"
        self._where(s, "ingress" if ingress else "egress", f"{what}({kind.name}, ...)")
        return "clone_ingress_pkt_to_egress" if ingress else "clone_egress_pkt_to_egress"

    def _arg(self, s: ir.CallStmt, i: int) -> ir.Expr:
        e = s.call.args[i]
        assert e is not None
        return e

    def _fn_clone(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        name = self._clone_prim(s, "clone")
        fl = self.top.new_field_list("fl", [])
        return primitive(name, [a.simple(self._arg(s, 1)), hexstr(fl, 32)], s.span)

    def _fn_clone_preserving_field_list(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        name = self._clone_prim(s, "clone_preserving_field_list")
        return primitive(name, [a.simple(self._arg(s, 1)), self._index_list(s, 2)], s.span)

    def _fn_resubmit_preserving_field_list(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        self._where(s, "ingress", "resubmit_preserving_field_list()")
        return primitive("resubmit", [self._index_list(s, 0)], s.span)

    def _fn_recirculate_preserving_field_list(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        self._where(s, "egress", "recirculate_preserving_field_list()")
        return primitive("recirculate", [self._index_list(s, 0)], s.span)

    def _index_list(self, s: ir.CallStmt, i: int) -> Json:
        index = as_int(self._arg(s, i))
        if index is None:
            raise fail("E025", "the index of a field list must be known at compile time", s.span)
        known = self.top.indexed_lists.get(index)
        if known is None:
            self.top.diags.warning(
                "W106", f"no field of the user metadata is marked @field_list({index})", s.span
            )
            known = self.top.new_field_list("empty", [])
            self.top.indexed_lists[index] = known
        return hexstr(known, 32)

    def _fn_mark_to_drop(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        if len(s.call.args) != 1:
            raise fail(
                "E040",
                "mark_to_drop() without argument is not supported",
                s.span,
                hint="write mark_to_drop(standard_metadata)",
            )
        return primitive("mark_to_drop", [{"type": "header", "value": "standard_metadata"}], s.span)

    def _fn_random(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        return primitive(
            "modify_field_rng_uniform",
            [a.exprs.data(self._arg(s, 0)), a.simple(self._arg(s, 1)), a.simple(self._arg(s, 2))],
            s.span,
        )

    def _fn_truncate(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        return primitive("truncate", [a.simple(self._arg(s, 0))], s.span)

    def _fn_assert(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        return primitive("assert", [a.exprs.bool_data(self._arg(s, 0))], s.span)

    def _fn_assume(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        return primitive("assume", [a.exprs.bool_data(self._arg(s, 0))], s.span)

    def _fn_log_msg(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        text = a.exprs.value(self._arg(s, 0))
        values: Json = {}
        if len(s.call.args) == 2:
            values = []
            for e in leaves(self._arg(s, 1)):
                if base_type(e.type) == BOOL:
                    values.append(a.exprs.bool_data(e))
                else:
                    values.append(a.exprs.data(e))
        return primitive("log_msg", [text, {"type": "parameters_vector", "value": values}], s.span)

    def _fn_hash(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        algo = self._algorithm(self._arg(s, 1), s)
        data = [self._stored(e, a) for e in leaves(self._arg(s, 3))]
        calc = self.top.new_calculation(algo, data, a.exprs, s.span, payload=False)
        return primitive(
            "modify_field_with_hash_based_offset",
            [
                a.exprs.data(self._arg(s, 0)),
                a.simple(self._arg(s, 2)),
                {"type": "calculation", "value": calc},
                a.simple(self._arg(s, 4)),
            ],
            s.span,
        )

    def _algorithm(self, e: ir.Expr, s: ir.CallStmt) -> str:
        if not isinstance(e, ir.EnumLit) or e.name not in HASHES:
            raise fail("E040", "the hash algorithm must be one of v1model's, known at compile time", s.span)
        return e.name

    def _stored(self, e: ir.Expr, a: ActionEmitter) -> ir.Expr:
        """`e` as a field or constant that a calculation or digest can refer to."""
        if isinstance(e, (ir.Lit, ir.EnumLit)):
            return e
        if isinstance(e, (ir.Field, ir.Var, ir.Index)) and not (
            isinstance(e, ir.Var) and e.sym in a.exprs.params
        ):
            j = a.exprs.place_json(a.exprs.layout.place(e))
            if j["type"] == "field":
                return e
        return self._copied(e, a)

    def _copied(self, e: ir.Expr, a: ActionEmitter) -> ir.Expr:
        v = ir.VarSym(a.fresh("tmp"), e.span, (), e.type)
        ref = ir.Var(e.span, e.type, v)
        a.assign(ir.Assign(e.span, ref, e))
        return ref

    def _fn_digest(self, s: ir.CallStmt, a: ActionEmitter) -> Json:
        """BMv2 reads the fields at the end of the pipeline, so their present values are kept aside."""
        data = self._arg(s, 1)
        kept = [e if isinstance(e, (ir.Lit, ir.EnumLit)) else self._copied(e, a) for e in leaves(data)]
        t = s.call.targs[0] if s.call.targs else data.type
        name = (
            an.external_name(t.name, t.annos) if isinstance(t, Struct) and t.kind != "unknown" else "digest"
        )
        elements = [a.exprs.data(e) for e in kept]
        lists = self.top.learn_lists
        index = len(lists) + 1
        lists.append({"id": index, "name": name, "source_info": source_info(s.span), "elements": elements})
        return primitive("generate_digest", [a.simple(self._arg(s, 0)), hexstr(index, 32)], s.span)

    # -- instances -----------------------------------------------------------------------------

    def instance(self, inst: ir.Instance) -> None:
        """Array or profile for an extern instance."""
        t = inst.type
        assert isinstance(t, ExternType)
        handler = getattr(self, f"_inst_{t.decl.name}", None)
        if handler is not None:
            handler(inst, t)
        elif self.top.emit_externs:
            self.top.extern_instances.append(self._generic(inst))
        elif t.decl.name not in ("action_profile", "action_selector"):
            raise fail("E040", f"extern {t.decl.name} is not supported by the target", inst.span)

    def _generic(self, inst: ir.Instance) -> Json:
        """Instance of an extern that the target is told about, with its constructor arguments."""
        assert isinstance(inst.ctor, ir.MethodDecl) and isinstance(inst.type, ExternType)
        attributes: list[Json] = []
        for p, arg in zip(inst.ctor.params, inst.args, strict=True):
            if isinstance(arg, ir.Lit) and isinstance(arg.value, str):
                attributes.append({"name": p.name, "type": "string", "value": arg.value})
            elif arg is not None:
                attributes.append(
                    {"name": p.name, "type": "hexstr", "value": self.top.exprs.value(arg)["value"]}
                )
        name = inst.type.decl.name
        index = len(self.top.extern_instances)
        return {"name": inst.name, "id": index, "type": name, "attribute_values": attributes}

    def _size(self, inst: ir.Instance, i: int = 0) -> int:
        a = inst.args[i]
        n = as_int(a) if a is not None else None
        if n is None:
            raise fail("E025", f"the size of {inst.name} must be known at compile time", inst.span)
        return n

    def _inst_counter(self, inst: ir.Instance, t: ExternType) -> None:
        self.top.counters.append(
            {
                "name": inst.name,
                "id": len(self.top.counters),
                "source_info": source_info(inst.span),
                "size": self._size(inst),
                "is_direct": False,
            }
        )

    def _inst_direct_counter(self, inst: ir.Instance, t: ExternType) -> None:
        table = self.top.direct_tables.get(inst)
        if table is None:
            self.top.diags.warning("W101", f"direct counter {inst.name} belongs to no table", inst.span)
            return
        self.top.counters.append(
            {
                "name": inst.name,
                "id": len(self.top.counters),
                "is_direct": True,
                "binding": table.name,
                "source_info": source_info(inst.span),
            }
        )

    def _meter_type(self, inst: ir.Instance, i: int) -> str:
        a = inst.args[i]
        if not isinstance(a, ir.EnumLit):
            raise fail("E025", f"the type of meter {inst.name} must be known at compile time", inst.span)
        return a.name

    def _inst_meter(self, inst: ir.Instance, t: ExternType) -> None:
        self.top.meters.append(
            {
                "name": inst.name,
                "id": len(self.top.meters),
                "source_info": source_info(inst.span),
                "is_direct": False,
                "size": self._size(inst),
                "rate_count": 2,
                "type": self._meter_type(inst, 1),
            }
        )

    def _inst_direct_meter(self, inst: ir.Instance, t: ExternType) -> None:
        table = self.top.direct_tables.get(inst)
        result = self._meter_results.get(inst)
        if table is None:
            if result is not None:
                raise fail(
                    "E040",
                    f"direct meter {inst.name} belongs to no table",
                    inst.span,
                    hint="name it in the 'meters' property of one",
                )
            return
        if result is None:
            raise fail(
                "E040",
                f"direct meter {inst.name} is never read",
                inst.span,
                hint="call its read() in the actions of the table",
            )
        self.top.meters.append(
            {
                "name": inst.name,
                "id": len(self.top.meters),
                "source_info": source_info(inst.span),
                "is_direct": True,
                "rate_count": 2,
                "type": self._meter_type(inst, 0),
                "size": self.top.table_size(table),
                "binding": table.name,
                "result_target": self.top.exprs.key_target(result),
            }
        )

    def _inst_register(self, inst: ir.Instance, t: ExternType) -> None:
        size = self._size(inst)
        if size == 0:
            raise fail(
                "E040", f"register {inst.name} of size 0: direct registers are not supported", inst.span
            )
        elem = base_type(t.args[0])
        if isinstance(elem, SerEnum):
            elem = elem.underlying
        if not isinstance(elem, Bits):
            raise fail(
                "E040",
                f"register {inst.name} holds {t.args[0]}; the target has registers of bit<W> only",
                inst.span,
            )
        self.top.registers.append(
            {
                "name": inst.name,
                "id": len(self.top.registers),
                "source_info": source_info(inst.span),
                "size": size,
                "bitwidth": elem.width,
            }
        )


def _ref(kind: str, inst: ir.Instance) -> Json:
    return {"type": kind, "value": inst.name}


def leaves(e: ir.Expr) -> list[ir.Expr]:
    """Scalars within a value, in order."""
    from ..mid.lower import parts

    if isinstance(base_type(e.type), (Struct, Tuple, Stack)) or isinstance(e, ir.Aggregate):
        return [x for p in parts(e) for x in leaves(p)]
    return [e]
