# SPDX-License-Identifier: Apache-2.0
"""Inlining of functions, actions within actions, and sub-controls, into statements without calls.

An argument is put in place of its parameter where nothing else can reach the same storage during the
call; otherwise it is copied in and out (P4_16 specification, section on calling convention).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import annos as an
from .. import ir
from ..diag import Diagnostics, fail
from ..source import NO_SPAN, Span
from ..types import BOOL, VOID, Bits, BlockType, ExternType, Stack, Struct, Type, TypeVar, substitute
from .tree import children, has_effects, overlap, reads, rebuild, root, walk_stmts

Env = dict[ir.VarSym, ir.Expr]
_INDEX = Bits(32)


class Names:
    """Unique names for variables and hidden objects of the whole program."""

    def __init__(self, used: set[str] | None = None) -> None:
        self._used: set[str] = used if used is not None else set()

    def fresh(self, base: str) -> str:
        name, n = base, 0
        while name in self._used:
            n += 1
            name = f"{base}_{n}"
        self._used.add(name)
        return name


class Frame:
    """What surrounds the statements being inlined: substitution, names, where a return goes."""

    __slots__ = ("actions", "env", "instances", "path", "ret_label", "ret_var", "tables", "types", "vsets")

    def __init__(self, path: str, parent: Frame | None = None) -> None:
        self.path = path
        self.env: Env = dict(parent.env) if parent else {}
        self.actions: dict[ir.Action, ir.Action] = dict(parent.actions) if parent else {}
        self.tables: dict[ir.Table, ir.Table] = dict(parent.tables) if parent else {}
        self.instances: dict[ir.Instance, ir.Instance] = dict(parent.instances) if parent else {}
        self.vsets: dict[ir.ValueSet, ir.ValueSet] = dict(parent.vsets) if parent else {}
        self.types: dict[TypeVar, Type] = {}
        self.ret_label = -1
        self.ret_var: ir.VarSym | None = None


class Inliner:
    """Rewrites statements; `out` receives them. Subclasses know blocks and instances."""

    def __init__(self, diags: Diagnostics, names: Names) -> None:
        self.diags = diags
        self.names = names
        self.out: list[ir.Stmt] = []
        self.frame = Frame("")
        self._labels = 0
        self._calling: list[object] = []
        self.in_action = False
        self.global_instances: dict[ir.Instance, ir.Instance] = {}

    # -- helpers -------------------------------------------------------------------------------

    def label(self) -> int:
        self._labels += 1
        return self._labels

    def new_var(self, base: str, t: Type, span: Span = NO_SPAN) -> ir.VarSym:
        path = self.frame.path
        return ir.VarSym(self.names.fresh(f"{path}.{base}" if path else base), span, (), self.type(t))

    def type(self, t: Type) -> Type:
        return substitute(t, self.frame.types) if self.frame.types else t

    def captured(self, stmts: Sequence[ir.Stmt]) -> ir.Block:
        """`stmts` inlined, as a block."""
        outer, self.out = self.out, []
        for s in stmts:
            self.stmt(s)
        inner, self.out = self.out, outer
        return ir.Block(stmts[0].span if stmts else NO_SPAN, tuple(inner))

    def temp(self, e: ir.Expr, base: str = "tmp") -> ir.Var:
        """New variable that holds the value of `e`."""
        v = self.new_var(base, e.type, e.span)
        ref = ir.Var(e.span, v.type, v)
        self.out.append(ir.Assign(e.span, ref, e))
        return ref

    # -- expressions ---------------------------------------------------------------------------

    def expr(self, e: ir.Expr) -> ir.Expr:
        """`e` without calls of functions; what they do goes to `out` before."""
        if isinstance(e, ir.Var):
            return self.frame.env.get(e.sym, e)
        if isinstance(e, ir.Lit):
            return e
        if isinstance(e, ir.InstanceRef):
            inst = self.frame.instances.get(e.inst) or self.global_instances.get(e.inst, e.inst)
            return e if inst is e.inst else ir.InstanceRef(e.span, e.type, inst)
        if isinstance(e, ir.ValueSetKey):
            return ir.ValueSetKey(e.span, e.type, self.frame.vsets.get(e.vset, e.vset))
        if isinstance(e, ir.Call):
            return self.call(e)
        if isinstance(e, ir.ApplyResult):
            return self._result_value(e)
        if isinstance(e, ir.Binary) and e.op in ("&&", "||") and has_effects(e.right):
            return self._short_circuit(e)
        if isinstance(e, ir.Mux) and (has_effects(e.yes) or has_effects(e.no)):
            return self._effectful_mux(e)
        if self.frame.types and isinstance(e, (ir.Cast, ir.Aggregate, ir.InvalidHeader)):
            e = self._retype(e)
        if isinstance(e, (ir.Binary, ir.Aggregate)) and has_effects(e):
            return self._ordered(e)
        return rebuild(e, self.expr)

    def _retype(self, e: ir.Expr) -> ir.Expr:
        t = self.type(e.type)
        if isinstance(e, ir.Cast):
            return ir.Cast(e.span, t, e.arg)
        if isinstance(e, ir.Aggregate):
            return ir.Aggregate(e.span, t, e.items)
        return ir.InvalidHeader(e.span, t)

    def _ordered(self, e: ir.Expr) -> ir.Expr:
        """Operands left to right: a value read before a call must not see what the call changes."""
        operands = children(e)
        done: dict[int, ir.Expr] = {}
        for i, c in enumerate(operands):
            made = self.expr(c)
            later = any(has_effects(x) for x in operands[i + 1 :])
            if later and next(reads(made), None) is not None:
                made = self.temp(made)
            done[i] = made
        it = iter(done.values())
        return rebuild(e, lambda _x: next(it))

    def _short_circuit(self, e: ir.Binary) -> ir.Expr:
        ref = self.temp(self.expr(e.left))
        outer, self.out = self.out, []
        self.out.append(ir.Assign(e.span, ref, self.expr(e.right)))
        inner, self.out = self.out, outer
        cond: ir.Expr = ref if e.op == "&&" else ir.Unary(e.span, BOOL, "!", ref)
        self.out.append(ir.If(e.span, cond, ir.Block(e.span, tuple(inner)), None))
        return ref

    def _effectful_mux(self, e: ir.Mux) -> ir.Expr:
        cond = self.expr(e.cond)
        v = self.new_var("tmp", e.type, e.span)
        ref = ir.Var(e.span, v.type, v)
        branches = []
        for side in (e.yes, e.no):
            outer, self.out = self.out, []
            self.out.append(ir.Assign(e.span, ref, self.expr(side)))
            inner, self.out = self.out, outer
            branches.append(ir.Block(e.span, tuple(inner)))
        self.out.append(ir.If(e.span, cond, branches[0], branches[1]))
        return ref

    def _result_value(self, e: ir.ApplyResult) -> ir.Expr:
        """hit or miss as a value: apply the table, then remember which."""
        v = self.new_var("hit", BOOL, e.span)
        ref = ir.Var(e.span, BOOL, v)
        call = self.apply_table(e.call)
        yes = ir.Assign(e.span, ref, ir.Lit(e.span, BOOL, True))
        no = ir.Assign(e.span, ref, ir.Lit(e.span, BOOL, False))
        self.out.append(ir.If(e.span, ir.ApplyResult(e.span, BOOL, call, e.member), yes, no))
        return ref

    def condition(self, e: ir.Expr) -> ir.Expr:
        """Like :meth:`expr`, but leaves hit and miss of a table, negated or not, in place."""
        if isinstance(e, ir.ApplyResult):
            return ir.ApplyResult(e.span, e.type, self.apply_table(e.call), e.member)
        if isinstance(e, ir.Unary) and e.op == "!" and isinstance(e.arg, ir.ApplyResult):
            member = "miss" if e.arg.member == "hit" else "hit"
            return self.condition(ir.ApplyResult(e.span, e.type, e.arg.call, member))
        return self.expr(e)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, e: ir.Call) -> ir.Expr:
        target = e.target
        if isinstance(target, ir.CallFunction):
            return self.function(e, target.function)
        made = rebuild(e, self.expr)
        if isinstance(made, ir.Call) and self.frame.types:
            made = ir.Call(
                made.span,
                self.type(made.type),
                made.target,
                made.args,
                tuple(self.type(t) for t in made.targs),
            )
        return made

    def enter(self, what: object, name: str, span: Span) -> None:
        if what in self._calling:
            raise fail("E036", f"{name} is recursive", span)
        self._calling.append(what)

    def leave(self) -> None:
        self._calling.pop()

    def function(self, e: ir.Call, f: ir.Function) -> ir.Expr:
        """Inline a call; returns the variable with its result."""
        args = self._arguments(e.args)
        self.enter(f, f"function {f.name}", e.span)
        inner = Frame(f"{self.frame.path}.{f.name}" if self.frame.path else f.name)
        inner.types = dict(zip(f.tparams, (self.type(t) for t in e.targs), strict=False))
        post = self.bind(inner, f.params, args, e.span, isolated=True)
        outer, self.frame = self.frame, inner
        inner.ret_label = self.label()
        if f.ret != VOID:
            inner.ret_var = self.new_var("ret", f.ret, e.span)
        assert f.body is not None
        body = self.captured(f.body.items)
        self.frame = outer
        self.out += scoped(inner.ret_label, body)
        self.out += post
        self.leave()
        if inner.ret_var is None:
            return ir.Lit(e.span, BOOL, True)
        return ir.Var(e.span, inner.ret_var.type, inner.ret_var)

    def _arguments(self, args: Sequence[ir.Expr | None]) -> list[ir.Expr | None]:
        """Arguments left to right; one read before a call in a later one is kept in a variable."""
        out: list[ir.Expr | None] = []
        for i, a in enumerate(args):
            if a is None:
                out.append(None)
                continue
            made = self.expr(a)
            later = any(x is not None and has_effects(x) for x in args[i + 1 :])
            if later and root(made) is None and next(reads(made), None) is not None:
                made = self.temp(made)
            out.append(made)
        return out

    def bind(
        self,
        inner: Frame,
        params: Sequence[ir.VarSym],
        args: Sequence[ir.Expr | None],
        span: Span,
        *,
        isolated: bool,
        inert: bool = False,
    ) -> list[ir.Stmt]:
        """Give `params` their arguments in `inner`; returns what copies results out.

        `isolated`: the callee reaches storage through its parameters only; `inert`: it does nothing.
        """
        post: list[ir.Stmt] = []
        for i, (p, a) in enumerate(zip(params, args, strict=True)):
            t = substitute(p.type, inner.types)
            if a is None:
                v = self.new_var(p.name, t, span)
                inner.env[p] = ir.Var(span, t, v)
                continue
            if isinstance(a.type, (ExternType, BlockType)) or isinstance(a, (ir.Lit, ir.EnumLit)):
                inner.env[p] = a
                continue
            if not p.used and (p.direction in ("", "in") or (inert and p.direction == "inout")):
                v = self.new_var(p.name, t, span)
                inner.env[p] = ir.Var(span, t, v)
                continue
            others = [x for k, x in enumerate(args) if k != i and x is not None]
            if isolated and self._in_place(p, a, params, others):
                if p.direction == "out":
                    self.out += invalidate(a, t, span)
                inner.env[p] = a
                continue
            a = self._stable(a)
            v = self.new_var(p.name, t, span)
            ref = ir.Var(span, t, v)
            if p.direction == "out":
                self.out += invalidate(ref, t, span)
            else:
                self.out.append(ir.Assign(span, ref, a))
            if p.direction in ("out", "inout"):
                post.append(ir.Assign(span, a, ref))
            inner.env[p] = ref
        return post

    def _in_place(self, p: ir.VarSym, a: ir.Expr, params: Sequence[ir.VarSym], others: list[ir.Expr]) -> bool:
        if root(a) is None or any(isinstance(x, ir.Slice) for x in [a]):
            return False
        x = a
        while isinstance(x, (ir.Field, ir.Index, ir.StackMember)):
            if isinstance(x, ir.StackMember) or (isinstance(x, ir.Index) and not isinstance(x.index, ir.Lit)):
                return False
            x = x.base
        for other in others:
            for r in reads(other):
                if overlap(a, r) and (p.direction in ("out", "inout") or self._written(r, params, others)):
                    return False
        return True

    def _written(self, r: ir.Expr, params: Sequence[ir.VarSym], others: list[ir.Expr]) -> bool:
        return any(q.direction in ("out", "inout") for q in params)

    def _stable(self, a: ir.Expr) -> ir.Expr:
        """`a` with run-time indexes evaluated now, so that copy-out hits the same element."""
        if isinstance(a, ir.Index) and not isinstance(a.index, ir.Lit):
            return ir.Index(a.span, a.type, self._stable(a.base), self.temp(a.index, "index"))
        if isinstance(a, (ir.Field, ir.Slice)):
            return rebuild(a, self._stable)
        return a

    # -- statements ----------------------------------------------------------------------------

    def stmt(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Assign):
            target = self.expr(s.target)
            if has_effects(s.value) and any(isinstance(x, ir.Index) for x in _spine(target)):
                target = self._stable(target)
            self.out.append(ir.Assign(s.span, target, self.expr(s.value)))
        elif isinstance(s, ir.Block):
            for x in s.items:
                self.stmt(x)
        elif isinstance(s, ir.CallStmt):
            self.call_stmt(s)
        elif isinstance(s, ir.If):
            self._if(s)
        elif isinstance(s, ir.Declare):
            self._declare(s)
        elif isinstance(s, ir.Return):
            if s.value is not None:
                value = self.expr(s.value)
                v = self.frame.ret_var
                assert v is not None
                self.out.append(ir.Assign(s.span, ir.Var(s.span, v.type, v), value))
            self.out.append(ir.Leave(s.span, self.frame.ret_label))
        elif isinstance(s, ir.Switch):
            self._switch(s)
        elif isinstance(s, ir.For):
            self._for(s)
        elif isinstance(s, ir.ForIn):
            self._for_in(s)
        else:
            self.out.append(s)

    def _if(self, s: ir.If) -> None:
        cond = self.condition(s.cond)
        if isinstance(cond, ir.Lit):
            chosen = s.then if cond.value else s.other
            if chosen is not None:
                self.stmt(chosen)
            return
        then = self.captured([s.then])
        other = None if s.other is None else self.captured([s.other])
        self.out.append(ir.If(s.span, cond, then, other))

    def _declare(self, s: ir.Declare) -> None:
        v = self.new_var(s.sym.name, s.sym.type, s.sym.span)
        ref = ir.Var(s.span, v.type, v)
        init = None if s.init is None else self.expr(s.init)
        self.frame.env[s.sym] = ref
        if init is not None:
            self.out.append(ir.Assign(s.span, ref, init))
        else:
            self.out += invalidate(ref, v.type, s.span)

    def _switch(self, s: ir.Switch) -> None:
        expr: ir.Expr
        actions: dict[ir.Action, ir.Action] = {}
        if isinstance(s.expr, ir.ApplyResult):
            call = self.apply_table(s.expr.call)
            expr = ir.ApplyResult(s.expr.span, s.expr.type, call, s.expr.member)
            actions = self.table_actions(call)
        else:
            expr = self.expr(s.expr)
        cases = tuple(
            ir.SwitchCase(
                c.labels,
                tuple(actions[a] for a in c.actions),
                c.default,
                self.captured(c.body.items) if c.body is not None else None,
                c.span,
            )
            for c in s.cases
        )
        self.out.append(ir.Switch(s.span, expr, cases))

    def _for(self, s: ir.For) -> None:
        if has_effects(s.cond):
            raise fail(
                "E040",
                "calls in the condition of a loop are not supported",
                s.cond.span,
                hint="assign the result to a variable in the loop",
            )
        init: list[ir.Stmt] = []
        outer, self.out = self.out, init
        for x in s.init:
            self.stmt(x)
        self.out = outer
        cond = self.expr(s.cond)
        body = self.captured([s.body])
        update = self.captured(s.update)
        self.out.append(ir.For(s.span, tuple(init), cond, update.items, body))

    def _for_in(self, s: ir.ForIn) -> None:
        target = self.expr(s.target)
        collection = self.expr(s.collection)
        self.out.append(ir.ForIn(s.span, target, collection, self.captured([s.body])))

    def call_stmt(self, s: ir.CallStmt) -> None:
        target = s.call.target
        if isinstance(target, ir.CallFunction):
            self.function(s.call, target.function)
        elif isinstance(target, ir.CallAction):
            self.action_call(s, target.action)
        elif isinstance(target, ir.ApplyTable):
            self.out.append(ir.CallStmt(s.span, self.apply_table(s.call)))
        elif isinstance(target, ir.ApplyBlock):
            self.apply_block(s.call, target.inst)
        elif isinstance(target, ir.ApplyParam):
            arg = self.frame.env.get(target.param)
            if not isinstance(arg, ir.InstanceRef):
                raise fail("E040", f"'{target.param.name}' is not known at compile time", s.span)
            self.apply_block(s.call, arg.inst)
        else:
            call = self.call(s.call)
            if isinstance(call, ir.Call):
                self.out.append(ir.CallStmt(s.span, self._dont_cares(call)))

    def _dont_cares(self, call: ir.Call) -> ir.Call:
        """``_`` for an out argument becomes a variable nobody reads."""
        params = ir.call_params(call.target)
        if None not in call.args or not params:
            return call
        args = []
        for p, a in zip(params, call.args, strict=True):
            if a is None and p.direction == "out":
                outer: dict[TypeVar, Type] = {}
                if isinstance(call.target, ir.ExternMethod) and isinstance(call.target.obj.type, ExternType):
                    obj = call.target.obj.type
                    outer = dict(zip(obj.decl.tparams, obj.args, strict=False))
                decl = (
                    call.target.decl
                    if isinstance(call.target, (ir.ExternMethod, ir.ExternFunction))
                    else None
                )
                if decl is not None:
                    outer.update(zip(decl.tparams, call.targs, strict=False))
                v = self.new_var(p.name, substitute(p.type, outer), call.span)
                a = ir.Var(call.span, v.type, v)
            args.append(a)
        return ir.Call(call.span, call.type, call.target, tuple(args), call.targs)

    # -- provided by the block inliner ---------------------------------------------------------

    def action_call(self, s: ir.CallStmt, action: ir.Action) -> None:
        raise NotImplementedError

    def apply_table(self, call: ir.Call) -> ir.Call:
        raise NotImplementedError

    def table_actions(self, call: ir.Call) -> dict[ir.Action, ir.Action]:
        """Flat actions of the table that `call` applies, by the actions they came from."""
        raise NotImplementedError

    def apply_block(self, call: ir.Call, inst: ir.Instance) -> None:
        raise NotImplementedError


def _spine(e: ir.Expr) -> list[ir.Expr]:
    out: list[ir.Expr] = []
    while isinstance(e, (ir.Field, ir.Index, ir.Slice, ir.StackMember)):
        out.append(e)
        e = e.base
    return out


def scoped(label: int, body: ir.Block) -> list[ir.Stmt]:
    """`body` as a scope, or bare if nothing leaves it but at its very end."""
    items = body.items
    while items and isinstance(items[-1], ir.Leave) and items[-1].label == label:
        items = items[:-1]
    if any(isinstance(x, ir.Leave) and x.label == label for s in items for x in walk_stmts(s)):
        return [ir.Scope(body.span, label, ir.Block(body.span, items))]
    return list(items)


def invalidate(e: ir.Expr, t: Type, span: Span) -> list[ir.Stmt]:
    """Statements that make all headers within `e` invalid."""
    if isinstance(t, Struct):
        if t.kind == "header":
            return [ir.CallStmt(span, ir.Call(span, VOID, ir.Builtin("setInvalid", e), ()))]
        return [s for f in t.fields for s in invalidate(ir.Field(span, f.type, e, f.name), f.type, span)]
    if isinstance(t, Stack):
        out: list[ir.Stmt] = []
        for i in range(t.size):
            index = ir.Index(span, t.elem, e, ir.Lit(span, _INDEX, i))
            out += invalidate(index, t.elem, span)
        return out
    return []


def qualified(path: str, d: ir.Decl) -> str:
    """Control-plane name of `d` declared at `path`; a name that starts with a dot is absolute."""
    name = an.external_name(d.name, d.annos)
    if name.startswith("."):
        return name[1:]
    return f"{path}.{name}" if path else name
