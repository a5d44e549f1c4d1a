# SPDX-License-Identifier: Apache-2.0
"""A whole program -> one C file, and the description that the control side needs of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from target.bmjson.model import Action, FieldList, FieldRef, ObjectRef, Pipeline, Primitive, Program
from target.bmjson.node import JsonError
from target.codegen.actions import emit_action
from target.codegen.arrays import (
    counter_offsets,
    emit_arrays,
    meter_offsets,
    register_bytes,
    register_offsets,
)
from target.codegen.bounds import limbs
from target.codegen.control import ControlGen, TableLayout, is_fixed, set_layout, table_actions, table_layout
from target.codegen.deparser import emit_deparser, max_header_bytes
from target.codegen.digests import emit_samples, sample_words
from target.codegen.emitter import Emitter
from target.codegen.fields import load, store
from target.codegen.hashing import check_calculation, emit_calculation
from target.codegen.layout import Layout, ctype, slot_bytes
from target.codegen.liveness import Fields
from target.codegen.parser import emit_parser
from target.codegen.profiles import argument_words, profile_actions
from target.codegen.usage import EGRESS_RID, EGRESS_STARTS, walk

_HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from a BMv2 JSON. Names of the JSON occur in comments and strings only. */
#include "sw_extra.h"
#include "sw_hash.h"
#include "sw_payload.h"
#include "sw_program.h"
"""

# A small program becomes one function per hook, in which metadata are registers.
_INLINE = "#define PART SW_INLINE"
_SEPARATE = "#define PART static __attribute__((unused))"
_INLINE_LIMIT = 20_000
"""Expressions in all actions, each as often as it is called, up to which they are inlined."""


@dataclass(frozen=True, slots=True)
class Generated:
    """C source, and where the named objects are in the program's arrays."""

    source: str
    tables: dict[str, TableLayout]
    sets: dict[str, TableLayout]
    """Of the parser value sets that a transition uses."""
    registers: dict[str, int]
    counters: dict[str, int]
    profiles: dict[str, dict[str, int]]
    """Numbers of the actions of each action profile, by name."""


def generate(program: Program) -> Generated:
    """Raises JsonError for what the generator does not support."""
    for calc in program.calculations.values():
        check_calculation(calc)
    layout = Layout(program)
    tables: dict[str, TableLayout] = {}
    for name, table in program.tables.items():
        index = -1 if is_fixed(table) else sum(t.index >= 0 for t in tables.values())
        tables[name] = table_layout(table, index, program)
    sets: dict[str, TableLayout] = {}
    for name, vset in program.vsets.items():
        if vset.widths:
            sets[name] = set_layout(vset, sum(t.index >= 0 for t in tables.values()) + len(sets))
    keyed = [t for t in (*tables.values(), *sets.values()) if t.index >= 0]
    out = Emitter()
    for line in _HEAD.splitlines():
        out.line(line)
    if layout.varbits:
        out.line('#include "sw_varbit.h"')
    out.line()
    layout.emit_structs(out)
    out.line()
    out.line(_INLINE if _weight(program) <= _INLINE_LIMIT else _SEPARATE)
    out.line()
    _emit_table_info(keyed, out)
    emit_arrays(program, out)
    egress = layout.view(layout.into_egress - layout.written_in_egress - layout.set_for_egress)
    views = {"parser": layout, "ingress": layout, "egress": egress, "deparser": egress}
    for where, names in _calculations(program).items():
        for name in names:
            emit_calculation(program.calculations[name], views[where], out, where)
    for pipeline in (program.ingress, program.egress):
        for action in _used_actions(program, pipeline):
            emit_action(action, views[pipeline.name], out, pipeline.name)
    emit_parser(layout, sets, out)
    for pipeline in (program.ingress, program.egress):
        ControlGen(views[pipeline.name], tables, out).emit(pipeline)
    emit_deparser(views["deparser"], out)
    _Entry(layout, egress, out).emit()
    counters = {c.name: i for i, c in enumerate(program.counters.values()) if c.direct_table is None}
    _emit_descriptor(program, len(keyed), layout, out)
    profiles = {name: profile_actions(program, name) for name in program.profiles}
    registers = {r: i for i, r in enumerate(program.registers)}
    return Generated(out.text(), tables, sets, registers, counters, profiles)


