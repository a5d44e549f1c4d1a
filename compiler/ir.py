# SPDX-License-Identifier: Apache-2.0
"""Typed tree: names resolved to declarations, every expression typed, implicit casts written out.

Expressions and statements are frozen; passes make new ones. Declarations (`Decl` and below) have an
identity of their own, because expressions point at them, and are filled in while they are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .ast import Annotations
from .source import NO_SPAN, Span, Token
from .types import Bits, Type, TypeVar

# -- declarations ----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Decl:
    name: str
    span: Span
    annos: Annotations


@dataclass(slots=True, eq=False)
class VarSym(Decl):
    """Variable, parameter or constant. `kind` is local, param, cparam, action_param or const."""

    type: Type
    kind: str = "local"
    direction: str = ""
    value: Expr | None = None
    default: Expr | None = None
    used: bool = False
    written: bool = False


@dataclass(slots=True, eq=False)
class MethodDecl(Decl):
    """Extern function, extern method or constructor."""

    tparams: tuple[TypeVar, ...]
    params: tuple[VarSym, ...]
    ret: Type
    abstract: bool = False


@dataclass(slots=True, eq=False)
class ExternDecl(Decl):
    tparams: tuple[TypeVar, ...] = ()
    methods: list[MethodDecl] = field(default_factory=list)
    ctors: list[MethodDecl] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class BlockProto(Decl):
    """What parsers, controls and packages have in common; a bare one is a type declaration."""

    kind: str
    tparams: tuple[TypeVar, ...]
    params: tuple[VarSym, ...]
    cparams: tuple[VarSym, ...] = ()


@dataclass(slots=True, eq=False)
class Function(Decl):
    tparams: tuple[TypeVar, ...]
    params: tuple[VarSym, ...]
    ret: Type
    body: Block | None = None
    used: bool = False


@dataclass(slots=True, eq=False)
class Action(Decl):
    params: tuple[VarSym, ...]
    body: Block | None = None
    used: bool = False


@dataclass(slots=True, eq=False)
class ActionRef:
    """Action in a table's list; `args` bind its directional parameters."""

    action: Action
    args: tuple[Expr | None, ...]
    annos: Annotations
    span: Span


@dataclass(frozen=True, slots=True)
class Key:
    """Key element; `name` is its control-plane name, None if it has to be given by ``@name``."""

    expr: Expr
    match_kind: str
    name: str | None
    annos: Annotations
    span: Span


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with all its arguments, as a default action or in an entry."""

    action: Action
    args: tuple[Expr | None, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Entry:
    keys: tuple[Expr, ...]
    call: ActionCall
    priority: int | None
    const: bool
    annos: Annotations
    span: Span


@dataclass(slots=True, eq=False)
class Property:
    name: str
    value: Expr
    annos: Annotations
    span: Span
    const: bool = False


@dataclass(slots=True, eq=False)
class Table(Decl):
    keys: list[Key] = field(default_factory=list)
    actions: list[ActionRef] = field(default_factory=list)
    default: ActionCall | None = None
    default_const: bool = False
    entries: list[Entry] | None = None
    entries_const: bool = False
    size: int | None = None
    props: dict[str, Property] = field(default_factory=dict)
    used: bool = False


@dataclass(slots=True, eq=False)
class Instance(Decl):
    """Instance of an extern, control or parser, with constructor arguments by parameter."""

    type: Type
    ctor: MethodDecl | BlockProto
    args: tuple[Expr | None, ...] = ()
    functions: tuple[Function, ...] = ()
    used: bool = False


@dataclass(slots=True, eq=False)
class ValueSet(Decl):
    type: Type
    size: int
    used: bool = False


@dataclass(slots=True, eq=False)
class Control(BlockProto):
    locals: list[Decl] = field(default_factory=list)
    body: Block | None = None


@dataclass(slots=True, eq=False)
class SelectCase:
    keys: tuple[Expr, ...]
    state: str
    span: Span


@dataclass(slots=True, eq=False)
class Transition:
    """To `state`, or by `select` over `cases`."""

    span: Span
    state: str | None
    select: tuple[Expr, ...] = ()
    cases: tuple[SelectCase, ...] = ()


@dataclass(slots=True, eq=False)
class State(Decl):
    body: list[Stmt] = field(default_factory=list)
    transition: Transition | None = None


@dataclass(slots=True, eq=False)
class Parser(BlockProto):
    locals: list[Decl] = field(default_factory=list)
    states: list[State] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Program:
    """Result of checking: the package instance `main` and all that lies at the top level."""

    main: Instance | None
    instances: list[Instance]
    actions: list[Action]
    types: list[Type]
    errors: list[str]
    #: Integer value of the tokens of an annotation's argument, None if it has none.
    constant: Callable[[Sequence[Token]], int | None]


# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    span: Span
    type: Type


@dataclass(frozen=True, slots=True)
class Lit(Expr):
    """Integer, boolean or string, by its type."""

    value: int | bool | str


@dataclass(frozen=True, slots=True)
class EnumLit(Expr):
    """Member of an enum, serializable enum or error."""

    name: str


@dataclass(frozen=True, slots=True)
class Var(Expr):
    sym: VarSym


@dataclass(frozen=True, slots=True)
class InstanceRef(Expr):
    inst: Instance


@dataclass(frozen=True, slots=True)
class Field(Expr):
    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Expr):
    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class StackMember(Expr):
    """``next``, ``last`` or ``lastIndex`` of a header stack."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    base: Expr
    hi: int
    lo: int


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
class Mux(Expr):
    cond: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    arg: Expr


