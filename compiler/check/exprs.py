# SPDX-License-Identifier: Apache-2.0
"""Typing of expressions."""

from __future__ import annotations

from collections.abc import Callable

from .. import ast, ir
from ..diag import fail
from ..source import Span
from ..types import (
    BOOL,
    BROKEN,
    ERROR,
    INT,
    STRING,
    Bits,
    Enum,
    ListType,
    SerEnum,
    SetType,
    Stack,
    Struct,
    StructField,
    Tuple,
    Type,
    base_type,
)
from .base import BlockSym, ExternSym, FunctionSet, GenericSym, TypeSym, kind_of
from .fold import as_int, fold, is_const
from .operators import OperatorChecker


class ExprChecker(OperatorChecker):
    """Expressions: :meth:`expr` types one, with the type wanted of it where that helps."""

    def expr(self, e: ast.Expr, want: Type | None = None) -> ir.Expr:
        """Typed form of `e`. `want` guides literals and lists; the result may have another type."""
        handler = _HANDLERS.get(type(e))
        if handler is None:
            raise fail("E030", "this expression is not allowed here", e.span)
        return handler(self, e, want)

    def value(self, e: ast.Expr, want: Type, what: str = "") -> ir.Expr:
        """`e` as a value of type `want`."""
        return self.coerce(self.expr(e, want), want, what)

    def const_value(self, e: ast.Expr, want: Type | None, what: str) -> ir.Expr:
        typed = self.expr(e, want) if want is None else self.value(e, want)
        if not is_const(typed) and typed.type is not BROKEN:
            raise fail("E025", f"{what} must be known at compile time", e.span)
        return typed

    def const_int(self, e: ast.Expr, what: str) -> int:
        typed = self.expr(e)
        value = as_int(typed)
        if value is None or typed.type == BOOL:
            raise fail("E025", f"{what} must be an integer known at compile time", e.span)
        return value

    def condition(self, e: ast.Expr) -> ir.Expr:
        typed = self.expr(e, BOOL)
        if typed.type != BOOL and typed.type is not BROKEN:
            hint = "compare it with 0" if isinstance(typed.type, Bits) else None
            raise fail("E020", f"expected a condition of type bool, found {typed.type}", e.span, hint=hint)
        return typed

    # -- leaves --------------------------------------------------------------------------------

    def _int(self, e: ast.Int, want: Type | None) -> ir.Expr:
        if e.width is None:
            return ir.Lit(e.span, INT, e.value)
        if e.width == 0 and e.signed:
            raise fail("E027", "int<0> is not a type", e.span)
        t = Bits(e.width, e.signed)
        wrapped = ir.wrap(e.value, t) if e.width else 0
        if e.value >= 1 << (e.width - 1 if e.signed else e.width):
            self.diags.warning("W102", f"value {e.value} does not fit {t}; it becomes {wrapped}", e.span)
        return ir.Lit(e.span, t, wrapped)

    def _bool(self, e: ast.Bool, want: Type | None) -> ir.Expr:
        return ir.Lit(e.span, BOOL, e.value)

    def _str(self, e: ast.Str, want: Type | None) -> ir.Expr:
        return ir.Lit(e.span, STRING, e.value)

    def _name(self, e: ast.Name, want: Type | None) -> ir.Expr:
        sym = self.lookup(e.name, e.span, e.rooted)
        if isinstance(sym, ir.VarSym):
            sym.used = True
            if sym.kind == "const" and sym.value is not None:
                return _respan(sym.value, e.span)
            return ir.Var(e.span, sym.type, sym)
        if isinstance(sym, ir.Instance):
            sym.used = True
            return ir.InstanceRef(e.span, sym.type, sym)
        if isinstance(sym, ir.ValueSet):
            sym.used = True
            return ir.ValueSetKey(e.span, SetType(sym.type), sym)
        hint = "call it with parentheses" if isinstance(sym, (FunctionSet, ir.Action)) else None
        if isinstance(sym, ir.Table):
            hint = f"apply it with {e.name}.apply()"
        raise fail("E013", f"'{e.name}' is a {kind_of(sym)}, not a value", e.span, hint=hint)

    def _dots(self, e: ast.Dots, want: Type | None) -> ir.Expr:
        if want is None:
            raise fail("E022", "the type of '...' is not known here", e.span)
        return self.default_value(want, e.span)

    def _invalid(self, e: ast.Invalid, want: Type | None) -> ir.Expr:
        t = base_type(want) if want is not None else None
        if isinstance(t, Struct) and t.kind in ("header", "header_union"):
            return ir.InvalidHeader(e.span, t)
        return ir.InvalidHeader(e.span, Struct("unknown", "{#}", ()))

    # -- members -------------------------------------------------------------------------------

    def _member(self, e: ast.Member, want: Type | None) -> ir.Expr:
        t = self.as_type(e.base)
        if t is not None:
            return self._type_member(e, t)
        base = self.expr(e.base)
        return self.member_of(base, e.name, e.span, e.name_span)

    def as_type(self, e: ast.Expr) -> Type | None:
        """Type that `e` names, if it does name one."""
        if isinstance(e, ast.TypeExpr):
            return self.resolve(e.type)
        if isinstance(e, ast.Name):
            sym = (self.globals if e.rooted else self.scope).find(e.name)
            if isinstance(sym, (TypeSym, ExternSym, BlockSym)):
                return self.resolve(ast.TName(e.span, e.name, e.rooted))
            if isinstance(sym, GenericSym):
                raise fail("E022", f"type {e.name} needs type arguments", e.span)
        return None

    def _type_member(self, e: ast.Member, t: Type) -> ir.Expr:
        if t == ERROR:
            if e.name not in self.errors:
                raise fail("E012", f"error.{e.name} is not declared", e.name_span)
            return ir.EnumLit(e.span, t, e.name)
        if isinstance(t, (Enum, SerEnum)):
            if e.name not in t.members:
                raise fail("E012", f"enum {t.name} has no member '{e.name}'", e.name_span)
            return ir.EnumLit(e.span, t, e.name)
        raise fail("E012", f"type {t} has no member '{e.name}'", e.name_span)

    def member_of(self, base: ir.Expr, name: str, span: Span, name_span: Span) -> ir.Expr:
        t = base.type
        if t is BROKEN:
            return ir.Lit(span, BROKEN, 0)
        if isinstance(t, Struct):
            f = t.find(name)
            if f is not None:
                return fold(ir.Field(span, f.type, base, name))
        elif isinstance(t, Stack):
            if name in ("next", "last"):
                if self.place != "parser":
                    raise fail("E030", f"'{name}' of a header stack is only allowed in parsers", name_span)
                return ir.StackMember(span, t.elem, base, name)
            if name == "lastIndex":
                if self.place != "parser":
                    raise fail("E030", "'lastIndex' is only allowed in parsers", name_span)
                return ir.StackMember(span, Bits(32), base, name)
            if name == "size":
                return ir.Lit(span, Bits(32), t.size)
        elif isinstance(base, ir.Call) and isinstance(base.target, ir.ApplyTable):
            if name in ("hit", "miss"):
                return ir.ApplyResult(span, BOOL, base, name)
            if name == "action_run":
                return ir.ApplyResult(span, base.type, base, name)
        raise fail("E012", f"{t} has no member '{name}'", name_span, hint=_similar_member(t, name))

    def _index(self, e: ast.Index, want: Type | None) -> ir.Expr:
        base = self.expr(e.base)
        index = self.expr(e.index)
        t = base.type
        value = as_int(index)
        if isinstance(t, (Tuple, ListType)):
            if value is None:
                raise fail("E025", "the index of a tuple must be known at compile time", e.index.span)
            if isinstance(t, Tuple):
                if not 0 <= value < len(t.elems):
                    raise fail("E026", f"index {value} is outside the {len(t.elems)} elements", e.index.span)
                return fold(ir.Index(e.span, t.elems[value], base, index))
            return fold(ir.Index(e.span, t.elem, base, index))
        if not isinstance(t, Stack):
            if t is BROKEN:
                return ir.Lit(e.span, BROKEN, 0)
            raise fail("E020", f"{t} cannot be indexed", e.base.span)
        if not isinstance(index.type, Bits) and index.type != INT:
            if isinstance(index.type, SerEnum):
                index = self.coerce(index, index.type.underlying)
            else:
                raise fail("E020", f"an index must be an integer, not {index.type}", e.index.span)
        if value is not None:
            if not 0 <= value < t.size:
                raise fail("E026", f"index {value} is outside the stack of {t.size}", e.index.span)
            index = ir.Lit(index.span, Bits(32) if index.type == INT else index.type, value)
        return fold(ir.Index(e.span, t.elem, base, index))

    def _slice(self, e: ast.Slice, want: Type | None) -> ir.Expr:
        base = self.expr(e.base)
        t = base_type(base.type)
        if isinstance(t, SerEnum):
            base, t = self.coerce(base, t.underlying), t.underlying
        if t is BROKEN:
            return ir.Lit(e.span, BROKEN, 0)
        if not isinstance(t, Bits) and not (t == INT and as_int(base) is not None):
            raise fail("E020", f"only bit<W> and int<W> can be sliced, not {base.type}", e.base.span)
        if e.plus:
            lo = self.const_int(e.hi, "the start of a slice")
            width = self.const_int(e.lo, "the width of a slice")
            hi = lo + width - 1
        else:
            hi = self.const_int(e.hi, "a slice bound")
            lo = self.const_int(e.lo, "a slice bound")
        if lo < 0:
            raise fail("E026", f"slice bound {lo} is negative", e.lo.span)
        if hi < lo:
            raise fail(
                "E026",
                f"slice [{hi}:{lo}] has its bounds the wrong way round",
                e.span,
                hint=f"write [{lo}:{hi}]" if not e.plus else None,
            )
        if isinstance(t, Bits) and hi >= t.width:
            raise fail("E026", f"bit {hi} is outside {base.type}", e.hi.span)
        return fold(ir.Slice(e.span, Bits(hi - lo + 1), base, hi, lo))

    # -- operators -----------------------------------------------------------------------------

    def _unary(self, e: ast.Unary, want: Type | None) -> ir.Expr:
        arg = self.expr(e.arg, want)
        if isinstance(arg.type, SerEnum):
            arg = self.coerce(arg, arg.type.underlying)
        t = arg.type
        if t is BROKEN:
            return arg
        if e.op == "!":
            if t != BOOL:
                raise fail(
                    "E020",
                    f"'!' needs bool, found {t}",
                    e.arg.span,
                    hint="use '~' for bits" if isinstance(t, Bits) else None,
                )
        elif e.op == "~":
            if not isinstance(t, Bits):
                what = "a number with a width" if t == INT else "bit<W> or int<W>"
                raise fail("E020", f"'~' needs {what}, found {t}", e.arg.span)
        elif not isinstance(t, Bits) and t != INT:
            raise fail("E020", f"'{e.op}' needs a number, found {t}", e.arg.span)
        if e.op == "+":
            return arg
        return fold(ir.Unary(e.span, t, e.op, arg))

    def _binary(self, e: ast.Binary, want: Type | None) -> ir.Expr:
        op = e.op
        if op in ("&&", "||"):
            left, right = self.condition(e.left), self.condition(e.right)
            return fold(ir.Binary(e.span, BOOL, op, left, right))
        left = self.expr(e.left)
        right = self.expr(e.right)
        return self.binary(op, left, right, e.span)

    def _ternary(self, e: ast.Ternary, want: Type | None) -> ir.Expr:
        cond = self.condition(e.cond)
        yes = self.expr(e.yes, want)
        no = self.expr(e.no, want)
        if yes.type != no.type:
            if yes.type == INT and isinstance(no.type, Bits):
                yes = self.coerce(yes, no.type)
            elif no.type == INT and isinstance(yes.type, Bits):
                no = self.coerce(no, yes.type)
            elif isinstance(yes, (ir.Aggregate, ir.InvalidHeader)) and want is None:
                yes = self.coerce(yes, no.type)
            else:
                no = self.coerce(no, yes.type)
        if yes.type == INT and not isinstance(cond, ir.Lit):
            if isinstance(want, Bits):
                yes, no = self.coerce(yes, want), self.coerce(no, want)
            else:
                raise fail(
                    "E022",
                    "the width of the result is not known",
                    e.span,
                    hint="give one of the values a width",
                )
        return fold(ir.Mux(e.span, yes.type, cond, yes, no))

    def _cast(self, e: ast.Cast, want: Type | None) -> ir.Expr:
        t = self.resolve(e.type)
        arg = self.expr(e.arg, t)
        return self.cast(arg, t, e.span)

    # -- lists ---------------------------------------------------------------------------------

    def _list(self, e: ast.ListExpr, want: Type | None) -> ir.Expr:
        t = base_type(want) if want is not None else None
        elems: list[Type | None] = []
        if isinstance(t, Struct):
            elems = [f.type for f in t.fields]
        elif isinstance(t, Tuple):
            elems = list(t.elems)
        elif isinstance(t, ListType):
            elems = [t.elem] * len(e.items)
        elif isinstance(t, Stack):
            elems = [t.elem] * (t.size if e.dots else len(e.items))
        items: list[ir.Expr] = []
        for i, item in enumerate(e.items):
            wanted = elems[i] if i < len(elems) else None
            items.append(self.expr(item, wanted))
        if e.dots:
            if t is None or len(elems) < len(items):
                raise fail("E022", "'...' needs a type that tells what is left out", e.span)
            items += [self.default_value(x, e.span) for x in elems[len(items) :] if x is not None]
        return ir.Aggregate(e.span, Tuple(tuple(i.type for i in items)), tuple(items))

    def _struct(self, e: ast.StructExpr, want: Type | None) -> ir.Expr:
        t = base_type(want) if want is not None else None
        names: dict[str, ir.Expr] = {}
        for name, item in e.items:
            if name in names:
                raise fail("E011", f"field '{name}' is given twice", item.span)
            f = t.find(name) if isinstance(t, Struct) else None
            names[name] = self.expr(item, f.type if f else None)
        if e.dots:
            if not isinstance(t, Struct):
                raise fail("E022", "'...' needs a type that tells what is left out", e.span)
            for f in t.fields:
                if f.name not in names:
                    names[f.name] = self.default_value(f.type, e.span)
        fields = tuple(StructField(n, i.type) for n, i in names.items())
        return ir.Aggregate(e.span, Struct("unknown", "", fields), tuple(names.values()))

    # -- key sets ------------------------------------------------------------------------------

    def keyset(self, e: ast.Expr, want: Type, what: str) -> ir.Expr:
        """Key set element for a key of type `want`."""
        if isinstance(e, ast.DontCare):
            return ir.AnyKey(e.span, want)
        if isinstance(e, (ast.Mask, ast.Range)):
            first, second = (e.value, e.mask) if isinstance(e, ast.Mask) else (e.lo, e.hi)
            t = base_type(want)
            if isinstance(t, SerEnum):
                t = t.underlying
            if not isinstance(t, Bits):
                op = "&&&" if isinstance(e, ast.Mask) else ".."
                raise fail("E020", f"'{op}' needs numbers, but the key is {want}", e.span)
            a = self.value(first, t, what)
            b = self.value(second, t, what)
            return (ir.MaskKey if isinstance(e, ast.Mask) else ir.RangeKey)(e.span, want, a, b)
        if (
            isinstance(e, ast.ListExpr)
            and len(e.items) == 1
            and not isinstance(base_type(want), (Struct, Tuple))
        ):
            return self.keyset(e.items[0], want, what)
        typed = self.expr(e, want)
        if isinstance(typed, ir.ValueSetKey):
            return typed
        t = base_type(want)
        if isinstance(t, SerEnum) and typed.type in (INT, t.underlying):
            return self.coerce(typed, t.underlying, what)
        return self.coerce(typed, want, what)

    # -- lvalues -------------------------------------------------------------------------------

    def check_lvalue(self, e: ir.Expr, what: str = "assigned to") -> None:
        """Raise a diagnostic unless `e` may be written here."""
        if isinstance(e, ir.Var):
            s = e.sym
            reason = None
            if s.kind == "const":
                reason = "a constant"
            elif s.kind == "cparam":
                reason = "a constructor parameter"
            elif s.direction == "in":
                reason = "an 'in' parameter"
            elif s.kind in ("param", "action_param") and s.direction == "":
                reason = "a parameter without direction"
            if reason:
                raise fail("E024", f"'{s.name}' is {reason} and cannot be {what}", e.span)
            s.written = True
            return
        if isinstance(e, (ir.Field, ir.Index, ir.Slice)):
            self.check_lvalue(e.base, what)
            return
        if isinstance(e, ir.StackMember) and e.name != "lastIndex":
            self.check_lvalue(e.base, what)
            return
        if e.type is BROKEN:
            return
        raise fail("E024", f"this is no variable and cannot be {what}", e.span)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, e: ast.Call, want: Type | None) -> ir.Expr:
        raise NotImplementedError

    def _call(self, e: ast.Call, want: Type | None) -> ir.Expr:
        return self.call(e, want)


