# SPDX-License-Identifier: Apache-2.0
"""Typing of calls: overloads, named and default arguments, inference of type arguments."""

from __future__ import annotations

from collections.abc import Sequence

from .. import annos as an
from .. import ast, ir
from ..diag import fail
from ..source import Span
from ..types import (
    BOOL,
    BROKEN,
    DONT_CARE,
    INT,
    VOID,
    Bits,
    BlockType,
    ExternType,
    Stack,
    Struct,
    Type,
    TypeVar,
    Varbit,
    contains_var,
    substitute,
    width_of,
)
from .base import BlockSym, ExternSym, FunctionSet, GenericSym, TypeSym, kind_of
from .binding import Binder

_SIZES = frozenset({"minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"})


class CallChecker(Binder):
    """Calls of functions, actions, methods, constructors and apply()."""

    def call(self, e: ast.Call, want: Type | None) -> ir.Expr:
        target = e.target
        if isinstance(target, ast.Member):
            return self._member_call(e, target, want)
        if isinstance(target, ast.Name):
            sym = self.lookup(target.name, target.span, target.rooted)
            if isinstance(sym, FunctionSet):
                return self._function_call(e, sym, want)
            if isinstance(sym, ir.Action):
                if e.targs:
                    raise fail("E021", "an action takes no type arguments", e.span)
                return self._action_call(e, sym)
            if isinstance(sym, (TypeSym, ExternSym, BlockSym, GenericSym)):
                base = ast.TName(target.span, target.name, target.rooted)
                t: ast.Type = ast.TGeneric(target.span, base, e.targs) if e.targs else base
                inst = self.instantiate(self.resolve(t), e.args, e.span, "")
                return ir.Call(e.span, inst.type, ir.Construct(inst), ())
            raise fail("E013", f"'{target.name}' is a {kind_of(sym)} and cannot be called", target.span)
        if isinstance(target, ast.TypeExpr):
            inst = self.instantiate(self.resolve(target.type), e.args, e.span, "")
            return ir.Call(e.span, inst.type, ir.Construct(inst), ())
        raise fail("E013", "this cannot be called", target.span)

    # -- members -------------------------------------------------------------------------------

    def _member_call(self, e: ast.Call, target: ast.Member, want: Type | None) -> ir.Expr:
        name = target.name
        t = self.as_type(target.base)
        if t is not None:
            if name in _SIZES:
                return self._size(e, t, name)
            if name == "apply" and isinstance(t, BlockType):
                inst = self.instantiate(t, (), target.base.span, t.proto.name)
                inst.used = True
                return self._apply_block(e, inst)
            raise fail("E012", f"type {t} has no method '{name}'", target.name_span)
        if isinstance(target.base, ast.Name):
            sym = self.lookup(target.base.name, target.base.span, target.base.rooted)
            if isinstance(sym, ir.Table):
                if name != "apply":
                    raise fail(
                        "E012",
                        f"a table has no method '{name}'",
                        target.name_span,
                        hint="apply() is the only one",
                    )
                if e.args:
                    raise fail("E021", "apply() of a table takes no arguments", e.span)
                sym.used = True
                if self.place != "control":
                    raise fail(
                        "E030",
                        f"tables can be applied in the apply block of a control only, not in {self.where()}",
                        e.span,
                    )
                return ir.Call(e.span, VOID, ir.ApplyTable(sym), ())
        base = self.expr(target.base)
        bt = base.type
        if bt is BROKEN:
            return ir.Lit(e.span, BROKEN, 0)
        if isinstance(base, ir.InstanceRef) and isinstance(bt, BlockType):
            if name != "apply":
                raise fail("E012", f"a {bt.proto.kind} has no method '{name}'", target.name_span)
            return self._apply_block(e, base.inst)
        if isinstance(base, ir.Var) and isinstance(bt, BlockType):
            if name != "apply":
                raise fail("E012", f"a {bt.proto.kind} has no method '{name}'", target.name_span)
            return self._apply_param(e, base.sym, bt)
        if isinstance(bt, ExternType):
            return self._method_call(e, base, bt, target, want)
        if name in _SIZES:
            return self._size(e, bt, name)
        return self._builtin(e, base, target)

    def _size(self, e: ast.Call, t: Type, name: str) -> ir.Expr:
        if e.args:
            raise fail("E021", f"{name}() takes no arguments", e.span)
        width = width_of(t) if name.startswith("max") else _min_width(t)
        if width is None:
            raise fail("E023", f"{t} has no size", e.span)
        return ir.Lit(e.span, INT, width if name.endswith("Bits") else (width + 7) // 8)

    def _builtin(self, e: ast.Call, base: ir.Expr, target: ast.Member) -> ir.Expr:
        name, t = target.name, base.type
        header = isinstance(t, Struct) and t.kind in ("header", "header_union")
        if name == "isValid" and header:
            self._no_args(e, name)
            return ir.Call(e.span, BOOL, ir.Builtin(name, base), ())
        if name in ("setValid", "setInvalid") and isinstance(t, Struct) and t.kind == "header":
            self._no_args(e, name)
            self.check_lvalue(base, "changed")
            return ir.Call(e.span, VOID, ir.Builtin(name, base), ())
        if name in ("push_front", "pop_front") and isinstance(t, Stack):
            if len(e.args) != 1 or e.args[0].value is None:
                raise fail("E021", f"{name}() takes one argument, a constant", e.span)
            self.check_lvalue(base, "changed")
            count = self.const_int(e.args[0].value, f"the argument of {name}()")
            if count < 0:
                raise fail("E026", f"the argument of {name}() cannot be negative", e.args[0].span)
            arg = ir.Lit(e.args[0].span, Bits(32), count)
            return ir.Call(e.span, VOID, ir.Builtin(name, base), (arg,))
        hint = None
        if name in ("setValid", "setInvalid", "isValid") and isinstance(t, (Struct, Stack)):
            hint = "only headers have validity"
        raise fail("E012", f"{t} has no method '{name}'", target.name_span, hint=hint)

    def _no_args(self, e: ast.Call, name: str) -> None:
        if e.args:
            raise fail("E021", f"{name}() takes no arguments", e.span)

    # -- functions and methods -----------------------------------------------------------------

    def _function_call(self, e: ast.Call, fs: FunctionSet, want: Type | None) -> ir.Expr:
        decl = self._overload(fs.items, e, fs.name)
        tparams = decl.tparams
        sub = self._explicit(tparams, e)
        args = self.bind(decl.params, e.args, e.span, fs.name)
        typed, ret = self._infer(tparams, decl.params, decl.ret, sub, args, e.span, fs.name, want)
        targs = tuple(sub[v] or DONT_CARE for v in tparams)
        if isinstance(decl, ir.Function):
            decl.used = True
            return ir.Call(e.span, ret, ir.CallFunction(decl), typed, targs)
        if fs.name == "static_assert":
            return self._static_assert(e, typed)
        if fs.name == "verify" and self.place not in ("parser", "function"):
            raise fail("E030", "verify() may only be called in parsers", e.span)
        dep = an.find(decl.annos, "deprecated")
        if dep is not None:
            text = an.string_arg(dep) if dep.tokens else ""
            self.diags.warning("W105", f"{fs.name} is deprecated", e.span, hint=text or None)
        return ir.Call(e.span, ret, ir.ExternFunction(decl), typed, targs)

    def _static_assert(self, e: ast.Call, args: tuple[ir.Expr | None, ...]) -> ir.Expr:
        cond = args[0]
        if not isinstance(cond, ir.Lit):
            raise fail("E025", "static_assert() needs a condition known at compile time", e.span)
        if not cond.value:
            message = (
                args[1].value if len(args) > 1 and isinstance(args[1], ir.Lit) else "static assertion failed"
            )
            raise fail("E037", str(message), e.span)
        return ir.Lit(e.span, BOOL, True)

    def _method_call(
        self, e: ast.Call, obj: ir.Expr, t: ExternType, target: ast.Member, want: Type | None
    ) -> ir.Expr:
        methods = [m for m in t.decl.methods if m.name == target.name]
        if not methods:
            raise fail("E012", f"extern {t.decl.name} has no method '{target.name}'", target.name_span)
        decl = self._overload(methods, e, f"{t.decl.name}.{target.name}")
        sub = self._explicit(decl.tparams, e)
        args = self.bind(decl.params, e.args, e.span, target.name)
        outer: dict[TypeVar, Type] = dict(zip(t.decl.tparams, t.args, strict=False))
        typed, ret = self._infer(
            decl.tparams, decl.params, decl.ret, sub, args, e.span, target.name, want, outer
        )
        targs = tuple(sub[v] or DONT_CARE for v in decl.tparams)
        self.lookahead_type = ret
        self.check_method(e, t, decl, typed)
        return ir.Call(e.span, ret, ir.ExternMethod(obj, decl), typed, targs)

    def check_method(
        self, e: ast.Call, t: ExternType, decl: ir.MethodDecl, args: tuple[ir.Expr | None, ...]
    ) -> None:
        """Rules of packet_in and packet_out that their declarations cannot express."""
        first = args[0] if args else None
        if t.decl.name == "packet_in" and decl.name == "lookahead":
            target = self.lookahead_type
            if target is not None and width_of(target) is None and target is not BROKEN:
                raise fail("E023", f"lookahead() needs a type of fixed width, not {target}", e.span)
        if t.decl.name == "packet_in" and decl.name == "extract" and first is not None:
            h = first.type
            if h is BROKEN or h == DONT_CARE:
                return
            if not (isinstance(h, Struct) and h.kind == "header"):
                raise fail("E020", f"extract() needs a header, found {h}", first.span)
            varbits = sum(isinstance(f.type, Varbit) for f in h.fields)
            if len(args) == 1 and varbits:
                raise fail(
                    "E021", f"header {h} has a varbit field, so extract() needs its size as well", e.span
                )
            if len(args) == 2 and varbits != 1:
                raise fail(
                    "E021",
                    f"extract() with a size needs a header with one varbit field; {h} has {varbits}",
                    e.span,
                )
        elif t.decl.name == "packet_out" and decl.name == "emit" and first is not None:
            h = first.type
            while isinstance(h, Stack):
                h = h.elem
            if not isinstance(h, (Struct,)) and h is not BROKEN:
                raise fail("E020", f"emit() needs headers, found {first.type}", first.span)

    def _explicit(self, tparams: tuple[TypeVar, ...], e: ast.Call) -> dict[TypeVar, Type | None]:
        sub: dict[TypeVar, Type | None] = dict.fromkeys(tparams)
        if e.targs:
            if len(e.targs) != len(tparams):
                raise fail("E021", f"{len(tparams)} type arguments expected, got {len(e.targs)}", e.span)
            for v, a in zip(tparams, e.targs, strict=True):
                t = self.resolve(a)
                sub[v] = None if t == DONT_CARE else t
        return sub

    def _infer(
        self,
        tparams: tuple[TypeVar, ...],
        params: Sequence[ir.VarSym],
        ret: Type,
        sub: dict[TypeVar, Type | None],
        args: list[ast.Expr | None],
        span: Span,
        name: str,
        want: Type | None,
        outer: dict[TypeVar, Type] | None = None,
    ) -> tuple[tuple[ir.Expr | None, ...], Type]:
        """Typed arguments and result type; fills `sub`."""
        outer = outer or {}
        typed: list[ir.Expr | None] = []
        for p, a in zip(params, args, strict=True):
            if a is None:
                typed.append(None)
                continue
            ptype = substitute(p.type, outer)
            known = {k: v for k, v in sub.items() if v is not None}
            hint = substitute(ptype, known)
            t = self.expr(a, None if isinstance(hint, TypeVar) else hint)
            typed.append(t)
            if tparams and not self.unify(ptype, t.type, sub):
                got = sub.get(ptype) if isinstance(ptype, TypeVar) else None
                shown = got if got is not None else hint
                raise fail("E020", f"argument '{p.name}' of {name}: expected {shown}, found {t.type}", t.span)
        ret = substitute(ret, outer)
        if want is not None and contains_var(ret):
            self.unify(ret, want, sub)
        for v in tparams:
            if sub[v] is None and not _only_optional(v, params, args):
                raise fail(
                    "E022",
                    f"type parameter {v} of {name} cannot be inferred",
                    span,
                    hint=f"write {name}<...>(...)",
                )
        final: dict[TypeVar, Type] = dict(outer)
        final.update({k: v for k, v in sub.items() if v is not None})
        out: list[ir.Expr | None] = []
        for p, maybe in zip(params, typed, strict=True):
            if maybe is None:
                out.append(self._missing(p, span, name))
                continue
            out.append(self._argument(p, maybe, substitute(p.type, final), name))
        return tuple(out), substitute(ret, final)

    def _missing(self, p: ir.VarSym, span: Span, name: str) -> ir.Expr | None:
        return p.default

    def where(self) -> str:
        return {"action": "an action", "function": "a function", "parser": "a parser"}.get(
            self.place, self.place
        )

    def _action_call(self, e: ast.Call, action: ir.Action) -> ir.Expr:
        if self.place not in ("control", "action"):
            raise fail("E030", f"actions cannot be called from {self.where()}", e.span)
        action.used = True
        args = self.bind(action.params, e.args, e.span, action.name)
        typed: list[ir.Expr | None] = []
        for p, a in zip(action.params, args, strict=True):
            typed.append(None if a is None else self._argument(p, self.expr(a, p.type), p.type, action.name))
        return ir.Call(e.span, VOID, ir.CallAction(action), tuple(typed))

    def _apply_block(self, e: ast.Call, inst: ir.Instance) -> ir.Expr:
        proto = inst.ctor
        assert isinstance(proto, ir.BlockProto)
        wanted = "parser" if proto.kind == "parser" else "control"
        if self.place != wanted:
            raise fail("E030", f"a {proto.kind} cannot be applied in {self.where()}", e.span)
        args = self.bind(proto.params, e.args, e.span, proto.name)
        typed: list[ir.Expr | None] = []
        for p, a in zip(proto.params, args, strict=True):
            typed.append(
                p.default if a is None else self._argument(p, self.expr(a, p.type), p.type, proto.name)
            )
        return ir.Call(e.span, VOID, ir.ApplyBlock(inst), tuple(typed))

    def _apply_param(self, e: ast.Call, sym: ir.VarSym, t: BlockType) -> ir.Expr:
        args = self.bind(t.proto.params, e.args, e.span, sym.name)
        sub = dict(zip(t.proto.tparams, t.args, strict=False))
        typed = tuple(
            p.default
            if a is None
            else self._argument(p, self.expr(a, substitute(p.type, sub)), substitute(p.type, sub), sym.name)
            for p, a in zip(t.proto.params, args, strict=True)
        )
        return ir.Call(e.span, VOID, ir.ApplyParam(sym, t.proto), typed)


def _only_optional(v: TypeVar, params: Sequence[ir.VarSym], args: Sequence[ast.Expr | None]) -> bool:
    return any(p.type == v and a is None for p, a in zip(params, args, strict=True))


def _min_width(t: Type) -> int | None:
    if isinstance(t, Varbit):
        return 0
    if isinstance(t, Struct):
        widths = [_min_width(f.type) for f in t.fields]
        if None in widths:
            return None
        known = [w or 0 for w in widths]
        return min(known, default=0) if t.kind == "header_union" else sum(known)
    if isinstance(t, Stack):
        w = _min_width(t.elem)
        return None if w is None else w * t.size
    return width_of(t)
