# SPDX-License-Identifier: Apache-2.0
"""Where each field lives in the per-packet state, and which fields need to live there at all.

A header instance keeps the offset in the frame that it was extracted from. Only fields that the program reads
or writes are unpacked; the others are never touched: the deparser takes their bytes from the frame. Metadata
fields that nobody reads have no storage, and assignments to them vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from target.bmjson.model import (
    Advance,
    Argument,
    Expr,
    Extract,
    FieldRef,
    FieldType,
    HeaderRef,
    HeaderType,
    ObjectRef,
    Op,
    Primitive,
    Program,
    RegisterRef,
    SetField,
    StackField,
    StackRef,
    Text,
    Vector,
    Verify,
)
from target.codegen.emitter import Emitter, comment

# Fields that the engine itself reads after a control, by the target's own names.
ENGINE_READS = (
    "standard_metadata.egress_spec",
    "intrinsic_metadata.mcast_grp",
    "intrinsic_metadata.priority",
)

_WRITES_FIRST = {
    "assign", "modify_field", "register_read", "modify_field_with_hash_based_offset",
    "modify_field_rng_uniform", "add_to_field", "subtract_from_field", "add", "subtract", "bit_and", "bit_or",
    "bit_xor", "shift_left", "shift_right",
}  # fmt: skip
_READS_FIRST_TOO = {"add_to_field", "subtract_from_field"}


def limbs(width: int) -> int:
    return (width + 63) // 64


def ctype(width: int) -> str:
    """C type of an unsigned value of `width` bits, up to 128."""
    for bits in (8, 16, 32, 64):
        if width <= bits:
            return f"uint{bits}_t"
    return "sw_u128"


def declare(width: int, name: str) -> str:
    return f"uint64_t {name}[{limbs(width)}]" if width > 128 else f"{ctype(width)} {name}"


def walk(arg: Argument | None) -> Iterator[Expr]:
    """All sub-expressions, the argument itself included."""
    if arg is None or isinstance(arg, ObjectRef | Text):
        return
    if isinstance(arg, Vector):
        for item in arg.items:
            yield from walk(item)
        return
    yield arg
    if isinstance(arg, Op):
        for part in (arg.cond, arg.left, arg.right):
            yield from walk(part)
    elif isinstance(arg, RegisterRef):
        yield from walk(arg.index)


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage of one field."""

    name: str
    type: FieldType


