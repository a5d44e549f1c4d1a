# SPDX-License-Identifier: Apache-2.0
"""Recursive descent for tables."""

from __future__ import annotations

from . import ast
from .diag import CompileError
from .parser_stmt import StmtParser


class TableParser(StmtParser):
    """Tables: keys, actions, entries, other properties."""

    def table_decl(self, annos: ast.Annotations) -> ast.TableDecl:
        start = self.next()
        name = self.ident("of a table")
        self.declare(name.text, False)
        self.expect("{", f"in table {name.text}")
        props: list[ast.Property] = []
        while not self.at("}") and self.tok.kind != "EOF":
            pos = self.pos
            try:
                props.append(self.table_property())
            except CompileError as e:
                if e.diagnostic is None:
                    raise
                self.diags.add(e.diagnostic)
                self.sync()
                if self.pos == pos:
                    self.next()
        self.expect("}")
        return ast.TableDecl(self.span_from(start), name.text, name.span, annos, tuple(props))

    def table_property(self) -> ast.Property:
        start = self.tok
        annos = self.annotations()
        const = self.accept("const")
        name = self.tok
        if name.kind != "ID":
            raise self.unexpected("a table property")
        self.next()
        self.expect("=", f"after property {name.text}")
        if name.text == "key":
            keys = self._keys()
            return ast.Property(self.span_from(start), "key", const, annos, keys=keys)
        if name.text == "actions":
            actions = self._action_list()
            return ast.Property(self.span_from(start), "actions", const, annos, actions=actions)
        if name.text == "entries":
            entries = self._entries(const)
            return ast.Property(self.span_from(start), "entries", const, annos, entries=entries)
        value = self.expression()
        body = self.instance_body() if self.accept("=") else None
        self.expect(";", f"after property {name.text}")
        return ast.Property(self.span_from(start), name.text, const, annos, expr=value, init_args=body)

    def _keys(self) -> tuple[ast.KeyElement, ...]:
        self.expect("{", "in the key")
        keys: list[ast.KeyElement] = []
        while not self.at("}"):
            start = self.tok
            expr = self.expression()
            self.expect(":", "after a key expression")
            kind = self.ident("of a match kind")
            annos = self.annotations()
            self.expect(";", "after a key element")
            keys.append(ast.KeyElement(self.span_from(start), expr, kind.text, kind.span, annos))
        self.expect("}")
        self.accept(";")
        return tuple(keys)

    def _action_ref(self, annos: ast.Annotations) -> ast.ActionRef:
        start = self.tok
        rooted = self.accept(".")
        name = self.ident("of an action")
        args = self.arguments() if self.at("(") else None
        return ast.ActionRef(self.span_from(start), name.text, rooted, args, annos)

    def _action_list(self) -> tuple[ast.ActionRef, ...]:
        self.expect("{", "in the list of actions")
        refs: list[ast.ActionRef] = []
        while not self.at("}"):
            annos = self.annotations()
            refs.append(self._action_ref(annos))
            self.expect(";", "after an action")
        self.expect("}")
        self.accept(";")
        return tuple(refs)

    def _entries(self, all_const: bool) -> tuple[ast.Entry, ...]:
        self.expect("{", "in the entries")
        entries: list[ast.Entry] = []
        while not self.at("}"):
            start = self.tok
            const = self.accept("const") or all_const
            priority: ast.Expr | None = None
            if self.at("priority") and self.peek().text == "=":
                self.next()
                self.next()
                priority = self.expression()
                self.expect(":", "after a priority")
            keys = self.keyset()
            self.expect(":", "after the keys of an entry")
            ref = self._action_ref(())
            annos = self.annotations()
            self.expect(";", "after an entry")
            entries.append(ast.Entry(self.span_from(start), keys, ref, annos, priority, const))
        self.expect("}")
        self.accept(";")
        return tuple(entries)
