# SPDX-License-Identifier: Apache-2.0
"""The BMv2 JSON of a whole program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .. import __version__, ir
from .. import annos as an
from ..ast import Annotation
from ..diag import CompileError, Diagnostics, fail
from ..mid.flat import FlatControl, FlatProgram
from ..source import Span
from ..types import Enum, Struct
from .actions import ActionEmitter, source_info
from .expr import ExprEmitter
from .externs import HASHES, ExternEmitter, leaves
from .layout import Json, Layout
from .parser import ParserEmitter
from .pipeline import PipelineEmitter
from .tables import DEFAULT_SIZE

VERSION = (2, 23)
COMPILER = f"P4_16 compiler {__version__}"


class Emitter:
    """State of one emission: ids, names, and the lists of the JSON."""

    def __init__(self, program: FlatProgram, diags: Diagnostics, *, emit_externs: bool = False) -> None:
        self.emit_externs = emit_externs
        self.extern_instances: list[Json] = []
        self.program = program
        self.diags = diags
        self.layout = Layout(program.headers, program.meta, program.std)
        self.errors = {name: i for i, name in enumerate(program.source.errors)}
        self.exprs = ExprEmitter(self.layout, self.errors)
        self.externs = ExternEmitter(self)
        self.actions_json: list[Json] = []
        self.field_lists: list[Json] = []
        self.learn_lists: list[Json] = []
        self.calculations: list[Json] = []
        self.counters: list[Json] = []
        self.meters: list[Json] = []
        self.registers: list[Json] = []
        self.checksums: list[Json] = []
        self.indexed_lists: dict[int, int] = {}
        self.direct_tables: dict[ir.Instance, ir.Table] = {}
        #: Block whose statements are being emitted: ingress or egress.
        self.block = ""
        self._action_ids: dict[ir.Action, int] = {}
        self._names: set[str] = set()
        self._tables = itertools.count()
        self._conditionals = itertools.count()
        self._profiles = itertools.count()
        for c in program.controls:
            self._names |= {t.name for t in c.tables} | {a.name for a in c.actions}

    # -- ids and names -------------------------------------------------------------------------

    def next_table(self) -> int:
        return next(self._tables)

    def next_conditional(self) -> int:
        return next(self._conditionals)

    def next_profile(self) -> int:
        return next(self._profiles)

    def fresh(self, base: str) -> str:
        """Name that no table, action or conditional has."""
        name, n = base, 0
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name

    def table_size(self, table: ir.Table) -> int:
        if table.entries:
            return max(table.size or 0, len(table.entries)) if not table.entries_const else len(table.entries)
        return table.size or DEFAULT_SIZE

    def action_id(self, action: ir.Action) -> int:
        """Id of `action`, emitted when first asked for."""
        known = self._action_ids.get(action)
        if known is not None:
            return known
        top = self

        class Named(ActionEmitter):
            def fresh(self, base: str) -> str:
                return top.program.names.fresh(f"{action.name}.{base}")

        index = len(self.actions_json)
        self._action_ids[action] = index
        j: Json = {"name": action.name, "id": index, "runtime_data": [], "primitives": []}
        self.actions_json.append(j)
        for p in action.params:
            width = _param_width(p)
            j["runtime_data"].append({"name": p.name, "bitwidth": width})
        outer = self.exprs.params
        emitter = Named(self.exprs, self.externs.call)
        try:
            body = () if action.body is None else (action.body,)
            j["primitives"] = emitter.emit(body, action.params)
        except CompileError as e:
            if e.diagnostic is None:
                raise
            self.diags.add(e.diagnostic)
        self.exprs.params = outer
        return index

    def new_field_list(self, name: str, elements: list[Json]) -> int:
        """Field lists count from 1: BMv2 takes 0 for none."""
        index = len(self.field_lists) + 1
        names = {f["name"] for f in self.field_lists}
        shown, n = name, 0
        while shown in names:
            n += 1
            shown = f"{name}_{n}"
        self.field_lists.append({"id": index, "name": shown, "elements": elements})
        return index

    def new_calculation(
        self, algo: str, data: Sequence[ir.Expr], exprs: ExprEmitter, span: Span, *, payload: bool
    ) -> str:
        inputs: list[Json] = []
        for e in data:
            j = exprs.data(e)
            if j["type"] == "hexstr":
                from ..types import width_of

                width = width_of(e.type) or 32
                if width_of(e.type) is None:
                    raise fail(
                        "E022", "the width of this constant is not known", e.span, hint="give it a width"
                    )
                j = {**j, "bitwidth": width}
            inputs.append(j)
        if payload:
            inputs.append({"type": "payload", "value": None})
        index = len(self.calculations)
        name = "calc" if index == 0 else f"calc_{index}"
        self.calculations.append(
            {"name": name, "id": index, "source_info": source_info(span), "algo": algo, "input": inputs}
        )
        return name

    # -- parts ---------------------------------------------------------------------------------

    def _marked_lists(self) -> None:
        """``@field_list(n)`` on fields of the user metadata."""
        t = self.program.meta.type
        assert isinstance(t, Struct)
        found: dict[int, list[Json]] = {}
        for f in t.fields:
            a = an.find(f.annos, "field_list")
            if a is None:
                continue
            base = ir.Field(f.span, f.type, ir.Var(f.span, t, self.program.meta), f.name)
            for e in leaves(base):
                j = self.exprs.place_json(self.layout.place(e))
                for n in self._list_indexes(a):
                    found.setdefault(n, []).append(j)
        for n, elements in found.items():
            self.indexed_lists[n] = self.new_field_list(f"field_list{n}", elements)

    def _list_indexes(self, a: Annotation) -> list[int]:
        values = [self.program.source.constant(toks) for toks in an.split(a.tokens or ())]
        if None in values:
            raise fail("E035", "@field_list takes integers known at compile time", a.span)
        return [v for v in values if v is not None]

    def _deparser(self, c: FlatControl) -> Json:
        order: list[str] = []
        primitives: list[Json] = []
        self._deparser_body(c.body, order, primitives)
        return {
            "name": "deparser",
            "id": 0,
            "source_info": source_info(c.decl.span),
            "order": order,
            "primitives": primitives,
        }

    def _deparser_body(self, stmts: Sequence[ir.Stmt], order: list[str], primitives: list[Json]) -> None:
        for s in stmts:
            if isinstance(s, ir.Block):
                self._deparser_body(s.items, order, primitives)
                continue
            if isinstance(s, (ir.Exit, ir.Leave)):
                return
            if isinstance(s, ir.CallStmt):
                target = s.call.target
                if isinstance(target, ir.ExternMethod) and target.decl.name == "emit":
                    arg = s.call.args[0]
                    assert arg is not None
                    order += self._emitted(arg)
                    continue
                if isinstance(target, ir.ExternFunction) and target.decl.name in (
                    "assert",
                    "assume",
                    "log_msg",
                ):
                    emitter = ActionEmitter(self.exprs, self.externs.call)
                    primitives += emitter.emit((s,), ())
                    continue
            raise fail("E040", "a deparser on this target can only emit headers", s.span)

    def _emitted(self, e: ir.Expr) -> list[str]:
        t = e.type
        if isinstance(t, Struct) and t.kind == "struct":
            return [n for f in t.fields for n in self._emitted(ir.Field(e.span, f.type, e, f.name))]
        return self.layout.header_names(t, self.layout.place(e))

    def _checksums(self, c: FlatControl, *, verify: bool) -> None:
        word = "verify_checksum" if verify else "update_checksum"
        for s in _flat(c.body):
            target = s.call.target if isinstance(s, ir.CallStmt) else None
            name = target.decl.name if isinstance(target, ir.ExternFunction) else ""
            if name not in (word, f"{word}_with_payload"):
                raise fail(
                    "E040",
                    f"only {word}() and {word}_with_payload() can be called here on this target",
                    s.span,
                )
            assert isinstance(s, ir.CallStmt)
            cond, data, checksum, algo = s.call.args
            assert cond is not None and data is not None and checksum is not None
            if not isinstance(algo, ir.EnumLit) or algo.name not in HASHES:
                raise fail("E040", "the algorithm must be one of v1model's, known at compile time", s.span)
            items = leaves(data)
            for e in items:
                if not isinstance(e, (ir.Field, ir.Var, ir.Index, ir.Lit)):
                    raise fail(
                        "E040",
                        f"computations are not supported in {word}()",
                        e.span,
                        hint="store the value in a field of the metadata first",
                    )
            calc = self.new_calculation(
                algo.name, items, self.exprs, s.span, payload=name.endswith("payload")
            )
            index = len(self.checksums)
            self.checksums.append(
                {
                    "name": "cksum" if index == 0 else f"cksum_{index - 1}",
                    "id": index,
                    "source_info": source_info(s.span),
                    "target": self.exprs.key_target(checksum),
                    "type": "generic",
                    "calculation": calc,
                    "verify": verify,
                    "update": not verify,
                    "if_cond": self.exprs.value(cond),
                }
            )

    def _enums(self) -> list[Json]:
        return [
            {"name": t.name, "entries": [[f"{t.name}.{m}", i] for i, m in enumerate(t.members)]}
            for t in self.program.source.types
            if isinstance(t, Enum) and not t.span.file.system
        ]

    def _part(self, what: str, make: object) -> Json:
        """Run one part; an error in it does not keep the others from being looked at."""
        try:
            return make()  # type: ignore[operator]
        except CompileError as e:
            if e.diagnostic is None:
                raise
            self.diags.add(e.diagnostic)
            return None

    def emit(self) -> Json:
        p = self.program
        self._marked_lists()
        parser_emitter = ParserEmitter(self)
        parser = self._part("parser", lambda: parser_emitter.emit(p.parser))
        vsets = [parser_emitter.vset(v, i) for i, v in enumerate(p.parser.vsets)]
        pipelines = []
        for c in (p.ingress, p.egress):
            self.block = c.name
            for a in c.actions:
                self.action_id(a)
            pipelines.append(self._part(c.name, PipelineEmitter(self, c).emit))
        deparser = self._part("deparser", lambda: self._deparser(p.deparser))
        self._part("compute", lambda: self._checksums(p.compute, verify=False))
        self._part("verify", lambda: self._checksums(p.verify, verify=True))
        for inst in p.externs:
            self._part("extern", lambda inst=inst: self.externs.instance(inst))
        self.layout.finish()
        layout = self.layout
        return {
            "header_types": layout.header_types,
            "headers": layout.headers,
            "header_stacks": layout.stacks,
            "header_union_types": layout.union_types,
            "header_unions": layout.unions,
            "header_union_stacks": layout.union_stacks,
            "field_lists": self.field_lists,
            "errors": [[n, i] for n, i in self.errors.items()],
            "enums": self._enums(),
            "parsers": [parser],
            "parse_vsets": vsets,
            "deparsers": [deparser],
            "meter_arrays": self.meters,
            "counter_arrays": self.counters,
            "register_arrays": self.registers,
            "calculations": self.calculations,
            "learn_lists": self.learn_lists,
            "actions": self.actions_json,
            "pipelines": pipelines,
            "checksums": self.checksums,
            "force_arith": [],
            "extern_instances": self.extern_instances,
            "field_aliases": layout.aliases,
        }


def _param_width(p: ir.VarSym) -> int:
    from .layout import scalar_width

    size = scalar_width(p.type)
    if size is None:
        raise fail("E040", f"action parameter '{p.name}' has type {p.type}; the target needs bit<W>", p.span)
    return size[0]


def _flat(stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
    return [x for s in stmts for x in (_flat(s.items) if isinstance(s, ir.Block) else [s])]


def emit_bmv2(
    program: FlatProgram, diags: Diagnostics, source_name: str, *, emit_externs: bool = False
) -> Json:
    """BMv2 JSON, as a dictionary, of a lowered program; `emit_externs` passes unknown externs on."""
    j = Emitter(program, diags, emit_externs=emit_externs).emit()
    j["program"] = source_name
    j["__meta__"] = {"version": list(VERSION), "compiler": COMPILER}
    return j
