# SPDX-License-Identifier: Apache-2.0
"""A whole program -> one C file, and the description that the control side needs of it."""

from __future__ import annotations

from dataclasses import dataclass

from target.bmjson.model import Action, FieldList, Pipeline, Program
from target.bmjson.node import JsonError
from target.codegen.actions import emit_action
from target.codegen.control import ControlGen, TableLayout, is_fixed, table_layout
from target.codegen.deparser import emit_deparser, max_header_bytes
from target.codegen.emitter import Emitter
from target.codegen.hashing import emit_calculation
from target.codegen.layout import Layout, ctype, limbs
from target.codegen.parser import emit_parser

_HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from a BMv2 JSON. Names of the JSON occur in comments and strings only. */
#include "sw_hash.h"
#include "sw_payload.h"
#include "sw_program.h"

#define SW_NO_OFFSET 0xffffu
#define SW_SLACK 16
"""


@dataclass(frozen=True, slots=True)
class Generated:
    """C source, and where the named objects are in the program's arrays."""

    source: str
    tables: dict[str, TableLayout]
    registers: dict[str, int]
    counters: dict[str, int]


def register_bytes(width: int) -> int:
    """Bytes of one register cell in memory."""
    for size in (1, 2, 4, 8, 16):
        if width <= 8 * size:
            return size
    return 8 * limbs(width)


def generate(program: Program) -> Generated:
    """Raises JsonError for what the generator does not support."""
    layout = Layout(program)
    tables: dict[str, TableLayout] = {}
    for name, table in program.tables.items():
        index = -1 if is_fixed(table) else sum(t.index >= 0 for t in tables.values())
        tables[name] = table_layout(table, index)
    out = Emitter()
    for line in _HEAD.splitlines():
        out.line(line)
    out.line()
    layout.emit_struct(out)
    out.line()
    _emit_table_info(tables, out)
    for calc in program.calculations.values():
        emit_calculation(calc, layout, out)
    for action in _used_actions(program):
        emit_action(action, layout, out)
    emit_parser(layout, out)
    control = ControlGen(layout, tables, out)
    control.emit(program.ingress)
    control.emit(program.egress)
    emit_deparser(layout, out)
    _Entry(layout, out).emit()
    counters = {c.name: i for i, c in enumerate(program.counters.values()) if c.direct_table is None}
    _emit_descriptor(program, tables, layout, out)
    return Generated(out.text(), tables, {r: i for i, r in enumerate(program.registers)}, counters)


def _used_actions(program: Program) -> list[Action]:
    used: set[int] = set()
    for pipeline in (program.ingress, program.egress):
        used |= _pipeline_actions(pipeline)
    return [a for a in program.actions.values() if a.id in used and a.primitives]


def _pipeline_actions(pipeline: Pipeline) -> set[int]:
    used = {call.action_id for call in pipeline.action_calls.values()}
    for table in pipeline.tables.values():
        if is_fixed(table) and table.default is not None:
            used.add(table.default[0])
        else:
            used.update(table.action_ids)
    return used


def _emit_table_info(tables: dict[str, TableLayout], out: Emitter) -> None:
    keyed = [t for t in tables.values() if t.index >= 0]
    for t in keyed:
        if t.ranges:
            rows = ", ".join(f"{{{r.word}, {r.shift}, {r.width}}}" for r in t.ranges)
            out.line(f"static const struct sw_range_field ranges_{t.index}[] = {{{rows}}};")
    with out.block("static const struct sw_table_info table_info[] =", ";"):
        for t in keyed:
            ranges = f"ranges_{t.index}" if t.ranges else "NULL"
            out.line(f"{{{t.words}, {t.match}, {len(t.ranges)}, {ranges}}},")
        out.line("{0, 0, 0, NULL},")
    out.line()


