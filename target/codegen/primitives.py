# SPDX-License-Identifier: Apache-2.0
"""Action primitives -> C statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from target.bmjson.model import (
    Argument,
    BoolConst,
    Const,
    Expr,
    FieldRef,
    ObjectRef,
    Op,
    Param,
    Primitive,
    RegisterRef,
    StackField,
    Text,
    Vector,
)
from target.bmjson.node import JsonError
from target.codegen import fields
from target.codegen.arrays import counter_name, register_name
from target.codegen.bounds import limbs
from target.codegen.digests import emit_generate
from target.codegen.emitter import Emitter, c_string, c_u64
from target.codegen.exprs import ExprGen, Value
from target.codegen.hashing import calc_name
from target.codegen.header_primitives import HeaderPrimitives
from target.codegen.layout import Layout, ctype, slot_bytes
from target.codegen.meters import emit_execute
from target.codegen.usage import header_choice
from target.codegen.varbit import refuse_varbit

_ARITHMETIC = {
    "add": "+", "subtract": "-", "bit_and": "&", "bit_or": "|", "bit_xor": "^", "shift_left": "<<",
    "shift_right": ">>",
}  # fmt: skip


class PrimitiveGen:
    """Emits primitives into a function with `st`, `pkt`, `p`, `m` and `a` in scope."""

    def __init__(self, layout: Layout, out: Emitter, params: tuple[Param, ...], where: str) -> None:
        self.layout = layout
        self.program = layout.program
        self.out = out
        self.params = params
        self.where = where
        """parser, ingress, egress or deparser: what may be called, and where metadata is."""
        self.gen = ExprGen(layout, out, params)
        self.headers = HeaderPrimitives(self)
        self._table: dict[str, Callable[[Primitive], None]] = {
            "assign": self._assign,
            "modify_field": self._assign,
            "drop": self._drop,
            "mark_to_drop": self._drop,
            "no_op": lambda call: None,
            "exit": self._exit,
            "count": self._count,
            "execute_meter": lambda call: emit_execute(self, call),
            "generate_digest": lambda call: emit_generate(self, call),
            "register_read": self._register_read,
            "register_write": self._register_write,
            "modify_field_with_hash_based_offset": self._hash,
            "modify_field_rng_uniform": self._random,
            "clone_ingress_pkt_to_egress": self._clone,
            "clone_egress_pkt_to_egress": self._clone,
            "resubmit": self._resubmit,
            "recirculate": self._recirculate,
            "truncate": self._truncate,
            "log_msg": self._log,
            "assert": self._assert,
            "assume": self._assert,
            "add_to_field": lambda call: self._in_place(call, "+"),
            "subtract_from_field": lambda call: self._in_place(call, "-"),
            **{name: self._three(op) for name, op in _ARITHMETIC.items()},
            **self.headers.table(),
        }

    def emit(self, call: Primitive) -> None:
        """One primitive (jumps excepted: those belong to the action)."""
        self.gen.place = call.place
        handler = self._table.get(call.op)
        if handler is None:
            raise JsonError(f"{call.place}.op: primitive {call.op!r} is not supported by this target")
        with self.out.block():
            handler(call)

    # --- arguments

    def args(self, call: Primitive, count: int) -> tuple[Argument, ...]:
        if len(call.args) != count:
            raise JsonError(f"{call.place}: {call.op!r} takes {count} parameters, got {len(call.args)}")
        return call.args

    def expr(self, arg: Argument, call: Primitive) -> Expr:
        if isinstance(arg, ObjectRef | Text | Vector):
            raise JsonError(f"{call.place}: {call.op!r} needs a value here")
        return arg

    def object(self, arg: Argument, kind: str, call: Primitive) -> str:
        if not isinstance(arg, ObjectRef) or arg.kind != kind:
            raise JsonError(f"{call.place}: {call.op!r} needs a {kind} here")
        return arg.name

    # --- storing

    def store(self, dest: Expr, source: Expr) -> None:
        """dest = source, cut to dest's width."""
        if isinstance(dest, FieldRef) and not self.layout.is_live(dest):
            return
        width = self._dest_width(dest)
        self.store_value(dest, self.gen.value(source, width))

    def _dest_width(self, dest: Expr) -> int:
        if isinstance(dest, FieldRef):
            if dest.field == "$valid$":
                raise self.gen.fail("a header's validity can't be assigned")
            refuse_varbit(dest, self.program.headers[dest.header].type, self.gen.place)
            return self.program.field_type(dest).width
        if isinstance(dest, StackField):
            first = self.program.stack_headers(dest.stack, dest.member)[0]
            header_type = self.program.headers[first].type
            return header_type.fields[header_type.index(dest.field)].width
        if isinstance(dest, RegisterRef):
            return self.program.registers[dest.array].width
        if isinstance(dest, Op) and dest.op == "access_field":
            header_type_ = self.layout.type_of(dest.left)
            index = dest.right.value if isinstance(dest.right, Const) else -1
            if header_type_ is not None and 0 <= index < len(header_type_.fields):
                return header_type_.fields[index].width
        raise self.gen.fail("this can't be assigned to")

    def store_value(self, dest: Expr, value: Value) -> None:
        width = self._dest_width(dest)
        n = limbs(width)
        fits = value.exact and value.low >= 0 and value.high >> width == 0
        code = self.gen.resize(value, n)
        if n > 2:
            if not fits and width % 64:
                code = self.gen._wide_copy(code, n)
                self.out.line(f"sw_wide_trunc({code}, {n}, {width}, 0);")
        elif not fits and (width not in (8, 16, 32, 64, 128) or self._is_packed(dest)):
            code = f"({code} & {self.gen.const((1 << width) - 1, n)})"
        self._write(dest, width, code)

    def _is_packed(self, dest: Expr) -> bool:
        """Whether the destination has neighbours within a word: where no C type cuts what is stored."""
        if isinstance(dest, FieldRef):
            return not self.program.headers[dest.header].metadata
        return not isinstance(dest, RegisterRef)

    def put(self, ref: FieldRef, code: str) -> list[str]:
        """Statements that write a field. `code`: a number without bits beyond its width, or an array."""
        layout = self.layout
        place, bit, width = layout.spot(ref)
        if self.program.headers[ref.header].metadata:
            if width > 128:
                return [f"sw_wide_copy({layout.metadata(ref)}, {code}, {limbs(width)});"]
            return [f"{layout.metadata(ref)} = ({ctype(width)}){code};"]
        if width > 128:
            lines = [f"sw_put_wide({place}, {bit}, {width}, {code});"]
        elif width > 64:
            lines = [f"sw_put_bits128({place}, {bit}, {width}, {code});"]
        else:
            lines = fields.store(place, bit, width, slot_bytes(layout.size(ref.header)), code)
        return [*lines, layout.set_dirty(ref.header)]

    def _write(self, dest: Expr, width: int, code: str) -> None:
        """Write to a plain destination, or by a switch over the elements of a stack."""
        n = limbs(width)
        if isinstance(dest, FieldRef):
            self._lines(self.put(dest, code))
        elif isinstance(dest, StackField):
            index = f"(uint64_t){self.layout.cursor(dest.stack)} - 1"
            headers = self.program.stack_headers(dest.stack, dest.member)
            self._switch(index, [self.put(FieldRef(h, dest.field), code) for h in headers])
        elif isinstance(dest, RegisterRef):
            register = self.program.registers[dest.array]
            cells = register_name(self.program, dest.array)
            i = self.gen.store(self.gen.exact_u64(dest.index), 1)
            if n <= 2:
                write = f"{cells}[{i}] = ({ctype(width)}){code};"
            else:
                write = f"sw_wide_copy({cells} + {i} * {n}, {code}, {n});"
            if self.gen.is_below(dest.index, register.size):
                self.out.line(write)
                return
            self.out.line(f"if ({i} < {register.size}u) {{ {write} }}")
            self.out.line("else st->index_errors++;")
        else:
            assert isinstance(dest, Op) and isinstance(dest.right, Const)
            header_type = self.layout.type_of(dest.left)
            assert header_type is not None
            field = header_type.fields[dest.right.value].name
            found = header_choice(self.program, dest.left)
            assert found is not None
            chosen, headers = found
            if chosen is None:
                self._lines(self.put(FieldRef(headers[0], field), code))
                return
            # The value is computed before the index, and once for all elements.
            if n <= 2:
                code = self.gen.store(code, n)
            index = self.gen.exact_u64(chosen)
            self._switch(index, [self.put(FieldRef(h, field), code) for h in headers])

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self.out.line(line)

    def _switch(self, index: str, bodies: list[list[str]]) -> None:
        with self.out.block(f"switch ({index})"):
            for i, body in enumerate(bodies):
                self.out.line(f"case {i}: {' '.join(body)} break;")
            self.out.line("default: st->index_errors++;")

    def _assign(self, call: Primitive) -> None:
        dest, source = (self.expr(a, call) for a in self.args(call, 2))
        if isinstance(dest, FieldRef) and isinstance(source, FieldRef) and self._copy_bytes(dest, source):
            return
        self.store(dest, source)

    def _copy_bytes(self, dest: FieldRef, source: FieldRef) -> bool:
        """Copy whole bytes from header to header; their order does not matter."""
        layout, program = self.layout, self.program
        if program.headers[dest.header].metadata or program.headers[source.header].metadata:
            return False
        if "$valid$" in (dest.field, source.field) or layout.is_varbit(dest) or layout.is_varbit(source):
            return False
        (place, to, width), (origin, at, origin_width) = layout.spot(dest), layout.spot(source)
        if origin_width != width or width % 8 or to % 8 or at % 8:
            return False
        self.out.line(f"memmove({place} + {to // 8}, {origin} + {at // 8}, {width // 8});")
        self.out.line(layout.set_dirty(dest.header))
        return True

    def _in_place(self, call: Primitive, op: str) -> None:
        dest, source = (self.expr(a, call) for a in self.args(call, 2))
        self.store(dest, Op(op, dest, source))

    def _three(self, op: str) -> Callable[[Primitive], None]:
        def emit(call: Primitive) -> None:
            dest, left, right = (self.expr(a, call) for a in self.args(call, 3))
            self.store(dest, Op(op, left, right))

        return emit

    # --- v1model

    def _drop(self, call: Primitive) -> None:
        if len(call.args) > 1:
            raise JsonError(f"{call.place}: {call.op!r} takes one parameter at most")
        spec = self.program.standard("standard_metadata.egress_spec")
        assert spec is not None
        width = self.program.field_type(spec).width
        self._lines(self.put(spec, f"(st->drop_port & {(1 << width) - 1}u)"))
        group = self.program.standard("intrinsic_metadata.mcast_grp")
        if group is not None:
            self._lines(self.put(group, "0"))

    def _exit(self, call: Primitive) -> None:
        self.args(call, 0)
        self.out.line("pkt->exit = 1;")

    def _count(self, call: Primitive) -> None:
        counter_arg, index_arg = self.args(call, 2)
        name = self.object(counter_arg, "counter_array", call)
        counter = self.program.counters[name]
        if counter.direct_table is not None:
            raise JsonError(f"{call.place}: {name!r} is a direct counter and counts by itself")
        cells = counter_name(self.program, name)
        index = self.expr(index_arg, call)
        i = self.gen.store(self.gen.exact_u64(index), 1)
        with self.checked(i, index, counter.size):
            self.out.line(f"{cells}[{i}].packets++;")
            self.out.line(f"{cells}[{i}].bytes += pkt->ingress_len;")

    @contextmanager
    def checked(self, name: str, index: Expr, size: int) -> Iterator[None]:
        """A block that is entered with an index within an array; another one is counted."""
        if self.gen.is_below(index, size):
            with self.out.block():
                yield
            return
        with self.out.block(f"if ({name} < {size}u)"):
            yield
        self.out.line("else st->index_errors++;")

    def _register_read(self, call: Primitive) -> None:
        dest_arg, array_arg, index_arg = self.args(call, 3)
        dest = self.expr(dest_arg, call)
        if isinstance(dest, FieldRef) and not self.layout.is_live(dest):
            return
        name = self.object(array_arg, "register_array", call)
        register = self.program.registers[name]
        cells = register_name(self.program, name)
        index = self.expr(index_arg, call)
        i = self.gen.store(self.gen.exact_u64(index), 1)
        n = limbs(register.width)
        with self.checked(i, index, register.size):
            if n > 2:
                code = f"({cells} + {i} * {n})"
            else:
                code = f"{cells}[{i}]"
                code = f"(uint64_t){code}" if n == 1 else code
            self.store_value(dest, Value(code, n, 0, (1 << register.width) - 1, True))

    def _register_write(self, call: Primitive) -> None:
        array_arg, index_arg, value_arg = self.args(call, 3)
        name = self.object(array_arg, "register_array", call)
        self.store(RegisterRef(name, self.expr(index_arg, call)), self.expr(value_arg, call))

    def _hash(self, call: Primitive) -> None:
        dest_arg, base_arg, calc_arg, size_arg = self.args(call, 4)
        calc = calc_name(self.program, self.object(calc_arg, "calculation", call), self.where)
        size = self.expr(size_arg, call)
        base = self.gen.number(self.expr(base_arg, call))
        value = self.gen.store(f"{calc}(st, pkt, p, m)", 1)
        if isinstance(size, Const):
            # simple_switch takes a size of 0 as 1.
            low = size.value & (2**64 - 1) or 1
            code = f"({value} % {c_u64(low)} + {base})"
        else:
            bound = self.gen.store(self.gen.number(size), 1)
            code = f"({value} % ({bound} ? {bound} : 1) + {base})"
        self._store_u64(self.expr(dest_arg, call), code)

    def _store_u64(self, dest: Expr, code: str) -> None:
        if not isinstance(dest, FieldRef) or self.layout.is_live(dest):
            self.store_value(dest, Value(self.gen.store(code, 1), 1, 0, 2**64 - 1, True))

    def _random(self, call: Primitive) -> None:
        dest, low_arg, high_arg = (self.expr(a, call) for a in self.args(call, 3))
        low = self.gen.store(self.gen.number(low_arg), 1)
        high = self.gen.store(self.gen.number(high_arg), 1)
        with self.out.block(f"if ({low} <= {high})"):
            self._store_u64(dest, f"sw_random_range(st, {low}, {high})")

    def _control_only(self, call: Primitive) -> None:
        if self.where not in ("ingress", "egress"):
            raise JsonError(f"{call.place}: {call.op!r} can't be called from the {self.where}")

    def _list_id(self, arg: Argument, call: Primitive) -> int:
        if not isinstance(arg, Const) or (arg.value and arg.value not in self.program.field_lists):
            raise JsonError(f"{call.place}: {call.op!r} needs the id of a field list")
        return arg.value

    def _clone(self, call: Primitive) -> None:
        self._control_only(call)
        session, fields = self.args(call, 2)
        number = self.gen.number(self.expr(session, call), 15)
        self.out.line(f"pkt->clone_session = (uint16_t)({number} | SW_CLONE_VALID);")
        self.out.line(f"pkt->clone_list = {self._list_id(fields, call)};")

    def _resubmit(self, call: Primitive) -> None:
        self._control_only(call)
        (fields,) = self.args(call, 1)
        self.out.line(f"pkt->resubmit_list = {self._list_id(fields, call)};")

    def _recirculate(self, call: Primitive) -> None:
        self._control_only(call)
        (fields,) = self.args(call, 1)
        self.out.line(f"pkt->recirculate_list = {self._list_id(fields, call)};")

    def _truncate(self, call: Primitive) -> None:
        (size,) = self.args(call, 1)
        code = self.gen.store(self.gen.number(self.expr(size, call), 32), 1)
        self.out.line(f"if ({code} < pkt->truncate) pkt->truncate = (uint32_t){code};")

    def _log(self, call: Primitive) -> None:
        text, vector = self.args(call, 2)
        if not isinstance(text, Text) or not isinstance(vector, Vector):
            raise JsonError(f"{call.place}: 'log_msg' needs a string and a vector of values")
        if not vector.items:
            self.out.line(f"st->log(st, {c_string(text.value)}, NULL, 0);")
            return
        codes = [
            f"(uint64_t)({self.gen.boolean(e)})" if isinstance(e, BoolConst) else self.gen.number(e)
            for e in vector.items
        ]
        name = self.out.fresh()
        self.out.line(f"const uint64_t {name}[] = {{{', '.join(codes)}}};")
        self.out.line(f"st->log(st, {c_string(text.value)}, {name}, {len(codes)});")

    def _assert(self, call: Primitive) -> None:
        (arg,) = self.args(call, 1)
        expr = self.expr(arg, call)
        test = self.gen.boolean(expr) if self.gen.is_bool(expr) else self.gen.boolean(Op("d2b", None, expr))
        self.out.line(f"if (!{test}) st->assert_failures++;")
