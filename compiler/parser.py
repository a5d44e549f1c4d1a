# SPDX-License-Identifier: Apache-2.0
"""Recursive descent for declarations: from tokens to the syntax tree of the whole program."""

from __future__ import annotations

from . import ast
from .diag import CompileError, Diagnostics, fail
from .parser_table import TableParser
from .source import Token

_STARTERS = frozenset(
    [
        "const",
        "action",
        "parser",
        "control",
        "package",
        "extern",
        "header",
        "header_union",
        "struct",
        "enum",
        "error",
        "match_kind",
        "typedef",
        "type",
    ]
)


class Parser(TableParser):
    """Declarations."""

    def program(self) -> ast.Program:
        decls: list[ast.Decl] = []
        while self.tok.kind != "EOF":
            pos = self.pos
            try:
                if self.accept(";"):
                    continue
                decls.append(self.declaration())
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
                del self.scopes[1:]
                self.sync()
                if self.pos == pos:
                    self.next()
        return ast.Program(tuple(decls))

    def declaration(self) -> ast.Decl:
        start = self.tok
        annos = self.annotations()
        t = self.tok
        text = t.text
        if t.kind == "ID":
            if text == "const":
                return self.const_decl(annos)
            if text == "action":
                return self.action_decl(annos)
            if text == "parser":
                return self.parser_decl(annos)
            if text == "control":
                return self.control_decl(annos)
            if text == "package":
                return self.package_decl(annos)
            if text == "extern":
                return self.extern_decl(annos)
            if text in ("header", "header_union", "struct"):
                return self.struct_decl(annos)
            if text == "enum":
                return self.enum_decl(annos)
            if text in ("error", "match_kind") and self.peek().text == "{":
                return self.members_decl(annos)
            if text == "typedef" or (text == "type" and self.peek().kind == "ID"):
                return self.typedef_decl(annos)
            return self.instance_or_function(annos, start)
        if text == "." and t.kind == "OP":
            return self.instance_or_function(annos, start)
        raise self.unexpected("a declaration")

    # -- types ---------------------------------------------------------------------------------

    def type_params(self) -> tuple[str, ...]:
        if not self.at("<"):
            return ()
        self.next()
        names: list[str] = []
        while True:
            name = self.ident("of a type parameter")
            self.declare(name.text, True)
            names.append(name.text)
            if not self.accept(","):
                break
        self.expect(">", "after type parameters")
        return tuple(names)

    def struct_decl(self, annos: ast.Annotations) -> ast.StructDecl:
        start = self.next()
        name = self.ident("of a type")
        self.declare(name.text, True)
        self.push()
        tparams = self.type_params()
        self.expect("{", f"in {start.text} {name.text}")
        fields: list[ast.Field] = []
        while not self.at("}") and self.tok.kind != "EOF":
            first = self.tok
            fannos = self.annotations()
            ty = self.type_ref()
            field = self.ident("of a field")
            self.expect(";", "after a field")
            fields.append(ast.Field(self.span_from(first), field.text, field.span, fannos, ty))
        self.expect("}")
        self.pop()
        return ast.StructDecl(
            self.span_from(start), name.text, name.span, annos, start.text, tparams, tuple(fields)
        )

    def enum_decl(self, annos: ast.Annotations) -> ast.EnumDecl:
        start = self.next()
        underlying = None
        if self.tok.text in ("bit", "int") or self.peek().kind == "ID":
            underlying = self.type_ref()
        name = self.ident("of an enum")
        self.declare(name.text, True)
        self.expect("{")
        members: list[ast.EnumMember] = []
        while not self.at("}"):
            first = self.tok
            mannos = self.annotations()
            member = self.ident("of an enum member")
            value = self.expression() if self.accept("=") else None
            members.append(ast.EnumMember(self.span_from(first), member.text, member.span, mannos, value))
            if not self.accept(","):
                break
        self.expect("}", "after enum members")
        return ast.EnumDecl(self.span_from(start), name.text, name.span, annos, underlying, tuple(members))

    def members_decl(self, annos: ast.Annotations) -> ast.Decl:
        start = self.next()
        self.expect("{")
        names = []
        while not self.at("}"):
            member = self.ident()
            names.append((member.text, member.span))
            if not self.accept(","):
                break
        self.expect("}")
        make = ast.ErrorDecl if start.text == "error" else ast.MatchKindDecl
        return make(self.span_from(start), start.text, start.span, annos, tuple(names))

    def typedef_decl(self, annos: ast.Annotations) -> ast.Decl:
        start = self.next()
        more = self.annotations()
        if self.tok.text in ("struct", "header", "header_union", "enum"):
            raise self.unexpected("a type name")
        ty = self.type_ref()
        name = self.ident("of a type")
        self.expect(";", "after a type declaration")
        self.declare(name.text, True)
        return ast.Typedef(
            self.span_from(start), name.text, name.span, annos + more, ty, start.text == "type"
        )

    # -- functions, externs, packages ----------------------------------------------------------

    def params(self) -> tuple[ast.Param, ...]:
        self.expect("(")
        out: list[ast.Param] = []
        while not self.at(")"):
            start = self.tok
            annos = self.annotations()
            direction = ""
            if self.tok.text in ("in", "out", "inout"):
                direction = self.next().text
            ty = self.type_ref()
            name = self.ident("of a parameter")
            default = self.expression() if self.accept("=") else None
            self.declare(name.text, False)
            out.append(ast.Param(self.span_from(start), name.text, name.span, annos, direction, ty, default))
            if not self.accept(","):
                break
        self.expect(")", "after parameters")
        return tuple(out)

    def prototype(self, annos: ast.Annotations, owner: str = "") -> ast.Prototype:
        """Header of a function, or of a method or constructor of extern `owner`."""
        start = self.tok
        abstract = self.accept("abstract")
        ret: ast.Type | None = None
        if not (self.tok.text == owner and self.peek().text == "("):
            ret = self.type_ref()
        name = self.ident("of a function")
        self.push()
        tparams = self.type_params()
        if tparams and isinstance(ret, ast.TName):
            pass
        params = self.params()
        self.pop()
        return ast.Prototype(
            self.span_from(start), name.text, name.span, annos, tparams, ret, params, abstract
        )

    def extern_decl(self, annos: ast.Annotations) -> ast.Decl:
        start = self.next()
        if self.is_name(self.tok) and self.peek().text in ("{", "<") and self._extern_object():
            name = self.next()
            self.declare(name.text, True)
            self.push()
            tparams = self.type_params()
            self.expect("{")
            methods: list[ast.Prototype] = []
            while not self.at("}"):
                mannos = self.annotations()
                methods.append(self.prototype(mannos, name.text))
                self.expect(";", "after a method")
            self.expect("}")
            self.pop()
            return ast.ExternDecl(self.span_from(start), name.text, name.span, annos, tparams, tuple(methods))
        proto = self.prototype(annos)
        self.expect(";", "after an extern function")
        self.declare(proto.name, False)
        return ast.Prototype(
            self.span_from(start),
            proto.name,
            proto.name_span,
            annos,
            proto.tparams,
            proto.ret,
            proto.params,
            False,
            True,
        )

    def _extern_object(self) -> bool:
        if self.peek().text == "{":
            return True
        n, depth = 1, 0
        while True:
            t = self.peek(n)
            if t.kind == "EOF":
                return False
            depth += (t.text == "<") - (t.text == ">")
            n += 1
            if depth == 0:
                return self.peek(n).text == "{"

    def package_decl(self, annos: ast.Annotations) -> ast.PackageDecl:
        start = self.next()
        name = self.ident("of a package")
        self.declare(name.text, True)
        self.push()
        tparams = self.type_params()
        params = self.params()
        self.pop()
        self.expect(";", "after a package")
        return ast.PackageDecl(self.span_from(start), name.text, name.span, annos, tparams, params)

    def instance_or_function(self, annos: ast.Annotations, start: Token) -> ast.Decl:
        if not self._function_ahead():
            decl = self.var_or_instance(annos)
            if isinstance(decl, ast.Var):
                self.diags.error(
                    "E030",
                    "variables are not allowed at the top level",
                    decl.span,
                    hint="declare it const, or inside a control or parser",
                )
            return decl
        proto = self.prototype(annos)
        self.declare(proto.name, False)
        self.push()
        for name in proto.tparams:
            self.declare(name, True)
        for p in proto.params:
            self.declare(p.name, False)
        body = self.block()
        self.pop()
        return ast.Function(self.span_from(start), proto.name, proto.name_span, annos, proto, body)

    def _function_ahead(self) -> bool:
        """Is this ``type name<T>(params) {`` rather than ``Type(args) name;``?"""
        pos = self.pos
        try:
            self.type_ref()
            return self.is_name(self.tok) and self.peek().text in ("(", "<")
        except CompileError:
            return False
        finally:
            self.seek(pos)

    # -- actions, tables, controls -------------------------------------------------------------

    def action_decl(self, annos: ast.Annotations) -> ast.ActionDecl:
        start = self.next()
        name = self.ident("of an action")
        self.declare(name.text, False)
        self.push()
        params = self.params()
        body = self.block()
        self.pop()
        return ast.ActionDecl(self.span_from(start), name.text, name.span, annos, params, body)

    def control_decl(self, annos: ast.Annotations) -> ast.ControlDecl:
        start = self.next()
        name = self.ident("of a control")
        self.declare(name.text, True)
        self.push()
        tparams = self.type_params()
        params = self.params()
        cparams: tuple[ast.Param, ...] = ()
        if self.accept(";"):
            self.pop()
            return ast.ControlDecl(
                self.span_from(start), name.text, name.span, annos, tparams, params, (), (), None
            )
        if self.at("("):
            cparams = self.params()
        self.expect("{", f"in control {name.text}")
        items: list[ast.Decl] = []
        while not self._at_apply():
            if self.at("}") or self.tok.kind == "EOF":
                raise self.unexpected("'apply'", f"in control {name.text}")
            pos = self.pos
            try:
                items.append(self.control_local())
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
                self.sync("apply", "table", "action")
                if self.pos == pos:
                    self.next()
        self.annotations()
        self.next()
        body = self.block()
        self.expect("}", f"after control {name.text}")
        self.pop()
        return ast.ControlDecl(
            self.span_from(start), name.text, name.span, annos, tparams, params, cparams, tuple(items), body
        )

    def _at_apply(self) -> bool:
        if self.at("@"):
            pos = self.pos
            self.annotations()
            found = self.at("apply") and self.peek().text == "{"
            self.seek(pos)
            return found
        return self.at("apply") and self.peek().text == "{"

    def control_local(self) -> ast.Decl:
        annos = self.annotations()
        t = self.tok
        if t.text == "const":
            return self.const_decl(annos)
        if t.text == "action":
            return self.action_decl(annos)
        if t.text == "table":
            return self.table_decl(annos)
        if not self.at_declaration():
            raise self.unexpected("a declaration or 'apply'")
        return self.var_or_instance(annos)

    def instance_body(self) -> tuple[ast.Decl, ...]:
        self.expect("{")
        self.push()
        out: list[ast.Decl] = []
        while not self.at("}"):
            annos = self.annotations()
            if self._function_ahead():
                out.append(self.instance_or_function(annos, self.tok))
            else:
                out.append(self.var_or_instance(annos))
        self.pop()
        self.expect("}")
        return tuple(out)

    # -- parsers -------------------------------------------------------------------------------

    def parser_decl(self, annos: ast.Annotations) -> ast.ParserDecl:
        start = self.next()
        name = self.ident("of a parser")
        self.declare(name.text, True)
        self.push()
        tparams = self.type_params()
        params = self.params()
        cparams: tuple[ast.Param, ...] = ()
        if self.accept(";"):
            self.pop()
            return ast.ParserDecl(
                self.span_from(start), name.text, name.span, annos, tparams, params, (), (), None
            )
        if self.at("("):
            cparams = self.params()
        self.expect("{", f"in parser {name.text}")
        items: list[ast.Decl] = []
        states: list[ast.State] = []
        while not self.at("}") and self.tok.kind != "EOF":
            pos = self.pos
            try:
                lannos = self.annotations()
                if self.at("state"):
                    states.append(self.state_decl(lannos))
                elif states:
                    raise self.unexpected("'state'", "after the first state")
                elif self.at("const"):
                    items.append(self.const_decl(lannos))
                elif self.at("valueset") or (self.at("value_set") and self.peek().text == "<"):
                    items.append(self.valueset_decl(lannos))
                else:
                    items.append(self.var_or_instance(lannos))
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
                self.sync("state")
                if self.pos == pos:
                    self.next()
        self.expect("}")
        self.pop()
        return ast.ParserDecl(
            self.span_from(start),
            name.text,
            name.span,
            annos,
            tparams,
            params,
            cparams,
            tuple(items),
            tuple(states),
        )

    def valueset_decl(self, annos: ast.Annotations) -> ast.ValueSet:
        start = self.next()
        args = self.type_args()
        if len(args) != 1:
            raise fail("E021", "value_set takes one type argument", start.span)
        self.expect("(")
        size = self.expression()
        self.expect(")")
        name = self.ident("of a value set")
        self.expect(";")
        self.declare(name.text, False)
        return ast.ValueSet(self.span_from(start), name.text, name.span, annos, args[0], size)

    def state_decl(self, annos: ast.Annotations) -> ast.State:
        start = self.next()
        name = self.ident("of a state")
        self.expect("{", f"in state {name.text}")
        self.push()
        body = self.statements("transition")
        transition = self.transition() if self.at("transition") else None
        self.pop()
        self.expect("}", f"after state {name.text}")
        return ast.State(self.span_from(start), name.text, name.span, annos, tuple(body), transition)

    def transition(self) -> ast.Transition:
        start = self.next()
        if not self.at("select"):
            name = self.ident("of a state")
            self.expect(";", "after a transition")
            return ast.Transition(self.span_from(start), name.text, name.span)
        select = self.next()
        self.expect("(", "after select")
        exprs: list[ast.Expr] = []
        while not self.at(")"):
            exprs.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")", "after the select expressions")
        self.expect("{")
        cases: list[ast.SelectCase] = []
        while not self.at("}"):
            first = self.tok
            keys = self.keyset()
            self.expect(":", "after a key set")
            name = self.ident("of a state")
            self.expect(";", "after a select case")
            cases.append(ast.SelectCase(self.span_from(first), keys, name.text, name.span))
        self.expect("}")
        self.accept(";")
        return ast.Transition(self.span_from(start), None, select.span, tuple(exprs), tuple(cases))


def parse(tokens: list[Token], diags: Diagnostics) -> ast.Program:
    """Syntax tree of a preprocessed program; syntax errors go to `diags`, several at once."""
    return Parser(tokens, diags).program()
