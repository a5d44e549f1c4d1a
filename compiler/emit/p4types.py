# SPDX-License-Identifier: Apache-2.0
"""Types in P4Info: widths seen by the control plane and P4DataTypeSpec messages."""

from __future__ import annotations

from finsy.proto import p4i, p4t

from .. import annos as an
from ..ast import Annotations
from ..diag import fail
from ..lexer import parse_int, string_value
from ..types import (
    BOOL,
    ERROR,
    Bits,
    Enum,
    NewType,
    SerEnum,
    Stack,
    Struct,
    Tuple,
    Type,
    Varbit,
    base_type,
    width_of,
)


def translation(annos: Annotations) -> tuple[str, int] | None:
    """URI and width of ``@p4runtime_translation``; width 0 stands for a string."""
    a = an.find(annos, "p4runtime_translation")
    if a is None:
        return None
    groups = an.split(a.tokens or ())
    if len(groups) != 2 or len(groups[0]) != 1 or groups[0][0].kind != "STR" or not groups[1]:
        raise fail("E035", "@p4runtime_translation takes a URI and a type", a.span)
    uri = string_value(groups[0][0].text)
    second = groups[1]
    if second[0].text == "string":
        return uri, 0
    if second[0].kind == "INT":
        return uri, parse_int(second[0].text)[0]
    if second[0].text == "bit" and len(second) == 4 and second[2].kind == "INT":
        return uri, parse_int(second[2].text)[0]
    raise fail("E035", "the type of @p4runtime_translation must be bit<W> or string", a.span)


def control_width(t: Type) -> int:
    """Width of a match field or parameter as the control plane sees it; 0 for strings and errors."""
    if isinstance(t, NewType):
        found = translation(t.annos)
        return found[1] if found is not None else control_width(base_type(t))
    if t == ERROR:
        return 0
    if isinstance(t, Enum):
        return 32
    return width_of(t) or 0


def type_name(t: Type) -> str | None:
    """Name of a ``type`` declaration, which P4Info keeps."""
    return t.name if isinstance(t, NewType) else None


