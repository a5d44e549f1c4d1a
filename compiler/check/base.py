# SPDX-License-Identifier: Apache-2.0
"""Scopes, lookup, and resolution of written types."""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import annos as an
from .. import ast, ir
from ..diag import CompileError, Diagnostics, fail
from ..source import NO_SPAN, Span
from ..types import (
    BOOL,
    BROKEN,
    DONT_CARE,
    ERROR,
    INT,
    MATCH_KIND,
    STRING,
    VOID,
    Bits,
    BlockType,
    Enum,
    ExternType,
    GenericStruct,
    ListType,
    NewType,
    SerEnum,
    Stack,
    Struct,
    Tuple,
    Type,
    TypeVar,
    Varbit,
)

MAX_WIDTH = 2048


@dataclass(slots=True)
class TypeSym:
    """Name of a type."""

    type: Type
    span: Span


@dataclass(slots=True)
class FunctionSet:
    """Functions that share a name: extern ones may be overloaded."""

    name: str
    items: list[ir.MethodDecl | ir.Function] = field(default_factory=list)


@dataclass(slots=True)
class ExternSym:
    decl: ir.ExternDecl


@dataclass(slots=True)
class GenericSym:
    generic: GenericStruct


@dataclass(slots=True)
class BlockSym:
    """Parser, control or package: declared, and implemented if `proto` is a Control or Parser."""

    proto: ir.BlockProto


Symbol = (
    TypeSym
    | FunctionSet
    | ExternSym
    | GenericSym
    | BlockSym
    | ir.VarSym
    | ir.Action
    | ir.Table
    | ir.Instance
    | ir.ValueSet
)