def _respan(e: ir.Expr, span: Span) -> ir.Expr:
    """`e` placed at `span`: a constant where it is used."""
    if isinstance(e, ir.Lit):
        return ir.Lit(span, e.type, e.value)
    if isinstance(e, ir.EnumLit):
        return ir.EnumLit(span, e.type, e.name)
    if isinstance(e, ir.Aggregate):
        return ir.Aggregate(span, e.type, e.items)
    return e


def _similar_member(t: Type, name: str) -> str | None:
    from difflib import get_close_matches

    if isinstance(t, Struct):
        close = get_close_matches(name, [f.name for f in t.fields], n=1, cutoff=0.6)
        return f"did you mean '{close[0]}'?" if close else None
    return None


_HANDLERS: dict[type[ast.Expr], Callable[..., ir.Expr]] = {
    ast.Int: ExprChecker._int,
    ast.Bool: ExprChecker._bool,
    ast.Str: ExprChecker._str,
    ast.Name: ExprChecker._name,
    ast.Member: ExprChecker._member,
    ast.Index: ExprChecker._index,
    ast.Slice: ExprChecker._slice,
    ast.Unary: ExprChecker._unary,
    ast.Binary: ExprChecker._binary,
    ast.Ternary: ExprChecker._ternary,
    ast.Cast: ExprChecker._cast,
    ast.Call: ExprChecker._call,
    ast.ListExpr: ExprChecker._list,
    ast.StructExpr: ExprChecker._struct,
    ast.Dots: ExprChecker._dots,
    ast.Invalid: ExprChecker._invalid,
}