def padded(value: int, width: int) -> bytes:
    """Value as p4c writes it: padded to whole bytes."""
    return (value & ((1 << max(width, 1)) - 1)).to_bytes((max(width, 1) + 7) // 8, "big")


class TypeSpecs:
    """Builds type specs; named types are added to `info`."""

    def __init__(self, info: p4t.P4TypeInfo, errors: list[str]) -> None:
        self.info = info
        self.errors = errors

    def spec(self, t: Type) -> p4t.P4DataTypeSpec:
        s = p4t.P4DataTypeSpec()
        if isinstance(t, Bits):
            if t.signed:
                s.bitstring.int.bitwidth = t.width
            else:
                s.bitstring.bit.bitwidth = t.width
        elif isinstance(t, Varbit):
            s.bitstring.varbit.max_bitwidth = t.width
        elif t == BOOL:
            s.bool.SetInParent()
        elif t == ERROR:
            s.error.SetInParent()
            if not self.info.HasField("error"):
                self.info.error.members.extend(self.errors)
        elif isinstance(t, NewType):
            s.new_type.name = self.new_type(t)
        elif isinstance(t, Struct):
            self._struct(t, s)
        elif isinstance(t, Enum):
            s.enum.name = self._enum(t)
        elif isinstance(t, SerEnum):
            s.serializable_enum.name = self._ser_enum(t)
        elif isinstance(t, Tuple):
            s.tuple.SetInParent()
            for e in t.elems:
                s.tuple.members.append(self.spec(e))
        elif isinstance(t, Stack) and isinstance(t.elem, Struct):
            if t.elem.kind == "header":
                s.header_stack.header.name = self._header(t.elem)
                s.header_stack.size = t.size
            else:
                s.header_union_stack.header_union.name = self._union(t.elem)
                s.header_union_stack.size = t.size
        else:
            raise fail("E023", f"{t} has no P4Runtime representation")
        return s

    def named(self, t: Type) -> None:
        """Note a user-defined type that a match field or parameter has."""
        if isinstance(t, NewType):
            self.new_type(t)
        elif isinstance(t, Enum):
            self._enum(t)
        elif isinstance(t, SerEnum):
            self._ser_enum(t)

    def new_type(self, t: NewType) -> str:
        name = an.external_name(t.name, t.annos)
        if name not in self.info.new_types:
            spec = p4t.P4NewTypeSpec()
            found = translation(t.annos)
            if found is not None:
                uri, width = found
                if not isinstance(base_type(t), Bits):
                    raise fail(
                        "E035",
                        f"@p4runtime_translation needs an underlying bit<W>, not {base_type(t)}",
                        t.span,
                    )
                spec.translated_type.uri = uri
                if width == 0:
                    spec.translated_type.sdn_string.SetInParent()
                else:
                    spec.translated_type.sdn_bitwidth = width
            else:
                spec.original_type.CopyFrom(self.spec(base_type(t)))
            add_annotations(spec, t.annos, skip=frozenset({"p4runtime_translation"}))
            self.info.new_types[name].CopyFrom(spec)
        return name

    def _struct(self, t: Struct, s: p4t.P4DataTypeSpec) -> None:
        if t.kind == "header":
            s.header.name = self._header(t)
            return
        if t.kind == "header_union":
            s.header_union.name = self._union(t)
            return
        name = an.external_name(t.name, t.annos)
        s.struct.name = name
        if name not in self.info.structs:
            spec = p4t.P4StructTypeSpec()
            for f in t.fields:
                spec.members.add(name=an.external_name(f.name, f.annos), type_spec=self.spec(f.type))
            self.info.structs[name].CopyFrom(spec)

    def _header(self, t: Struct) -> str:
        name = an.external_name(t.name, t.annos)
        if name not in self.info.headers:
            spec = p4t.P4HeaderTypeSpec()
            for f in t.fields:
                spec.members.add(
                    name=an.external_name(f.name, f.annos), type_spec=self.spec(base_type(f.type)).bitstring
                )
            self.info.headers[name].CopyFrom(spec)
        return name

    def _union(self, t: Struct) -> str:
        name = an.external_name(t.name, t.annos)
        if name not in self.info.header_unions:
            spec = p4t.P4HeaderUnionTypeSpec()
            for f in t.fields:
                assert isinstance(f.type, Struct)
                spec.members.add(
                    name=an.external_name(f.name, f.annos), header=p4t.P4NamedType(name=self._header(f.type))
                )
            self.info.header_unions[name].CopyFrom(spec)
        return name

    def _enum(self, t: Enum) -> str:
        name = an.external_name(t.name, t.annos)
        if name not in self.info.enums:
            spec = p4t.P4EnumTypeSpec()
            for m, a in zip(t.members, t.member_annos, strict=True):
                spec.members.add(name=an.external_name(m, a))
            self.info.enums[name].CopyFrom(spec)
        return name

    def _ser_enum(self, t: SerEnum) -> str:
        name = an.external_name(t.name, t.annos)
        if name not in self.info.serializable_enums:
            spec = p4t.P4SerializableEnumTypeSpec()
            spec.underlying_type.bitwidth = t.underlying.width
            for m, v, a in zip(t.members, t.values, t.member_annos, strict=True):
                spec.members.add(name=an.external_name(m, a), value=padded(v, t.underlying.width))
            self.info.serializable_enums[name].CopyFrom(spec)
        return name


#: Annotations whose body p4c reads as a list of expressions and prints with ", ".
_LISTS = frozenset({"field_list", "match", "matchkind", "noWarn", "deprecated", "name", "priority", "alias"})
_HANDLED = frozenset({"name", "id", "brief", "description"})


def annotation_text(a: object) -> str:
    """Unstructured annotation as P4Info carries it."""
    from ..ast import Annotation

    assert isinstance(a, Annotation)
    if not a.tokens:
        return f"@{a.name}"
    if a.name in _LISTS:
        body = ", ".join(" ".join(t.text for t in g) for g in an.split(a.tokens))
    else:
        body = " ".join(t.text for t in a.tokens)
    return f"@{a.name}({body})"


def add_annotations(message: object, annos: Annotations, *, skip: frozenset[str] = frozenset()) -> None:
    """Fill `annotations` and `structured_annotations` of a message that has them."""
    m: p4i.Preamble = message  # type: ignore[assignment]
    for a in annos:
        if a.exprs is not None or a.pairs is not None:
            _structured(m.structured_annotations.add(name=a.name), a)
        elif a.name not in _HANDLED and a.name not in skip:
            m.annotations.append(annotation_text(a))


def _structured(out: p4t.StructuredAnnotation, a: object) -> None:
    from ..ast import Annotation, Expr
    from ..check import const_expr
    from ..ir import Lit

    assert isinstance(a, Annotation)

    def value(e: Expr) -> p4t.Expression:
        typed = const_expr(e)
        if isinstance(typed, Lit):
            if isinstance(typed.value, str):
                return p4t.Expression(string_value=typed.value)
            if isinstance(typed.value, bool):
                return p4t.Expression(bool_value=typed.value)
            return p4t.Expression(int64_value=typed.value)
        raise fail("E035", "structured annotations hold strings, integers and booleans", e.span)

    if a.pairs is not None:
        for k, e in a.pairs:
            out.kv_pair_list.kv_pairs.add(key=k, value=value(e))
    elif a.exprs:
        for e in a.exprs:
            out.expression_list.expressions.append(value(e))


def add_doc(message: object, annos: Annotations) -> None:
    """``@brief`` and ``@description`` as documentation."""
    m: p4i.Preamble = message  # type: ignore[assignment]
    for a in annos:
        if a.name == "brief":
            m.doc.brief = an.string_arg(a)
        elif a.name == "description":
            m.doc.description = an.string_arg(a)
