# SPDX-License-Identifier: Apache-2.0
"""P4Info of a program, and its static entries as a P4Runtime write request.

This is the only part of the compiler that needs protobuf; import it when P4Info is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4i, p4r
from google.protobuf import json_format, text_format

from .. import annos as an
from .. import ir
from ..ast import Annotations
from ..check.fold import as_int
from ..diag import Diagnostics, fail
from ..mid.flat import FlatControl, FlatProgram
from ..mid.tree import stmt_exprs, walk, walk_stmts
from ..source import Span
from ..types import Bits, Enum, ExternType, SerEnum, Struct, Tuple, Type, base_type
from .ids import SymbolTable, field_ids
from .p4entries import EntryBuilder, constant
from .p4types import TypeSpecs, add_annotations, add_doc, control_width, padded, type_name
from .tables import DEFAULT_SIZE

_MATCH = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_UNITS = {
    "packets": p4i.CounterSpec.PACKETS,
    "bytes": p4i.CounterSpec.BYTES,
    "packets_and_bytes": p4i.CounterSpec.BOTH,
}
_METER_UNITS = {"packets": p4i.MeterSpec.PACKETS, "bytes": p4i.MeterSpec.BYTES}
_EXTERNS = {
    "counter": "counter",
    "direct_counter": "direct_counter",
    "meter": "meter",
    "direct_meter": "direct_meter",
    "register": "register",
    "action_profile": "action_profile",
    "action_selector": "action_profile",
}
_PROFILE_ANNOS = frozenset({"max_group_size", "selector_size_semantics", "max_member_weight"})


class P4InfoBuilder:
    """Builds the P4Info of one program."""

    def __init__(self, program: FlatProgram, diags: Diagnostics) -> None:
        self.program = program
        self.diags = diags
        self.info = p4i.P4Info()
        self.symbols = SymbolTable(diags)
        self._types: TypeSpecs | None = None
        self._done: set[int] = set()

    @property
    def types(self) -> TypeSpecs:
        """Type specs; asking for them makes ``type_info`` present, as in p4c's output."""
        if self._types is None:
            self.info.type_info.SetInParent()
            self._types = TypeSpecs(self.info.type_info, self.program.source.errors)
        return self._types

    # -- symbols -------------------------------------------------------------------------------

    def _kind(self, inst: ir.Instance) -> str | None:
        return _EXTERNS.get(inst.type.decl.name) if isinstance(inst.type, ExternType) else None

    def _headers(self) -> Iterator[Struct]:
        for t in self.program.source.types:
            if isinstance(t, Struct) and t.kind == "header" and an.has(t.annos, "controller_header"):
                yield t

    def _calls(self, c: FlatControl) -> Iterator[ir.Call]:
        """Calls of extern functions in a control and its actions."""
        bodies = [x for a in c.actions if a.body is not None for x in (a.body,)]
        for s in (*bodies, *c.body):
            for x in walk_stmts(s):
                for e in stmt_exprs(x):
                    for y in walk(e):
                        if isinstance(y, ir.Call) and isinstance(y.target, ir.ExternFunction):
                            yield y

    def _digests(self, c: FlatControl) -> Iterator[ir.Call]:
        for call in self._calls(c):
            if isinstance(call.target, ir.ExternFunction) and call.target.decl.name == "digest":
                yield call

    def _digest_name(self, call: ir.Call) -> str:
        t = call.targs[0]
        if isinstance(t, Struct) and t.kind != "unknown":
            return an.external_name(t.name, t.annos)
        return "digest_0"

    def _collect(self) -> None:
        s, p = self.symbols, self.program
        for c in p.controls:
            for a in c.actions:
                s.add("action", a.name, a.annos, a.span)
            for call in self._digests(c):
                s.add("digest", self._digest_name(call), (), call.span)
            for t in c.tables:
                s.add("table", t.name, t.annos, t.span)
        for inst in p.externs:
            kind = self._kind(inst)
            if kind is not None:
                s.add(kind, inst.name, inst.annos, inst.span)
        for v in p.parser.vsets:
            s.add("value_set", v.name, v.annos, v.span)
        for h in self._headers():
            s.add("controller_header", an.external_name(h.name, h.annos), h.annos, h.span)
        s.assign()

    # -- parts ---------------------------------------------------------------------------------

    def _preamble(
        self, m: p4i.Preamble, kind: str, name: str, annos: Annotations, skip: frozenset[str] = frozenset()
    ) -> None:
        m.id = self.symbols.id(kind, name)
        m.name = name
        m.alias = self.symbols.alias(name)
        add_annotations(m, annos, skip=skip)
        add_doc(m, annos)

    def _action(self, a: ir.Action) -> None:
        key = self.symbols.id("action", a.name)
        if an.is_hidden(a.annos) or key in self._done:
            return
        self._done.add(key)
        m = self.info.actions.add()
        self._preamble(m.preamble, "action", a.name, a.annos)
        ids = field_ids([p.annos for p in a.params], [p.span for p in a.params])
        for p, i in zip(a.params, ids, strict=True):
            param = m.params.add(id=i, name=p.name)
            add_annotations(param, p.annos)
            add_doc(param, p.annos)
            self.types.named(p.type)
            if isinstance(p.type, Enum):
                param.type_name.name = p.type.name
                continue
            param.bitwidth = control_width(p.type)
            name = type_name(p.type)
            if name is not None:
                param.type_name.name = name

    def _table(self, t: ir.Table) -> None:
        if an.is_hidden(t.annos):
            return
        m = self.info.tables.add()
        self._preamble(m.preamble, "table", t.name, t.annos)
        _ = self.types
        m.size = t.size or DEFAULT_SIZE
        self._default(m, t)
        for r in t.actions:
            ref = m.action_refs.add(id=self.symbols.id("action", r.action.name))
            add_annotations(ref, r.annos)
            if an.has(r.annos, "tableonly"):
                ref.scope = p4i.ActionRef.TABLE_ONLY
            elif an.has(r.annos, "defaultonly"):
                ref.scope = p4i.ActionRef.DEFAULT_ONLY
        ids = field_ids([k.annos for k in t.keys], [k.span for k in t.keys])
        for k, i in zip(t.keys, ids, strict=True):
            self._match_field(m, t, k, i)
        m.is_const_table = bool(t.entries_const)
        m.has_initial_entries = bool(t.entries)
        self._resources(m, t)
        timeout = t.props.get("support_timeout")
        if timeout is not None and isinstance(timeout.value, ir.Lit) and timeout.value.value:
            m.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    def _default(self, m: p4i.Table, t: ir.Table) -> None:
        d = t.default
        if d is None:
            return
        key = self.symbols.id("action", d.action.name)
        if t.default_const:
            m.const_default_action_id = key
        m.initial_default_action.action_id = key
        for i, (p, a) in enumerate(zip(d.action.params, d.args, strict=True), 1):
            if a is None:
                continue
            explicit = an.find(p.annos, "id")
            m.initial_default_action.arguments.add(
                param_id=an.int_arg(explicit) if explicit is not None else i,
                value=padded(constant(a), control_width(base_type(p.type)) or 1),
            )

    def _match_field(self, m: p4i.Table, t: ir.Table, k: ir.Key, i: int) -> None:
        if k.match_kind == "selector":
            return
        if k.name is None:
            raise fail(
                "E050",
                f"this key of table {t.name} needs a name for the control plane",
                k.span,
                hint='add @name("...") after the match kind',
            )
        f = m.match_fields.add(id=i, name=k.name)
        add_annotations(f, k.annos)
        add_doc(f, k.annos)
        f.bitwidth = control_width(k.expr.type)
        if k.match_kind in _MATCH:
            f.match_type = _MATCH[k.match_kind]
        else:
            f.other_match_type = k.match_kind
        self.types.named(k.expr.type)
        name = type_name(k.expr.type)
        if name is not None:
            f.type_name.name = name

    def _resources(self, m: p4i.Table, t: ir.Table) -> None:
        impl = t.props.get("implementation")
        if impl is not None and isinstance(impl.value, ir.InstanceRef):
            m.implementation_id = self.symbols.id("action_profile", impl.value.inst.name)
        for prop, kind in (("counters", "direct_counter"), ("meters", "direct_meter")):
            p = t.props.get(prop)
            if p is None or not isinstance(p.value, ir.InstanceRef):
                continue
            inst = p.value.inst
            key = self.symbols.id(kind, inst.name)
            m.direct_resource_ids.append(key)
            unit = inst.args[0]
            name = unit.name if isinstance(unit, ir.EnumLit) else ""
            if kind == "direct_counter":
                c = self.info.direct_counters.add(direct_table_id=m.preamble.id)
                self._preamble(c.preamble, kind, inst.name, inst.annos)
                c.spec.unit = _UNITS[name]
            else:
                d = self.info.direct_meters.add(direct_table_id=m.preamble.id)
                self._preamble(d.preamble, kind, inst.name, inst.annos)
                d.spec.unit = _METER_UNITS[name]

    # -- externs -------------------------------------------------------------------------------

    def _int(self, inst: ir.Instance, i: int) -> int:
        a = inst.args[i]
        n = as_int(a) if a is not None else None
        if n is None:
            raise fail("E025", f"the size of {inst.name} must be known at compile time", inst.span)
        return n

    def _enum(self, inst: ir.Instance, i: int) -> str:
        a = inst.args[i]
        return a.name if isinstance(a, ir.EnumLit) else ""

    def _index_type(self, t: ExternType, i: int) -> str | None:
        if len(t.args) <= i:
            return None
        self.types.named(t.args[i])
        return type_name(t.args[i])

    def _extern(self, inst: ir.Instance) -> None:
        t = inst.type
        assert isinstance(t, ExternType)
        kind = t.decl.name
        if kind == "counter":
            c = self.info.counters.add(size=self._int(inst, 0))
            self._preamble(c.preamble, "counter", inst.name, inst.annos)
            c.spec.unit = _UNITS[self._enum(inst, 1)]
            index = self._index_type(t, 0)
            if index is not None:
                c.index_type_name.name = index
        elif kind == "meter":
            m = self.info.meters.add(size=self._int(inst, 0))
            self._preamble(m.preamble, "meter", inst.name, inst.annos)
            m.spec.unit = _METER_UNITS[self._enum(inst, 1)]
            index = self._index_type(t, 0)
            if index is not None:
                m.index_type_name.name = index
        elif kind == "register":
            r = self.info.registers.add(size=self._int(inst, 0))
            self._preamble(r.preamble, "register", inst.name, inst.annos)
            r.type_spec.CopyFrom(self.types.spec(t.args[0]))
            index = self._index_type(t, 1)
            if index is not None:
                r.index_type_name.name = index
        elif kind in ("action_profile", "action_selector"):
            self._profile(inst, kind == "action_selector")

    def _profile(self, inst: ir.Instance, selector: bool) -> None:
        p = self.info.action_profiles.add(with_selector=selector, size=self._int(inst, 1 if selector else 0))
        self._preamble(p.preamble, "action_profile", inst.name, inst.annos, _PROFILE_ANNOS)
        group = an.find(inst.annos, "max_group_size")
        if group is not None and selector:
            p.max_group_size = an.int_arg(group)
        semantics = an.find(inst.annos, "selector_size_semantics")
        if semantics is not None and selector:
            word = an.string_arg(semantics).upper()
            if word == "SUM_OF_WEIGHTS":
                p.sum_of_weights.SetInParent()
            elif word == "SUM_OF_MEMBERS":
                p.sum_of_members.SetInParent()
            else:
                raise fail(
                    "E035", "@selector_size_semantics is sum_of_weights or sum_of_members", semantics.span
                )
        weight = an.find(inst.annos, "max_member_weight")
        if weight is not None and p.HasField("sum_of_members"):
            p.sum_of_members.max_member_weight = an.int_arg(weight)
        users = sorted(
            t.name
            for c in self.program.controls
            for t in c.tables
            if "implementation" in t.props
            and isinstance(v := t.props["implementation"].value, ir.InstanceRef)
            and v.inst is inst
        )
        p.table_ids.extend(self.symbols.id("table", n) for n in users)

    def _digest(self, call: ir.Call) -> None:
        name = self._digest_name(call)
        key = self.symbols.id("digest", name)
        if key in self._done:
            return
        self._done.add(key)
        spec = self.types.spec(_sized(call.targs[0], call.span))
        d = self.info.digests.add()
        self._preamble(d.preamble, "digest", name, ())
        d.type_spec.CopyFrom(spec)

    def _value_set(self, v: ir.ValueSet) -> None:
        m = self.info.value_sets.add(size=v.size)
        self._preamble(m.preamble, "value_set", v.name, v.annos)
        t = base_type(v.type)
        if isinstance(t, Struct):
            ids = field_ids([f.annos for f in t.fields], [f.span for f in t.fields])
            for f, i in zip(t.fields, ids, strict=True):
                match = m.match.add(
                    id=i, name=an.external_name(f.name, f.annos), bitwidth=control_width(f.type)
                )
                kind = an.find(f.annos, "match")
                word = kind.tokens[0].text if kind is not None and kind.tokens else "exact"
                match.match_type = _MATCH.get(word, p4i.MatchField.EXACT)
                add_annotations(match, f.annos, skip=frozenset({"match"}))
                add_doc(match, f.annos)
        elif isinstance(t, SerEnum):
            for i, name in enumerate(t.members, 1):
                m.match.add(id=i, name=name, bitwidth=t.underlying.width, match_type=p4i.MatchField.EXACT)
        elif isinstance(t, Bits):
            m.match.add(id=1, bitwidth=t.width, match_type=p4i.MatchField.EXACT)
        else:
            raise fail("E050", f"value set {v.name} of {v.type} has no P4Runtime representation", v.span)

    def _controller_header(self, h: Struct) -> None:
        if an.is_hidden(h.annos):
            return
        a = an.find(h.annos, "controller_header")
        assert a is not None
        shown = an.string_arg(a)
        m = self.info.controller_packet_metadata.add()
        m.preamble.id = self.symbols.id("controller_header", an.external_name(h.name, h.annos))
        m.preamble.name = m.preamble.alias = shown
        add_annotations(m.preamble, h.annos)
        add_doc(m.preamble, h.annos)
        flat = list(_flattened(h, "", ()))
        ids = field_ids([x[2] for x in flat], [h.span] * len(flat))
        for (name, t, annos), i in zip(flat, ids, strict=True):
            if an.is_hidden(annos):
                continue
            f = m.metadata.add(id=i, name=name, bitwidth=control_width(t))
            add_annotations(f, annos)
            self.types.named(t)
            new = type_name(t)
            if new is not None:
                f.type_name.name = new

    def _pkg_info(self) -> None:
        pkg = self.info.pkg_info
        pkg.arch = "v1model"
        main = self.program.source.main
        assert main is not None
        info = an.find(main.annos, "pkginfo")
        if info is not None:
            for key, value in _pairs(info):
                if key in ("name", "version", "organization", "contact", "url", "arch") and isinstance(
                    value, str
                ):
                    setattr(pkg, key, value)
                else:
                    self.diags.warning("W107", f"unknown key '{key}' in @pkginfo", info.span)
        platform = an.find(main.annos, "platform_property")
        if platform is not None:
            for key, value in _pairs(platform):
                if key in (
                    "multicast_group_table_size",
                    "multicast_group_table_total_replicas",
                    "multicast_group_table_max_replicas_per_entry",
                ) and isinstance(value, int):
                    setattr(pkg.platform_properties, key, value)
                else:
                    self.diags.warning("W107", f"unknown key '{key}' in @platform_property", platform.span)
        rest = tuple(a for a in main.annos if a.name not in ("pkginfo", "platform_property"))
        add_annotations(pkg, rest)
        add_doc(pkg, rest)

    def build(self) -> p4i.P4Info:
        self._collect()
        p = self.program
        for c in p.controls:
            for a in self._by_use(c):
                self._action(a)
        if p.externs or any(True for c in p.controls for _ in self._calls(c)):
            _ = self.types
        for inst in p.externs:
            self._extern(inst)
        for c in p.controls:
            for call in self._digests(c):
                self._digest(call)
            for t in c.tables:
                self._table(t)
        for v in p.parser.vsets:
            self._value_set(v)
        for h in self._headers():
            self._controller_header(h)
        self._pkg_info()
        return self.info

    def _by_use(self, c: FlatControl) -> list[ir.Action]:
        """Actions of a control; of one used in tables and called directly, the tables' form comes first."""
        listed = {r.action for t in c.tables for r in t.actions}
        best: dict[str, ir.Action] = {}
        for a in c.actions:
            if a.name not in best or (a in listed and best[a.name] not in listed):
                best[a.name] = a
        return list(best.values())

    def entries(self) -> p4r.WriteRequest:
        """Static entries; call :meth:`build` first."""
        return EntryBuilder(self.program, self.symbols).build()


