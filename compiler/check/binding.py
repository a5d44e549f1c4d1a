# SPDX-License-Identifier: Apache-2.0
"""Arguments and parameters: overloads, named and default arguments, constructors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar as TypeVariable

from .. import annos as an
from .. import ast, ir
from ..diag import fail
from ..source import Span
from ..types import BROKEN, DONT_CARE, BlockType, ExternType, Type, TypeVar, contains_var, substitute
from .fold import is_const
from .keynames import KeyNamer

_M = TypeVariable("_M", bound=ir.MethodDecl | ir.Function)


class Binder(KeyNamer):
    """Binds arguments to parameters, makes instances."""

    def _overload(self, items: Sequence[_M], e: ast.Call, name: str) -> _M:
        fits = [m for m in items if _accepts(m.params, e.args)]
        if len(fits) == 1 or (len(fits) > 1 and len(items) == 1):
            return fits[0]
        if not fits:
            if len(items) == 1:
                return items[0]
            counts = " or ".join(sorted({str(len(m.params)) for m in items}))
            raise fail(
                "E021", f"no variant of {name} takes {len(e.args)} arguments; it has ones of {counts}", e.span
            )
        exact = [m for m in fits if len(m.params) == len(e.args)]
        if len(exact) == 1:
            return exact[0]
        raise fail("E021", f"call of {name} is ambiguous", e.span)

    def _argument(self, p: ir.VarSym, e: ir.Expr, t: Type, name: str) -> ir.Expr:
        if p.direction in ("out", "inout"):
            if e.type != t and e.type is not BROKEN and t != DONT_CARE:
                raise fail(
                    "E020",
                    f"argument '{p.name}' of {name}: expected {t}, found {e.type}",
                    e.span,
                    hint=f"an {p.direction} argument is not converted",
                )
            self.check_lvalue(e, f"passed as '{p.direction}'")
            return e
        return self.coerce(e, t, f"for '{p.name}' of {name}")

    def bind(
        self, params: Sequence[ir.VarSym], args: Sequence[ast.Arg], span: Span, name: str
    ) -> list[ast.Expr | None]:
        """Arguments in the order of the parameters; None for ``_``, defaulted and optional ones."""
        out: list[ast.Expr | None] = [None] * len(params)
        given = [False] * len(params)
        if any(a.name for a in args) and not all(a.name for a in args):
            raise fail("E021", f"call of {name} mixes named and positional arguments", span)
        if len(args) > len(params):
            raise fail("E021", f"{name} takes {len(params)} arguments, got {len(args)}", span)
        for i, a in enumerate(args):
            if a.name is not None:
                index = next((k for k, p in enumerate(params) if p.name == a.name), None)
                if index is None:
                    raise fail("E021", f"{name} has no parameter '{a.name}'", a.span)
                i = index
            if given[i]:
                raise fail("E021", f"parameter '{params[i].name}' is given twice", a.span)
            given[i] = True
            if a.value is None and params[i].direction not in ("out",):
                raise fail(
                    "E024", f"'_' is allowed for 'out' parameters only, not for '{params[i].name}'", a.span
                )
            out[i] = a.value
        for p, g in zip(params, given, strict=True):
            if not g and p.default is None and not an.has(p.annos, "optional"):
                raise fail(
                    "E021",
                    f"{name} takes {len(params)} arguments, got {len(args)}: '{p.name}' is missing",
                    span,
                )
        return out

    def instantiate(
        self, t: Type, args: tuple[ast.Arg, ...], span: Span, name: str, annos: ast.Annotations = ()
    ) -> ir.Instance:
        """Instance of an extern, parser, control or package of type `t`."""
        if isinstance(t, ExternType):
            return self._extern_instance(t, args, span, name, annos)
        if not isinstance(t, BlockType):
            raise fail("E013", f"{t} is not something that can be instantiated", span)
        proto = t.proto
        if proto.kind == "package":
            return self._package(t, args, span, name, annos)
        if not isinstance(proto, (ir.Control, ir.Parser)):
            raise fail("E013", f"{proto.name} is only the type of a {proto.kind}; it has no body", span)
        bound = self.bind(proto.cparams, args, span, proto.name)
        typed = tuple(
            p.default if a is None else self._ctor_arg(p, a, p.type, proto.name)
            for p, a in zip(proto.cparams, bound, strict=True)
        )
        return ir.Instance(name, span, annos, t, proto, typed)

    def _ctor_arg(self, p: ir.VarSym, a: ast.Expr, t: Type, name: str) -> ir.Expr:
        e = (
            self.coerce(self.expr(a, t), t, f"for '{p.name}' of {name}")
            if not isinstance(t, (BlockType, ExternType))
            else self.expr(a, t)
        )
        if isinstance(t, (BlockType, ExternType)):
            if not self.unify(t, e.type, {}):
                raise fail("E020", f"expected {t} for '{p.name}' of {name}, found {e.type}", e.span)
            return e
        if (
            not is_const(e)
            and not (isinstance(e, ir.Var) and e.sym.kind == "cparam")
            and e.type is not BROKEN
            and not _cparam_only(e)
        ):
            raise fail("E025", f"argument '{p.name}' of {name} must be known at compile time", e.span)
        return e

    def _extern_instance(
        self, t: ExternType, args: tuple[ast.Arg, ...], span: Span, name: str, annos: ast.Annotations
    ) -> ir.Instance:
        decl = t.decl
        if not decl.ctors:
            raise fail("E013", f"extern {decl.name} has no constructor and cannot be instantiated", span)
        fake = ast.Call(span, ast.Name(span, decl.name), (), args)
        ctor = self._overload(decl.ctors, fake, decl.name)
        bound = self.bind(ctor.params, args, span, decl.name)
        sub: dict[TypeVar, Type | None] = dict.fromkeys(decl.tparams)
        sub.update(zip(decl.tparams, t.args, strict=False))
        typed: list[ir.Expr | None] = []
        for p, arg in zip(ctor.params, bound, strict=True):
            if arg is None:
                typed.append(p.default)
                continue
            known = {k: x for k, x in sub.items() if x is not None}
            pt = substitute(p.type, known)
            if contains_var(pt):
                e = self.expr(arg)
                if not self.unify(p.type, e.type, sub):
                    raise fail("E020", f"expected {pt} for '{p.name}' of {decl.name}, found {e.type}", e.span)
                typed.append(e)
            else:
                typed.append(self._ctor_arg(p, arg, pt, decl.name))
        missing = [v for v in decl.tparams if sub[v] is None]
        if missing:
            raise fail(
                "E022",
                f"type parameter {missing[0]} of {decl.name} cannot be inferred",
                span,
                hint=f"write {decl.name}<...>(...)",
            )
        if not name and any(m.abstract for m in decl.methods):
            raise fail(
                "E030", f"{decl.name} has abstract methods; it needs a declaration that gives them", span
            )
        full = ExternType(decl, tuple(sub[v] or DONT_CARE for v in decl.tparams))
        return ir.Instance(name, span, annos, full, ctor, tuple(typed))

    def _package(
        self, t: BlockType, args: tuple[ast.Arg, ...], span: Span, name: str, annos: ast.Annotations
    ) -> ir.Instance:
        proto = t.proto
        bound = self.bind(proto.params, args, span, proto.name)
        sub: dict[TypeVar, Type | None] = dict.fromkeys(proto.tparams)
        for v, a in zip(proto.tparams, t.args, strict=False):
            sub[v] = None if a == DONT_CARE else a
        typed: list[ir.Expr | None] = []
        for p, arg in zip(proto.params, bound, strict=True):
            if arg is None:
                typed.append(p.default)
                continue
            e = self.expr(arg)
            if not self.unify(p.type, e.type, sub):
                raise fail("E020", self._block_mismatch(p, e, proto.name), e.span)
            if isinstance(e.type, (BlockType, ExternType)):
                typed.append(e)
            else:
                known = {k: x for k, x in sub.items() if x is not None}
                typed.append(self.coerce(e, substitute(p.type, known), f"for '{p.name}' of {proto.name}"))
        return ir.Instance(name, span, annos, t, proto, tuple(typed))

    def _block_mismatch(self, p: ir.VarSym, e: ir.Expr, name: str) -> str:
        t, have = p.type, e.type
        if not (isinstance(t, BlockType) and isinstance(have, BlockType)):
            return f"argument '{p.name}' of {name}: expected {t}, found {have}"
        if t.proto.kind != have.proto.kind:
            return (
                f"argument '{p.name}' of {name} must be a {t.proto.kind}; "
                f"{have.proto.name} is a {have.proto.kind}"
            )
        if len(t.proto.params) != len(have.proto.params):
            return (
                f"argument '{p.name}' of {name}: {have.proto.name} has {len(have.proto.params)} parameters, "
                f"{t.proto.name} has {len(t.proto.params)}"
            )
        for f, a in zip(t.proto.params, have.proto.params, strict=True):
            if f.direction != a.direction:
                return (
                    f"argument '{p.name}' of {name}: parameter '{a.name}' of {have.proto.name} must have "
                    f"direction '{f.direction}'"
                )
        return f"argument '{p.name}' of {name}: the parameters of {have.proto.name} do not fit {t}"


def _accepts(params: Sequence[ir.VarSym], args: Sequence[ast.Arg]) -> bool:
    if len(args) > len(params):
        return False
    names = {p.name for p in params}
    if any(a.name is not None and a.name not in names for a in args):
        return False
    if all(a.name is not None for a in args):
        given = {a.name for a in args}
        rest = [p for p in params if p.name not in given]
    else:
        rest = list(params[len(args) :])
    return all(p.default is not None or an.has(p.annos, "optional") for p in rest)


def _cparam_only(e: ir.Expr) -> bool:
    """Is `e` made of constants and constructor parameters only?"""
    if isinstance(e, ir.Var):
        return e.sym.kind == "cparam"
    if isinstance(e, (ir.Lit, ir.EnumLit)):
        return True
    if isinstance(e, (ir.Unary, ir.Cast)):
        return _cparam_only(e.arg)
    if isinstance(e, ir.Binary):
        return _cparam_only(e.left) and _cparam_only(e.right)
    if isinstance(e, (ir.Slice, ir.Field)):
        return _cparam_only(e.base)
    if isinstance(e, ir.Aggregate):
        return all(_cparam_only(i) for i in e.items)
    return False
