# SPDX-License-Identifier: Apache-2.0
"""Where variables live in the target: header instances, stacks, unions, fields of ``scalars``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import annos as an
from .. import ir
from ..diag import fail
from ..source import Span
from ..types import BOOL, ERROR, Bits, Enum, SerEnum, Stack, Struct, Tuple, Type, Varbit, base_type

Json = Any

ERROR_WIDTH = 32
ENUM_WIDTH = 32
SCALARS = "scalars"
STANDARD_METADATA = "standard_metadata"


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Scalar: field `field` of header instance `header`."""

    header: str
    field: str


@dataclass(frozen=True, slots=True)
class HeaderPlace:
    name: str


@dataclass(frozen=True, slots=True)
class StackPlace:
    name: str
    union: bool


@dataclass(frozen=True, slots=True)
class UnionPlace:
    name: str


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A struct: no storage of its own, only the places of its fields, below `prefix`."""

    root: str
    prefix: str


@dataclass(frozen=True, slots=True)
class RuntimePlace:
    """Element of a stack at an index known at run time; `field` is the offset in it, if one is meant."""

    stack: StackPlace
    index: ir.Expr
    elem: Struct
    field: str | None = None
    member: str | None = None


@dataclass(frozen=True, slots=True)
class LastPlace:
    """``stack.last`` (or a field of it), ``stack.next`` in a parser; `member` for stacks of unions."""

    stack: StackPlace
    which: str
    member: str | None = None
    field: str | None = None


Place = FieldPlace | HeaderPlace | StackPlace | UnionPlace | GroupPlace | RuntimePlace | LastPlace


def scalar_width(t: Type) -> tuple[int, bool] | None:
    """Width and signedness of a field of type `t`; None if `t` is no scalar."""
    b = base_type(t)
    if isinstance(b, Bits):
        return b.width, b.signed
    if b == BOOL:
        return 1, False
    if b == ERROR:
        return ERROR_WIDTH, False
    if isinstance(b, SerEnum):
        return b.underlying.width, b.underlying.signed
    if isinstance(b, Enum):
        return ENUM_WIDTH, False
    return None


class Layout:
    """Assigns storage on first use and lists it for the JSON."""

    def __init__(self, hdr: ir.VarSym, meta: ir.VarSym, std: ir.VarSym) -> None:
        self.hdr, self.meta, self.std = hdr, meta, std
        self.header_types: list[Json] = []
        self.headers: list[Json] = []
        self.stacks: list[Json] = []
        self.union_types: list[Json] = []
        self.unions: list[Json] = []
        self.union_stacks: list[Json] = []
        self.aliases: list[Json] = []
        self._types: dict[str, Struct | None] = {}
        self._type_names: dict[Struct, str] = {}
        self._scalars: dict[str, list[Json]] = {}
        self._vars: dict[ir.VarSym, str] = {}
        self._made: set[str] = set()
        self._scalar_type = self._new_type(SCALARS, [])
        self._instance(SCALARS, SCALARS, True)
        self._standard_metadata()
        self._struct_storage(meta.type, "userMetadata")
        self._header_storage()

    # -- types ---------------------------------------------------------------------------------

    def _new_type(self, name: str, fields: list[Json], max_length: int = 0) -> Json:
        t: Json = {"name": name, "id": len(self.header_types), "fields": fields}
        if max_length:
            t["max_length"] = max_length
        self.header_types.append(t)
        return t

    def _standard_metadata(self) -> None:
        t = self.std.type
        assert isinstance(t, Struct)
        fields: list[Json] = []
        total = 0
        for f in t.fields:
            width, signed = scalar_width(f.type) or (0, False)
            fields.append([f.name, width, signed])
            total += width
            alias = an.find(f.annos, "alias")
            if alias is not None:
                self.aliases.append([an.string_arg(alias), [STANDARD_METADATA, f.name]])
        if total % 8:
            fields.append(["_padding", 8 - total % 8, False])
        self._new_type(STANDARD_METADATA, fields)
        self._instance(STANDARD_METADATA, STANDARD_METADATA, True)

    def header_type(self, t: Struct) -> str:
        """Name of the JSON header type of header `t`."""
        known = self._type_names.get(t)
        if known is not None:
            return known
        base = an.external_name(t.name, t.annos).removeprefix(".")
        name, n = base, 0
        while name in self._types:
            n += 1
            name = f"{base}_{n}"
        self._types[name] = t
        self._type_names[t] = name
        fields: list[Json] = []
        total, varbit = self._fields(t, t, "", fields)
        if total % 8:
            raise fail(
                "E040",
                f"header {t.name} has {total} bits; the target needs a multiple of 8",
                t.span,
                hint=f"add {8 - total % 8} bits of padding",
            )
        self._new_type(name, fields, (total + 7) // 8 if varbit else 0)
        return name

    def _fields(self, header: Struct, t: Struct, prefix: str, out: list[Json]) -> tuple[int, bool]:
        total, varbit = 0, False
        for f in t.fields:
            name = prefix + f.name
            b = base_type(f.type)
            if isinstance(b, Struct):
                width, var = self._fields(header, b, f"{name}.", out)
                total += width
                varbit = varbit or var
            elif isinstance(b, Tuple):
                for i, x in enumerate(b.elems):
                    width, signed = scalar_width(x) or (0, False)
                    out.append([f"{name}.{i}", width, signed])
                    total += width
            elif isinstance(b, Varbit):
                if varbit:
                    raise fail("E040", f"header {header.name} has several varbit fields", f.span)
                out.append([name, "*"])
                total += b.width
                varbit = True
            else:
                size = scalar_width(b)
                if size is None:
                    raise fail(
                        "E040",
                        f"field '{f.name}' of header {header.name} has type {f.type}, which the "
                        f"target cannot hold",
                        f.span,
                    )
                out.append([name, size[0], size[1]])
                total += size[0]
        return total, varbit

    # -- instances -----------------------------------------------------------------------------

    def _instance(self, type_name: str, name: str, metadata: bool) -> int:
        index = len(self.headers)
        self.headers.append(
            {"name": name, "id": index, "header_type": type_name, "metadata": metadata, "pi_omit": True}
        )
        return index

    def _header_storage(self) -> None:
        t = self.hdr.type
        assert isinstance(t, Struct)
        for f in t.fields:
            self._storage(f.type, an.external_name(f.name, f.annos), f.span)

    def _struct_storage(self, t: Type, prefix: str) -> None:
        b = base_type(t)
        if isinstance(b, Struct):
            for f in b.fields:
                self._storage(f.type, f"{prefix}.{f.name}", f.span)
        elif isinstance(b, Tuple):
            for i, x in enumerate(b.elems):
                self._storage(x, f"{prefix}.{i}", self.meta.span)

    def _storage(self, t: Type, name: str, span: Span) -> None:
        """Make room for a value of type `t` under `name`."""
        b = base_type(t)
        if name in self._made:
            return
        if isinstance(b, Struct) and b.kind == "header":
            self._made.add(name)
            self._instance(self.header_type(b), name, False)
        elif isinstance(b, Struct) and b.kind == "header_union":
            self._made.add(name)
            self._union(b, name)
        elif isinstance(b, Stack):
            self._made.add(name)
            self._stack(b, name)
        elif isinstance(b, (Struct, Tuple)):
            self._struct_storage(b, name)
        elif isinstance(b, Varbit):
            self._made.add(name)
            type_name = f"$varbit{b.width}"
            if type_name not in self._types:
                self._types[type_name] = None
                self._new_type(type_name, [["field", "*"]], (b.width + 7) // 8)
            self._instance(type_name, name, True)
        else:
            self._scalar(t, name, span)

    def _scalar(self, t: Type, name: str, span: Span) -> None:
        if name in self._scalars:
            return
        size = scalar_width(t)
        if size is None:
            raise fail("E040", f"the target cannot hold a variable of type {t}", span)
        field = [name, size[0], size[1]]
        self._scalars[name] = field
        self._scalar_type["fields"].append(field)

    def _union(self, t: Struct, name: str) -> int:
        self._union_type(t)
        ids = []
        for f in t.fields:
            assert isinstance(f.type, Struct)
            ids.append(self._instance(self.header_type(f.type), f"{name}.{f.name}", False))
        index = len(self.unions)
        self.unions.append(
            {"name": name, "id": index, "union_type": t.name, "header_ids": ids, "pi_omit": True}
        )
        return index

    def _union_type(self, t: Struct) -> None:
        if any(u["name"] == t.name for u in self.union_types):
            return
        members = [[f.name, self.header_type(f.type)] for f in t.fields if isinstance(f.type, Struct)]
        self.union_types.append({"name": t.name, "id": len(self.union_types), "headers": members})

    def _stack(self, t: Stack, name: str) -> None:
        elem = t.elem
        assert isinstance(elem, Struct)
        if elem.kind == "header_union":
            ids = [self._union(elem, f"{name}[{i}]") for i in range(t.size)]
            self.union_stacks.append(
                {
                    "name": name,
                    "id": len(self.union_stacks),
                    "union_type": elem.name,
                    "size": t.size,
                    "header_union_ids": ids,
                }
            )
            return
        type_name = self.header_type(elem)
        ids = [self._instance(type_name, f"{name}[{i}]", False) for i in range(t.size)]
        self.stacks.append(
            {
                "name": name,
                "id": len(self.stacks),
                "header_type": type_name,
                "size": t.size,
                "header_ids": ids,
            }
        )

    def finish(self) -> None:
        """Pad ``scalars`` to whole bytes, once every variable is known."""
        total = sum(f[1] for f in self._scalar_type["fields"])
        if total % 8:
            self._scalar_type["fields"].append(["_padding_0", 8 - total % 8, False])

    # -- places --------------------------------------------------------------------------------

    def place(self, e: ir.Expr) -> Place:
        """Where the lvalue `e` lives."""
        if isinstance(e, ir.Var):
            return self._var_place(e)
        if isinstance(e, ir.Field):
            return self._field_place(e)
        if isinstance(e, ir.Index):
            return self._index_place(e)
        if isinstance(e, ir.StackMember):
            stack = self.place(e.base)
            assert isinstance(stack, StackPlace)
            return LastPlace(stack, e.name)
        raise fail("E040", "this cannot be used as a variable on the target", e.span)

    def _var_place(self, e: ir.Var) -> Place:
        s = e.sym
        if s is self.std:
            return GroupPlace(STANDARD_METADATA, "")
        if s is self.hdr:
            return GroupPlace("", "")
        if s is self.meta:
            return GroupPlace(SCALARS, "userMetadata")
        if s not in self._vars:
            self._vars[s] = s.name
            self._storage(s.type, s.name, s.span)
        return self._leaf(s.type, SCALARS, s.name)

    def _leaf(self, t: Type, root: str, name: str) -> Place:
        b = base_type(t)
        if isinstance(b, Stack):
            return StackPlace(name, isinstance(b.elem, Struct) and b.elem.kind == "header_union")
        if isinstance(b, Struct):
            if b.kind == "header":
                return HeaderPlace(name)
            return UnionPlace(name) if b.kind == "header_union" else GroupPlace(root, name)
        if isinstance(b, Tuple):
            return GroupPlace(root, name)
        if isinstance(b, Varbit) and root == SCALARS:
            return FieldPlace(name, "field")
        return FieldPlace(root, name)

    def _field_place(self, e: ir.Field) -> Place:
        base = self.place(e.base)
        name = e.name
        if isinstance(base, GroupPlace):
            if base.root == "" or (base.root == STANDARD_METADATA and not base.prefix):
                t = base_type(e.base.type)
                f = t.find(name) if isinstance(t, Struct) else None
                shown = an.external_name(name, f.annos) if f is not None and base.root == "" else name
                full = f"{base.prefix}.{shown}" if base.prefix else shown
            else:
                full = f"{base.prefix}.{name}" if base.prefix else name
            if base.root not in ("", SCALARS):
                return self._in_header(e.type, base.root, full)
            return self._leaf(e.type, base.root or SCALARS, full)
        if isinstance(base, HeaderPlace):
            return self._in_header(e.type, base.name, name)
        if isinstance(base, UnionPlace):
            return HeaderPlace(f"{base.name}.{name}")
        if isinstance(base, RuntimePlace):
            t = base_type(e.base.type)
            if isinstance(t, Struct) and t.kind == "header_union":
                return RuntimePlace(base.stack, base.index, base.elem, None, name)
            return RuntimePlace(
                base.stack,
                base.index,
                base.elem,
                name if base.field is None else f"{base.field}.{name}",
                base.member,
            )
        if isinstance(base, LastPlace):
            if base.stack.union and base.member is None:
                return LastPlace(base.stack, base.which, name)
            return LastPlace(
                base.stack, base.which, base.member, name if base.field is None else f"{base.field}.{name}"
            )
        raise fail("E040", f"field '{name}' cannot be reached on the target", e.span)

    def _in_header(self, t: Type, header: str, name: str) -> Place:
        b = base_type(t)
        if isinstance(b, (Struct, Tuple)):
            return GroupPlace(header, name)
        return FieldPlace(header, name)

    def _index_place(self, e: ir.Index) -> Place:
        base = self.place(e.base)
        if isinstance(base, GroupPlace):
            assert isinstance(e.index, ir.Lit)
            full = f"{base.prefix}.{e.index.value}"
            if base.root == SCALARS:
                return self._leaf(e.type, SCALARS, full)
            return self._in_header(e.type, base.root, full)
        assert isinstance(base, StackPlace)
        elem = base_type(e.type)
        assert isinstance(elem, Struct)
        if isinstance(e.index, ir.Lit):
            name = f"{base.name}[{e.index.value}]"
            return UnionPlace(name) if base.union else HeaderPlace(name)
        return RuntimePlace(base, e.index, elem)

    def header_names(self, t: Type, place: Place) -> list[str]:
        """Header instances within a value, in the order a deparser emits them."""
        b = base_type(t)
        if isinstance(place, HeaderPlace):
            return [place.name]
        if isinstance(place, UnionPlace) and isinstance(b, Struct):
            return [f"{place.name}.{f.name}" for f in b.fields]
        if isinstance(place, StackPlace) and isinstance(b, Stack):
            if place.union and isinstance(b.elem, Struct):
                return [f"{place.name}[{i}].{f.name}" for i in range(b.size) for f in b.elem.fields]
            return [f"{place.name}[{i}]" for i in range(b.size)]
        return []
