# SPDX-License-Identifier: Apache-2.0
"""Controls as graphs of tables and conditionals.

The graph is built from its end: every statement is given the node that follows it. Statements that are
neither tables nor branches go, in runs, into hidden actions of hidden tables, as p4c does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import ir
from ..ast import Annotation
from ..diag import fail
from ..mid.flat import FlatControl
from ..mid.tree import walk_stmts
from ..source import Span
from .actions import source_info
from .layout import Json
from .tables import TableEmitter

if TYPE_CHECKING:
    from .bmv2 import Emitter

#: Name of the node that follows; None is the end of the pipeline.
Node = str | None


def action_able(s: ir.Stmt) -> bool:
    """Can `s` go into an action as it is: no tables, no branch of the control, no jump out?"""
    if isinstance(s, (ir.Assign, ir.Exit)):
        return True
    if isinstance(s, ir.CallStmt):
        return not isinstance(s.call.target, (ir.ApplyTable, ir.CallAction))
    if isinstance(s, (ir.Scope, ir.For)):
        return _self_contained(s)
    if isinstance(s, ir.Block):
        return all(action_able(x) for x in s.items)
    return False


def _self_contained(s: ir.Stmt) -> bool:
    inside = {x.label for x in walk_stmts(s) if isinstance(x, ir.Scope)}
    for x in walk_stmts(s):
        if isinstance(x, ir.Leave) and x.label not in inside:
            return False
        if isinstance(x, ir.CallStmt) and isinstance(x.call.target, (ir.ApplyTable, ir.CallAction)):
            return False
        if isinstance(x, (ir.If, ir.Switch)) and isinstance(
            x.cond if isinstance(x, ir.If) else x.expr, ir.ApplyResult
        ):
            return False
    return True


class PipelineEmitter:
    """One pipeline of the JSON."""

    def __init__(self, top: Emitter, control: FlatControl) -> None:
        self.top = top
        self.control = control
        self.tables = TableEmitter(top)
        self.nodes: dict[ir.Table, Json] = {}
        self.hidden: list[Json] = []
        self.conditionals: list[Json] = []
        self.labels: dict[int, Node] = {}

    def emit(self) -> Json:
        init = self.seq(self.control.body, None)
        declared = [self.nodes[t] for t in self.control.tables if t in self.nodes]
        return {
            "name": self.control.name,
            "id": 0 if self.control.name == "ingress" else 1,
            "source_info": source_info(self.control.decl.span),
            "init_table": init,
            "tables": declared + self.hidden[::-1],
            "action_profiles": self.tables.profiles,
            "conditionals": self.conditionals[::-1],
        }

    # -- statements, last first ----------------------------------------------------------------

    def seq(self, stmts: Sequence[ir.Stmt], after: Node) -> Node:
        """First node of `stmts`, which go on to `after`."""
        groups: list[list[ir.Stmt]] = []
        joined = False
        for s in _flat(stmts):
            if action_able(s):
                if joined:
                    groups[-1].append(s)
                else:
                    groups.append([s])
                joined = not (isinstance(s, ir.Exit))
            else:
                groups.append([s])
                joined = False
            if isinstance(s, (ir.Exit, ir.Leave)):
                break
        node = after
        for group in reversed(groups):
            first = group[0]
            node = self._hidden_action(group, node) if action_able(first) else self._node(first, node)
        return node

    def _node(self, s: ir.Stmt, after: Node) -> Node:
        if isinstance(s, ir.If):
            return self._if(s, after)
        if isinstance(s, ir.CallStmt):
            target = s.call.target
            if isinstance(target, ir.ApplyTable):
                return self._table(target.table, {}, after, s.span)
            assert isinstance(target, ir.CallAction)
            return self._action_node(target.action, s.span, after)
        if isinstance(s, ir.Switch):
            return self._switch(s, after)
        if isinstance(s, ir.Scope):
            self.labels[s.label] = after
            return self.seq((s.body,), after)
        if isinstance(s, ir.Leave):
            return self.labels[s.label]
        if isinstance(s, ir.For):
            raise fail(
                "E040",
                "a loop that applies tables or calls actions must have bounds known at compile time",
                s.span,
            )
        raise fail("E040", "this statement is not supported in a control", s.span)

    def _if(self, s: ir.If, after: Node) -> Node:
        yes = self.seq((s.then,), after)
        no = after if s.other is None else self.seq((s.other,), after)
        if isinstance(s.cond, ir.ApplyResult):
            target = s.cond.call.target
            assert isinstance(target, ir.ApplyTable)
            if s.cond.member == "miss":
                yes, no = no, yes
            return self._table(target.table, {"__HIT__": yes, "__MISS__": no}, None, s.span)
        if yes == no:
            return yes
        name = self.top.fresh("node")
        self.conditionals.append(
            {
                "name": name,
                "id": self.top.next_conditional(),
                "source_info": source_info(s.cond.span),
                "expression": self.top.exprs.value(s.cond),
                "true_next": yes,
                "false_next": no,
            }
        )
        return name

    def _switch(self, s: ir.Switch, after: Node) -> Node:
        assert isinstance(s.expr, ir.ApplyResult)
        target = s.expr.call.target
        assert isinstance(target, ir.ApplyTable)
        next_by_action: dict[ir.Action, Node] = {}
        default = after
        for c in s.cases:
            node = after if c.body is None else self.seq(c.body.items, after)
            for a in c.actions:
                next_by_action[a] = node
            if c.default:
                default = node
        table = target.table
        nexts = {r.action.name: next_by_action.get(r.action, default) for r in table.actions}
        return self._table(table, nexts, after, s.span)

    def _table(self, table: ir.Table, nexts: dict[str, Node], after: Node, span: Span) -> Node:
        hit_miss = "__HIT__" in nexts
        if not nexts:
            nexts = {r.action.name: after for r in table.actions}
        base = None if hit_miss else after
        known = self.nodes.get(table)
        if known is not None:
            if known["next_tables"] != nexts or known["base_default_next"] != base:
                raise fail(
                    "E040",
                    f"table {table.name} is applied in several places that go on differently, which "
                    f"the target does not support",
                    span,
                    hint="declare a second table",
                )
            return table.name
        self.nodes[table] = self.tables.emit(table, nexts, base)
        return table.name

    # -- hidden actions ------------------------------------------------------------------------

    def _hidden_action(self, stmts: Sequence[ir.Stmt], after: Node) -> Node:
        if isinstance(stmts[-1], ir.Exit):
            after = None
        span = stmts[0].span.to(stmts[-1].span)
        name = self.top.fresh(_hidden_name(span))
        action = ir.Action(name, span, (Annotation(span, "hidden"),), (), ir.Block(span, tuple(stmts)))
        return self._action_node(action, span, after)

    def _action_node(self, action: ir.Action, span: Span, after: Node) -> Node:
        self.top.action_id(action)
        short = action.name.rsplit(".", 1)[-1]
        table = ir.Table(self.top.fresh(f"tbl_{short}"), span, (Annotation(span, "hidden"),))
        table.actions.append(ir.ActionRef(action, (), (), span))
        table.default = ir.ActionCall(action, (), span)
        table.default_const = True
        self.hidden.append(self.tables.emit(table, {action.name: after}, after))
        return table.name


def _flat(stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
    out: list[ir.Stmt] = []
    for s in stmts:
        if isinstance(s, ir.Block):
            out += _flat(s.items)
        else:
            out.append(s)
    return out


def _hidden_name(span: Span) -> str:
    stem = os.path.basename(span.file.name).split(".")[0]
    word = "".join(c for c in stem if c.isalnum() or c == "_").lstrip("0123456789_")
    if not word:
        return "act"
    return f"{word}{'l' if word[-1].isdigit() else ''}{span.line}"
