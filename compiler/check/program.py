# SPDX-License-Identifier: Apache-2.0
"""Checking of top-level declarations and of the program as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import ast, ir
from ..diag import CompileError, Diagnostics, fail
from ..parser_expr import ExprParser
from ..source import Token
from ..types import (
    BOOL,
    BROKEN,
    INT,
    STRING,
    VOID,
    Bits,
    BlockType,
    Enum,
    ExternType,
    GenericStruct,
    NewType,
    SerEnum,
    Struct,
    StructField,
    Type,
    TypeVar,
    Varbit,
    base_type,
)
from .base import BlockSym, ExternSym, FunctionSet, GenericSym, TypeSym
from .blocks import BlockChecker
from .fold import as_int


class ProgramChecker(BlockChecker):
    """Top-level declarations, in order."""

    def __init__(self, diags: Diagnostics) -> None:
        super().__init__(diags)
        self.instances: list[ir.Instance] = []
        self.actions: list[ir.Action] = []

    def program(self, p: ast.Program) -> ir.Program:
        for d in p.decls:
            try:
                _HANDLERS[type(d)](self, d)
            except CompileError as e:
                self.report(e)
                if (
                    isinstance(d, (ast.StructDecl, ast.EnumDecl, ast.Typedef))
                    and d.name not in self.globals.names
                ):
                    self.globals.names[d.name] = TypeSym(BROKEN, d.name_span)
                self.scope = self.globals
                self.place, self.ret, self.loops = "top", None, 0
        self.warn_unused()
        main = self.globals.find("main")
        if not isinstance(main, ir.Instance):
            main = None
        return ir.Program(main, self.instances, self.actions, self.types, self.errors, self._annotation_value)

    def _annotation_value(self, toks: Sequence[Token]) -> int | None:
        if not toks:
            return None
        last = toks[-1]
        end = Token("EOF", "", last.file, last.end_line, last.end_col, last.end_line, last.end_col, True)
        self.scope = self.globals
        try:
            return as_int(self.expr(ExprParser([*toks, end], Diagnostics()).expression()))
        except CompileError:
            return None

    # -- types ---------------------------------------------------------------------------------

    def _decl_struct(self, d: ast.StructDecl) -> None:
        self.push()
        tparams = tuple(TypeVar(n) for n in d.tparams)
        for v in tparams:
            self.scope.names[v.name] = TypeSym(v, d.name_span)
        fields: list[StructField] = []
        seen: set[str] = set()
        for f in d.fields:
            if f.name in seen:
                self.diags.error("E011", f"field '{f.name}' is declared twice", f.name_span)
                continue
            seen.add(f.name)
            try:
                t = self.resolve(f.type)
                self._field_type(d, f, t)
            except CompileError as e:
                self.report(e)
                t = BROKEN
            fields.append(StructField(f.name, t, f.annos, f.name_span))
        self.pop()
        if tparams:
            generic = GenericStruct(d.kind, d.name, tparams, tuple(fields), d.annos, d.name_span)
            self.declare(d.name, GenericSym(generic), d.name_span)
            return
        t = Struct(d.kind, d.name, tuple(fields), d.annos, d.name_span)
        self.types.append(t)
        self.declare(d.name, TypeSym(t, d.name_span), d.name_span)

    def _field_type(self, d: ast.StructDecl, f: ast.Field, t: Type) -> None:
        if t is BROKEN or isinstance(t, TypeVar):
            return
        b = base_type(t)
        ok: bool
        if d.kind == "header_union":
            ok = isinstance(b, Struct) and b.kind == "header"
        elif d.kind == "header":
            ok = isinstance(b, (Bits, Varbit, SerEnum)) or b == BOOL or _plain_struct(b)
        else:
            ok = (
                not isinstance(b, (ExternType, BlockType))
                and b not in (INT, STRING, VOID)
                and str(b) not in ("match_kind", "_")
            )
        if not ok:
            hint = "give the number a width, for example bit<32>" if b == INT else None
            raise fail(
                "E023", f"field '{f.name}' of {d.kind} {d.name} cannot have type {t}", f.type.span, hint=hint
            )

    def _decl_enum(self, d: ast.EnumDecl) -> None:
        names = tuple(m.name for m in d.members)
        for i, m in enumerate(d.members):
            if m.name in names[:i]:
                raise fail("E011", f"enum member '{m.name}' is declared twice", m.name_span)
        if not names:
            raise fail("E004", f"enum {d.name} has no members", d.name_span)
        annos = tuple(m.annos for m in d.members)
        t: Type
        if d.underlying is None:
            for m in d.members:
                if m.value is not None:
                    raise fail(
                        "E023",
                        f"enum {d.name} has no underlying type, so its members take no values",
                        m.value.span,
                        hint=f"write enum bit<W> {d.name}",
                    )
            t = Enum(d.name, names, d.annos, d.name_span, annos)
        else:
            under = self.resolve(d.underlying)
            if not isinstance(under, Bits):
                raise fail(
                    "E023",
                    f"the underlying type of an enum must be bit<W> or int<W>, not {under}",
                    d.underlying.span,
                )
            values = []
            for m in d.members:
                if m.value is None:
                    raise fail("E025", f"member '{m.name}' of enum {d.name} needs a value", m.name_span)
                v = self.const_value(m.value, under, f"the value of '{m.name}'")
                values.append(v.value if isinstance(v, ir.Lit) and isinstance(v.value, int) else 0)
            t = SerEnum(d.name, under, names, tuple(values), d.annos, d.name_span, annos)
        self.types.append(t)
        self.declare(d.name, TypeSym(t, d.name_span), d.name_span)

    def _decl_error(self, d: ast.ErrorDecl) -> None:
        for name, span in d.members:
            if name in self.errors:
                self.diags.error("E011", f"error.{name} is declared twice", span)
            else:
                self.errors.append(name)

    def _decl_match_kind(self, d: ast.MatchKindDecl) -> None:
        for name, span in d.members:
            if name in self.match_kinds:
                self.diags.error("E011", f"match kind '{name}' is declared twice", span)
            else:
                self.match_kinds.append(name)

    def _decl_typedef(self, d: ast.Typedef) -> None:
        t = self.resolve(d.type)
        if not d.new:
            self.declare(d.name, TypeSym(t, d.name_span), d.name_span)
            return
        b = base_type(t)
        if not (isinstance(b, (Bits, Varbit, SerEnum)) or b in (BOOL, INT)) and b is not BROKEN:
            raise fail(
                "E023", f"'type' needs bit<W>, int<W> or bool, not {t}", d.type.span, hint="use typedef"
            )
        new = NewType(d.name, t, d.annos, d.name_span)
        self.types.append(new)
        self.declare(d.name, TypeSym(new, d.name_span), d.name_span)

    # -- functions and externs -----------------------------------------------------------------

    def _add_function(self, name: str, decl: ir.MethodDecl | ir.Function) -> None:
        known = self.globals.names.get(name)
        if known is None:
            self.globals.names[name] = FunctionSet(name, [decl])
            return
        if not isinstance(known, FunctionSet):
            self.declare(name, FunctionSet(name), decl.span)
            return
        for other in known.items:
            if [p.name for p in other.params] == [p.name for p in decl.params]:
                self.diags.error(
                    "E011",
                    f"function {name} is declared twice with these parameters",
                    decl.span,
                    notes=(("first declared here", other.span),),
                )
                return
        known.items.append(decl)

    def _proto(self, d: ast.Prototype, owner: str = "") -> ir.MethodDecl:
        self.push()
        tparams = self.type_params(d.tparams, d.name_span)
        if owner and d.ret is not None and d.name == owner:
            raise fail("E030", f"constructor {d.name} cannot have a return type", d.name_span)
        ret = VOID if d.ret is None else self.resolve(d.ret)
        if ret == INT or isinstance(ret, BlockType):
            raise fail("E023", f"a method cannot return {ret}", d.name_span)
        params = self.params(d.params, "param" if d.ret is not None else "cparam")
        self.pop()
        return ir.MethodDecl(d.name, d.name_span, d.annos, tparams, params, ret, d.abstract)

    def _decl_extern_function(self, d: ast.Prototype) -> None:
        self._add_function(d.name, self._proto(d))

    def _decl_function(self, d: ast.Function) -> None:
        self._add_function(d.name, self.function(d))

    def _decl_extern(self, d: ast.ExternDecl) -> None:
        decl = ir.ExternDecl(d.name, d.name_span, d.annos)
        self.declare(d.name, ExternSym(decl), d.name_span)
        self.push()
        decl.tparams = tuple(TypeVar(n) for n in d.tparams)
        for v in decl.tparams:
            self.scope.names[v.name] = TypeSym(v, d.name_span)
        for m in d.methods:
            made = self._proto(m, d.name)
            group = decl.ctors if m.ret is None else decl.methods
            for other in group:
                if other.name == made.name and {p.name for p in other.params} == {
                    p.name for p in made.params
                }:
                    self.diags.error("E011", f"method {m.name} is declared twice", m.name_span)
            group.append(made)
        self.pop()

    # -- blocks --------------------------------------------------------------------------------

    def _decl_package(self, d: ast.PackageDecl) -> None:
        self.push()
        tparams = self.type_params(d.tparams, d.name_span)
        params = self.params(d.params, "cparam")
        self.pop()
        proto = ir.BlockProto(d.name, d.name_span, d.annos, "package", tparams, params)
        self.declare(d.name, BlockSym(proto), d.name_span)

    def _decl_control(self, d: ast.ControlDecl) -> None:
        self._block(self.control(d))

    def _decl_parser(self, d: ast.ParserDecl) -> None:
        self._block(self.parser(d))

    def _block(self, proto: ir.BlockProto) -> None:
        self.declare(proto.name, BlockSym(proto), proto.span)

    def _decl_action(self, d: ast.ActionDecl) -> None:
        action = self.action(d)
        self.declare(d.name, action, d.name_span)
        self.actions.append(action)

    def _decl_const(self, d: ast.Const) -> None:
        self.const(d)

    def _decl_instance(self, d: ast.Instance) -> None:
        inst = self.instance(d)
        if d.name == "main" and not isinstance(inst.type, BlockType):
            raise fail("E042", f"'main' must be a package, not {inst.type}", d.span)
        if isinstance(inst.type, BlockType) and inst.type.proto.kind != "package":
            raise fail("E030", f"a {inst.type.proto.kind} cannot be instantiated at the top level", d.span)
        self.declare(d.name, inst, d.name_span)
        if d.name != "main" and isinstance(inst.type, ExternType):
            self.instances.append(inst)


_HANDLERS: dict[type[ast.Decl], Callable[..., None]] = {
    ast.StructDecl: ProgramChecker._decl_struct,
    ast.EnumDecl: ProgramChecker._decl_enum,
    ast.ErrorDecl: ProgramChecker._decl_error,
    ast.MatchKindDecl: ProgramChecker._decl_match_kind,
    ast.Typedef: ProgramChecker._decl_typedef,
    ast.Prototype: ProgramChecker._decl_extern_function,
    ast.Function: ProgramChecker._decl_function,
    ast.ExternDecl: ProgramChecker._decl_extern,
    ast.PackageDecl: ProgramChecker._decl_package,
    ast.ControlDecl: ProgramChecker._decl_control,
    ast.ParserDecl: ProgramChecker._decl_parser,
    ast.ActionDecl: ProgramChecker._decl_action,
    ast.Const: ProgramChecker._decl_const,
    ast.Instance: ProgramChecker._decl_instance,
}


def _plain_struct(t: Type) -> bool:
    """A struct that a header may contain: of bits all the way down."""
    return (
        isinstance(t, Struct)
        and t.kind == "struct"
        and all(
            isinstance(b := base_type(f.type), (Bits, SerEnum)) or b == BOOL or _plain_struct(b)
            for f in t.fields
        )
    )


def check_program(program: ast.Program, diags: Diagnostics) -> ir.Program:
    """Typed tree of a parsed program; what is wrong goes to `diags`."""
    checker = ProgramChecker(diags)
    return checker.program(program)


def const_expr(e: ast.Expr) -> ir.Expr:
    """Value of an expression of literals, as in a structured annotation; raises if it has none."""
    return ProgramChecker(Diagnostics()).expr(e)
