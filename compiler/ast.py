# SPDX-License-Identifier: Apache-2.0
"""Syntax tree: what the parser read, names unresolved, no types. Every node knows its place."""

from __future__ import annotations

from dataclasses import dataclass

from .source import Span, Token


@dataclass(frozen=True, slots=True)
class Node:
    span: Span


# -- annotations -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Annotation(Node):
    """``@name``, ``@name(tokens)`` (`tokens` set) or ``@name[...]`` (`exprs` or `pairs` set)."""

    name: str
    tokens: tuple[Token, ...] | None = None
    exprs: tuple[Expr, ...] | None = None
    pairs: tuple[tuple[str, Expr], ...] | None = None


Annotations = tuple[Annotation, ...]

# -- types -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Type(Node):
    pass


@dataclass(frozen=True, slots=True)
class TName(Type):
    name: str
    rooted: bool = False


@dataclass(frozen=True, slots=True)
class TGeneric(Type):
    base: TName
    args: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class TBase(Type):
    """bool, error, string, void, match_kind, or ``_`` (don't care)."""

    name: str


@dataclass(frozen=True, slots=True)
class TBits(Type):
    """``bit<W>``, ``int<W>``, ``varbit<W>``; `width` is None for ``bit`` and infinite ``int``."""

    kind: str
    width: Expr | None


@dataclass(frozen=True, slots=True)
class TTuple(Type):
    args: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class TList(Type):
    elem: Type


@dataclass(frozen=True, slots=True)
class TStack(Type):
    elem: Type
    size: Expr


# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr(Node):
    pass


@dataclass(frozen=True, slots=True)
class Int(Expr):
    value: int
    width: int | None
    signed: bool
    text: str


@dataclass(frozen=True, slots=True)
class Bool(Expr):
    value: bool


@dataclass(frozen=True, slots=True)
class Str(Expr):
    value: str


@dataclass(frozen=True, slots=True)
class Name(Expr):
    name: str
    rooted: bool = False


@dataclass(frozen=True, slots=True)
class TypeExpr(Expr):
    """A type where an expression stands: ``error.NoError``, ``bit<8>`` in a method call."""

    type: Type


@dataclass(frozen=True, slots=True)
class Member(Expr):
    base: Expr
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True)
class Index(Expr):
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    """``base[hi:lo]``, or ``base[lo +: width]`` when `plus` (then `hi` is lo and `lo` the width)."""

    base: Expr
    hi: Expr
    lo: Expr
    plus: bool = False


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: str
    arg: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary(Expr):
    cond: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    type: Type
    arg: Expr


@dataclass(frozen=True, slots=True)
class Arg(Node):
    """Argument; `name` for a named one, `value` None for ``_``."""

    name: str | None
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Call(Expr):
    target: Expr
    targs: tuple[Type, ...]
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class ListExpr(Expr):
    """``{a, b}``, or ``{a, b, ...}`` when `dots`."""

    items: tuple[Expr, ...]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class StructExpr(Expr):
    """``{x = a, y = b}``, with ``...`` at the end when `dots`."""

    items: tuple[tuple[str, Expr], ...]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Dots(Expr):
    """``...``: the default value."""


@dataclass(frozen=True, slots=True)
class Invalid(Expr):
    """``{#}``: the invalid header."""


@dataclass(frozen=True, slots=True)
class DontCare(Expr):
    """``_`` or ``default`` in a key set."""

    default: bool


@dataclass(frozen=True, slots=True)
class Mask(Expr):
    value: Expr
    mask: Expr


@dataclass(frozen=True, slots=True)
class Range(Expr):
    lo: Expr
    hi: Expr


# -- declarations ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decl(Node):
    name: str
    name_span: Span
    annos: Annotations


@dataclass(frozen=True, slots=True)
class Param(Decl):
    direction: str
    type: Type
    default: Expr | None = None


@dataclass(frozen=True, slots=True)
class Const(Decl):
    type: Type
    value: Expr


@dataclass(frozen=True, slots=True)
class Var(Decl):
    type: Type
    init: Expr | None


@dataclass(frozen=True, slots=True)
class Instance(Decl):
    type: Type
    args: tuple[Arg, ...]
    body: tuple[Decl, ...] | None = None


@dataclass(frozen=True, slots=True)
class Field(Decl):
    type: Type


@dataclass(frozen=True, slots=True)
class StructDecl(Decl):
    """`kind` is struct, header or header_union."""

    kind: str
    tparams: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class EnumMember(Decl):
    value: Expr | None


