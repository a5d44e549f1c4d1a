# SPDX-License-Identifier: Apache-2.0
"""Flattening of parsers: sub-parsers become states, ``if`` in a state becomes a transition."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ir
from ..diag import CompileError, fail
from ..source import Span
from ..types import BOOL, VOID
from .blocks import ControlFlattener
from .flat import FlatParser, FlatState
from .inline import Frame, invalidate, qualified


class ParserFlattener(ControlFlattener):
    """Flattens the parser; `states` receives the states of it and of its sub-parsers."""

    states: list[FlatState]
    vsets: list[ir.ValueSet]

    def parser(self, inst: ir.Instance, args: list[ir.Expr]) -> FlatParser:
        decl = inst.ctor
        assert isinstance(decl, ir.Parser)
        self.states, self.vsets = [], []
        self._order = []
        self._state_names: set[str] = {"accept", "reject"}
        self._markers: dict[ir.Instance, tuple[ir.Parser, Frame]] = {}
        frame = Frame(decl.name)
        for p, a in zip(decl.params, args, strict=True):
            frame.env[p] = a
        for p, c in zip(decl.cparams, inst.args, strict=True):
            if c is not None:
                frame.env[p] = c
        self._parser_states(decl, frame, "", "accept", "start")
        self.externs += [d for d in self._order if isinstance(d, ir.Instance)]
        return FlatParser("parser", decl, self.states, self.vsets)

    def _fresh_state(self, base: str) -> str:
        name, n = base, 0
        while name in self._state_names:
            n += 1
            name = f"{base}_{n}"
        self._state_names.add(name)
        return name

    def _parser_states(self, decl: ir.Parser, frame: Frame, prefix: str, accept: str, start: str) -> None:
        """Flatten the states of `decl`; its start state is called `start`, accept goes to `accept`."""
        outer, self.frame = self.frame, frame
        saved, self.out = self.out, []
        self._parser_locals(frame, decl)
        init, self.out = self.out, saved
        names = {"accept": accept, "reject": "reject"}
        reachable = _reachable(decl)
        looping = any(_targets(s) & {"start"} for s in decl.states)
        for s in decl.states:
            if s.name == "start" and not (init and looping):
                if start in self._state_names and prefix == "":
                    names[s.name] = self._fresh_state(start)
                else:
                    self._state_names.add(start)
                    names[s.name] = start
            else:
                names[s.name] = self._fresh_state(
                    prefix + s.name if s.name != "start" else prefix + "start_loop"
                )
        if init and looping:
            self._state_names.add(start)
            self.states.append(FlatState(start, decl.span, init, ir.Transition(decl.span, names["start"])))
            init = []
        for s in decl.states:
            if s.name not in reachable:
                continue
            try:
                self._state(s, names, init if s.name == "start" else [], prefix)
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
        self.frame = outer

    def _parser_locals(self, frame: Frame, decl: ir.Parser) -> None:
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
                made = self.extern_instance(frame, d)
                frame.instances[d] = made
            elif isinstance(d, ir.ValueSet):
                flat = ir.ValueSet(qualified(frame.path, d), d.span, d.annos, d.type, d.size)
                frame.vsets[d] = flat
                self.vsets.append(flat)

    # -- one state -----------------------------------------------------------------------------

    def _state(self, s: ir.State, names: dict[str, str], init: list[ir.Stmt], prefix: str) -> None:
        body = self.captured(s.body)
        t = s.transition
        assert t is not None
        saved, self.out = self.out, []
        if t.state is not None:
            final = ir.Transition(t.span, names[t.state])
        else:
            select = tuple(self._select_expr(e) for e in t.select)
            cases = tuple(
                ir.SelectCase(tuple(self.expr(k) for k in c.keys), names[c.state], c.span) for c in t.cases
            )
            final = ir.Transition(t.span, None, select, cases)
        before_select, self.out = self.out, saved
        self._split(names[s.name], [*init, *body.items, *before_select], final, s.span, {})

    def _select_expr(self, e: ir.Expr) -> ir.Expr:
        made = self.expr(e)
        if select_simple(made):
            return made
        return self.temp(made, "select")

    def _split(
        self, name: str, stmts: Sequence[ir.Stmt], final: ir.Transition, span: Span, labels: dict[int, str]
    ) -> None:
        """Emit state `name`: `stmts`, then `final`; control flow inside becomes states."""
        done: list[ir.Stmt] = []
        for i, s in enumerate(stmts):
            rest = stmts[i + 1 :]
            if isinstance(s, ir.Leave):
                final, rest = ir.Transition(s.span, labels[s.label]), ()
                break
            if isinstance(s, (ir.If, ir.Scope)) or _is_marker(s):
                after = self._after(name, rest, final, span, labels)
                self._branch(name, done, s, after, labels)
                return
            if isinstance(s, ir.Block):
                self._split(name, [*done, *s.items, *rest], final, span, labels)
                return
            done.append(s)
        self.states.append(FlatState(name, span, done, final))

    def _after(
        self, name: str, rest: Sequence[ir.Stmt], final: ir.Transition, span: Span, labels: dict[int, str]
    ) -> str:
        if not rest and final.state is not None:
            return final.state
        after = self._fresh_state(f"{name}_after")
        self._split(after, rest, final, span, labels)
        return after

    def _branch(self, name: str, done: list[ir.Stmt], s: ir.Stmt, after: str, labels: dict[int, str]) -> None:
        go = ir.Transition(s.span, after)
        if isinstance(s, ir.Scope):
            self._split(name, [*done, s.body], go, s.span, {**labels, s.label: after})
            return
        if isinstance(s, ir.CallStmt):
            assert isinstance(s.call.target, ir.ApplyBlock)
            inst = s.call.target.inst
            decl, frame = self._markers[inst]
            start = self._fresh_state(f"{inst.name.split('.')[-1]}_start")
            self.states.append(FlatState(name, s.span, done, ir.Transition(s.span, start)))
            self._state_names.discard(start)
            self._parser_states(decl, frame, f"{inst.name.split('.')[-1]}_", after, start)
            return
        assert isinstance(s, ir.If)
        cond = ir.VarSym(self.names.fresh(f"{name}.cond"), s.span, (), BOOL)
        ref = ir.Var(s.cond.span, BOOL, cond)
        done = [*done, ir.Assign(s.cond.span, ref, s.cond)]
        yes = self._fresh_state(f"{name}_true")
        no = self._fresh_state(f"{name}_false") if s.other is not None else after
        cases = (
            ir.SelectCase((ir.Lit(s.span, BOOL, True),), yes, s.span),
            ir.SelectCase((ir.AnyKey(s.span, BOOL),), no, s.span),
        )
        self.states.append(FlatState(name, s.span, done, ir.Transition(s.span, None, (ref,), cases)))
        self._split(yes, [s.then], go, s.span, labels)
        if s.other is not None:
            self._split(no, [s.other], go, s.span, labels)

    # -- sub-parsers ---------------------------------------------------------------------------

    def apply_block(self, call: ir.Call, inst: ir.Instance) -> None:
        if not isinstance(inst.ctor, ir.Parser):
            super().apply_block(call, inst)
            return
        known = self.frame.instances.get(inst)
        if known is None:
            known = self.extern_instance(self.frame, inst)
        decl = known.ctor
        assert isinstance(decl, ir.Parser)
        if any(decl is d for d in self._calling):
            raise fail("E036", f"parser {decl.name} is recursive", call.span)
        args = [None if a is None else self.expr(a) for a in call.args]
        frame = Frame(known.name)
        for p, c in zip(decl.cparams, known.args, strict=True):
            if c is not None:
                frame.env[p] = c
        post = self.bind(frame, decl.params, args, call.span, isolated=True)
        marker = ir.Instance(known.name, call.span, (), known.type, decl, known.args)
        self._markers[marker] = (decl, frame)
        self.out.append(ir.CallStmt(call.span, ir.Call(call.span, VOID, ir.ApplyBlock(marker), ())))
        self.out += post


def _is_marker(s: ir.Stmt) -> bool:
    return isinstance(s, ir.CallStmt) and isinstance(s.call.target, ir.ApplyBlock)


def _targets(s: ir.State) -> set[str]:
    t = s.transition
    if t is None:
        return set()
    return {t.state} if t.state is not None else {c.state for c in t.cases}


def _reachable(p: ir.Parser) -> set[str]:
    by_name = {s.name: s for s in p.states}
    seen: set[str] = set()
    todo = ["start"]
    while todo:
        name = todo.pop()
        if name in seen or name not in by_name:
            continue
        seen.add(name)
        todo += _targets(by_name[name])
    return seen


def select_simple(e: ir.Expr) -> bool:
    """Can the target select on `e` directly: a field or a plain lookahead?"""
    if isinstance(e, ir.Call):
        return (
            isinstance(e.target, ir.ExternMethod)
            and e.target.decl.name == "lookahead"
            and not hasattr(e.type, "fields")
        )
    x = e
    while isinstance(x, (ir.Field, ir.StackMember, ir.Index)):
        if isinstance(x, ir.Index) and not isinstance(x.index, ir.Lit):
            return False
        if isinstance(x, ir.StackMember) and x.name != "last":
            return False
        x = x.base
    return isinstance(x, ir.Var) and not isinstance(e, ir.Index)