def _pairs(a: object) -> Iterator[tuple[str, str | int]]:
    from ..ast import Annotation, Int, Str
    from ..lexer import parse_int, string_value

    assert isinstance(a, Annotation)
    if a.pairs is not None:
        for k, e in a.pairs:
            if isinstance(e, (Str, Int)):
                yield k, e.value
        return
    for k, t in an.key_values(a):
        if t.kind in ("STR", "INT"):
            yield k, string_value(t.text) if t.kind == "STR" else parse_int(t.text)[0]


def _flattened(t: Struct, prefix: str, outer: Annotations) -> Iterator[tuple[str, Type, Annotations]]:
    for f in t.fields:
        name = prefix + an.external_name(f.name, f.annos)
        b = base_type(f.type)
        annos = f.annos + tuple(a for a in outer if not an.has(f.annos, a.name))
        if isinstance(b, Struct):
            yield from _flattened(b, f"{name}.", annos)
        else:
            yield name, f.type, annos


def _sized(t: Type, span: Span) -> Type:
    if isinstance(t, Struct) and t.kind == "unknown":
        return Tuple(tuple(f.type for f in t.fields))
    return t


def text_of(message: p4i.P4Info | p4r.WriteRequest) -> str:
    """Text format with the two comment lines p4c puts first."""
    d = message.DESCRIPTOR
    file = {"P4Info": "p4/config/v1/p4info.proto", "WriteRequest": "p4/v1/p4runtime.proto"}[d.name]
    head = f"# proto-file: {file}\n# proto-message: {d.full_name}\n\n"
    return head + text_format.MessageToString(message)


def json_of(message: p4i.P4Info | p4r.WriteRequest) -> str:
    return json_format.MessageToJson(message, indent=1) + "\n"