@dataclass(frozen=True, slots=True)
class EnumDecl(Decl):
    underlying: Type | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, slots=True)
class ErrorDecl(Decl):
    members: tuple[tuple[str, Span], ...]


@dataclass(frozen=True, slots=True)
class MatchKindDecl(Decl):
    members: tuple[tuple[str, Span], ...]


@dataclass(frozen=True, slots=True)
class Typedef(Decl):
    """``typedef``, or ``type`` when `new`."""

    type: Type
    new: bool


@dataclass(frozen=True, slots=True)
class Prototype(Decl):
    """Function header: extern function, extern method, constructor (`ret` None)."""

    tparams: tuple[str, ...]
    ret: Type | None
    params: tuple[Param, ...]
    abstract: bool = False
    extern: bool = False


@dataclass(frozen=True, slots=True)
class Function(Decl):
    proto: Prototype
    body: Block


@dataclass(frozen=True, slots=True)
class ExternDecl(Decl):
    tparams: tuple[str, ...]
    methods: tuple[Prototype, ...]


@dataclass(frozen=True, slots=True)
class ActionDecl(Decl):
    params: tuple[Param, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class KeyElement(Node):
    expr: Expr
    match_kind: str
    match_span: Span
    annos: Annotations


@dataclass(frozen=True, slots=True)
class ActionRef(Node):
    name: str
    rooted: bool
    args: tuple[Arg, ...] | None
    annos: Annotations


@dataclass(frozen=True, slots=True)
class Entry(Node):
    keys: tuple[Expr, ...]
    action: ActionRef
    annos: Annotations
    priority: Expr | None
    const: bool


@dataclass(frozen=True, slots=True)
class Property(Node):
    """Table property; which of the value attributes is set depends on its name."""

    name: str
    const: bool
    annos: Annotations
    expr: Expr | None = None
    keys: tuple[KeyElement, ...] | None = None
    actions: tuple[ActionRef, ...] | None = None
    entries: tuple[Entry, ...] | None = None
    init_args: tuple[Decl, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableDecl(Decl):
    props: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class ControlDecl(Decl):
    """A control; a type declaration when `body` is None."""

    tparams: tuple[str, ...]
    params: tuple[Param, ...]
    cparams: tuple[Param, ...]
    locals: tuple[Decl, ...]
    body: Block | None


@dataclass(frozen=True, slots=True)
class ValueSet(Decl):
    type: Type
    size: Expr


@dataclass(frozen=True, slots=True)
class SelectCase(Node):
    keys: tuple[Expr, ...]
    state: str
    state_span: Span


@dataclass(frozen=True, slots=True)
class Transition(Node):
    """``transition state`` (`state` set) or ``transition select(...) {...}``."""

    state: str | None
    state_span: Span
    select: tuple[Expr, ...] = ()
    cases: tuple[SelectCase, ...] = ()


@dataclass(frozen=True, slots=True)
class State(Decl):
    body: tuple[Stmt | Decl, ...]
    transition: Transition | None


@dataclass(frozen=True, slots=True)
class ParserDecl(Decl):
    """A parser; a type declaration when `states` is None."""

    tparams: tuple[str, ...]
    params: tuple[Param, ...]
    cparams: tuple[Param, ...]
    locals: tuple[Decl, ...]
    states: tuple[State, ...] | None


@dataclass(frozen=True, slots=True)
class PackageDecl(Decl):
    tparams: tuple[str, ...]
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class Program:
    decls: tuple[Decl, ...]


# -- statements ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stmt(Node):
    pass


@dataclass(frozen=True, slots=True)
class Empty(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    items: tuple[Stmt | Decl, ...]
    annos: Annotations = ()


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """`op` is ``=`` or a compound operator such as ``+=``."""

    target: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class CallStmt(Stmt):
    call: Call


@dataclass(frozen=True, slots=True)
class If(Stmt):
    cond: Expr
    then: Stmt
    other: Stmt | None


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Exit(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    pass


@dataclass(frozen=True, slots=True)
class SwitchCase(Node):
    """Case; `body` is None when it falls through to the next one."""

    label: Expr
    body: Block | None


@dataclass(frozen=True, slots=True)
class Switch(Stmt):
    expr: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True)
class For(Stmt):
    annos: Annotations
    init: tuple[Stmt | Decl, ...]
    cond: Expr
    update: tuple[Stmt, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class ForIn(Stmt):
    """``for (type name in collection)``; `decl` is None when an existing variable is used."""

    annos: Annotations
    decl: Var | None
    target: Expr
    collection: Expr
    body: Stmt