def _calculations(program: Program) -> dict[str, list[str]]:
    """Which part of the program calls which calculations."""
    found: dict[str, list[str]] = {}

    def add(where: str, name: str) -> None:
        if name not in found.setdefault(where, []):
            found[where].append(name)

    def calls(where: str, primitives: Iterable[Primitive]) -> None:
        for call in primitives:
            for arg in call.args:
                if isinstance(arg, ObjectRef) and arg.kind == "calculation":
                    add(where, arg.name)

    for pipeline in (program.ingress, program.egress):
        for action in _used_actions(program, pipeline):
            calls(pipeline.name, action.primitives)
        for table in pipeline.tables.values():
            calculation = program.profiles[table.profile].calculation if table.profile is not None else None
            if calculation is not None:
                add(pipeline.name, calculation)
    for state in program.parser.states.values():
        calls("parser", (op for op in state.ops if isinstance(op, Primitive)))
    calls("deparser", program.deparser_primitives)
    for check in program.checksums:
        if check.verify:
            add("parser", check.calculation)
        if check.update:
            add("deparser", check.calculation)
    return found


def _weight(program: Program) -> int:
    """Expressions of all actions, each as often as a table may call it."""
    sizes = {i: sum(_size(call) for call in a.primitives) for i, a in program.actions.items()}
    total = 0
    for pipeline in (program.ingress, program.egress):
        total += sum(sizes[call.action_id] for call in pipeline.action_calls.values())
        total += sum(sizes[i] for table in pipeline.tables.values() for i in table_actions(table))
        total += sum(1 for cond in pipeline.conditionals.values() for _ in walk(cond.condition))
    return total


def _size(call: Primitive) -> int:
    return sum(1 for arg in call.args for _ in walk(arg))


def _used_actions(program: Program, pipeline: Pipeline) -> list[Action]:
    used = {call.action_id for call in pipeline.action_calls.values()}
    for table in pipeline.tables.values():
        used.update(table_actions(table))
    return [a for a in program.actions.values() if a.id in used and a.primitives]


def _emit_table_info(keyed: list[TableLayout], out: Emitter) -> None:
    for t in keyed:
        if t.ranges:
            rows = ", ".join(f"{{{r.word}, {r.shift}, {r.width}}}" for r in t.ranges)
            out.line(f"static const struct sw_range_field ranges_{t.index}[] = {{{rows}}};")
    with out.block("static const struct sw_table_info table_info[] =", ";"):
        for t in keyed:
            ranges = f"ranges_{t.index}" if t.ranges else "NULL"
            more = f"{t.direct_bits}, {t.features}, {t.profile}"
            out.line(f"{{{t.words}, {t.match}, {len(t.ranges)}, {ranges}, {more}}},")
        out.line("{0, 0, 0, NULL, 0, 0, 0},")
    out.line()