class Layout:
    """Answers: is this field live, what is it called in C."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.header_index = {name: i for i, name in enumerate(program.headers)}
        self.stack_index = {name: i for i, name in enumerate(program.stacks)}
        self.stack_of = {h: s.name for s in program.stacks.values() for h in s.headers}
        self.read: set[tuple[str, str]] = set()
        self.written: set[tuple[str, str]] = set()
        self._collect()

    # --- which fields live

    def _key(self, header: str, field: str) -> tuple[str, str]:
        found = self.program.headers[header]
        # Header instances of one type share a verdict: they may be assigned to one another.
        return (f"instance {header}" if found.metadata else f"type {found.type.name}", field)

    def _mark(self, expr: Expr, into: set[tuple[str, str]]) -> None:
        if isinstance(expr, FieldRef):
            into.add(self._key(expr.header, expr.field))
        elif isinstance(expr, StackField):
            into.add((f"type {self.program.stacks[expr.stack].type.name}", expr.field))
        elif isinstance(expr, Op) and expr.op == "access_field":
            header_type = self.type_of(expr.left)
            assert expr.right is not None
            index = getattr(expr.right, "value", 0)
            if header_type is not None and index < len(header_type.fields):
                into.add((f"type {header_type.name}", header_type.fields[index].name))
        elif isinstance(expr, Op) and expr.op in ("==", "!="):
            header_type = self.type_of(expr.left)
            if header_type is not None:
                into.update((f"type {header_type.name}", f.name) for f in header_type.fields)

    def reads(self, arg: Argument | None) -> None:
        for expr in walk(arg):
            self._mark(expr, self.read)

    def writes(self, arg: Argument) -> None:
        assert not isinstance(arg, ObjectRef | Text | Vector)
        self._mark(arg, self.written)
        if isinstance(arg, Op):
            for part in (arg.left, arg.right):
                for expr in walk(part):
                    if expr is not arg and isinstance(expr, FieldRef | StackField):
                        self._mark(expr, self.read)
        elif isinstance(arg, RegisterRef):
            self.reads(arg.index)

    def _primitive(self, call: Primitive) -> None:
        args = list(call.args)
        if call.op in _WRITES_FIRST and args:
            self.writes(args[0])
            if call.op not in _READS_FIRST_TOO:
                args = args[1:]
        if call.op == "execute_meter" and len(args) == 3:
            self.writes(args.pop())
        for arg in args:
            self.reads(arg)

    def _collect(self) -> None:
        program = self.program
        for state in program.parser.states.values():
            for part in state.key:
                self.reads(part)
            for op in state.ops:
                if isinstance(op, SetField):
                    self.writes(op.dest)
                    self.reads(op.source)
                elif isinstance(op, Verify):
                    self.reads(op.condition)
                    self.reads(op.error)
                elif isinstance(op, Advance):
                    self.reads(op.bits)
                elif isinstance(op, Extract):
                    self.reads(op.length)
                else:
                    self._primitive(op)
        for action in program.actions.values():
            for call in action.primitives:
                self._primitive(call)
        for call in program.deparser_primitives:
            self._primitive(call)
        for pipeline in (program.ingress, program.egress):
            for table in pipeline.tables.values():
                for key in table.key:
                    self.reads(key.target)
            for cond in pipeline.conditionals.values():
                self.reads(cond.condition)
        for calc in program.calculations.values():
            for item in calc.inputs:
                if isinstance(item.value, HeaderRef):
                    header = program.headers[item.value.name]
                    for f in header.type.fields:
                        self.read.add(self._key(header.name, f.name))
                else:
                    self.reads(item.value)
        for checksum in program.checksums:
            self.reads(checksum.condition)
            self.reads(checksum.target)
            if checksum.update:
                self.writes(checksum.target)
        for fields in program.field_lists.values():
            for ref in fields.fields:
                self.reads(ref)
        for fields in program.learn_lists.values():
            for ref in fields.fields:
                self.reads(ref)
        for name in ENGINE_READS:
            found = program.standard(name)
            if found is not None:
                self.reads(found)

    def is_live(self, ref: FieldRef) -> bool:
        """Whether the field has storage."""
        if ref.field == "$valid$":
            return True
        key = self._key(ref.header, ref.field)
        if self.program.headers[ref.header].metadata:
            return key in self.read
        return key in self.read or key in self.written

    def is_written(self, ref: FieldRef) -> bool:
        return self._key(ref.header, ref.field) in self.written

    # --- names

    def type_of(self, expr: Expr | None) -> HeaderType | None:
        """Header type of an expression that denotes a header."""
        if isinstance(expr, HeaderRef):
            return self.program.headers[expr.name].type
        if isinstance(expr, Op) and expr.op == "dereference_header_stack" and isinstance(expr.left, StackRef):
            return self.program.stacks[expr.left.name].type
        return None

    def valid(self, header: str) -> str:
        """C expression for a header's validity: 0 or 1; metadata is always valid."""
        if self.program.headers[header].metadata:
            return "1"
        return f"p->v{self.header_index[header]}"

    def offset(self, header: str) -> str:
        return f"p->o{self.header_index[header]}"

    def field(self, ref: FieldRef) -> str:
        """C lvalue of a live field."""
        if ref.field == "$valid$":
            return self.valid(ref.header)
        header = self.program.headers[ref.header]
        place = "p->m." if header.metadata else "p->"
        return f"{place}h{self.header_index[ref.header]}_f{header.type.index(ref.field)}"

    def live_fields(self, header: str) -> list[FieldRef]:
        fields = self.program.headers[header].type.fields
        return [r for r in (FieldRef(header, f.name) for f in fields) if self.is_live(r)]

    def bit_offset(self, ref: FieldRef) -> int:
        header_type = self.program.headers[ref.header].type
        return sum(f.width for f in header_type.fields[: header_type.index(ref.field)])

    def packed_headers(self) -> list[str]:
        return [h.name for h in self.program.headers.values() if not h.metadata]

    def metadata(self) -> list[str]:
        return [h.name for h in self.program.headers.values() if h.metadata]

    # --- the struct

    def emit_struct(self, out: Emitter) -> None:
        """`struct phv`: metadata first (reset with each packet's metadata), then headers."""
        with out.block("struct phv_meta", ";"):
            # Wide members first, so that the compiler need not pad.
            refs = [r for name in self.metadata() for r in self.live_fields(name)]
            refs.sort(key=lambda r: -min(self.program.field_type(r).width, 129))
            for ref in refs:
                width = self.program.field_type(ref).width
                name = self.field(ref).removeprefix("p->m.")
                out.line(f"{declare(width, name)}; {comment(f'{ref.header}.{ref.field} : {width}')}")
            out.line("uint8_t unused;")
        with out.block("struct phv", ";"):
            out.line("struct phv_meta m;")
            for name in self.packed_headers():
                for ref in self.live_fields(name):
                    width = self.program.field_type(ref).width
                    cname = self.field(ref).removeprefix("p->")
                    out.line(f"{declare(width, cname)}; {comment(f'{ref.header}.{ref.field} : {width}')}")
            for name in self.packed_headers():
                out.line(f"uint16_t o{self.header_index[name]}; {comment(f'{name}: offset in the frame')}")
            for name in self.packed_headers():
                out.line(f"uint8_t v{self.header_index[name]}; {comment(f'{name}: valid')}")
            for name, index in self.stack_index.items():
                out.line(f"uint8_t s{index}_next; {comment(f'{name}: elements extracted')}")
            out.line("uint8_t unused;")
