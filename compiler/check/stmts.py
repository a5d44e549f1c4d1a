# SPDX-License-Identifier: Apache-2.0
"""Checking of statements."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ast, ir
from ..diag import CompileError, fail
from ..types import (
    BOOL,
    BROKEN,
    INT,
    VOID,
    Bits,
    BlockType,
    Enum,
    ExternType,
    ListType,
    SerEnum,
    Stack,
    Tuple,
    Type,
    base_type,
)
from .calls import CallChecker


class StmtChecker(CallChecker):
    """Statements: :meth:`stmt` types one; errors inside it are noted and leave it out."""

    def block(self, b: ast.Block) -> ir.Block:
        self.push()
        items = self.stmts(b.items)
        self.pop()
        return ir.Block(b.span, tuple(items))

    def stmts(self, items: Sequence[ast.Stmt | ast.Decl]) -> list[ir.Stmt]:
        out: list[ir.Stmt] = []
        for s in items:
            try:
                made = self.local(s) if isinstance(s, ast.Decl) else self.stmt(s)
                if made is not None:
                    out.append(made)
            except CompileError as e:
                self.report(e)
                if isinstance(s, ast.Decl):
                    self._declare_broken(s)
        return out

    def _declare_broken(self, s: ast.Decl) -> None:
        if s.name not in self.scope.names:
            self.scope.names[s.name] = ir.VarSym(s.name, s.name_span, s.annos, BROKEN)

    def stmt(self, s: ast.Stmt) -> ir.Stmt | None:
        if isinstance(s, ast.Assign):
            return self._assign(s)
        if isinstance(s, ast.CallStmt):
            call = self.expr(s.call)
            if isinstance(call, ir.Lit):
                return None
            if not isinstance(call, ir.Call) or isinstance(call.target, ir.Construct):
                raise fail("E030", "a constructor call is no statement", s.span, hint="name the instance")
            return ir.CallStmt(s.span, call)
        if isinstance(s, ast.If):
            return self._if(s)
        if isinstance(s, ast.Block):
            return self.block(s)
        if isinstance(s, ast.Return):
            return self._return(s)
        if isinstance(s, ast.Exit):
            if self.place not in ("control", "action"):
                raise fail("E030", f"exit is not allowed in {self.where()}", s.span)
            return ir.Exit(s.span)
        if isinstance(s, ast.Switch):
            return self._switch(s)
        if isinstance(s, ast.For):
            return self._for(s)
        if isinstance(s, ast.ForIn):
            return self._for_in(s)
        if isinstance(s, (ast.Break, ast.Continue)):
            word = "break" if isinstance(s, ast.Break) else "continue"
            if not self.loops:
                raise fail("E030", f"{word} outside a loop", s.span)
            return ir.Break(s.span) if word == "break" else ir.Continue(s.span)
        return None

    # -- declarations --------------------------------------------------------------------------

    def local(self, d: ast.Decl) -> ir.Stmt | None:
        """Variable or constant inside a block."""
        if isinstance(d, ast.Var):
            t = self.var_type(d.type)
            init = None if d.init is None else self.value(d.init, t, f"for '{d.name}'")
            sym = ir.VarSym(d.name, d.name_span, d.annos, t)
            self.declare(d.name, sym, d.name_span)
            self.watched.append(("variable", sym))
            return ir.Declare(d.span, sym, init)
        if isinstance(d, ast.Const):
            self.const(d)
            return None
        raise fail(
            "E030",
            "instances are not allowed inside a block",
            d.span,
            hint="declare it before 'apply' or the first state",
        )

    def var_type(self, t: ast.Type) -> Type:
        got = self.resolve(t)
        odd = isinstance(got, (BlockType, ExternType)) or str(got) in ("string", "match_kind", "_")
        if odd or got in (VOID, INT):
            hint = "give the number a width, for example bit<32>" if got == INT else None
            raise fail("E023", f"a variable cannot have type {got}", t.span, hint=hint)
        return got

    def const(self, d: ast.Const) -> ir.VarSym:
        t = self.resolve(d.type)
        if isinstance(t, (BlockType, ExternType)) or t == VOID:
            raise fail("E023", f"a constant cannot have type {t}", d.type.span)
        value = self.const_value(d.value, t, f"the value of constant '{d.name}'")
        sym = ir.VarSym(d.name, d.name_span, d.annos, t, "const", "", value)
        self.declare(d.name, sym, d.name_span)
        return sym

    # -- statements ----------------------------------------------------------------------------

    def _assign(self, s: ast.Assign) -> ir.Stmt:
        target = self.expr(s.target)
        if target.type is BROKEN:
            self.expr(s.value)
            return ir.Block(s.span, ())
        self.check_lvalue(target)
        if s.op == "=":
            return ir.Assign(s.span, target, self.value(s.value, target.type, "in this assignment"))
        pre: list[ir.Stmt] = []
        target = self._indexes_once(target, pre)
        right = self.expr(s.value, target.type)
        value = self.binary(s.op[:-1], target, right, s.span)
        made = ir.Assign(s.span, target, self.coerce(value, target.type))
        return ir.Block(s.span, (*pre, made)) if pre else made

    def _indexes_once(self, e: ir.Expr, pre: list[ir.Stmt]) -> ir.Expr:
        """`e` with its run-time indexes kept in variables, for it is both read and written."""
        if isinstance(e, ir.Index):
            base = self._indexes_once(e.base, pre)
            if isinstance(e.index, (ir.Lit, ir.Var)):
                return ir.Index(e.span, e.type, base, e.index)
            v = ir.VarSym("index", e.index.span, (), e.index.type, used=True)
            pre.append(ir.Declare(e.index.span, v, e.index))
            return ir.Index(e.span, e.type, base, ir.Var(e.index.span, v.type, v))
        if isinstance(e, ir.Field):
            return ir.Field(e.span, e.type, self._indexes_once(e.base, pre), e.name)
        if isinstance(e, ir.Slice):
            return ir.Slice(e.span, e.type, self._indexes_once(e.base, pre), e.hi, e.lo)
        return e

    def _if(self, s: ast.If) -> ir.Stmt:
        try:
            cond = self.condition(s.cond)
        except CompileError as e:
            self.report(e)
            cond = ir.Lit(s.cond.span, BOOL, True)
        then = self._branch(s.then)
        other = None if s.other is None else self._branch(s.other)
        return ir.If(s.span, cond, then, other)

    def _branch(self, s: ast.Stmt) -> ir.Stmt:
        self.push()
        items = self.stmts([s])
        self.pop()
        return items[0] if len(items) == 1 else ir.Block(s.span, tuple(items))

    def _return(self, s: ast.Return) -> ir.Stmt:
        if self.place == "parser":
            raise fail("E030", "return is not allowed in a parser", s.span)
        if self.ret is None or self.ret == VOID:
            if s.value is not None:
                raise fail("E030", f"{self.where()} does not return a value", s.span)
            return ir.Return(s.span, None)
        if s.value is None:
            raise fail("E020", f"expected a value of type {self.ret} to return", s.span)
        return ir.Return(s.span, self.value(s.value, self.ret, "to return"))

    def _for(self, s: ast.For) -> ir.Stmt:
        if self.place == "parser":
            raise fail(
                "E030", "loops are not allowed in parsers", s.span, hint="use a state that goes to itself"
            )
        self.push()
        init = self.stmts(s.init)
        cond = self.condition(s.cond)
        update = self.stmts(s.update)
        self.loops += 1
        body = self._branch(s.body)
        self.loops -= 1
        self.pop()
        return ir.For(s.span, tuple(init), cond, tuple(update), body)

    def _for_in(self, s: ast.ForIn) -> ir.Stmt:
        if self.place == "parser":
            raise fail("E030", "loops are not allowed in parsers", s.span)
        self.push()
        declared = self.local(s.decl) if s.decl is not None else None
        target = self.expr(s.target)
        t = target.type
        collection: ir.Expr
        if isinstance(s.collection, ast.Range):
            if not isinstance(base_type(t), Bits):
                raise fail(
                    "E020", f"a range loop needs a variable of type bit<W> or int<W>, not {t}", s.target.span
                )
            lo = self.value(s.collection.lo, t, "as a bound")
            hi = self.value(s.collection.hi, t, "as a bound")
            collection = ir.RangeKey(s.collection.span, t, lo, hi)
        else:
            collection = self.expr(s.collection)
            ct = collection.type
            elems: tuple[Type, ...] = ()
            if isinstance(ct, (Stack, ListType)):
                elems = (ct.elem,)
            elif isinstance(ct, Tuple):
                elems = ct.elems
            else:
                raise fail("E020", f"cannot loop over {ct}", s.collection.span)
            if isinstance(collection, ir.Aggregate):
                items = tuple(self.coerce(i, t) for i in collection.items)
                collection = ir.Aggregate(collection.span, ListType(t), items)
            elif any(x != t for x in elems):
                raise fail("E020", f"the elements of {ct} are not of type {t}", s.collection.span)
        self.check_lvalue(target)
        self.loops += 1
        body = self._branch(s.body)
        self.loops -= 1
        self.pop()
        loop = ir.ForIn(s.span, target, collection, body)
        return ir.Block(s.span, (declared, loop)) if declared is not None else loop

    def _switch(self, s: ast.Switch) -> ir.Stmt:
        expr = self.expr(s.expr)
        if isinstance(expr, ir.ApplyResult) and expr.member == "action_run":
            return self._action_switch(s, expr)
        if self.place == "parser":
            raise fail("E030", "switch is not allowed in parsers", s.span, hint="use transition select")
        if self.place == "action":
            raise fail("E030", "switch is not allowed in actions", s.span, hint="use if/else")
        t = base_type(expr.type)
        if t is BROKEN:
            return ir.Block(s.span, ())
        if t == INT or not (isinstance(t, (Bits, Enum, SerEnum)) or str(t) in ("error", "bool")):
            raise fail(
                "E034",
                f"switch needs an action_run, a number with a width, an enum or error, not {expr.type}",
                s.expr.span,
            )
        return self._value_switch(s, expr)

    def _value_switch(self, s: ast.Switch, expr: ir.Expr) -> ir.Stmt:
        cases: list[ir.SwitchCase] = []
        labels: list[ir.Expr] = []
        seen: list[ir.Expr] = []
        default = False
        for i, c in enumerate(s.cases):
            if isinstance(c.label, ast.DontCare):
                self._default_last(s, i)
                default = True
            else:
                label = self.const_value(c.label, expr.type, "a switch label")
                for other in seen:
                    if _same_label(other, label):
                        raise fail("E034", "this label occurs twice", label.span)
                seen.append(label)
                labels.append(label)
            if c.body is not None:
                body = self.block(c.body)
                cases.append(ir.SwitchCase(tuple(labels), (), default, body, c.span))
                labels = []
        return ir.Switch(s.span, expr, tuple(cases))

    def _default_last(self, s: ast.Switch, i: int) -> None:
        if i != len(s.cases) - 1:
            raise fail("E034", "the default case must be the last one", s.cases[i].label.span)

    def _action_switch(self, s: ast.Switch, expr: ir.ApplyResult) -> ir.Stmt:
        assert isinstance(expr.call.target, ir.ApplyTable)
        table = expr.call.target.table
        cases: list[ir.SwitchCase] = []
        actions: list[ir.Action] = []
        seen: set[ir.Action] = set()
        default = False
        for i, c in enumerate(s.cases):
            if isinstance(c.label, ast.DontCare):
                self._default_last(s, i)
                default = True
            else:
                action = None
                if isinstance(c.label, ast.Name):
                    action = next((r.action for r in table.actions if r.action.name == c.label.name), None)
                if action is None:
                    raise fail("E034", f"this is no action of table {table.name}", c.label.span)
                if action in seen:
                    raise fail("E034", f"action {action.name} has a case already", c.label.span)
                seen.add(action)
                actions.append(action)
            if c.body is not None:
                body = self.block(c.body)
                cases.append(ir.SwitchCase((), tuple(actions), default, body, c.span))
                actions = []
        return ir.Switch(s.span, expr, tuple(cases))


def _same_label(a: ir.Expr, b: ir.Expr) -> bool:
    if isinstance(a, ir.Lit) and isinstance(b, ir.Lit):
        return a.value == b.value
    return isinstance(a, ir.EnumLit) and isinstance(b, ir.EnumLit) and a.name == b.name