class _Entry:
    """The functions that the engine calls. `egress`: the view of egress and deparser."""

    def __init__(self, layout: Layout, egress: Layout, out: Emitter) -> None:
        self.layout = layout
        self.egress = egress
        self.program = layout.program
        self.out = out

    def emit(self) -> None:
        self._ingress()
        if self.layout.clones_ingress:
            self._parse()
        self._preserve()
        self._egress()
        if self.layout.splits_egress:
            self._deparse()

    def _set(self, name: str, code: str, layout: Layout) -> None:
        ref = self.program.standard(name)
        if ref is None or not layout.is_live(ref):
            return
        width = self.program.field_type(ref).width
        if width > 64:
            raise JsonError(f"the field {name} is {width} bits wide, at most 64 are supported")
        mask = f" & UINT64_C({(1 << width) - 1:#x})" if width < 64 else ""
        self.out.line(f"{layout.metadata(ref)} = ({ctype(width)})(({code}){mask});")

    def _get(self, name: str, layout: Layout) -> str:
        ref = self.program.standard(name)
        return "0" if ref is None or not layout.is_live(ref) else layout.metadata(ref)

    def _keep(self, fields: Fields, layout: Layout, state: bool = True) -> None:
        """`struct meta` -> `struct phv`."""
        names = layout.state() if state else []
        self._moves([(f"p->{n}", f"m->{n}") for n in names])
        kept = layout.kept_fields(fields)
        self._moves([(f"p->m.{layout.name(r)}", layout.metadata(r)) for r in kept])

    def _load(self, fields: Fields, layout: Layout) -> None:
        """`struct phv` -> `struct meta`."""
        self._moves([(f"m->{n}", f"p->{n}") for n in layout.state()])
        kept = layout.kept_fields(fields)
        self._moves([(layout.metadata(r), f"p->m.{layout.name(r)}") for r in kept])

    def _moves(self, moves: list[tuple[str, str]]) -> None:
        for to, origin in moves:
            self.out.line(f"{to} = {origin};")

    def _start(self) -> None:
        self.out.line("struct phv *p = (struct phv *)pkt->phv;")
        self.out.line("struct meta meta = {0}, *m = &meta;")

    def _zero(self) -> None:
        if self.layout.zeroed_bytes():
            self.out.line(f"sw_zero(p, {self.layout.zeroed_bytes()});")
        if self.layout.wide:
            self.out.line("memset(&p->m, 0, sizeof p->m);")

    def _ingress(self) -> None:
        out, layout = self.out, self.layout
        again = layout.reenters
        if again:
            head = "static void ingress(struct sw_state *st, struct sw_packet *pkt, int fresh)"
        else:
            head = "static void on_receive(struct sw_state *st, struct sw_packet *pkt)"
        with out.block(head):
            self._start()
            if again:
                with out.block("if (fresh)"):
                    self._receive()
                with out.block("else"):
                    # What `preserve` left.
                    self._load(layout.preserved, layout)
            else:
                self._receive()
            self._set("standard_metadata.packet_length", "pkt->len", layout)
            out.line("pkt->clone_session = pkt->clone_list = pkt->resubmit_list = pkt->recirculate_list = 0;")
            if layout.exits:
                out.line("pkt->exit = 0;")
            out.line("run_parser(st, pkt, p, m);")
            out.line("run_ingress(st, pkt, p, m);")
            emit_samples(layout, out)
            out.line(f"pkt->egress_spec = {self._get('standard_metadata.egress_spec', layout)};")
            out.line(f"pkt->mcast_grp = {self._get('intrinsic_metadata.mcast_grp', layout)};")
            out.line(f"pkt->priority = (uint8_t)({self._get('intrinsic_metadata.priority', layout)});")
            self._keep(layout.kept, layout)
        out.line()
        if again:
            for name, fresh in (("receive", 1), ("reenter", 0)):
                with out.block(f"static void on_{name}(struct sw_state *st, struct sw_packet *pkt)"):
                    out.line(f"ingress(st, pkt, {fresh});")
                out.line()

    def _receive(self) -> None:
        self._zero()
        self._set("standard_metadata.ingress_port", "pkt->ingress_port", self.layout)
        self._set("intrinsic_metadata.ingress_global_timestamp", "pkt->rx_ns / 1000", self.layout)

    def _parse(self) -> None:
        out, layout = self.out, self.layout
        with out.block("static void on_parse(struct sw_state *st, struct sw_packet *pkt)"):
            self._start()
            self._zero()
            self._set("standard_metadata.ingress_port", "pkt->ingress_port", layout)
            out.line("run_parser(st, pkt, p, m);")
            self._keep(layout.kept, layout)
        out.line()

    def _preserve(self) -> None:
        out = self.out
        head = (
            "static void on_preserve(struct sw_packet *to, const struct sw_packet *from, uint32_t list, "
            "uint32_t instance_type)"
        )
        with out.block(head):
            out.line("struct phv *p = (struct phv *)to->phv;")
            out.line("const struct phv *q = (const struct phv *)from->phv;")
            out.line("(void)q;")
            out.line("memset(&p->m, 0, sizeof p->m);")
            with out.block("switch (list)"):
                for fields in self.program.field_lists.values():
                    with out.block(f"case {fields.id}:", " break;"):
                        self._copy_list(fields)
                out.line("default: break;")
            kind = self.program.standard("standard_metadata.instance_type")
            if kind is not None and self.layout.is_kept(kind):
                width = self.program.field_type(kind).width
                name = self.layout.name(kind)
                out.line(f"p->m.{name} = ({ctype(width)})(instance_type & {(1 << min(width, 32)) - 1}u);")
            out.line("(void)instance_type;")
            priority = self.program.standard("intrinsic_metadata.priority")
            kept = priority is not None and self.layout.is_kept(priority)
            value = f"p->m.{self.layout.name(priority)}" if priority is not None and kept else "0"
            out.line(f"to->priority = (uint8_t)({value});")
        out.line()

    def _copy_list(self, fields: FieldList) -> None:
        layout = self.layout
        for ref in fields.fields:
            if ref.field == "$valid$":
                continue
            if not self.program.headers[ref.header].metadata:
                self._copy_field(ref)
            elif layout.is_kept(ref):
                name = layout.name(ref)
                n = limbs(self.program.field_type(ref).width)
                wide = f"sw_wide_copy(p->m.{name}, q->m.{name}, {n});"
                self.out.line(wide if n > 2 else f"p->m.{name} = q->m.{name};")

    def _copy_field(self, ref: FieldRef) -> None:
        """A header's field from `q` to `p`."""
        layout = self.layout
        place, bit, width = layout.spot(ref)
        origin = "q" + place.removeprefix("p")
        if layout.is_varbit(ref):
            length = layout.var_length(ref.header).removeprefix("m->")
            self.out.line(f"sw_varbit_copy({place}, {bit}, {origin}, {bit}, q->{length});")
            self.out.line(f"p->{length} = q->{length};")
            self.out.line("p->moved = 1;")
            return
        if width > 64:
            n = limbs(width)
            name = self.out.fresh()
            self.out.line(f"uint64_t {name}[{n}];")
            self.out.line(f"sw_get_wide({name}, {origin}, {bit}, {width});")
            self.out.line(f"sw_put_wide({place}, {bit}, {width}, {name});")
        else:
            slot = slot_bytes(layout.size(ref.header))
            for line in store(place, bit, width, slot, load(origin, bit, width, slot)):
                self.out.line(line)
        self.out.line(layout.set_dirty(ref.header).replace("m->", "p->"))

    def _egress(self) -> None:
        """Where nothing can come between egress and deparser, one function does both."""
        out, layout = self.out, self.egress
        with out.block("static int on_egress(struct sw_state *st, struct sw_packet *pkt)"):
            self._start()
            self._load(layout.into_egress, layout)
            for used, fields in (
                (layout.clones, "clone_session"),
                (layout.reenters, "recirculate_list"),
                (layout.exits, "exit"),
            ):
                if used:
                    out.line(f"pkt->{fields} = 0;")
            for name, code in EGRESS_STARTS.items():
                self._set(name, code, layout)
            rid = self.program.standard(EGRESS_RID)
            if rid is not None and layout.is_live(rid):
                with out.block("if (pkt->replica)"):
                    self._set(EGRESS_RID, "pkt->rid", layout)
            out.line("run_egress(st, pkt, p, m);")
            out.line(f"pkt->egress_spec = {self._get('standard_metadata.egress_spec', layout)};")
            if layout.splits_egress:
                self._keep(layout.into_deparser | layout.listed, layout)
                out.line("return 0;")
            else:
                if layout.drops_in_egress:
                    out.line("if (pkt->egress_spec == st->drop_port) return 0;")
                out.line("return run_deparser(st, pkt, p, m);")
        out.line()

    def _deparse(self) -> None:
        with self.out.block("static int on_deparse(struct sw_state *st, struct sw_packet *pkt)"):
            self._start()
            self._load(self.egress.into_deparser, self.egress)
            if self.program.deparser_primitives and self.egress.listed:
                self.out.line("const int result = run_deparser(st, pkt, p, m);")
                self._keep(self.egress.listed, self.egress, False)
                self.out.line("return result;")
            else:
                self.out.line("return run_deparser(st, pkt, p, m);")
        self.out.line()