class Scope:
    """Names of one block; `parent` is the enclosing one."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Symbol] = {}

    def find(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


def symbol_span(sym: Symbol) -> Span:
    if isinstance(sym, FunctionSet):
        return sym.items[0].span if sym.items else NO_SPAN
    if isinstance(sym, ExternSym):
        return sym.decl.span
    if isinstance(sym, GenericSym):
        return sym.generic.span
    if isinstance(sym, BlockSym):
        return sym.proto.span
    return sym.span


def kind_of(sym: Symbol) -> str:
    """What a symbol is, for messages."""
    if isinstance(sym, (TypeSym, GenericSym)):
        return "type"
    if isinstance(sym, ExternSym):
        return "extern"
    if isinstance(sym, BlockSym):
        return sym.proto.kind
    if isinstance(sym, FunctionSet):
        return "function"
    if isinstance(sym, ir.VarSym):
        return "constant" if sym.kind == "const" else "parameter" if "param" in sym.kind else "variable"
    return type(sym).__name__.lower()


_SIMPLE = {
    "bool": BOOL,
    "error": ERROR,
    "string": STRING,
    "void": VOID,
    "match_kind": MATCH_KIND,
    "_": DONT_CARE,
}


class CheckerBase:
    """State of one check: scopes, diagnostics, errors and match kinds seen so far."""

    def __init__(self, diags: Diagnostics) -> None:
        self.diags = diags
        self.globals = Scope()
        self.scope = self.globals
        self.errors: list[str] = []
        self.match_kinds: list[str] = []
        self.types: list[Type] = []
        #: Where statements are: parser, control, action, function, or top.
        self.place = "top"
        self.ret: Type | None = None
        self.loops = 0
        self.lookahead_type: Type | None = None
        #: Declarations that a user would want to hear about if nothing uses them.
        self.watched: list[tuple[str, ir.VarSym | ir.Action | ir.Table | ir.Function | ir.Instance]] = []

    # -- scopes --------------------------------------------------------------------------------

    def push(self) -> Scope:
        self.scope = Scope(self.scope)
        return self.scope

    def pop(self) -> None:
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def declare(self, name: str, sym: Symbol, span: Span) -> None:
        known = self.scope.names.get(name)
        if known is not None:
            self.diags.error(
                "E011",
                f"'{name}' is declared twice in this scope",
                span,
                notes=(("first declared here", symbol_span(known)),),
            )
            return
        self.scope.names[name] = sym

    def lookup(self, name: str, span: Span, rooted: bool = False) -> Symbol:
        sym = (self.globals if rooted else self.scope).find(name)
        if sym is None:
            raise fail("E010", f"'{name}' is not declared", span, hint=self._similar(name))
        return sym

    def _similar(self, name: str) -> str | None:
        from difflib import get_close_matches

        names: set[str] = set()
        scope: Scope | None = self.scope
        while scope is not None:
            names |= scope.names.keys()
            scope = scope.parent
        close = get_close_matches(name, sorted(names), n=1, cutoff=0.75)
        return f"did you mean '{close[0]}'?" if close else None

    def warn_unused(self) -> None:
        """Warnings for declarations that nothing uses, in the order of the source."""
        for what, d in self.watched:
            if d.used or d.name.startswith("_"):
                continue
            quiet = an.find(d.annos, "noWarn")
            if quiet is None or an.string_arg(quiet) != "unused":
                self.diags.warning("W101", f"{what} '{d.name}' is never used", d.span)

    def report(self, error: CompileError) -> None:
        """Note an error that was raised, and go on."""
        if error.diagnostic is None:
            raise error
        self.diags.add(error.diagnostic)

    # -- types ---------------------------------------------------------------------------------

    def resolve(self, t: ast.Type) -> Type:
        """Type that `t` names; raises a diagnostic if there is none."""
        if isinstance(t, ast.TBits):
            return self._bits(t)
        if isinstance(t, ast.TBase):
            return self._simple(t)
        if isinstance(t, ast.TName):
            return self._named(t)
        if isinstance(t, ast.TGeneric):
            return self._generic(t)
        if isinstance(t, ast.TTuple):
            return Tuple(tuple(self.resolve(a) for a in t.args))
        if isinstance(t, ast.TList):
            return ListType(self.resolve(t.elem))
        assert isinstance(t, ast.TStack)
        elem = self.resolve(t.elem)
        size = self.const_int(t.size, "the size of a header stack")
        if (
            not (isinstance(elem, Struct) and elem.kind in ("header", "header_union"))
            and elem is not BROKEN
            and not isinstance(elem, TypeVar)
        ):
            raise fail("E023", f"a stack holds headers or header unions, not {elem}", t.span)
        if size <= 0:
            raise fail("E026", f"the size of a header stack must be positive, not {size}", t.size.span)
        return Stack(elem, size)

    def _simple(self, t: ast.TBase) -> Type:
        if t.name == "error" and not self.errors:
            raise fail("E010", "'error' is not declared", t.span, hint="include <core.p4>")
        return _SIMPLE[t.name]

    def _bits(self, t: ast.TBits) -> Type:
        if t.width is None:
            return INT if t.kind == "int" else Bits(1)
        width = self.const_int(t.width, "a width")
        minimum = 1 if t.kind == "int" else 0
        if width < minimum:
            raise fail(
                "E027", f"the width of {t.kind}<> must be at least {minimum}, not {width}", t.width.span
            )
        if width > MAX_WIDTH:
            raise fail("E041", f"{t.kind}<{width}> is wider than the limit of {MAX_WIDTH} bits", t.width.span)
        return Varbit(width) if t.kind == "varbit" else Bits(width, t.kind == "int")

    def _named(self, t: ast.TName) -> Type:
        sym = self.lookup(t.name, t.span, t.rooted)
        if isinstance(sym, TypeSym):
            return sym.type
        if isinstance(sym, GenericSym):
            raise fail("E022", f"type {t.name} needs {len(sym.generic.tparams)} type arguments", t.span)
        if isinstance(sym, ExternSym):
            return ExternType(sym.decl)
        if isinstance(sym, BlockSym):
            return BlockType(sym.proto)
        raise fail("E013", f"'{t.name}' is a {kind_of(sym)}, not a type", t.span)

    def _generic(self, t: ast.TGeneric) -> Type:
        sym = self.lookup(t.base.name, t.span, t.base.rooted)
        args = tuple(self.resolve(a) for a in t.args)
        if isinstance(sym, GenericSym):
            self._arity(t, len(sym.generic.tparams), len(args))
            return sym.generic.specialize(args)
        if isinstance(sym, ExternSym):
            self._arity(t, len(sym.decl.tparams), len(args))
            return ExternType(sym.decl, args)
        if isinstance(sym, BlockSym):
            self._arity(t, len(sym.proto.tparams), len(args))
            return BlockType(sym.proto, args)
        raise fail("E023", f"'{t.base.name}' takes no type arguments", t.span)

    def _arity(self, t: ast.TGeneric, want: int, got: int) -> None:
        if want != got:
            raise fail("E021", f"{t.base.name} takes {want} type arguments, got {got}", t.span)

    def type_params(self, names: tuple[str, ...], span: Span) -> tuple[TypeVar, ...]:
        out = []
        for name in names:
            v = TypeVar(name)
            self.declare(name, TypeSym(v, span), span)
            out.append(v)
        return tuple(out)

    # -- provided by subclasses ----------------------------------------------------------------

    def const_int(self, e: ast.Expr, what: str) -> int:
        raise NotImplementedError


__all__ = [
    "BlockSym",
    "CheckerBase",
    "Enum",
    "ExternSym",
    "FunctionSet",
    "GenericSym",
    "NewType",
    "Scope",
    "SerEnum",
    "Symbol",
    "TypeSym",
    "kind_of",
    "symbol_span",
]
