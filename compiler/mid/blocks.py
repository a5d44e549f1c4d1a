# SPDX-License-Identifier: Apache-2.0
"""Flattening of controls: sub-controls, tables, actions and extern instances get their final form."""

from __future__ import annotations

from collections.abc import Sequence

from .. import annos as an
from .. import ir
from ..diag import Diagnostics, fail
from ..source import Span
from ..types import BlockType, ExternType
from .flat import FlatControl
from .inline import Frame, Inliner, Names, invalidate, qualified, scoped
from .tree import walk_stmts

#: A declaration, or the list of what an instance declares.
_Ordered = ir.Decl | list["_Ordered"]


class ControlFlattener(Inliner):
    """Flattens one control after another; `externs` collects the instances of all of them."""

    def __init__(self, diags: Diagnostics, names: Names) -> None:
        super().__init__(diags, names)
        self.externs: list[ir.Instance] = []
        self.current: FlatControl | None = None
        self._action_frames: dict[ir.Action, Frame] = {}
        self._shared: dict[ir.Action, ir.Action] = {}
        self._table_frames: dict[ir.Table, tuple[ir.Table, Frame]] = {}
        self._tables_done: dict[ir.Table, list[tuple[ir.Var, ir.Expr]]] = {}
        self._sub_frames: dict[ir.Instance, Frame] = {}
        self._applies: dict[ir.Instance, int] = {}
        self._posts: list[list[ir.Stmt]] = []
        self._top_order: list[_Ordered] = []
        #: What the control at hand declares, in order; the list of a sub-control stands where its
        #: instance is declared.
        self._order: list[_Ordered] = []
        self._lists: dict[ir.Instance, list[_Ordered]] = {}
        self._used: set[ir.Decl] = set()

    # -- blocks --------------------------------------------------------------------------------

    def control(self, name: str, inst: ir.Instance, args: list[ir.Expr]) -> FlatControl:
        """Flat form of the control `inst`, with `args` for its parameters."""
        decl = inst.ctor
        assert isinstance(decl, ir.Control)
        flat = FlatControl(name, decl)
        self.current = flat
        top: list[_Ordered] = []
        self._order = top
        self._top_order = top
        frame = Frame(decl.name)
        for p, a in zip(decl.params, args, strict=True):
            frame.env[p] = a
        frame.ret_label = self.label()
        self.frame = frame
        self.out = []
        self.bind_constructor(frame, decl.cparams, inst.args)
        self._locals(frame, decl)
        assert decl.body is not None
        body = ir.Block(decl.body.span, (*self.out, *self.captured(decl.body.items).items))
        flat.body = tuple(scoped(frame.ret_label, body))
        self.out = []
        declared = _flatten(top)
        flat.tables = [d for d in declared if isinstance(d, ir.Table) and d in self._used]
        flat.actions = self._ordered_actions(declared)
        self.externs += [d for d in declared if isinstance(d, ir.Instance)]
        return flat

    def _ordered_actions(self, declared: list[ir.Decl]) -> list[ir.Action]:
        """Actions in use: global ones first, then in order of declaration."""
        used = [d for d in declared if isinstance(d, ir.Action) and d in self._used]
        return [a for a in used if a in self._globals()] + [a for a in used if a not in self._globals()]

    def _globals(self) -> set[ir.Action]:
        return set(self._shared.values())

    def _locals(self, frame: Frame, decl: ir.Control) -> None:
        """Declare what is local to `decl`; initial values go to `out`."""
        if decl.body is not None:
            self._count_applies(decl)
        for d in decl.locals:
            if isinstance(d, ir.VarSym):
                v = self.new_var(d.name, d.type, d.span)
                ref = ir.Var(d.span, v.type, v)
                if d.value is not None:
                    self.out.append(ir.Assign(d.span, ref, self.expr(d.value)))
                else:
                    self.out += invalidate(ref, v.type, d.span)
                frame.env[d] = ref
            elif isinstance(d, ir.Instance):
                self._local_instance(frame, d)
            elif isinstance(d, ir.Action):
                self._action_frames[d] = frame
                shell = ir.Action(qualified(frame.path, d), d.span, d.annos, ())
                frame.actions[d] = shell
                self._action_frames[shell] = frame
                self._order.append(shell)
            elif isinstance(d, ir.Table):
                table = ir.Table(qualified(frame.path, d), d.span, d.annos)
                frame.tables[d] = table
                self._table_frames[table] = (d, frame)
                self._order.append(table)

    def _count_applies(self, decl: ir.Control) -> None:
        assert decl.body is not None
        for s in walk_stmts(decl.body):
            if isinstance(s, ir.CallStmt) and isinstance(s.call.target, ir.ApplyBlock):
                inst = s.call.target.inst
                self._applies[inst] = self._applies.get(inst, 0) + 1

    def _local_instance(self, frame: Frame, d: ir.Instance) -> None:
        made = self.extern_instance(frame, d)
        frame.instances[d] = made
        if isinstance(made.type, BlockType):
            self._applies[made] = self._applies.get(d, 0)
            self._lists[made] = []
            self._order.append(self._lists[made])

    def extern_instance(self, frame: Frame, d: ir.Instance, name: str | None = None) -> ir.Instance:
        """Instance with its control-plane name and constant arguments; externs are collected."""
        outer, self.frame = self.frame, frame
        args = tuple(None if a is None else self._const_arg(a) for a in d.args)
        self.frame = outer
        made = ir.Instance(
            qualified(frame.path, d) if name is None else name,
            d.span,
            d.annos,
            d.type,
            d.ctor,
            args,
            d.functions,
            d.used,
        )
        if isinstance(made.type, ExternType):
            self._order.append(made)
        return made

    def bind_constructor(
        self, frame: Frame, params: Sequence[ir.VarSym], args: Sequence[ir.Expr | None]
    ) -> None:
        """Give constructor parameters their values; an instance made in the argument belongs to `frame`."""
        for p, a in zip(params, args, strict=True):
            if a is None:
                continue
            if isinstance(a, ir.Call) and isinstance(a.target, ir.Construct):
                inst = a.target.inst
                named = ir.Instance(p.name, inst.span, inst.annos, inst.type, inst.ctor, inst.args)
                made = self.extern_instance(frame, named)
                if isinstance(made.type, BlockType):
                    self._lists[made] = []
                    self._order.append(self._lists[made])
                    self._applies[made] = 2  # not counted: parameters are copied
                a = ir.InstanceRef(a.span, made.type, made)
            frame.env[p] = a

    def _const_arg(self, a: ir.Expr) -> ir.Expr:
        if isinstance(a, ir.Call) and isinstance(a.target, ir.Construct):
            return a
        return self.expr(a)

    def apply_block(self, call: ir.Call, inst: ir.Instance) -> None:
        known = self.frame.instances.get(inst) or (inst if inst in self._lists else None)
        if known is None:  # applied by its type's name: an instance of its own
            self._local_instance(self.frame, inst)
            known = self.frame.instances[inst]
            self._applies[known] = 1
        decl = known.ctor
        assert isinstance(decl, ir.Control)
        self.enter(decl, f"control {decl.name}", call.span)
        args = [None if a is None else self.expr(a) for a in call.args]
        frame = self._sub_frames.get(known)
        once = self._applies.get(known, 1) <= 1
        if frame is None:
            frame = Frame(known.name)
            self.bind_constructor(frame, decl.cparams, known.args)
            self._sub_frames[known] = frame
            first = True
        else:
            first = False
        post = (
            self.bind(frame, decl.params, args, call.span, isolated=True)
            if once or (first and once)
            else self._rebind(frame, decl, args, call.span, first)
        )
        outer, self.frame = self.frame, frame
        order, self._order = self._order, self._lists[known]
        if first:
            self._locals(frame, decl)
        frame.ret_label = self.label()
        assert decl.body is not None
        body = self.captured(decl.body.items)
        self.frame, self._order = outer, order
        self.out += scoped(frame.ret_label, body)
        self.out += post
        self.leave()

    def _rebind(
        self, frame: Frame, decl: ir.Control, args: list[ir.Expr | None], span: Span, first: bool
    ) -> list[ir.Stmt]:
        """Parameters of a control applied several times are variables, copied in and out each time."""
        post: list[ir.Stmt] = []
        for p, a in zip(decl.params, args, strict=True):
            if a is not None and isinstance(a.type, ExternType):
                frame.env[p] = a
                continue
            if first:
                v = ir.VarSym(self.names.fresh(f"{frame.path}.{p.name}"), p.span, (), p.type)
                frame.env[p] = ir.Var(span, p.type, v)
            ref = frame.env[p]
            if a is None or p.direction == "out":
                self.out += invalidate(ref, p.type, span)
            if a is not None:
                a = self._stable(a)
                if p.direction != "out":
                    self.out.append(ir.Assign(span, ref, a))
                if p.direction in ("out", "inout"):
                    post.append(ir.Assign(span, a, ref))
        return post

    # -- actions -------------------------------------------------------------------------------

    def _resolve_action(self, a: ir.Action) -> ir.Action:
        """Flat shell of `a` as seen from the current frame."""
        shell = self.frame.actions.get(a)
        if shell is not None:
            return shell
        shell = self._shared.get(a)
        if shell is None:
            name = an.external_name(a.name, a.annos)
            shell = ir.Action(name.removeprefix("."), a.span, a.annos, ())
            self._shared[a] = shell
            self._action_frames[shell] = Frame("")
        if not any(x is shell for x in self._top_order):
            self._top_order.append(shell)
        return shell

    def use_action(self, a: ir.Action) -> ir.Action:
        """Flat action for the control plane: parameters without direction stay."""
        shell = self._resolve_action(a)
        self._used.add(shell)
        if shell.body is None:
            params = tuple(
                ir.VarSym(an.external_name(p.name, p.annos), p.span, p.annos, p.type, "action_param")
                for p in a.params
                if not p.direction
            )
            shell.params = params
            self._action_body(
                shell, a, [], dict(zip((p for p in a.params if not p.direction), params, strict=True))
            )
        return shell

    def _action_body(
        self,
        flat: ir.Action,
        a: ir.Action,
        args: list[tuple[ir.VarSym, ir.Expr | None]],
        plain: dict[ir.VarSym, ir.VarSym],
    ) -> None:
        """Inline the body of `a` into `flat`; `args` are bound inside it, `plain` stay parameters."""
        self.enter(a, f"action {a.name}", a.span)
        flat.body = ir.Block(a.span, ())
        home = self._action_frames[self._resolve_action(a)]
        inner = Frame(f"{home.path}.{a.name}" if home.path else a.name, home)
        for p, q in plain.items():
            inner.env[p] = ir.Var(q.span, q.type, q)
        inner.ret_label = self.label()
        outer, self.frame = self.frame, inner
        saved, self.out = self.out, []
        was, self.in_action = self.in_action, True
        post = self.bind(
            inner,
            [p for p, _ in args],
            [x for _, x in args],
            a.span,
            isolated=False,
            inert=not (a.body and a.body.items),
        )
        self._posts.append(post)
        assert a.body is not None
        body = self.captured(a.body.items)
        self._posts.pop()
        items = (*self.out, *scoped(inner.ret_label, body), *post)
        flat.body = ir.Block(a.span, items)
        self.frame, self.out, self.in_action = outer, saved, was
        self.leave()

    def specialized(self, a: ir.Action, args: list[ir.Expr | None], params: list[ir.VarSym]) -> ir.Action:
        """Copy of `a` with `args` bound to `params`; what is left over stays a parameter."""
        shell = self._resolve_action(a)
        rest = [p for p in a.params if p not in params]
        flat = ir.Action(shell.name, a.span, a.annos, ())
        plain = {
            p: ir.VarSym(an.external_name(p.name, p.annos), p.span, p.annos, p.type, "action_param")
            for p in rest
        }
        flat.params = tuple(plain.values())
        self._action_frames[flat] = self._action_frames[shell]
        home = _list_with(self._top_order, shell)
        home.insert(next(i for i, x in enumerate(home) if x is shell) + 1, flat)
        self._used.add(flat)
        self._action_body(flat, a, list(zip(params, args, strict=True)), plain)
        return flat

    def action_call(self, s: ir.CallStmt, action: ir.Action) -> None:
        args = [None if x is None else self.expr(x) for x in s.call.args]
        if self.in_action:
            self._inline_action(s, action, args)
            return
        flat = (
            self.specialized(action, args, list(action.params)) if action.params else self.use_action(action)
        )
        self.out.append(ir.CallStmt(s.span, ir.Call(s.call.span, s.call.type, ir.CallAction(flat), ())))

    def _inline_action(self, s: ir.CallStmt, a: ir.Action, args: list[ir.Expr | None]) -> None:
        self.enter(a, f"action {a.name}", s.span)
        home = self._action_frames[self._resolve_action(a)]
        inner = Frame(f"{home.path}.{a.name}" if home.path else a.name, home)
        post = self.bind(inner, a.params, args, s.span, isolated=False, inert=not (a.body and a.body.items))
        inner.ret_label = self.label()
        outer, self.frame = self.frame, inner
        self._posts.append(post)
        assert a.body is not None
        body = self.captured(a.body.items)
        self._posts.pop()
        self.frame = outer
        self.out += scoped(inner.ret_label, body)
        self.out += post
        self.leave()

    def stmt(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Exit):
            for post in reversed(self._posts):
                self.out += post
        super().stmt(s)

    # -- tables --------------------------------------------------------------------------------

    def apply_table(self, call: ir.Call) -> ir.Call:
        assert isinstance(call.target, ir.ApplyTable)
        table = self.frame.tables.get(call.target.table)
        if table is None:
            raise fail("E040", f"table {call.target.table.name} is not part of this control", call.span)
        if table not in self._tables_done:
            self._used.add(table)
            self._table(table)
        for ref, e in self._tables_done[table]:
            self.out.append(ir.Assign(e.span, ref, e))
        return ir.Call(call.span, call.type, ir.ApplyTable(table), ())

    def table_actions(self, call: ir.Call) -> dict[ir.Action, ir.Action]:
        assert isinstance(call.target, ir.ApplyTable)
        table = call.target.table
        decl, _ = self._table_frames[table]
        return {d.action: f.action for d, f in zip(decl.actions, table.actions, strict=True)}

    def _table(self, table: ir.Table) -> None:
        decl, frame = self._table_frames[table]
        outer, self.frame = self.frame, frame
        temps: list[tuple[ir.Var, ir.Expr]] = []
        for k in decl.keys:
            e = self.expr(k.expr)
            if not simple_key(e):
                ref = ir.Var(e.span, e.type, self.new_var("key", e.type, e.span))
                temps.append((ref, e))
                e = ref
            table.keys.append(ir.Key(e, k.match_kind, k.name, k.annos, k.span))
        flat_of: dict[ir.Action, ir.Action] = {}
        for r in decl.actions:
            bound = [p for p in r.action.params if p.direction]
            flat = (
                self.use_action(r.action)
                if not bound
                else self.specialized(r.action, [None if a is None else self.expr(a) for a in r.args], bound)
            )
            flat_of[r.action] = flat
            table.actions.append(ir.ActionRef(flat, (), r.annos, r.span))
        if decl.default is not None:
            d = decl.default
            table.default = ir.ActionCall(flat_of[d.action], tuple(self._opt(a) for a in d.args), d.span)
        table.default_const = decl.default_const
        if decl.entries is not None:
            table.entries = [
                ir.Entry(
                    tuple(self.expr(k) for k in e.keys),
                    ir.ActionCall(
                        flat_of[e.call.action], tuple(self._opt(a) for a in e.call.args), e.call.span
                    ),
                    e.priority,
                    e.const,
                    e.annos,
                    e.span,
                )
                for e in decl.entries
            ]
        table.entries_const = decl.entries_const
        table.size = decl.size
        for name, p in decl.props.items():
            table.props[name] = ir.Property(name, self._property(frame, table, p), p.annos, p.span, p.const)
        self._tables_done[table] = temps
        self.frame = outer

    def _opt(self, a: ir.Expr | None) -> ir.Expr | None:
        return None if a is None else self.expr(a)

    def _property(self, frame: Frame, table: ir.Table, p: ir.Property) -> ir.Expr:
        e = p.value
        if isinstance(e, ir.Call) and isinstance(e.target, ir.Construct):
            anno = an.find(p.annos, "name")
            inst = e.target.inst
            name = (
                an.string_arg(anno)
                if anno is not None
                else self.names.fresh("action_profile" if p.name == "implementation" else p.name)
            )
            # As in p4c, the name of an instance made in a property has no path before it.
            made = self.extern_instance(
                frame,
                ir.Instance(name, inst.span, p.annos, inst.type, inst.ctor, inst.args),
                name.removeprefix("."),
            )
            return ir.InstanceRef(e.span, e.type, made)
        return self.expr(e)


