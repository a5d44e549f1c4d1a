# SPDX-License-Identifier: Apache-2.0
"""Match-action pipelines -> C: one function per pipeline, a label per table or conditional."""

from __future__ import annotations

from dataclasses import dataclass

from target.bmjson.model import FieldRef, KeyField, Param, Pipeline, Program, Table, ValueSet
from target.codegen.actions import action_name, may_exit
from target.codegen.bounds import limbs
from target.codegen.emitter import Emitter, c_u64, comment
from target.codegen.exprs import ExprGen
from target.codegen.hits import AGEING, METERED, emit_hit
from target.codegen.layout import Layout
from target.codegen.order import node_order
from target.codegen.profiles import INDIRECT, all_actions, emit_choice

DIRECT_BITS = 12
"""Widest exact key that an array is indexed by: 32 KiB a table."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Where a key field lies in the key's words: bits `shift`.. of `word`, or whole words from `word` on."""

    word: int
    shift: int
    width: int


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What the engine's control side needs to know of a generated table."""

    index: int
    """Index in the program's array of tables, or -1: the table has no key and a constant default."""
    parts: tuple[KeyPart, ...]
    words: int
    match: int
    """enum sw_match"""
    ranges: tuple[KeyPart, ...]
    direct_bits: int
    """Width of a key that is an index of an array of entries, or 0."""
    features: int = 0
    """enum sw_feature"""
    profile: int = 0
    """Of an indirect table: the number of its action profile."""


def pack_key(widths: list[int]) -> tuple[tuple[KeyPart, ...], int]:
    """Pack a key's fields into 64-bit words: small ones share a word, wide ones have their own."""
    parts: list[KeyPart] = []
    word, used = 0, 0
    for width in widths:
        if width > 64:
            if used:
                word, used = word + 1, 0
            parts.append(KeyPart(word, 0, width))
            word += limbs(width)
            continue
        if used + width > 64:
            word, used = word + 1, 0
        parts.append(KeyPart(word, used, width))
        used += width
    return tuple(parts), word + (1 if used else 0)


def table_layout(table: Table, index: int, program: Program) -> TableLayout:
    parts, words = pack_key([field.width for field in table.key])
    ranges = tuple(p for p, f in zip(parts, table.key, strict=True) if f.match == "range")
    kinds = {f.match for f in table.key}
    match = 2 if ranges else 0 if kinds <= {"exact", "valid"} else 1
    width = sum(f.width for f in table.key)
    direct = width if match == 0 and 0 < width <= DIRECT_BITS else 0
    features = (
        (INDIRECT if table.profile is not None else 0)
        | (METERED if table.meter is not None else 0)
        | (AGEING if table.timeout else 0)
    )
    profile = list(program.profiles).index(table.profile) if table.profile is not None else 0
    return TableLayout(index, parts, words, match, ranges, direct, features, profile)


def set_layout(vset: ValueSet, index: int) -> TableLayout:
    """A value set is a table without actions. Any field may be given as a range."""
    parts, words = pack_key(list(vset.widths))
    return TableLayout(index, parts, words, 2, parts, 0)


def is_fixed(table: Table) -> bool:
    """A table without a key whose default action can't change: p4c makes one of each direct action call."""
    return (
        not table.key
        and table.default is not None
        and table.default_const
        and table.default_args_const
        and not table.counters
        and table.profile is None
    )


def table_actions(table: Table) -> list[int]:
    """Ids of the actions that a table may run, in the order of the JSON."""
    if is_fixed(table):
        assert table.default is not None
        return [table.default[0]]
    return all_actions(table)


