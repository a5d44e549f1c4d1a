# SPDX-License-Identifier: Apache-2.0
"""Typed model of a BMv2 JSON (format 2.x, JSON_format.md of p4lang/behavioral-model).

Widths are in bits unless a name says otherwise. References are by name, resolved and checked by the loader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class FieldType:
    name: str
    width: int
    """Bits; for a varbit field its largest width."""
    signed: bool = False
    varbit: bool = False


@dataclass(frozen=True, slots=True)
class HeaderType:
    name: str
    fields: tuple[FieldType, ...]

    @property
    def width(self) -> int:
        """Bits without a varbit field."""
        return sum(f.width for f in self.fields if not f.varbit)

    @property
    def room(self) -> int:
        """Bits with a varbit field at its largest."""
        return sum(f.width for f in self.fields)

    def index(self, name: str) -> int:
        for i, f in enumerate(self.fields):
            if f.name == name:
                return i
        raise KeyError(name)

    @property
    def varbit(self) -> int | None:
        """Index of the varbit field, if any."""
        return next((i for i, f in enumerate(self.fields) if f.varbit), None)


@dataclass(frozen=True, slots=True)
class Header:
    name: str
    type: HeaderType
    metadata: bool
    local: bool = False
    """A variable with a varbit field: it has the storage of a header, is always valid and never sent."""


@dataclass(frozen=True, slots=True)
class Stack:
    name: str
    type: HeaderType
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnionType:
    name: str
    members: tuple[tuple[str, HeaderType], ...]

    def index(self, name: str) -> int:
        return next(i for i, (member, _) in enumerate(self.members) if member == name)


@dataclass(frozen=True, slots=True)
class Union:
    """Headers of which one at most is valid."""

    name: str
    type: UnionType
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnionStack:
    name: str
    type: UnionType
    unions: tuple[str, ...]


# --- expressions


@dataclass(frozen=True, slots=True)
class FieldRef:
    header: str
    field: str
    """`$valid$` is the hidden field for the header's validity."""


@dataclass(frozen=True, slots=True)
class Const:
    value: int


@dataclass(frozen=True, slots=True)
class BoolConst:
    value: bool


@dataclass(frozen=True, slots=True)
class HeaderRef:
    name: str


@dataclass(frozen=True, slots=True)
class StackRef:
    name: str


@dataclass(frozen=True, slots=True)
class UnionRef:
    name: str


@dataclass(frozen=True, slots=True)
class UnionStackRef:
    name: str


@dataclass(frozen=True, slots=True)
class Local:
    """Run-time data (parameter) of the enclosing action."""

    index: int


@dataclass(frozen=True, slots=True)
class StackField:
    """A field of the last extracted element of a stack."""

    stack: str
    field: str
    member: int | None = None
    """Of a stack of unions: which header of the union."""


@dataclass(frozen=True, slots=True)
class Lookahead:
    """`width` bits, `offset` bits after the parser's cursor."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class RegisterRef:
    array: str
    index: Expr


@dataclass(frozen=True, slots=True)
class Op:
    op: str
    left: Expr | None
    right: Expr | None
    cond: Expr | None = None


Expr: TypeAlias = (
    FieldRef
    | Const
    | BoolConst
    | HeaderRef
    | StackRef
    | UnionRef
    | UnionStackRef
    | Local
    | StackField
    | Lookahead
    | RegisterRef
    | Op
)


# --- parser


@dataclass(frozen=True, slots=True)
class Extract:
    target: str
    is_stack: bool
    length: Expr | None = None
    """Bits of the varbit field."""
    member: int | None = None
    """Into a stack of unions: which header of the next union."""


@dataclass(frozen=True, slots=True)
class SetField:
    dest: FieldRef
    source: Expr


@dataclass(frozen=True, slots=True)
class Verify:
    condition: Expr
    error: Expr


@dataclass(frozen=True, slots=True)
class Advance:
    bits: Expr


ParserOp: TypeAlias = "Extract | SetField | Verify | Advance | Primitive"


@dataclass(frozen=True, slots=True)
class Transition:
    value: int | None
    """None: the default transition or a value set."""
    mask: int | None
    next_state: str | None
    vset: str | None = None


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set. The JSON does not say how its fields match."""

    name: str
    width: int
    """Bits of all fields together."""
    size: int
    """Members at most."""
    widths: tuple[int, ...]
    """Bits of each field, as in the transition keys it is compared with; () if no transition uses it."""


