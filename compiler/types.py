# SPDX-License-Identifier: Apache-2.0
"""Types. Structural ones compare by value; declared ones (structs, enums, externs...) by identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .ast import Annotations
from .source import NO_SPAN, Span

if TYPE_CHECKING:
    from .ir import BlockProto, ExternDecl


class Type:
    """Base of all types; ``str()`` gives what a user would write."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Bits(Type):
    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Varbit(Type):
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class Simple(Type):
    """int (of infinite precision), bool, error, string, void, match_kind, ``_``."""

    name: str

    def __str__(self) -> str:
        return self.name


INT = Simple("int")
BOOL = Simple("bool")
ERROR = Simple("error")
STRING = Simple("string")
VOID = Simple("void")
MATCH_KIND = Simple("match_kind")
DONT_CARE = Simple("_")
#: Type of an expression that has been reported already; agrees with everything.
BROKEN = Simple("<error>")


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    type: Type
    annos: Annotations = ()
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Struct(Type):
    """struct, header or header_union; `kind` is ``unknown`` for ``{x = 1}`` before its type is known."""

    kind: str
    name: str
    fields: tuple[StructField, ...]
    annos: Annotations = ()
    span: Span = NO_SPAN
    args: tuple[Type, ...] = ()
    origin: object = None

    def __str__(self) -> str:
        if self.kind == "unknown":
            return "{" + ", ".join(f"{f.name} = {f.type}" for f in self.fields) + "}"
        return self.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")

    def find(self, name: str) -> StructField | None:
        for f in self.fields:
            if f.name == name:
                return f
        return None

    @property
    def is_header(self) -> bool:
        return self.kind == "header"

    @property
    def is_union(self) -> bool:
        return self.kind == "header_union"


@dataclass(frozen=True, slots=True)
class Stack(Type):
    elem: Type
    size: int

    def __str__(self) -> str:
        return f"{self.elem}[{self.size}]"


@dataclass(frozen=True, slots=True, eq=False)
class Enum(Type):
    name: str
    members: tuple[str, ...]
    annos: Annotations = ()
    span: Span = NO_SPAN
    member_annos: tuple[Annotations, ...] = ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class SerEnum(Type):
    """Enum with an underlying type; `values` in the order of `members`."""

    name: str
    underlying: Bits
    members: tuple[str, ...]
    values: tuple[int, ...]
    annos: Annotations = ()
    span: Span = NO_SPAN
    member_annos: tuple[Annotations, ...] = ()

    def __str__(self) -> str:
        return self.name

    def value(self, name: str) -> int:
        return self.values[self.members.index(name)]


@dataclass(frozen=True, slots=True, eq=False)
class NewType(Type):
    """Made by ``type T name;``: `underlying` behind a cast."""

    name: str
    underlying: Type
    annos: Annotations = ()
    span: Span = NO_SPAN

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Tuple(Type):
    elems: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elems))}>"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    elem: Type

    def __str__(self) -> str:
        return f"list<{self.elem}>"


@dataclass(frozen=True, slots=True)
class SetType(Type):
    elem: Type

    def __str__(self) -> str:
        return f"set<{self.elem}>"


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ExternType(Type):
    decl: ExternDecl
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.decl.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


@dataclass(frozen=True, slots=True)
class BlockType(Type):
    """Parser, control or package, declared or implemented; `args` for its type parameters."""

    proto: BlockProto
    args: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.proto.name + (f"<{', '.join(map(str, self.args))}>" if self.args else "")


Substitution = Mapping[TypeVar, Type]


def substitute(t: Type, sub: Substitution) -> Type:
    """`t` with type variables replaced. Generic structs are rebuilt by `Struct.origin`."""
    if not sub:
        return t
    if isinstance(t, TypeVar):
        seen = t
        out: Type = sub.get(seen, seen)
        return out
    if isinstance(t, Stack):
        return Stack(substitute(t.elem, sub), t.size)
    if isinstance(t, Tuple):
        return Tuple(tuple(substitute(e, sub) for e in t.elems))
    if isinstance(t, ListType):
        return ListType(substitute(t.elem, sub))
    if isinstance(t, SetType):
        return SetType(substitute(t.elem, sub))
    if isinstance(t, ExternType) and t.args:
        return ExternType(t.decl, tuple(substitute(a, sub) for a in t.args))
    if isinstance(t, BlockType) and t.args:
        return BlockType(t.proto, tuple(substitute(a, sub) for a in t.args))
    if isinstance(t, Struct) and t.args and isinstance(t.origin, GenericStruct):
        args = tuple(substitute(a, sub) for a in t.args)
        return t.origin.specialize(args)
    return t


@dataclass(slots=True, eq=False)
class GenericStruct:
    """``struct S<T> {...}``; each list of arguments makes one type, so that identity stays equality."""

    kind: str
    name: str
    tparams: tuple[TypeVar, ...]
    fields: tuple[StructField, ...]
    annos: Annotations
    span: Span
    made: dict[tuple[Type, ...], Struct] = field(default_factory=dict)

    def specialize(self, args: tuple[Type, ...]) -> Struct:
        known = self.made.get(args)
        if known is None:
            sub = dict(zip(self.tparams, args, strict=True))
            fields = tuple(StructField(f.name, substitute(f.type, sub), f.annos, f.span) for f in self.fields)
            known = Struct(self.kind, self.name, fields, self.annos, self.span, args, self)
            self.made[args] = known
        return known


def base_type(t: Type) -> Type:
    """`t` without the wrappings of ``type``."""
    while isinstance(t, NewType):
        t = t.underlying
    return t


def width_of(t: Type) -> int | None:
    """Width in bits of a value of type `t`, the largest one for varbit; None if it has none."""
    t = base_type(t)
    if isinstance(t, (Bits, Varbit)):
        return t.width
    if t == BOOL:
        return 1
    if isinstance(t, SerEnum):
        return t.underlying.width
    if isinstance(t, Struct):
        widths = [width_of(f.type) for f in t.fields]
        if t.kind == "header_union":
            known = [w for w in widths if w is not None]
            return max(known) if len(known) == len(widths) and known else None
        return None if None in widths else sum(w or 0 for w in widths)
    if isinstance(t, Stack):
        w = width_of(t.elem)
        return None if w is None else w * t.size
    if isinstance(t, Tuple):
        widths = [width_of(e) for e in t.elems]
        return None if None in widths else sum(w or 0 for w in widths)
    return None


def contains_var(t: Type) -> bool:
    """Does a type variable occur in `t`?"""
    if isinstance(t, TypeVar):
        return True
    if isinstance(t, (Stack, ListType, SetType)):
        return contains_var(t.elem)
    if isinstance(t, Tuple):
        return any(contains_var(e) for e in t.elems)
    if isinstance(t, (ExternType, BlockType, Struct)):
        return any(contains_var(a) for a in t.args)
    return False
