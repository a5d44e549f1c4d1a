# SPDX-License-Identifier: Apache-2.0
"""What a program does with its fields: which it reads and which it writes, anywhere in it."""

from __future__ import annotations

from collections.abc import Iterator

from target.bmjson.model import (
    Advance,
    Argument,
    Calculation,
    Const,
    Expr,
    Extract,
    FieldRef,
    HeaderRef,
    HeaderType,
    ObjectRef,
    Op,
    ParserOp,
    Pipeline,
    Primitive,
    Program,
    RegisterRef,
    SetField,
    StackField,
    StackRef,
    Text,
    UnionRef,
    UnionStackRef,
    Vector,
    Verify,
)

# Fields that the engine itself reads after a control, by the target's own names.
ENGINE_READS = (
    "standard_metadata.egress_spec",
    "intrinsic_metadata.mcast_grp",
    "intrinsic_metadata.priority",
)

# Standard metadata that each egress starts with: the field, its value in C.
EGRESS_STARTS = {
    "standard_metadata.instance_type": "pkt->instance_type",
    "standard_metadata.egress_port": "pkt->egress_port",
    "standard_metadata.egress_spec": "st->drop_port + 1",
    "standard_metadata.packet_length": "pkt->length",
    "intrinsic_metadata.egress_global_timestamp": "st->now_ns / 1000",
    "queueing_metadata.enq_timestamp": "pkt->enq_ns / 1000",
    "queueing_metadata.enq_qdepth": "pkt->enq_depth",
    "queueing_metadata.deq_timedelta": "st->now_ns / 1000 - pkt->enq_ns / 1000",
    "queueing_metadata.deq_qdepth": "pkt->deq_depth",
    "queueing_metadata.qid": "pkt->priority",
}
EGRESS_RID = "intrinsic_metadata.egress_rid"
"""Of replicas alone; others keep what ingress left."""

WRITES_FIRST = {
    "assign", "modify_field", "assign_VL", "register_read", "modify_field_with_hash_based_offset",
    "modify_field_rng_uniform", "add_to_field", "subtract_from_field", "add", "subtract", "bit_and", "bit_or",
    "bit_xor", "shift_left", "shift_right",
}  # fmt: skip
READS_FIRST_TOO = {"add_to_field", "subtract_from_field"}


def written_argument(call: Primitive) -> int | None:
    """Which argument a primitive writes to, if it is one that does."""
    place = 2 if call.op == "execute_meter" else 0 if call.op in WRITES_FIRST else None
    return place if place is not None and place < len(call.args) else None


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


Choice = tuple[Expr | None, tuple[str, ...]]
"""What an expression may denote: names, and the index that chooses one of them; None: there is one only."""


def union_choice(program: Program, expr: Expr | None) -> Choice | None:
    """The unions that an expression may denote; None: it denotes no union."""
    if isinstance(expr, UnionRef):
        return None, (expr.name,)
    if isinstance(expr, Op) and expr.op == "dereference_union_stack" and isinstance(expr.left, UnionStackRef):
        return expr.right, program.union_stacks[expr.left.name].unions
    return None


def header_choice(program: Program, expr: Expr | None) -> Choice | None:
    """The headers that an expression may denote; None: it denotes no header."""
    if isinstance(expr, HeaderRef):
        return None, (expr.name,)
    if not isinstance(expr, Op):
        return None
    if expr.op == "dereference_header_stack" and isinstance(expr.left, StackRef):
        return expr.right, program.stacks[expr.left.name].headers
    if expr.op == "access_union_header" and isinstance(expr.right, Const):
        found, member = union_choice(program, expr.left), expr.right.value
        if found is not None and member < len(program.unions[found[1][0]].headers):
            return found[0], tuple(program.unions[name].headers[member] for name in found[1])
    return None


def header_type(program: Program, expr: Expr | None) -> HeaderType | None:
    """Header type of an expression that denotes a header."""
    found = header_choice(program, expr)
    return program.headers[found[1][0]].type if found is not None else None


def primitives(program: Program) -> Iterator[Primitive]:
    """Every primitive that can be called: those of actions, of the parser and of the deparser."""
    for action in program.actions.values():
        yield from action.primitives
    for state in program.parser.states.values():
        for op in state.ops:
            if isinstance(op, Primitive):
                yield op
    yield from program.deparser_primitives


