# SPDX-License-Identifier: Apache-2.0
"""The parser -> one C function: a label per state, gotos between them. Extracting copies a header's bytes."""

from __future__ import annotations

from target.bmjson.model import (
    Advance,
    Expr,
    Extract,
    FieldRef,
    HeaderType,
    Lookahead,
    ParserOp,
    ParseState,
    SetField,
    Transition,
    Verify,
)
from target.codegen.bounds import limbs
from target.codegen.control import TableLayout
from target.codegen.deparser import checksum_test
from target.codegen.emitter import Emitter, c_u64, comment
from target.codegen.exprs import ExprGen
from target.codegen.layout import Layout
from target.codegen.primitives import PrimitiveGen
from target.codegen.usage import walk
from target.codegen.varbit import var_field

STATE_LIMIT = 4096
"""States that one packet may enter where the parser has a loop."""


class ParserGen:
    def __init__(self, layout: Layout, sets: dict[str, TableLayout], out: Emitter) -> None:
        self.layout = layout
        self.sets = sets
        self.program = layout.program
        self.out = out
        self.gen = ExprGen(layout, out, place="parser")
        self.prims = PrimitiveGen(layout, out, (), "parser")
        self.names = {name: f"s{i}" for i, name in enumerate(self.program.parser.states)}
        self.loops = self._has_loop()

    def _has_loop(self) -> bool:
        states = self.program.parser.states
        done: dict[str, int] = {}
        stack: list[tuple[str, int]] = []
        for start in states:
            if start in done:
                continue
            stack.append((start, 0))
            done[start] = 1
            while stack:
                name, i = stack.pop()
                transitions = states[name].transitions
                if i == len(transitions):
                    done[name] = 2
                    continue
                stack.append((name, i + 1))
                target = transitions[i].next_state
                if target is not None and done.get(target) == 1:
                    return True
                if target is not None and target not in done:
                    done[target] = 1
                    stack.append((target, 0))
        return False

    def _error(self, name: str) -> int:
        return self.program.errors.get(name, 0)

    def _need(self, amount: str, error: str = "PacketTooShort") -> None:
        self.out.line(f"if (pkt->len - off < {amount}) {{ error = {self._error(error)}; goto done; }}")

    def emit(self) -> None:
        out = self.out
        state = "struct sw_state *st, struct sw_packet *pkt, struct phv *p, struct meta *m"
        with out.block(f"PART void run_parser({state})"):
            out.line("const uint8_t *d = pkt->data;")
            out.line(f"uint32_t off = 0, error = {self._error('NoError')};")
            if self.loops:
                out.line("uint32_t states = 0;")
            out.line("(void)d; (void)p;")
            init = self.program.parser.init_state
            out.line(f"goto {self.names[init] if init is not None else 'done'};")
            for found in self.program.parser.states.values():
                self._state(found)
            out.label("done")
            out.line("pkt->parsed = off;")
            no_error = self._error("NoError")
            out.line(f"if (error != {no_error}) st->parser_errors++;")
            self._set_standard("standard_metadata.parser_error", "error")
            self._verify_checksums()
        out.line()

    def _set_standard(self, name: str, code: str) -> None:
        ref = self.program.standard(name)
        if ref is not None and self.layout.is_live(ref):
            width = self.program.field_type(ref).width
            if width < 32:
                code = f"({code}) & {(1 << width) - 1}u"
            self.prims._lines(self.prims.put(ref, f"({code})"))

    def _verify_checksums(self) -> None:
        checks = [c for c in self.program.checksums if c.verify]
        error = self.program.standard("standard_metadata.checksum_error")
        if not checks or error is None or not self.layout.is_live(error):
            return
        self.prims._lines(self.prims.put(error, "0"))
        for check in checks:
            with self.out.block():
                calc, test = checksum_test(check, self.layout, self.out, "parser")
                code = self.gen.resize(self.gen.value(check.target), 1)
                self.out.line(f"if ({test} && {calc} != {code}) {{ {' '.join(self.prims.put(error, '1'))} }}")

    def _state(self, state: ParseState) -> None:
        out = self.out
        out.label(self.names[state.name])
        out.line(comment(f"state {state.name}"))
        with out.block():
            if self.loops:
                error = self._error("ParserTimeout")
                out.line(f"if (++states > {STATE_LIMIT}) {{ error = {error}; goto done; }}")
            if state.name in self.layout.plan.irregular:
                out.line("m->moved = 1;")
            for op in state.ops:
                with out.block():
                    self._op(op, state)
            self._select(state)

    def _op(self, op: ParserOp, state: ParseState) -> None:
        out = self.out
        self.gen.place = f"parser state {state.name!r}"
        if isinstance(op, Extract):
            self._extract(op)
        elif isinstance(op, SetField):
            self._lookaheads(op.source)
            self.prims.gen.place = self.gen.place
            if isinstance(op.source, FieldRef) and self.layout.is_varbit(op.dest):
                self.prims.headers.copy_varbit(op.dest, op.source)
            else:
                self.prims.store(op.dest, op.source)
        elif isinstance(op, Verify):
            test = self.gen.boolean(op.condition)
            out.line(f"if (!{test}) {{ error = (uint32_t){self.gen.number(op.error, 32)}; goto done; }}")
        elif isinstance(op, Advance):
            self._lookaheads(op.bits)
            bits = self.gen.store(self.gen.number(op.bits, 32), 1)
            error = self._error("ParserInvalidArgument")
            out.line(f"if ({bits} % 8) {{ error = {error}; goto done; }}")
            self._need(f"{bits} / 8")
            out.line(f"off += (uint32_t)({bits} / 8);")
        else:
            self.prims.emit(op)

    def _lookaheads(self, expr: Expr) -> None:
        """Check that there is enough data for every lookahead of an expression."""
        ends = [e.offset + e.width for e in walk(expr) if isinstance(e, Lookahead)]
        if ends:
            self._need(f"{(max(ends) + 7) // 8}u")

    def _extract(self, op: Extract) -> None:
        out, layout = self.out, self.layout
        if not op.is_stack:
            header = self.program.headers[op.target]
            size = header.type.width // 8
            length = self._length(op, header.type)
            if not length:
                self._need(f"{size}u")
            self._unpack(op.target, length)
            out.line(f"off += {size}{f' + {length}' if length else ''};")
            if op.target in layout.stack_of:
                # Extracting an element by its index moves the cursor past it, as p4c expects of `next`.
                stack = layout.stack_of[op.target]
                position = self.program.stacks[stack].headers.index(op.target) + 1
                cursor = layout.cursor(stack)
                out.line(f"if ({cursor} < {position}) {cursor} = {position};")
            return
        headers = self.program.stack_headers(op.target, op.member)
        kind = self.program.headers[headers[0]].type
        cursor = layout.cursor(op.target)
        size = kind.width // 8
        error = self._error("StackOutOfBounds")
        out.line(f"if ({cursor} >= {len(headers)}) {{ error = {error}; goto done; }}")
        length = self._length(op, kind)
        if not length:
            self._need(f"{size}u")
        with out.block(f"switch ({cursor})"):
            for i, name in enumerate(headers):
                with out.block(f"case {i}:", " break;"):
                    self._unpack(name, length)
        out.line(f"{cursor}++;")
        out.line(f"off += {size}{f' + {length}' if length else ''};")

    def _length(self, op: Extract, header_type: HeaderType) -> str:
        """Name of a variable with the bytes of the varbit field, "" without one. Checks in BMv2's order."""
        field = var_field(header_type)
        if field is None:
            return ""
        if op.length is None:
            raise self.gen.fail(f"{op.target!r} has a varbit field, 'extract' must be 'extract_VL'")
        self._lookaheads(op.length)
        bits = self.gen.store(self.gen.exact_u64(op.length), 1)
        argument = self._error("ParserInvalidArgument")
        # More than an int holds becomes the largest int, which is no number of bytes either.
        self.out.line(f"if ({bits} % 8 || {bits} > INT32_MAX) {{ error = {argument}; goto done; }}")
        length = self.out.fresh("bytes")
        self.out.line(f"const uint32_t {length} = (uint32_t)({bits} / 8);")
        self._need(f"{field.size}u + {length}")
        self.out.line(
            f"if ({length} > {field.room}u) {{ error = {self._error('HeaderTooShort')}; goto done; }}"
        )
        return length

    def _unpack(self, name: str, length: str) -> None:
        """Mark valid, copy the bytes, remember the place."""
        out, layout = self.out, self.layout
        out.line(f"{layout.set_valid(name)} {comment(name)}")
        if length:
            out.line(f"{layout.var_length(name)} = (uint16_t){length};")
        if layout.size(name):
            out.line(layout.unpack(name, "d + off", length))
        if layout.has_offset(name):
            out.line(f"{layout.offset(name)} = (uint16_t)off;")

    # --- transitions

    def _select(self, state: ParseState) -> None:
        out = self.out
        for part in state.key:
            self._lookaheads(part)
        keys: list[str] = []
        if any(t.value is not None or t.vset is not None for t in state.transitions):
            for part, width in zip(state.key, state.key_widths, strict=True):
                n = limbs(width)
                v = self.gen.value(part, width)
                code = self.gen.resize(v, n)
                if n <= 2:
                    if v.low < 0:
                        code = f"({code} & {self.gen.const((1 << width) - 1, n)})"
                    code = self.gen.store(code, n)
                keys.append(code)
        for transition in state.transitions:
            if transition.vset is not None:
                out.line(f"if ({self._in_set(transition.vset, keys)}) goto {self._target(transition)};")
                continue
            if transition.value is None:
                continue
            test = self._match(transition, state.key_widths, keys)
            out.line(f"if ({test}) goto {self._target(transition)};")
        default = [t for t in state.transitions if t.value is None and t.vset is None]
        # The last default wins, as in BMv2; without one, parsing ends.
        out.line(f"goto {self._target(default[-1]) if default else 'done'};")

    def _in_set(self, name: str, keys: list[str]) -> str:
        """C condition: the key's parts are in a value set."""
        info = self.sets[name]
        words: list[list[str]] = [[] for _ in range(info.words)]
        for part, key in zip(info.parts, keys, strict=True):
            n = limbs(part.width)
            codes = [f"{key}[{i}]" for i in range(n)] if n > 2 else [f"(uint64_t){key}"]
            if n == 2:
                codes.append(f"(uint64_t)({key} >> 64)")
            for offset, code in enumerate(codes):
                words[part.word + offset].append(f"({code} << {part.shift})" if part.shift else code)
        packed = self.out.fresh("k")
        self.out.line(comment(f"value set {name}"))
        self.out.line(f"const uint64_t {packed}[] = {{{', '.join(' | '.join(terms) for terms in words)}}};")
        return f"sw_find_range(&st->tables[{info.index}], &table_info[{info.index}], {packed}) != NULL"

    def _target(self, transition: Transition) -> str:
        return "done" if transition.next_state is None else self.names[transition.next_state]

    def _match(self, transition: Transition, widths: tuple[int, ...], keys: list[str]) -> str:
        assert transition.value is not None and transition.mask is not None
        tests: list[str] = []
        shift = sum(widths)
        for width, key in zip(widths, keys, strict=True):
            shift -= width
            ones = (1 << width) - 1
            mask, value = transition.mask >> shift & ones, transition.value >> shift & ones
            if mask == 0:
                continue
            n = limbs(width)
            if n <= 2:
                left = key if mask == ones else f"({key} & {self.gen.const(mask, n)})"
                tests.append(f"{left} == {self.gen.const(value & mask, n)}")
                continue
            for i in range(n):
                m = mask >> 64 * i & (2**64 - 1)
                if m:
                    v = (value & mask) >> 64 * i & (2**64 - 1)
                    tests.append(f"({key}[{i}] & {c_u64(m)}) == {c_u64(v)}")
        return " && ".join(tests) or "1"


def emit_parser(layout: Layout, sets: dict[str, TableLayout], out: Emitter) -> None:
    """`void run_parser(st, pkt, p, m)`. `sets`: layouts of the parser value sets."""
    ParserGen(layout, sets, out).emit()
