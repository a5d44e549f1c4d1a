# SPDX-License-Identifier: Apache-2.0
"""Primitives on whole headers, header unions, stacks of them and varbit fields -> C statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from target.bmjson.model import (
    Argument,
    Const,
    Expr,
    FieldRef,
    ObjectRef,
    Primitive,
    StackRef,
    Text,
    UnionStackRef,
    Vector,
)
from target.bmjson.node import JsonError
from target.codegen.layout import slot_bytes
from target.codegen.usage import Choice, header_choice, union_choice

if TYPE_CHECKING:
    from target.codegen.primitives import PrimitiveGen


class HeaderPrimitives:
    def __init__(self, prims: PrimitiveGen) -> None:
        self.prims = prims
        self.layout = prims.layout
        self.program = prims.program
        self.out = prims.out

    def table(self) -> dict[str, Callable[[Primitive], None]]:
        return {
            "assign_VL": self._assign_varbit,
            "assign_header": self._assign_header,
            "copy_header": self._assign_header,
            "assign_header_stack": self._assign_stack,
            "assign_union": self._assign_union,
            "assign_union_stack": self._assign_union_stack,
            "add_header": self._add_header,
            "add_header_fast": self._mark_valid,
            "remove_header": self._remove_header,
            "push": self._push,
            "pop": self._pop,
        }

    # --- arguments

    def _args(self, call: Primitive, count: int) -> list[Expr]:
        if len(call.args) != count or any(isinstance(a, ObjectRef | Text | Vector) for a in call.args):
            raise JsonError(f"{call.place}: {call.op!r} takes {count} parameters that denote headers")
        return [self.prims.expr(a, call) for a in call.args]

    def _each_header(self, arg: Argument, call: Primitive, body: Callable[[str], None]) -> None:
        """Emit `body` for a header, or in a switch over a stack's elements."""
        self._each(header_choice(self.program, self.prims.expr(arg, call)), "header", call, body)

    def _each(self, found: Choice | None, what: str, call: Primitive, body: Callable[[str], None]) -> None:
        if found is None:
            raise JsonError(f"{call.place}: {call.op!r} needs a {what} here")
        self.prims.gen.headers.for_chosen(found, body)

    def _stack(self, arg: Expr, call: Primitive) -> str:
        if not isinstance(arg, StackRef):
            raise JsonError(f"{call.place}: {call.op!r} needs a header stack here")
        return arg.name

    def _union_stack(self, arg: Expr, call: Primitive) -> str:
        if not isinstance(arg, UnionStackRef):
            raise JsonError(f"{call.place}: {call.op!r} needs a stack of header unions here")
        return arg.name

    # --- fields of variable length

    def _assign_varbit(self, call: Primitive) -> None:
        dest, source = self._args(call, 2)
        if not isinstance(dest, FieldRef) or not isinstance(source, FieldRef):
            raise JsonError(f"{call.place}: {call.op!r} needs two fields")
        self.copy_varbit(dest, source)

    def copy_varbit(self, dest: FieldRef, source: FieldRef) -> None:
        """The assignment of one varbit field to another: its bytes and their number."""
        layout = self.layout
        if not layout.is_varbit(dest) or not layout.is_varbit(source):
            raise self.prims.gen.fail("a varbit field can be assigned another varbit field only")
        if dest == source:
            return
        (place, to, room), (origin, at, most) = layout.spot(dest), layout.spot(source)
        if most > room:
            raise self.prims.gen.fail(f"a varbit field of {room} bits can't hold one of {most} bits")
        length = layout.var_length(source.header)
        self.out.line(f"sw_varbit_copy({place}, {to}, {origin}, {at}, {length});")
        self.out.line(f"{layout.var_length(dest.header)} = {length};")
        if not self.program.headers[dest.header].local:
            self.out.line(layout.set_dirty(dest.header))
            self.out.line("m->moved = 1;")

    # --- headers

    def copy_header(self, dest: str, source: str) -> None:
        """The assignment of one header to another, validity included."""
        layout, out = self.layout, self.out
        header = self.program.headers[dest]
        if dest == source:
            return
        if header.metadata:
            for field in header.type.fields:
                ref, origin = FieldRef(dest, field.name), FieldRef(source, field.name)
                if layout.is_live(ref) and layout.is_live(origin):
                    self.prims._lines(self.prims.put(ref, layout.metadata(origin)))
            return
        out.line("m->moved = 1;")
        with out.block(f"if ({layout.valid(source)})"):
            out.line(layout.set_valid(dest))
            if layout.size(dest):
                out.line(f"memcpy({layout.place(dest)}, {layout.place(source)}, {layout.size(dest)});")
            if dest in layout.varbits:
                out.line(f"{layout.var_length(dest)} = {layout.var_length(source)};")
        out.line(f"else {layout.set_invalid(dest)}")

    def _assign_header(self, call: Primitive) -> None:
        dest, source = self._args(call, 2)

        def copy(to: str, origin: str) -> None:
            if self.program.headers[to].type is not self.program.headers[origin].type:
                raise JsonError(f"{call.place}: headers of different types can't be assigned")
            self.copy_header(to, origin)

        self._each_header(
            dest, call, lambda to: self._each_header(source, call, lambda origin: copy(to, origin))
        )

    def _add_header(self, call: Primitive) -> None:
        (arg,) = self._args(call, 1)

        def body(name: str) -> None:
            header = self.program.headers[name]
            if header.metadata or header.local:
                return
            with self.out.block(f"if (!{self.layout.valid(name)})"):
                self.out.line(self.layout.set_valid(name))
                self.out.line("m->moved = 1;")
                size = self.layout.size(name)
                self.out.line(f"memset({self.layout.place(name)}, 0, {slot_bytes(size)});")
                self.out.line(f"pkt->length += {self.layout.length(name)};")

        self._each_header(arg, call, body)

    def _mark_valid(self, call: Primitive) -> None:
        """Nothing is set to 0 and nothing is counted."""
        (arg,) = self._args(call, 1)

        def body(name: str) -> None:
            header = self.program.headers[name]
            if not header.metadata and not header.local:
                self.out.line(f"{self.layout.set_valid(name)} m->moved = 1;")

        self._each_header(arg, call, body)

    def _remove_header(self, call: Primitive) -> None:
        (arg,) = self._args(call, 1)

        def body(name: str) -> None:
            header = self.program.headers[name]
            if header.metadata or header.local:
                return
            with self.out.block(f"if ({self.layout.valid(name)})"):
                self.out.line(self.layout.set_invalid(name))
                self.out.line("m->moved = 1;")
                self.out.line(f"pkt->length -= {self.layout.length(name)};")

        self._each_header(arg, call, body)

    # --- unions

    def copy_union(self, dest: str, source: str) -> None:
        unions = self.program.unions
        for to, origin in zip(unions[dest].headers, unions[source].headers, strict=True):
            self.copy_header(to, origin)

    def _assign_union(self, call: Primitive) -> None:
        dest, source = self._args(call, 2)
        unions = self.program.unions

        def copy(to: str, origin: str) -> None:
            if unions[to].type is not unions[origin].type:
                raise JsonError(f"{call.place}: unions of different types can't be assigned")
            self.copy_union(to, origin)

        def inner(to: str) -> None:
            self._each(
                union_choice(self.program, source), "header union", call, lambda origin: copy(to, origin)
            )

        self._each(union_choice(self.program, dest), "header union", call, inner)

    # --- stacks

    def _assign_stack(self, call: Primitive) -> None:
        dest, source = (self._stack(a, call) for a in self._args(call, 2))
        to, origin = self.program.stacks[dest], self.program.stacks[source]
        if len(to.headers) != len(origin.headers) or to.type is not origin.type:
            raise JsonError(f"{call.place}: stacks of different shape can't be assigned")
        for a, b in zip(to.headers, origin.headers, strict=True):
            self.copy_header(a, b)
        self.out.line(f"{self.layout.cursor(dest)} = {self.layout.cursor(source)};")

    def _assign_union_stack(self, call: Primitive) -> None:
        dest, source = (self._union_stack(a, call) for a in self._args(call, 2))
        to, origin = self.program.union_stacks[dest], self.program.union_stacks[source]
        if len(to.unions) != len(origin.unions) or to.type is not origin.type:
            raise JsonError(f"{call.place}: stacks of different shape can't be assigned")
        for a, b in zip(to.unions, origin.unions, strict=True):
            self.copy_union(a, b)
        self.out.line(f"{self.layout.cursor(dest)} = {self.layout.cursor(source)};")

    def _shift(self, call: Primitive) -> tuple[str, int]:
        stack, count = self._args(call, 2)
        if not isinstance(stack, StackRef | UnionStackRef):
            raise JsonError(f"{call.place}: {call.op!r} needs a stack here")
        if not isinstance(count, Const) or count.value < 0:
            raise JsonError(f"{call.place}: {call.op!r} needs a constant count")
        return stack.name, count.value

    def _drop_elements(self, headers: tuple[str, ...]) -> None:
        if headers:
            self.out.line("m->moved = 1;")
        for name in headers:
            self.out.line(self.layout.set_invalid(name))

    def _push(self, call: Primitive) -> None:
        stack, count = self._shift(call)
        if stack in self.program.union_stacks:
            unions = self.program.union_stacks[stack].unions
            size = len(unions)
            for i in reversed(range(count, size) if count else ()):
                self._swap_unions(unions[i], unions[i - count])
        else:
            headers = self.program.stacks[stack].headers
            size = len(headers)
            for i in reversed(range(count, size)):
                self.copy_header(headers[i], headers[i - count])
            self._drop_elements(headers[:count])
        cursor = self.layout.cursor(stack)
        self.out.line(f"{cursor} = (uint8_t)({cursor} + {min(count, size)} > {size} ? {size} : "
                      f"{cursor} + {min(count, size)});")  # fmt: skip

    def _pop(self, call: Primitive) -> None:
        stack, count = self._shift(call)
        if stack in self.program.union_stacks:
            unions = self.program.union_stacks[stack].unions
            for i in range(len(unions) - count if count else 0):
                self._swap_unions(unions[i], unions[i + count])
        else:
            headers = self.program.stacks[stack].headers
            keep = max(0, len(headers) - count)
            for i in range(keep):
                self.copy_header(headers[i], headers[i + count])
            self._drop_elements(headers[keep:])
        cursor = self.layout.cursor(stack)
        self.out.line(f"{cursor} = (uint8_t)({cursor} > {count} ? {cursor} - {count} : 0);")

    def _swap_unions(self, a: str, b: str) -> None:
        """simple_switch exchanges the unions of a stack that is shifted, and makes none of them invalid."""
        self.out.line("m->moved = 1;")
        unions = self.program.unions
        for x, y in zip(unions[a].headers, unions[b].headers, strict=True):
            with self.out.block():
                self._swap_headers(x, y)

    def _swap_headers(self, a: str, b: str) -> None:
        layout, out = self.layout, self.out
        size = layout.size(a)
        if size:
            out.line(f"uint8_t t[{size}];")
            out.line(f"memcpy(t, {layout.place(a)}, {size});")
            out.line(f"memcpy({layout.place(a)}, {layout.place(b)}, {size});")
            out.line(f"memcpy({layout.place(b)}, t, {size});")
        if a in layout.varbits:
            x, y = layout.var_length(a), layout.var_length(b)
            out.line(f"const uint16_t l = {x}; {x} = {y}; {y} = l;")
        with out.block(f"if ({layout.valid(a)} != {layout.valid(b)})"):
            out.line(f"{layout.flip_valid(a)} {layout.flip_valid(b)}")