class _Entry:
    """The functions that the engine calls."""

    def __init__(self, layout: Layout, out: Emitter) -> None:
        self.layout = layout
        self.program = layout.program
        self.out = out

    def emit(self) -> None:
        self._receive()
        self._parse()
        self._preserve()
        self._egress()

    def _set(self, name: str, code: str) -> None:
        ref = self.program.standard(name)
        if ref is None or not self.layout.is_live(ref):
            return
        width = self.program.field_type(ref).width
        if width > 64:
            raise JsonError(f"the field {name} is {width} bits wide, at most 64 are supported")
        mask = f" & UINT64_C({(1 << width) - 1:#x})" if width < 64 else ""
        self.out.line(f"{self.layout.field(ref)} = ({ctype(width)})(({code}){mask});")

    def _get(self, name: str) -> str:
        ref = self.program.standard(name)
        return "0" if ref is None or not self.layout.is_live(ref) else self.layout.field(ref)

    def _receive(self) -> None:
        out = self.out
        with out.block("static void ingress(struct sw_state *st, struct sw_packet *pkt, struct phv *p)"):
            out.line("pkt->clone_session = 0; pkt->clone_list = 0; pkt->resubmit_list = 0;")
            out.line("pkt->recirculate_list = 0; pkt->digest_list = 0; pkt->exit = 0;")
            out.line("run_parser(st, pkt, p);")
            out.line("run_ingress(st, pkt, p);")
            out.line(f"pkt->egress_spec = {self._get('standard_metadata.egress_spec')};")
            out.line(f"pkt->mcast_grp = {self._get('intrinsic_metadata.mcast_grp')};")
            self._take_priority()
        out.line()
        with out.block("static void on_receive(struct sw_state *st, struct sw_packet *pkt)"):
            out.line("struct phv *p = (struct phv *)pkt->phv;")
            out.line("memset(p, 0, sizeof *p);")
            self._set("standard_metadata.ingress_port", "pkt->ingress_port")
            self._set("standard_metadata.packet_length", "pkt->len")
            self._set("intrinsic_metadata.ingress_global_timestamp", "pkt->rx_ns / 1000")
            out.line("ingress(st, pkt, p);")
        out.line()
        with out.block("static void on_reenter(struct sw_state *st, struct sw_packet *pkt)"):
            out.line("struct phv *p = (struct phv *)pkt->phv;")
            self._set("standard_metadata.packet_length", "pkt->len")
            out.line("ingress(st, pkt, p);")
        out.line()

    def _take_priority(self) -> None:
        code = self._get("intrinsic_metadata.priority")
        self.out.line(f"pkt->priority = (uint8_t)({code});")

    def _parse(self) -> None:
        out = self.out
        with out.block("static void on_parse(struct sw_state *st, struct sw_packet *pkt)"):
            out.line("struct phv *p = (struct phv *)pkt->phv;")
            out.line("memset(p, 0, sizeof *p);")
            self._set("standard_metadata.ingress_port", "pkt->ingress_port")
            out.line("run_parser(st, pkt, p);")
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
            self._set("standard_metadata.instance_type", "instance_type")
            out.line("(void)instance_type;")
            out.line("struct sw_packet *pkt = to;")
            self._take_priority()
        out.line()

    def _copy_list(self, fields: FieldList) -> None:
        for ref in fields.fields:
            if ref.field == "$valid$" or not self.layout.is_live(ref):
                continue
            place = self.layout.field(ref)
            source = "q->" + place.removeprefix("p->")
            n = limbs(self.program.field_type(ref).width)
            self.out.line(f"sw_wide_copy({place}, {source}, {n});" if n > 2 else f"{place} = {source};")

    def _egress(self) -> None:
        out = self.out
        with out.block("static void on_egress(struct sw_state *st, struct sw_packet *pkt)"):
            out.line("struct phv *p = (struct phv *)pkt->phv;")
            out.line("pkt->clone_session = 0; pkt->clone_list = 0; pkt->recirculate_list = 0; pkt->exit = 0;")
            self._set("standard_metadata.instance_type", "pkt->instance_type")
            self._set("standard_metadata.egress_port", "pkt->egress_port")
            self._set("standard_metadata.egress_spec", "st->drop_port + 1")
            self._set("standard_metadata.packet_length", "pkt->length")
            rid = self.program.standard("intrinsic_metadata.egress_rid")
            if rid is not None and self.layout.is_live(rid):
                with out.block("if (pkt->replica)"):
                    self._set("intrinsic_metadata.egress_rid", "pkt->rid")
            self._set("intrinsic_metadata.egress_global_timestamp", "st->now_ns / 1000")
            self._set("queueing_metadata.enq_timestamp", "pkt->enq_ns / 1000")
            self._set("queueing_metadata.enq_qdepth", "pkt->enq_depth")
            self._set("queueing_metadata.deq_timedelta", "st->now_ns / 1000 - pkt->enq_ns / 1000")
            self._set("queueing_metadata.deq_qdepth", "pkt->deq_depth")
            self._set("queueing_metadata.qid", "pkt->priority")
            out.line("run_egress(st, pkt, p);")
            out.line(f"pkt->egress_spec = {self._get('standard_metadata.egress_spec')};")
        out.line()


def _emit_descriptor(program: Program, tables: dict[str, TableLayout], layout: Layout, out: Emitter) -> None:
    registers = list(program.registers.values())
    counters = list(program.counters.values())

    def numbers(name: str, values: list[int]) -> None:
        text = ", ".join(f"{v}u" for v in [*values, 0])
        out.line(f"static const uint32_t {name}[] = {{{text}}};")

    numbers("register_sizes", [r.size for r in registers])
    numbers("register_bytes", [register_bytes(r.width) for r in registers])
    numbers("counter_sizes", [c.size for c in counters])
    out.line()
    with out.block('__attribute__((visibility("default"))) const struct sw_program sw_program =', ";"):
        out.line(".abi = SW_ABI,")
        out.line(".phv_bytes = sizeof(struct phv),")
        out.line(f".max_header_bytes = {max_header_bytes(layout)},")
        out.line(f".table_count = {sum(t.index >= 0 for t in tables.values())},")
        out.line(f".register_count = {len(registers)},")
        out.line(f".counter_count = {len(counters)},")
        out.line(".tables = table_info,")
        out.line(".register_sizes = register_sizes,")
        out.line(".register_bytes = register_bytes,")
        out.line(".counter_sizes = counter_sizes,")
        for hook in ("receive", "reenter", "parse", "preserve", "egress"):
            out.line(f".{hook} = on_{hook},")
        out.line(".deparse = run_deparser,")