class Usage:
    """Fields of a whole program that are read and written.

    Header instances of one type share a verdict: they may be assigned to one another.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ops = {call.op for call in primitives(program)}
        self.read: set[tuple[str, str]] = set()
        self.written: set[tuple[str, str]] = set()
        self._collect()

    def key(self, header: str, field: str) -> tuple[str, str]:
        found = self.program.headers[header]
        return (f"instance {header}" if found.metadata else f"type {found.type.name}", field)

    def _mark(self, expr: Expr, into: set[tuple[str, str]]) -> None:
        if isinstance(expr, FieldRef):
            into.add(self.key(expr.header, expr.field))
        elif isinstance(expr, StackField):
            first = self.program.stack_headers(expr.stack, expr.member)[0]
            into.add((f"type {self.program.headers[first].type.name}", expr.field))
        elif isinstance(expr, Op) and expr.op == "access_field":
            found = header_type(self.program, expr.left)
            assert expr.right is not None
            index = getattr(expr.right, "value", 0)
            if found is not None and index < len(found.fields):
                into.add((f"type {found.name}", found.fields[index].name))
        elif isinstance(expr, Op) and expr.op in ("==", "!="):
            found = header_type(self.program, expr.left)
            kinds = [found] if found is not None else []
            union = union_choice(self.program, expr.left)
            if union is not None:
                kinds = [header for _, header in self.program.unions[union[1][0]].type.members]
            into.update((f"type {kind.name}", f.name) for kind in kinds for f in kind.fields)

    def _reads(self, arg: Argument | None) -> None:
        for expr in walk(arg):
            self._mark(expr, self.read)

    def _writes(self, arg: Argument) -> None:
        if isinstance(arg, ObjectRef | Text | Vector):
            return  # no field: what is emitted for the call refuses it, by its place
        self._mark(arg, self.written)
        if isinstance(arg, Op):
            for part in (arg.left, arg.right):
                for expr in walk(part):
                    if expr is not arg and isinstance(expr, FieldRef | StackField):
                        self._mark(expr, self.read)
        elif isinstance(arg, RegisterRef):
            self._reads(arg.index)

    def _primitive(self, call: Primitive) -> None:
        args = list(call.args)
        place = written_argument(call)
        if place is not None:
            self._writes(args[place])
            if call.op not in READS_FIRST_TOO:
                del args[place]
        for arg in args:
            self._reads(arg)

    def _parser_op(self, op: ParserOp) -> None:
        if isinstance(op, SetField):
            self._writes(op.dest)
            self._reads(op.source)
        elif isinstance(op, Verify):
            self._reads(op.condition)
            self._reads(op.error)
        elif isinstance(op, Advance):
            self._reads(op.bits)
        elif isinstance(op, Extract):
            self._reads(op.length)
        else:
            self._primitive(op)

    def _collect(self) -> None:
        program = self.program
        for state in program.parser.states.values():
            for part in state.key:
                self._reads(part)
            for op in state.ops:
                self._parser_op(op)
        for action in program.actions.values():
            for call in action.primitives:
                self._primitive(call)
        for call in program.deparser_primitives:
            self._primitive(call)
        for pipeline in (program.ingress, program.egress):
            self._pipeline(pipeline)
        for calc in program.calculations.values():
            self.read.update(self.key(ref.header, ref.field) for ref in inputs(program, calc))
        for checksum in program.checksums:
            self._reads(checksum.condition)
            self._reads(checksum.target)
            if checksum.update:
                self._writes(checksum.target)
        for fields in (*program.field_lists.values(), *program.learn_lists.values()):
            for ref in fields.fields:
                self._reads(ref)
        for name in ENGINE_READS:
            self._reads(program.standard(name))

    def _pipeline(self, pipeline: Pipeline) -> None:
        for table in pipeline.tables.values():
            for key in table.key:
                self._reads(key.target)
            target = self.program.meters[table.meter].target if table.meter is not None else None
            if target is not None:
                self._writes(target)
        for cond in pipeline.conditionals.values():
            self._reads(cond.condition)


def inputs(program: Program, calc: Calculation) -> Iterator[FieldRef]:
    """The fields that a calculation reads."""
    for item in calc.inputs:
        if isinstance(item.value, HeaderRef):
            header = program.headers[item.value.name]
            yield from (FieldRef(header.name, f.name) for f in header.type.fields)
        else:
            yield from (e for e in walk(item.value) if isinstance(e, FieldRef))
