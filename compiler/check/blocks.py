# SPDX-License-Identifier: Apache-2.0
"""Checking of parsers, controls, actions and functions."""

from __future__ import annotations

from collections.abc import Sequence

from .. import annos as an
from .. import ast, ir
from ..diag import CompileError, fail
from ..types import (
    BROKEN,
    INT,
    STRING,
    VOID,
    Bits,
    BlockType,
    Enum,
    ExternType,
    SerEnum,
    Struct,
    Type,
    base_type,
    substitute,
)
from .tables import TableChecker


class BlockChecker(TableChecker):
    """Declarations with bodies."""

    def params(
        self, params: Sequence[ast.Param], kind: str, *, declare: bool = True
    ) -> tuple[ir.VarSym, ...]:
        out: list[ir.VarSym] = []
        for p in params:
            try:
                t = self.resolve(p.type)
            except CompileError as e:
                self.report(e)
                t = BROKEN
            if kind == "cparam" and p.direction:
                self.diags.error("E024", f"constructor parameter '{p.name}' cannot have a direction", p.span)
            if p.direction in ("out", "inout") and (isinstance(t, (ExternType, BlockType)) or t == INT):
                self.diags.error(
                    "E023", f"a parameter of type {t} cannot have direction '{p.direction}'", p.span
                )
            if t == STRING and p.direction:
                self.diags.error("E023", "a parameter of type string cannot have a direction", p.span)
            if p.direction == "in" and t == INT:
                self.diags.error("E023", "a parameter of type int cannot have a direction", p.span)
            if kind == "action_param" and (
                isinstance(t, (ExternType, BlockType)) or t in (INT, STRING, VOID)
            ):
                self.diags.error("E023", f"an action parameter cannot have type {t}", p.span)
            if kind != "cparam" and isinstance(t, BlockType):
                self.diags.error("E023", f"a parameter cannot have type {t}", p.span)
            if p.default is not None and p.direction in ("out", "inout"):
                self.diags.error("E024", f"'{p.direction}' parameters cannot have default values", p.span)
            optional = an.find(p.annos, "optional")
            if optional is not None and kind == "action_param":
                self.diags.error("E035", "@optional is not allowed on parameters of actions", p.span)
            if isinstance(t, ExternType) and p.direction:
                self.diags.error("E023", f"a parameter of type {t} cannot have a direction", p.span)
            sym = ir.VarSym(p.name, p.name_span, p.annos, t, kind, p.direction)
            if p.default is not None:
                try:
                    sym.default = self.const_value(p.default, t, f"the default of '{p.name}'")
                except CompileError as e:
                    self.report(e)
            if declare:
                self.declare(p.name, sym, p.name_span)
            out.append(sym)
        return tuple(out)

    # -- actions and functions -----------------------------------------------------------------

    def action(self, d: ast.ActionDecl) -> ir.Action:
        outer = self.place, self.ret, self.loops
        self.push()
        seen_plain = False
        for p in d.params:
            if p.direction and seen_plain:
                self.diags.error(
                    "E024",
                    f"parameter '{p.name}' has a direction but follows one without",
                    p.span,
                    hint="parameters without direction come last",
                )
            seen_plain = seen_plain or not p.direction
        params = self.params(d.params, "action_param")
        self.place, self.ret, self.loops = "action", VOID, 0
        action = ir.Action(d.name, d.name_span, d.annos, params)
        action.body = self.block(d.body)
        self.place, self.ret, self.loops = outer
        self.pop()
        return action

    def function(self, d: ast.Function) -> ir.Function:
        proto = d.proto
        outer = self.place, self.ret, self.loops
        self.push()
        tparams = self.type_params(proto.tparams, d.name_span)
        assert proto.ret is not None
        ret = self.resolve(proto.ret)
        params = self.params(proto.params, "param")
        f = ir.Function(d.name, d.name_span, d.annos, tparams, params, ret)
        self.place, self.ret, self.loops = "function", ret, 0
        f.body = self.block(d.body)
        if ret != VOID and not _returns(f.body):
            self.diags.error("E030", f"function {d.name} does not return a value on every path", d.name_span)
        self.place, self.ret, self.loops = outer
        self.pop()
        return f

    # -- controls ------------------------------------------------------------------------------

    def control(self, d: ast.ControlDecl) -> ir.BlockProto:
        self.push()
        try:
            tparams = self.type_params(d.tparams, d.name_span)
            params = self.params(d.params, "param")
            if d.body is None:
                return ir.BlockProto(d.name, d.name_span, d.annos, "control", tparams, params)
            if tparams:
                raise fail("E023", f"control {d.name} has a body and cannot be generic", d.name_span)
            cparams = self.params(d.cparams, "cparam")
            c = ir.Control(d.name, d.name_span, d.annos, "control", tparams, params, cparams)
            outer = self.place, self.ret
            self.place, self.ret = "control", VOID
            self.push()
            c.locals = self._locals(d.locals)
            c.body = self.block(d.body)
            self.pop()
            self.place, self.ret = outer
            return c
        finally:
            self.pop()

    def _locals(self, decls: Sequence[ast.Decl]) -> list[ir.Decl]:
        out: list[ir.Decl] = []
        for d in decls:
            try:
                made = self._local_decl(d)
                if made is not None:
                    out.append(made)
            except CompileError as e:
                self.report(e)
                self._declare_broken(d)
        return out

    def _local_decl(self, d: ast.Decl) -> ir.Decl | None:
        if isinstance(d, ast.Const):
            self.const(d)
            return None
        if isinstance(d, ast.Var):
            t = self.var_type(d.type)
            init = None if d.init is None else self.value(d.init, t, f"for '{d.name}'")
            sym = ir.VarSym(d.name, d.name_span, d.annos, t, "local", "", init)
            self.declare(d.name, sym, d.name_span)
            self.watched.append(("variable", sym))
            return sym
        if isinstance(d, ast.Instance):
            inst = self.instance(d)
            kind = inst.type.proto.kind if isinstance(inst.type, BlockType) else self.place
            if kind != self.place:
                raise fail("E030", f"a {kind} cannot be instantiated in {self.where()}", d.span)
            self.declare(d.name, inst, d.name_span)
            return inst
        if isinstance(d, ast.ActionDecl):
            action = self.action(d)
            self.declare(d.name, action, d.name_span)
            self.watched.append(("action", action))
            return action
        if isinstance(d, ast.TableDecl):
            table = self.table(d)
            self.declare(d.name, table, d.name_span)
            self.watched.append(("table", table))
            return table
        if isinstance(d, ast.ValueSet):
            vs = self._value_set(d)
            self.declare(d.name, vs, d.name_span)
            return vs
        raise fail("E030", "this declaration is not allowed here", d.span)

    def instance(self, d: ast.Instance) -> ir.Instance:
        inst = self.instantiate(self.resolve(d.type), d.args, d.name_span, d.name, d.annos)
        self._abstract_methods(d, inst)
        return inst

    def _abstract_methods(self, d: ast.Instance, inst: ir.Instance) -> None:
        """Methods given with an instance must be those its extern leaves open, all of them."""
        t = inst.type
        wanted = {m.name: m for m in t.decl.methods if m.abstract} if isinstance(t, ExternType) else {}
        if d.body is None:
            if wanted:
                raise fail(
                    "E030", f"{t} has abstract methods, which must be given with the instance", d.name_span
                )
            return
        if not wanted:
            raise fail(
                "E030", f"{t} has no abstract methods, so nothing can be given with the instance", d.span
            )
        inst.functions = tuple(self.function(f) for f in d.body if isinstance(f, ast.Function))
        sub = dict(zip(t.decl.tparams, t.args, strict=False)) if isinstance(t, ExternType) else {}
        for f in inst.functions:
            m = wanted.pop(f.name, None)
            same = (
                m is not None
                and substitute(m.ret, sub) == f.ret
                and [(substitute(p.type, sub), p.direction) for p in m.params]
                == [(p.type, p.direction) for p in f.params]
            )
            if not same:
                self.diags.error("E020", f"{t} has no abstract method '{f.name}' of this type", f.span)
        if wanted:
            raise fail("E030", f"abstract method '{next(iter(wanted))}' is not given", d.name_span)

    def _value_set(self, d: ast.ValueSet) -> ir.ValueSet:
        t = self.resolve(d.type)
        b = base_type(t)
        if not (
            isinstance(b, (Bits, SerEnum, Enum))
            or (isinstance(b, Struct) and b.kind == "struct")
            or hasattr(b, "elems")
        ):
            raise fail("E023", f"a value set cannot hold {t}", d.type.span)
        return ir.ValueSet(d.name, d.name_span, d.annos, t, self.const_int(d.size, "the size of a value set"))

    # -- parsers -------------------------------------------------------------------------------

    def parser(self, d: ast.ParserDecl) -> ir.BlockProto:
        self.push()
        try:
            tparams = self.type_params(d.tparams, d.name_span)
            params = self.params(d.params, "param")
            if d.states is None:
                return ir.BlockProto(d.name, d.name_span, d.annos, "parser", tparams, params)
            if tparams:
                raise fail("E023", f"parser {d.name} has a body and cannot be generic", d.name_span)
            cparams = self.params(d.cparams, "cparam")
            p = ir.Parser(d.name, d.name_span, d.annos, "parser", tparams, params, cparams)
            outer = self.place, self.ret
            self.place, self.ret = "parser", None
            self.push()
            p.locals = self._locals(d.locals)
            self._states(p, d.states, d)
            self.pop()
            self.place, self.ret = outer
            return p
        finally:
            self.pop()

    def _states(self, p: ir.Parser, states: Sequence[ast.State], d: ast.ParserDecl) -> None:
        names: dict[str, ast.State] = {}
        for s in states:
            if s.name in ("accept", "reject"):
                self.diags.error("E033", f"state '{s.name}' is built in and cannot be declared", s.name_span)
            elif s.name in names:
                self.diags.error(
                    "E011",
                    f"state '{s.name}' is declared twice",
                    s.name_span,
                    notes=(("first declared here", names[s.name].name_span),),
                )
            names.setdefault(s.name, s)
        if "start" not in names:
            self.diags.error("E033", f"parser {d.name} has no state 'start'", d.name_span)
        known = set(names) | {"accept", "reject"}
        for s in states:
            self.push()
            body = self.stmts(s.body)
            state = ir.State(s.name, s.name_span, s.annos, body)
            try:
                state.transition = self._transition(s, known)
            except CompileError as e:
                self.report(e)
            self.pop()
            p.states.append(state)
        self._reachable(p)

    def _transition(self, s: ast.State, known: set[str]) -> ir.Transition:
        t = s.transition
        if t is None:
            self.diags.warning("W104", f"state '{s.name}' has no transition and goes to reject", s.name_span)
            return ir.Transition(s.span, "reject")
        if t.state is not None:
            self._state_known(t.state, t.state_span, known)
            return ir.Transition(t.span, t.state)
        select = tuple(self.expr(e) for e in t.select)
        for e in select:
            b = base_type(e.type)
            if isinstance(e, ir.Aggregate) or not (
                isinstance(b, (Bits, Enum, SerEnum)) or str(b) in ("bool", "error") or b is BROKEN
            ):
                raise fail(
                    "E034",
                    f"cannot select on {e.type}",
                    e.span,
                    hint="give the number a width" if b == INT else None,
                )
        cases: list[ir.SelectCase] = []
        for c in t.cases:
            try:
                self._state_known(c.state, c.state_span, known)
                cases.append(ir.SelectCase(self._select_keys(c, select), c.state, c.span))
            except CompileError as err:
                self.report(err)
        return ir.Transition(t.span, None, select, tuple(cases))

    def _state_known(self, name: str, span: object, known: set[str]) -> None:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, sorted(known), n=1)
            raise fail(
                "E033",
                f"state '{name}' is not declared",
                span,  # type: ignore[arg-type]
                hint=f"did you mean '{close[0]}'?" if close else None,
            )

    def _select_keys(self, c: ast.SelectCase, select: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        if len(c.keys) == 1 and len(select) != 1:
            only = c.keys[0]
            if isinstance(only, ast.DontCare):
                return (ir.AnyKey(only.span, select[0].type if select else BROKEN),)
            typed = self.expr(only)
            if isinstance(typed, ir.ValueSetKey):
                self._check_value_set(typed, select)
                return (typed,)
            raise fail("E034", f"expected {len(select)} key sets, found 1", c.span)
        if len(c.keys) != len(select):
            raise fail("E034", f"expected {len(select)} key sets, found {len(c.keys)}", c.span)
        keys = tuple(self.keyset(k, e.type, "in this case") for k, e in zip(c.keys, select, strict=True))
        for key in keys:
            if isinstance(key, ir.ValueSetKey):
                if len(keys) > 1:
                    raise fail("E034", "a value set must be the only key set of its case", key.span)
                self._check_value_set(key, select)
        return keys

    def _check_value_set(self, key: ir.ValueSetKey, select: tuple[ir.Expr, ...]) -> None:
        t = base_type(key.vset.type)
        want = (
            [f.type for f in t.fields]
            if isinstance(t, Struct)
            else list(getattr(t, "elems", (key.vset.type,)))
        )
        have = [e.type for e in select]
        if len(want) != len(have) or any(
            _width_type(a) != _width_type(b) for a, b in zip(want, have, strict=True)
        ):
            raise fail("E034", f"value set {key.vset.name} does not fit the select expressions", key.span)

    def _reachable(self, p: ir.Parser) -> None:
        targets: dict[str, set[str]] = {}
        for s in p.states:
            t = s.transition
            if t is not None:
                targets[s.name] = {t.state} if t.state is not None else {c.state for c in t.cases}
        seen: set[str] = set()
        todo = ["start"]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += targets.get(name, ())
        for s in p.states:
            if s.name not in seen:
                self.diags.warning("W104", f"state '{s.name}' is never reached", s.span)


def _width_type(t: Type) -> object:
    b = base_type(t)
    return b.underlying if isinstance(b, SerEnum) else b


def _returns(s: ir.Stmt | None) -> bool:
    """Does every path through `s` return?"""
    if isinstance(s, (ir.Return, ir.Exit)):
        return True
    if isinstance(s, ir.Block):
        return any(_returns(x) for x in s.items)
    if isinstance(s, ir.If):
        return s.other is not None and _returns(s.then) and _returns(s.other)
    if isinstance(s, ir.Switch):
        return any(c.default for c in s.cases) and all(_returns(c.body) for c in s.cases)
    return False