class ControlGen:
    def __init__(self, layout: Layout, tables: dict[str, TableLayout], out: Emitter) -> None:
        self.layout = layout
        self.program = layout.program
        self.tables = tables
        self.out = out

    def emit(self, pipeline: Pipeline) -> None:
        """`void run_<pipeline>(st, pkt, p, m)`."""
        out = self.out
        order = node_order(pipeline)
        self.where = pipeline.name
        self.names = {name: f"n{i}" for i, name in enumerate(order)}
        state = "struct sw_state *st, struct sw_packet *pkt, struct phv *p, struct meta *m"
        with out.block(f"PART void run_{pipeline.name}({state})"):
            out.line("(void)st; (void)pkt; (void)p; (void)m;")
            out.line(self.goto(pipeline.init))
            for name in order:
                out.label(self.names[name])
                with out.block():
                    if name in pipeline.tables:
                        self._table(pipeline.tables[name])
                    elif name in pipeline.conditionals:
                        cond = pipeline.conditionals[name]
                        out.line(comment(f"{cond.name} {cond.source}"))
                        gen = ExprGen(self.layout, out, place=f"conditional {name!r}")
                        out.line(f"if ({gen.boolean(cond.condition)}) {self.goto(cond.true_next)}")
                        out.line(self.goto(cond.false_next))
                    else:
                        call = pipeline.action_calls[name]
                        self._call(call.action_id, "NULL", call.next)
        out.line()

    def goto(self, target: str | None) -> str:
        return "return;" if target is None else f"goto {self.names[target]};"

    def _call(self, action_id: int, args: str, target: str | None) -> None:
        action = self.program.actions[action_id]
        if action.primitives:
            self.out.line(f"{action_name(action, self.where)}(st, pkt, p, m, {args});")
        if may_exit(action):
            self.out.line("if (pkt->exit) return;")
        self.out.line(self.goto(target))

    def _args(self, action_id: int, values: tuple[int, ...]) -> str:
        """Constant arguments as an array; its name, or NULL."""
        words = arg_words(self.program.actions[action_id].params, values)
        if not words:
            return "NULL"
        name = self.out.fresh("k")
        self.out.line(f"static const uint64_t {name}[] = {{{', '.join(c_u64(w) for w in words)}}};")
        return name

    def _table(self, table: Table) -> None:
        out = self.out
        out.line(comment(f"table {table.name} {table.source}"))
        if is_fixed(table):
            assert table.default is not None
            action_id, values = table.default
            hit_miss = table.hit_miss
            target = hit_miss[1] if hit_miss else table.next.get(action_id, table.default_next)
            self._call(action_id, self._args(action_id, values), target)
            return
        info = self.tables[table.name]
        out.line(f"const struct sw_table *t = &st->tables[{info.index}];")
        found = self._find(table, info)
        emit_hit(self, table, found)
        if table.hit_miss:
            out.line(f"const int hit = {found};")
        if table.key and not info.direct_bits:
            out.line("if (e == NULL) e = t->miss;")
        if table.counters:
            out.line("e->packets++; e->bytes += pkt->ingress_len;")
        after = None
        if table.hit_miss:
            hit, miss = (self.goto(target) for target in table.hit_miss)
            after = hit if hit == miss else f"if (hit) {hit} else {miss}"
        if table.profile is not None:
            emit_choice(self, table, info, after)
            return
        actions = table_actions(table)
        if len(actions) == 1 and table.default is not None:
            self.run(table, actions[0], f"e->key + {info.words}", after)
            return
        with out.block("switch (e->action)"):
            for action_id in actions:
                with out.block(f"case {action_id}:"):
                    self.run(table, action_id, f"e->key + {info.words}", after)
            out.line(f"default: {after or self.goto(table.default_next)}")

    def _find(self, table: Table, info: TableLayout) -> str:
        """The entry `e`, or what a miss leaves: NULL or the default. Returns the condition of a hit."""
        out = self.out
        if not table.key:
            out.line("struct sw_entry *e = t->miss;")
            return "0"
        self._key(table, info)
        if info.direct_bits:
            out.line("struct sw_entry *e = t->direct[k[0]];")
            return "e != t->miss"
        if info.match == 2:
            out.line(f"struct sw_entry *e = sw_find_range(t, &table_info[{info.index}], k);")
        else:
            prefixes = {f.match for f in table.key} <= {"exact", "valid", "lpm"}
            how = "exact" if info.match == 0 else "prefix" if prefixes else "masked"
            out.line(f"struct sw_entry *e = sw_find_{how}(t, k, {info.words});")
        return "e != NULL"

    def run(self, table: Table, action_id: int, args: str, after: str | None) -> None:
        """An action of a table with its arguments, and where it leads."""
        action = self.program.actions[action_id]
        if action.primitives:
            self.out.line(f"{action_name(action, self.where)}(st, pkt, p, m, {args});")
        if may_exit(action):
            self.out.line("if (pkt->exit) return;")
        self.out.line(after or self.goto(table.next.get(action_id, table.default_next)))

    def _key(self, table: Table, info: TableLayout) -> None:
        """`const uint64_t k[]`."""
        gen = ExprGen(self.layout, self.out, place=table.place)
        words: list[list[str]] = [[] for _ in range(info.words)]
        for field, part in zip(table.key, info.parts, strict=True):
            for offset, code in enumerate(self._key_words(field, gen)):
                words[part.word + offset].append(f"({code} << {part.shift})" if part.shift else code)
        joined = ", ".join(" | ".join(terms) for terms in words)
        self.out.line(f"const uint64_t k[{info.words}] = {{{joined}}};")

    def _key_words(self, field: KeyField, gen: ExprGen) -> list[str]:
        assert isinstance(field.target, FieldRef)
        ref = field.target
        guard = self.layout.valid(ref.header) if ref.field != "$valid$" else "1"
        mask = field.mask
        if field.width <= 64:
            code = gen.number(ref, field.width)
            if mask is not None:
                code = f"({code} & {c_u64(mask)})"
            # The fields of an invalid header count as 0 in a key.
            return [code if guard == "1" else f"({guard} ? {code} : 0)"]
        n = limbs(field.width)
        value = gen.field(ref)
        codes = (
            [f"(uint64_t){value}", f"(uint64_t)({value} >> 64)"]
            if n == 2
            else [f"{value}[{i}]" for i in range(n)]
        )
        if mask is not None:
            codes = [f"({c} & {c_u64(mask >> 64 * i)})" for i, c in enumerate(codes)]
        return codes if guard == "1" else [f"({guard} ? {c} : 0)" for c in codes]


def arg_words(params: tuple[Param, ...], values: tuple[int, ...]) -> list[int]:
    """Action arguments as the generated code reads them: each in one 64-bit word or more, low word first."""
    words: list[int] = []
    for param, value in zip(params, values, strict=True):
        words.extend(value >> 64 * i & (2**64 - 1) for i in range(limbs(param.width)))
    return words