def _emit_descriptor(program: Program, tables: int, layout: Layout, out: Emitter) -> None:
    registers = list(program.registers.values())
    counters = list(program.counters.values())

    def numbers(name: str, values: list[int], width: int = 32) -> None:
        text = ", ".join(f"UINT{width}_C({v})" for v in values)
        out.line(f"static const uint{width}_t {name}[] = {{{text}}};")

    numbers("register_sizes", [*(r.size for r in registers), 0])
    numbers("register_bytes", [*(register_bytes(r.width) for r in registers), 0])
    numbers("register_offsets", register_offsets(program), 64)
    numbers("counter_sizes", [*(c.size for c in counters), 0])
    numbers("counter_offsets", counter_offsets(program))
    numbers("meter_sizes", [*(m.size for m in program.meters.values()), 0])
    numbers("meter_offsets", meter_offsets(program))
    numbers("digest_words", [*sample_words(program), 0])
    numbers("profile_words", [*(argument_words(program, name) for name in program.profiles), 0])
    out.line()
    with out.block('__attribute__((visibility("default"))) const struct sw_program sw_program =', ";"):
        out.line(".abi = SW_ABI,")
        out.line(".phv_bytes = sizeof(struct phv),")
        out.line(f".max_header_bytes = {max_header_bytes(layout)},")
        out.line(f".table_count = {tables},")
        out.line(f".register_count = {len(registers)},")
        out.line(f".counter_count = {len(counters)},")
        out.line(f".profile_count = {len(program.profiles)},")
        out.line(f".digest_count = {len(program.learn_lists)},")
        out.line(f".meter_count = {len(program.meters)},")
        out.line(".tables = table_info,")
        out.line(".register_sizes = register_sizes,")
        out.line(".register_bytes = register_bytes,")
        out.line(".register_offsets = register_offsets,")
        out.line(".counter_sizes = counter_sizes,")
        out.line(".counter_offsets = counter_offsets,")
        out.line(".meter_sizes = meter_sizes,")
        out.line(".meter_offsets = meter_offsets,")
        out.line(".digest_words = digest_words,")
        out.line(".profile_words = profile_words,")
        out.line(".receive = on_receive,")
        out.line(f".reenter = {'on_reenter' if layout.reenters else 'NULL'},")
        out.line(f".parse = {'on_parse' if layout.clones_ingress else 'NULL'},")
        out.line(".preserve = on_preserve,")
        out.line(".egress = on_egress,")
        out.line(f".deparse = {'on_deparse' if layout.splits_egress else 'NULL'},")