@dataclass(frozen=True, slots=True)
class Aggregate(Expr):
    """Struct, header, tuple, list or stack value, element by element in order."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class InvalidHeader(Expr):
    pass


@dataclass(frozen=True, slots=True)
class AnyKey(Expr):
    """``_`` or ``default``."""


@dataclass(frozen=True, slots=True)
class MaskKey(Expr):
    value: Expr
    mask: Expr


@dataclass(frozen=True, slots=True)
class RangeKey(Expr):
    lo: Expr
    hi: Expr


@dataclass(frozen=True, slots=True)
class ValueSetKey(Expr):
    vset: ValueSet


# -- calls: what is called -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Builtin:
    """isValid, setValid, setInvalid, push_front, pop_front on `base`."""

    name: str
    base: Expr


@dataclass(frozen=True, slots=True)
class ExternFunction:
    decl: MethodDecl


@dataclass(frozen=True, slots=True)
class ExternMethod:
    """Method of an instance (`obj` an InstanceRef) or of a parameter such as packet_in."""

    obj: Expr
    decl: MethodDecl


@dataclass(frozen=True, slots=True)
class CallAction:
    action: Action


@dataclass(frozen=True, slots=True)
class CallFunction:
    function: Function


@dataclass(frozen=True, slots=True)
class ApplyTable:
    table: Table


@dataclass(frozen=True, slots=True)
class ApplyBlock:
    """apply() of a control or parser instance."""

    inst: Instance


@dataclass(frozen=True, slots=True)
class ApplyParam:
    """apply() of a constructor parameter that is a control or parser."""

    param: VarSym
    proto: BlockProto


@dataclass(frozen=True, slots=True)
class Construct:
    """Constructor call; only in package and constructor arguments and table properties."""

    inst: Instance


Target = (
    Builtin
    | ExternFunction
    | ExternMethod
    | CallAction
    | CallFunction
    | ApplyTable
    | ApplyBlock
    | ApplyParam
    | Construct
)


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`args` are in the order of the parameters; None stands for ``_`` or a missing optional one."""

    target: Target
    args: tuple[Expr | None, ...]
    targs: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyResult(Expr):
    """``t.apply().hit``, ``.miss`` or ``.action_run``."""

    call: Call
    member: str


# -- statements ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stmt:
    span: Span


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    items: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Declare(Stmt):
    """Start of a variable's life: headers in it become invalid, `init` is assigned."""

    sym: VarSym
    init: Expr | None


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    target: Expr
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
class SwitchCase:
    """`labels` are actions (as EnumLit-like names) or values; empty for default. Fall-through resolved."""

    labels: tuple[Expr, ...]
    actions: tuple[Action, ...]
    default: bool
    body: Block | None
    span: Span


@dataclass(frozen=True, slots=True)
class Switch(Stmt):
    expr: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True)
class For(Stmt):
    init: tuple[Stmt, ...]
    cond: Expr
    update: tuple[Stmt, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class ForIn(Stmt):
    """Over a range (`collection` a RangeKey) or the elements of an aggregate or stack."""

    target: Expr
    collection: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Scope(Stmt):
    """Body of an inlined function or block; `Leave` with the same label goes to its end."""

    label: int
    body: Stmt


@dataclass(frozen=True, slots=True)
class Leave(Stmt):
    label: int


def lit(value: int, t: Type, span: Span = NO_SPAN) -> Lit:
    """Integer literal of type `t`, wrapped to its width."""
    return Lit(span, t, wrap(value, t) if isinstance(t, Bits) else value)


def wrap(value: int, t: Bits) -> int:
    """`value` modulo 2**width, as the signed or unsigned number `t` represents."""
    value &= (1 << t.width) - 1
    if t.signed and value >> (t.width - 1):
        value -= 1 << t.width
    return value


def call_params(target: Target) -> Sequence[VarSym]:
    """Parameters of what is called; empty where there are none."""
    if isinstance(target, (ExternFunction, ExternMethod)):
        return target.decl.params
    if isinstance(target, CallAction):
        return target.action.params
    if isinstance(target, CallFunction):
        return target.function.params
    if isinstance(target, ApplyParam):
        return target.proto.params
    if isinstance(target, ApplyBlock) and isinstance(target.inst.ctor, BlockProto):
        return target.inst.ctor.params
    return ()
