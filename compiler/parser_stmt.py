# SPDX-License-Identifier: Apache-2.0
"""Recursive descent for statements and local declarations."""

from __future__ import annotations

from . import ast
from .diag import CompileError
from .parser_expr import TYPE_KEYWORDS, ExprParser

ASSIGN_OPS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="})


class StmtParser(ExprParser):
    """Statements, blocks, variable and constant declarations, instantiations."""

    def block(self, annos: ast.Annotations = ()) -> ast.Block:
        start = self.expect("{")
        self.push()
        items = self.statements()
        self.pop()
        self.expect("}", "after a block")
        return ast.Block(self.span_from(start), tuple(items), annos)

    def statements(self, *stops: str) -> list[ast.Stmt | ast.Decl]:
        items: list[ast.Stmt | ast.Decl] = []
        while not self.at("}") and self.tok.kind != "EOF" and self.tok.text not in stops:
            pos = self.pos
            try:
                items.append(self.stmt_or_decl())
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
                self.sync()
                if self.pos == pos:
                    self.next()
        return items

    def stmt_or_decl(self) -> ast.Stmt | ast.Decl:
        annos = self.annotations()
        t = self.tok
        if t.kind == "ID":
            if t.text == "const":
                return self.const_decl(annos)
            if self.at_declaration():
                return self.var_or_instance(annos)
        return self.statement(annos)

    def at_declaration(self) -> bool:
        """Does a declaration (type, then a name) start here, rather than an expression?"""
        t = self.tok
        if t.kind == "OP":
            if t.text != ".":
                return False
        elif t.kind != "ID":
            return False
        elif t.text in TYPE_KEYWORDS:
            return not (
                t.text in ("error", "match_kind", "list")
                and self.peek().text != "<"
                and not self.is_name(self.peek())
            )
        elif not self.is_name(t):
            return False
        nxt = self.peek(2) if t.text == "." else self.peek()
        if nxt.kind == "ID":
            return self.is_name(nxt)
        if nxt.text == "(":
            return self._name_follows_parens(2 if t.text == "." else 1)
        if nxt.text not in ("<", "["):
            return False
        pos = self.pos
        try:
            self.type_ref()
            if self.at("("):
                return self._name_follows_parens(0)
            return self.is_name(self.tok)
        except CompileError:
            return False
        finally:
            self.seek(pos)

    def _name_follows_parens(self, n: int) -> bool:
        depth = 0
        while True:
            t = self.peek(n)
            if t.kind == "EOF":
                return False
            if t.kind == "OP":
                if t.text == "(":
                    depth += 1
                elif t.text == ")":
                    depth -= 1
                    if depth == 0:
                        after = self.peek(n + 1)
                        return self.is_name(after) or after.text == "@"
                elif t.text == ";":
                    return False
            n += 1

    def var_or_instance(self, annos: ast.Annotations) -> ast.Decl:
        start = self.tok
        ty = self.type_ref()
        if self.at("("):
            args = self.arguments()
            more = self.annotations()
            name = self.ident("of an instance")
            body = None
            if self.accept("="):
                body = self.instance_body()
            self.expect(";", "after an instantiation")
            self.declare(name.text, False)
            return ast.Instance(self.span_from(start), name.text, name.span, annos + more, ty, args, body)
        name = self.ident("of a variable")
        init = None
        if self.accept("="):
            init = self.expression()
        self.expect(";", "after a variable declaration")
        self.declare(name.text, False)
        return ast.Var(self.span_from(start), name.text, name.span, annos, ty, init)

    def instance_body(self) -> tuple[ast.Decl, ...]:
        raise NotImplementedError

    def const_decl(self, annos: ast.Annotations) -> ast.Const:
        start = self.expect("const")
        ty = self.type_ref()
        name = self.ident("of a constant")
        self.expect("=", "in a constant declaration")
        value = self.expression()
        self.expect(";", "after a constant declaration")
        self.declare(name.text, False)
        return ast.Const(self.span_from(start), name.text, name.span, annos, ty, value)

    # -- statements ----------------------------------------------------------------------------

    def statement(self, annos: ast.Annotations = ()) -> ast.Stmt:
        t = self.tok
        if t.kind == "OP":
            if t.text == "{":
                return self.block(annos)
            if t.text == ";":
                self.next()
                return ast.Empty(t.span)
        handler = _STATEMENTS.get(t.text) if t.kind == "ID" else None
        if handler == "for":
            return self.for_stmt(annos)
        if handler is not None:
            return getattr(self, handler)()  # type: ignore[no-any-return]
        stmt = self.simple_statement()
        self.expect(";", "after a statement")
        return stmt

    def simple_statement(self) -> ast.Stmt:
        """Assignment or call, without its semicolon."""
        start = self.tok
        target = self.unary() if self.at("(") else self.postfix(self.primary(), start)
        op = self.tok.text if self.tok.kind == "OP" else ""
        if op == ">" and self.peek().text == ">=" and not self.peek().space:
            self.next()
            op = ">>="
        if op in ASSIGN_OPS or op == ">>=":
            self.next()
            value = self.expression()
            return ast.Assign(self.span_from(start), target, op, value)
        if isinstance(target, ast.Call):
            return ast.CallStmt(self.span_from(start), target)
        raise self.unexpected("'=' or a call")

    def if_stmt(self) -> ast.Stmt:
        start = self.expect("if")
        self.expect("(", "after if")
        cond = self.expression()
        self.expect(")", "after the condition")
        then = self.branch()
        other = self.branch() if self.accept("else") else None
        return ast.If(self.span_from(start), cond, then, other)

    def branch(self) -> ast.Stmt:
        self.push()
        annos = self.annotations()
        stmt = self.statement(annos)
        self.pop()
        return stmt

    def return_stmt(self) -> ast.Stmt:
        start = self.next()
        value = None if self.at(";") else self.expression()
        self.expect(";", "after return")
        return ast.Return(self.span_from(start), value)

    def exit_stmt(self) -> ast.Stmt:
        start = self.next()
        self.expect(";", "after exit")
        return ast.Exit(self.span_from(start))

    def break_stmt(self) -> ast.Stmt:
        start = self.next()
        self.expect(";", "after break")
        return ast.Break(self.span_from(start))

    def continue_stmt(self) -> ast.Stmt:
        start = self.next()
        self.expect(";", "after continue")
        return ast.Continue(self.span_from(start))

    def switch_stmt(self) -> ast.Stmt:
        start = self.next()
        self.expect("(", "after switch")
        expr = self.expression()
        self.expect(")", "after the switch expression")
        self.expect("{")
        cases: list[ast.SwitchCase] = []
        while not self.at("}"):
            first = self.tok
            label: ast.Expr
            if first.text == "default":
                self.next()
                label = ast.DontCare(first.span, True)
            else:
                label = self.expression()
            self.expect(":", "after a switch label")
            body = self.block() if self.at("{") else None
            cases.append(ast.SwitchCase(self.span_from(first), label, body))
        self.expect("}")
        return ast.Switch(self.span_from(start), expr, tuple(cases))

    def for_stmt(self, annos: ast.Annotations) -> ast.Stmt:
        start = self.next()
        self.expect("(", "after for")
        self.push()
        try:
            more = self.annotations()
            stmt = self._for_in(start.span, annos + more) or self._for_c(annos)
        finally:
            self.pop()
        return stmt

    def _for_in(self, span: object, annos: ast.Annotations) -> ast.ForIn | None:
        pos, start = self.pos, self.tok
        decl: ast.Var | None = None
        target: ast.Expr
        try:
            if self.at_declaration():
                ty = self.type_ref()
                name = self.ident()
                if not self.at("in"):
                    self.seek(pos)
                    return None
                decl = ast.Var(self.span_from(start), name.text, name.span, annos, ty, None)
                self.declare(name.text, False)
                target = ast.Name(name.span, name.text)
            else:
                target = self.postfix(self.primary(), start)
                if not self.at("in"):
                    self.seek(pos)
                    return None
        except CompileError:
            self.seek(pos)
            return None
        self.next()
        first = self.tok
        collection = self.expression()
        if self.accept(".."):
            hi = self.expression()
            collection = ast.Range(self.span_from(first), collection, hi)
        self.expect(")", "after a loop header")
        body = self.branch()
        return ast.ForIn(self.span_from(start), annos, decl, target, collection, body)

    def _for_c(self, annos: ast.Annotations) -> ast.For:
        start = self.tok
        init: list[ast.Stmt | ast.Decl] = []
        while not self.at(";"):
            first = self.tok
            self.annotations()
            if self.at_declaration():
                ty = self.type_ref()
                name = self.ident("of a loop variable")
                value = self.expression() if self.accept("=") else None
                self.declare(name.text, False)
                init.append(ast.Var(self.span_from(first), name.text, name.span, (), ty, value))
            else:
                init.append(self.simple_statement())
            if not self.accept(","):
                break
        self.expect(";", "in a loop header")
        cond = self.expression()
        self.expect(";", "in a loop header")
        update: list[ast.Stmt] = []
        while not self.at(")"):
            update.append(self.simple_statement())
            if not self.accept(","):
                break
        self.expect(")", "after a loop header")
        body = self.branch()
        return ast.For(self.span_from(start), annos, tuple(init), cond, tuple(update), body)


_STATEMENTS = {
    "if": "if_stmt",
    "return": "return_stmt",
    "exit": "exit_stmt",
    "switch": "switch_stmt",
    "for": "for",
    "break": "break_stmt",
    "continue": "continue_stmt",
}
