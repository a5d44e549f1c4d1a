# SPDX-License-Identifier: Apache-2.0
"""Token stream with lookahead, speculation and the scoped table of type names."""

from __future__ import annotations

from . import ast
from .diag import CompileError, Diagnostics, fail
from .lexer import KEYWORDS
from .source import Span, Token

#: Keywords that may still name things (P4_16 specification, grammar, `nonTypeName`).
SOFT_KEYWORDS = frozenset(
    {"actions", "apply", "entries", "key", "state", "type", "priority", "list", "string", "match_kind"}
) - {"string", "match_kind"}


class ParserBase:
    """What expression, statement and declaration parsers share."""

    def __init__(self, tokens: list[Token], diags: Diagnostics) -> None:
        self.toks = tokens
        self.pos = 0
        self.tok = tokens[0]
        self.diags = diags
        #: Innermost scope last; True marks a type, False a name that hides one.
        self.scopes: list[dict[str, bool]] = [{}]
        #: True inside ``bit<...>``, where ``>`` is no operator.
        self.closing_angle = False

    # -- stream --------------------------------------------------------------------------------

    def next(self) -> Token:
        t = self.tok
        if t.kind != "EOF":
            self.pos += 1
            self.tok = self.toks[self.pos]
        return t

    def peek(self, n: int = 1) -> Token:
        i = self.pos + n
        return self.toks[i] if i < len(self.toks) else self.toks[-1]

    def seek(self, pos: int) -> None:
        self.pos = pos
        self.tok = self.toks[pos]

    def at(self, text: str) -> bool:
        t = self.tok
        return t.text == text and t.kind != "STR"

    def accept(self, text: str) -> bool:
        t = self.tok
        if t.text == text and t.kind != "STR":
            self.next()
            return True
        return False

    def expect(self, text: str, context: str = "") -> Token:
        if self.at(text):
            return self.next()
        error = self.unexpected(f"'{text}'", context)
        if text == ";" and self.pos and self.toks[self.pos - 1].line != self.tok.line and error.diagnostic:
            # A forgotten semicolon at the end of a line: go on as if it were there.
            self.diags.add(error.diagnostic)
            return self.tok
        raise error

    def unexpected(self, wanted: str, context: str = "") -> CompileError:
        t = self.tok
        where = f" {context}" if context else ""
        if t.kind == "BAD":
            if t.text == '"':
                return fail("E003", "string literal not closed", t.span)
            return fail("E003", f"character {t.text!r} is not part of P4", t.span)
        found = "end of file" if t.kind == "EOF" else f"'{t.text}'"
        hint = None
        if wanted == "';'" and self.pos:
            prev = self.toks[self.pos - 1]
            span = Span(prev.file, prev.end_line, prev.end_col, prev.end_line, prev.end_col + 1)
            if prev.file is t.file and prev.line != t.line:
                return fail("E004", f"expected ';'{where}, found {found}", span, hint="add ';' here")
        if t.kind == "ID" and t.text in KEYWORDS and wanted == "a name":
            hint = f"'{t.text}' is a keyword"
        return fail("E004", f"expected {wanted}{where}, found {found}", t.span, hint=hint)

    def span_from(self, start: Token) -> Span:
        end = self.toks[self.pos - 1] if self.pos else start
        if end.file is not start.file or (end.end_line, end.end_col) < (start.line, start.col):
            return start.span
        return Span(start.file, start.line, start.col, end.end_line, end.end_col)

    # -- names ---------------------------------------------------------------------------------

    def is_name(self, t: Token) -> bool:
        return t.kind == "ID" and (t.text not in KEYWORDS or t.text in SOFT_KEYWORDS) and t.text != "_"

    def ident(self, context: str = "") -> Token:
        if self.is_name(self.tok):
            return self.next()
        raise self.unexpected("a name", context)

    def push(self) -> None:
        self.scopes.append({})

    def pop(self) -> None:
        self.scopes.pop()

    def declare(self, name: str, is_type: bool) -> None:
        self.scopes[-1][name] = is_type

    def names_type(self, name: str) -> bool:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return False

    def sync(self, *stops: str) -> None:
        """Skip to just after the next ``;`` or balanced ``}``, or to one of `stops`."""
        depth = 0
        while self.tok.kind != "EOF":
            text = self.tok.text if self.tok.kind == "OP" else ""
            if depth == 0 and self.tok.text in stops:
                return
            if text == "{":
                depth += 1
            elif text == "}":
                if depth == 0:
                    return
                depth -= 1
                if depth == 0:
                    self.next()
                    return
            elif text == ";" and depth == 0:
                self.next()
                return
            self.next()

    # -- provided by subclasses ----------------------------------------------------------------

    def expression(self) -> ast.Expr:
        raise NotImplementedError

    def type_ref(self) -> ast.Type:
        raise NotImplementedError