def _flatten(items: Sequence[_Ordered]) -> list[ir.Decl]:
    out: list[ir.Decl] = []
    for x in items:
        if isinstance(x, list):
            out += _flatten(x)
        else:
            out.append(x)
    return out


def _list_with(items: list[_Ordered], d: ir.Decl) -> list[_Ordered]:
    """The list, at any depth, that holds `d` itself."""
    if any(x is d for x in items):
        return items
    for x in items:
        if isinstance(x, list):
            found = _list_with(x, d)
            if found is not items and found:
                return found
    return items if any(x is d for x in items) else []


def simple_key(e: ir.Expr) -> bool:
    """Can the target match on `e` directly: a field, or the validity of a header?"""
    if isinstance(e, ir.Call) and isinstance(e.target, ir.Builtin) and e.target.name == "isValid":
        return _static_path(e.target.base) and getattr(e.target.base.type, "kind", "") == "header"
    return (
        isinstance(e, (ir.Field, ir.Var))
        and _static_path(e)
        and not (isinstance(e, ir.Var) and e.sym.kind == "action_param")
    )


def _static_path(e: ir.Expr) -> bool:
    while isinstance(e, (ir.Field, ir.Index)):
        if isinstance(e, ir.Index) and not isinstance(e.index, ir.Lit):
            return False
        e = e.base
    return isinstance(e, ir.Var)
