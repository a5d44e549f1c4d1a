# SPDX-License-Identifier: Apache-2.0
"""Which metadata must outlive ingress or egress: what a later part may read before it writes it."""

from __future__ import annotations

from collections.abc import Iterable

from target.bmjson.model import (
    Action,
    Argument,
    Const,
    FieldRef,
    HeaderRef,
    ObjectRef,
    Op,
    Pipeline,
    Primitive,
    Program,
    Text,
    Vector,
)
from target.codegen.bounds import Bounds
from target.codegen.order import edges, node_order
from target.codegen.usage import READS_FIRST_TOO, inputs, walk, written_argument

Fields = frozenset[tuple[str, str]]
"""(header, field) of metadata."""


class Liveness:
    """Backward data flow over a pipeline, which has no cycle, and within its actions, which may have some."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._transfers: dict[int, list[tuple[Fields, Fields]]] = {}

    def before_egress(self, after: Fields, set_at_start: Fields) -> Fields:
        return self._pipeline(self.program.egress, after) - set_at_start

    def before_deparser(self, after: Fields) -> Fields:
        live = set(after)
        for call in reversed(self.program.deparser_primitives):
            reads, writes = self._primitive(call, Bounds(self.program))
            live = (live - writes) | reads
        for check in self.program.checksums:
            if check.update:
                live |= self._refs(walk(check.condition))
                live |= self._refs(inputs(self.program, self.program.calculations[check.calculation]))
        return frozenset(live)

    def written(self, pipeline: Pipeline) -> Fields:
        """What a pipeline may write."""
        ids = {call.action_id for call in pipeline.action_calls.values()}
        for table in pipeline.tables.values():
            ids.update(table.action_ids)
            if table.default is not None:
                ids.add(table.default[0])
        meters = [self.program.meters[t.meter] for t in pipeline.tables.values() if t.meter is not None]
        targets = self._refs(meter.target for meter in meters)
        result: set[tuple[str, str]] = set()
        for action_id in ids:
            result |= self._writes(self.program.actions[action_id])
        return frozenset(result) | targets

    # --- one primitive

    def _refs(self, exprs: Iterable[object]) -> Fields:
        headers = self.program.headers
        return frozenset(
            (e.header, e.field) for e in exprs if isinstance(e, FieldRef) and headers[e.header].metadata
        )

    def _whole(self, arg: Argument) -> Fields:
        """All fields, where the argument is a struct of metadata."""
        if not isinstance(arg, HeaderRef) or not self.program.headers[arg.name].metadata:
            return frozenset()
        return frozenset((arg.name, f.name) for f in self.program.headers[arg.name].type.fields)

    def _access(self, arg: Argument) -> Fields:
        """The field that `access_field` denotes."""
        if not isinstance(arg, Op) or arg.op != "access_field" or not isinstance(arg.right, Const):
            return frozenset()
        if not isinstance(arg.left, HeaderRef) or not self.program.headers[arg.left.name].metadata:
            return frozenset()
        fields = self.program.headers[arg.left.name].type.fields
        return frozenset((arg.left.name, f.name) for f in fields[arg.right.value : arg.right.value + 1])

    def _reads(self, arg: Argument) -> Fields:
        found = self._refs(walk(arg))
        for expr in walk(arg):
            found |= self._access(expr) | self._whole(expr)
        if isinstance(arg, ObjectRef) and arg.kind == "calculation":
            found |= self._refs(inputs(self.program, self.program.calculations[arg.name]))
        return found

    def _surely_writes(self, call: Primitive, bounds: Bounds) -> bool:
        """An index beyond the register, or an empty range, leaves the field as it is."""
        if call.op == "register_read" and len(call.args) == 3:
            register, index = call.args[1:]
            if isinstance(register, ObjectRef) and not isinstance(index, ObjectRef | Text | Vector):
                return bounds.is_below(index, self.program.registers[register.name].size)
        if call.op == "execute_meter" and len(call.args) == 3:
            meter, index = call.args[:2]
            if isinstance(meter, ObjectRef) and not isinstance(index, ObjectRef | Text | Vector):
                return bounds.is_below(index, self.program.meters[meter.name].size)
        return call.op not in ("register_read", "modify_field_rng_uniform", "execute_meter")

    def _primitive(self, call: Primitive, bounds: Bounds) -> tuple[Fields, Fields]:
        """What it may read, what it surely writes."""
        args = list(call.args)
        writes: Fields = frozenset()
        reads: Fields = frozenset()
        place = written_argument(call)
        if place is not None:
            dest = args[place]
            if isinstance(dest, FieldRef | Op):
                writes = self._refs([dest]) | self._access(dest)
            if not self._surely_writes(call, bounds):
                reads |= writes
            if call.op not in READS_FIRST_TOO:
                del args[place]
        elif call.op == "assign_header" and len(args) == 2:
            writes = self._whole(args[0])
            args = args[1:]
        elif call.op in ("drop", "mark_to_drop"):
            names = ("standard_metadata.egress_spec", "intrinsic_metadata.mcast_grp")
            return reads, self._refs([self.program.standard(name) for name in names])
        for arg in args:
            reads |= self._reads(arg)
        return reads, writes

    # --- actions

    def _writes(self, action: Action) -> Fields:
        bounds = Bounds(self.program, action.params, action.place)
        return frozenset().union(*(self._primitive(call, bounds)[1] for call in action.primitives))

    def _action(self, action: Action, after: Fields, at_exit: Fields) -> Fields:
        """What is live before an action. `at_exit`: what is live at the pipeline's end, if it exits."""
        calls = action.primitives
        if action.id not in self._transfers:
            bounds = Bounds(self.program, action.params, action.place)
            self._transfers[action.id] = [self._primitive(call, bounds) for call in calls]
        transfers = self._transfers[action.id]
        if any(call.op == "exit" for call in calls):
            after |= at_exit
        live = [frozenset[tuple[str, str]]()] * len(calls) + [after]
        changed = True
        while changed:
            changed = False
            for i in reversed(range(len(calls))):
                call = calls[i]
                out = live[i + 1]
                if call.op in ("_jump", "_jump_if_zero"):
                    target = call.args[-1]
                    there = live[target.value] if isinstance(target, Const) else after
                    out = there if call.op == "_jump" else out | there
                reads, writes = transfers[i]
                found = (out - writes) | reads
                if found != live[i]:
                    live[i] = found
                    changed = True
        return live[0]

    # --- pipelines

    def _pipeline(self, pipeline: Pipeline, end: Fields) -> Fields:
        before: dict[str | None, Fields] = {None: end}
        for name in reversed(node_order(pipeline)):
            if name in pipeline.conditionals:
                reads = self._reads(pipeline.conditionals[name].condition)
                before[name] = reads.union(*(before[t] for t in edges(pipeline, name)))
            elif name in pipeline.action_calls:
                call = pipeline.action_calls[name]
                before[name] = self._action(self.program.actions[call.action_id], before[call.next], end)
            else:
                before[name] = self._table(pipeline, name, before, end)
        return before[pipeline.init]

    def _table(self, pipeline: Pipeline, name: str, before: dict[str | None, Fields], end: Fields) -> Fields:
        table = pipeline.tables[name]
        # A table without a default action may run none.
        live: Fields = frozenset().union(*(before[t] for t in edges(pipeline, name)))
        if table.default is not None and table.profile is None:  # an empty group runs no action
            live = frozenset()
        ids = {*table.action_ids, *([table.default[0]] if table.default is not None else [])}
        for action_id in ids:
            action = self.program.actions[action_id]
            if table.hit_miss is not None:
                after = before[table.hit_miss[0]] | before[table.hit_miss[1]]
            else:
                after = before[table.next.get(action_id, table.default_next)]
            live |= self._action(action, after, end)
        for key in table.key:
            live |= self._reads(key.target)
        calculation = None if table.profile is None else self.program.profiles[table.profile].calculation
        if calculation is not None:
            live |= self._refs(inputs(self.program, self.program.calculations[calculation]))
        return live