@dataclass(frozen=True, slots=True)
class ParseState:
    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[Expr, ...]
    key_widths: tuple[int, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Parser:
    name: str
    init_state: str | None
    states: dict[str, ParseState]


# --- actions and control flow


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A named extern object as a primitive's argument. `kind` is the JSON's type string."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Vector:
    items: tuple[Expr, ...]


Argument: TypeAlias = "Expr | ObjectRef | Text | Vector"


@dataclass(frozen=True, slots=True)
class Primitive:
    op: str
    args: tuple[Argument, ...]
    place: str
    """Path in the JSON, for messages."""
    source: str = ""
    """P4 file and line, for comments in generated code."""


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    id: int
    params: tuple[Param, ...]
    primitives: tuple[Primitive, ...]
    place: str


@dataclass(frozen=True, slots=True)
class KeyField:
    match: str
    """exact, lpm, ternary, range, optional or valid"""
    target: Expr
    width: int
    mask: int | None
    name: str


@dataclass(frozen=True, slots=True)
class ConstEntry:
    key: tuple[tuple[int, ...], ...]
    action_id: int
    args: tuple[int, ...]
    priority: int
    """As in the JSON: the smaller wins."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    key: tuple[KeyField, ...]
    match: str
    kind: str
    """simple, indirect or indirect_ws"""
    profile: str | None
    size: int
    counters: bool
    timeout: bool
    meter: str | None
    action_ids: tuple[int, ...]
    next: dict[int, str | None]
    """By action id; empty when `hit_miss` is set."""
    hit_miss: tuple[str | None, str | None] | None
    default_next: str | None
    default: tuple[int, tuple[int, ...]] | None
    default_const: bool
    """The default action can't be changed."""
    default_args_const: bool
    entries: tuple[ConstEntry, ...] | None
    place: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Conditional:
    name: str
    condition: Expr
    true_next: str | None
    false_next: str | None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ActionCall:
    name: str
    action_id: int
    next: str | None


@dataclass(frozen=True, slots=True)
class ActionProfile:
    name: str
    size: int
    calculation: str | None
    """The hash that a selector picks members by; None: no selector, no groups."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    init: str | None
    tables: dict[str, Table]
    conditionals: dict[str, Conditional]
    action_calls: dict[str, ActionCall]
    profiles: dict[str, ActionProfile]


# --- externs


@dataclass(frozen=True, slots=True)
class CalcInput:
    kind: str
    """field, hexstr, header or payload"""
    value: Expr | None
    width: int


@dataclass(frozen=True, slots=True)
class Calculation:
    name: str
    algo: str
    inputs: tuple[CalcInput, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Checksum:
    target: FieldRef
    calculation: str
    condition: Expr | None
    update: bool
    verify: bool
    place: str


@dataclass(frozen=True, slots=True)
class Register:
    name: str
    size: int
    width: int


@dataclass(frozen=True, slots=True)
class Counter:
    name: str
    size: int
    direct_table: str | None


@dataclass(frozen=True, slots=True)
class Meter:
    name: str
    size: int
    type: str
    rates: int
    direct_table: str | None
    target: FieldRef | None


@dataclass(frozen=True, slots=True)
class FieldList:
    id: int
    name: str
    fields: tuple[FieldRef, ...]


@dataclass(slots=True)
class Program:
    """A whole BMv2 JSON."""

    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    aliases: dict[str, FieldRef] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    parser: Parser = field(default_factory=lambda: Parser("parser", None, {}))
    vsets: dict[str, ValueSet] = field(default_factory=dict)
    deparser: tuple[str, ...] = ()
    deparser_primitives: tuple[Primitive, ...] = ()
    actions: dict[int, Action] = field(default_factory=dict)
    ingress: Pipeline = field(default_factory=lambda: Pipeline("ingress", None, {}, {}, {}, {}))
    egress: Pipeline = field(default_factory=lambda: Pipeline("egress", None, {}, {}, {}, {}))
    calculations: dict[str, Calculation] = field(default_factory=dict)
    checksums: tuple[Checksum, ...] = ()
    registers: dict[str, Register] = field(default_factory=dict)
    counters: dict[str, Counter] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    field_lists: dict[int, FieldList] = field(default_factory=dict)
    learn_lists: dict[int, FieldList] = field(default_factory=dict)

    @property
    def tables(self) -> dict[str, Table]:
        return {**self.ingress.tables, **self.egress.tables}

    @property
    def profiles(self) -> dict[str, ActionProfile]:
        return {**self.ingress.profiles, **self.egress.profiles}

    def standard(self, name: str) -> FieldRef | None:
        """The field that the target knows as `name` ("intrinsic_metadata.mcast_grp"), by alias or as is."""
        if name in self.aliases:
            return self.aliases[name]
        header, _, field_name = name.partition(".")
        found = self.headers.get(header)
        if found is not None and any(f.name == field_name for f in found.type.fields):
            return FieldRef(header, field_name)
        return None

    def stack_headers(self, stack: str, member: int | None = None) -> tuple[str, ...]:
        """The elements of a stack; of a stack of unions, the elements' headers that `member` denotes."""
        if member is None:
            return self.stacks[stack].headers
        return tuple(self.unions[name].headers[member] for name in self.union_stacks[stack].unions)

    def field_type(self, ref: FieldRef) -> FieldType:
        if ref.field == "$valid$":
            return FieldType("$valid$", 1)
        header_type = self.headers[ref.header].type
        return header_type.fields[header_type.index(ref.field)]
