# SPDX-License-Identifier: Apache-2.0
"""Recursive descent for types, expressions and annotations."""

from __future__ import annotations

from . import ast
from .diag import CompileError, fail
from .lexer import parse_int, string_value
from .parser_base import ParserBase
from .source import Token

#: Binding strength of binary operators (P4_16 specification, section on operators).
PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "|": 5,
    "^": 6,
    "&": 7,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "<<": 8,
    ">>": 8,
    "++": 9,
    "+": 9,
    "-": 9,
    "|+|": 9,
    "|-|": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_BASE_TYPES = frozenset({"bool", "error", "string", "void", "match_kind"})
TYPE_KEYWORDS = frozenset({"bit", "int", "varbit", "tuple", "list"}) | _BASE_TYPES


class ExprParser(ParserBase):
    """Types, expressions, key sets, arguments, annotations."""

    # -- types ---------------------------------------------------------------------------------

    def type_ref(self) -> ast.Type:
        start = self.tok
        t = self._prefix_type()
        while self.at("["):
            self.next()
            size = self.expression()
            self.expect("]", "after the size of a header stack")
            t = ast.TStack(self.span_from(start), t, size)
        return t

    def _prefix_type(self) -> ast.Type:
        t = self.tok
        text = t.text
        if t.kind == "ID":
            if text in ("bit", "int", "varbit"):
                self.next()
                width = self._width() if self.at("<") else None
                if text == "varbit" and width is None:
                    raise self.unexpected("'<'", "after varbit")
                return ast.TBits(self.span_from(t), text, width)
            if text in _BASE_TYPES:
                self.next()
                return ast.TBase(t.span, text)
            if text == "_":
                self.next()
                return ast.TBase(t.span, "_")
            if text == "tuple":
                self.next()
                return ast.TTuple(self.span_from(t), self.type_args())
            if text == "list" and self.peek().text == "<":
                self.next()
                args = self.type_args()
                if len(args) != 1:
                    raise fail("E021", "list takes one type argument", t.span)
                return ast.TList(self.span_from(t), args[0])
        rooted = self.accept(".")
        name = self.ident("of a type")
        base = ast.TName(self.span_from(t), name.text, rooted)
        if self.at("<"):
            return ast.TGeneric(self.span_from(t), base, self.type_args())
        return base

    def _width(self) -> ast.Expr:
        self.expect("<")
        # In a width '>' closes it, so shifts and comparisons need parentheses.
        outer, self.closing_angle = self.closing_angle, True
        width = self.binary(PRECEDENCE["<"] + 1)
        self.closing_angle = outer
        self.expect(">", "after a width")
        return width

    def type_args(self) -> tuple[ast.Type, ...]:
        self.expect("<")
        args: list[ast.Type] = []
        while not self.at(">"):
            args.append(self.type_ref())
            if not self.accept(","):
                break
        self.expect(">", "after type arguments")
        return tuple(args)

    def try_type_args(self, follow: str) -> tuple[ast.Type, ...] | None:
        """Type arguments followed by the token `follow`, or None with nothing consumed."""
        pos = self.pos
        try:
            args = self.type_args()
        except CompileError:
            self.seek(pos)
            return None
        if not self.at(follow):
            self.seek(pos)
            return None
        return args

    # -- expressions ---------------------------------------------------------------------------

    def expression(self) -> ast.Expr:
        start = self.tok
        cond = self.binary(1)
        if not self.at("?"):
            return cond
        self.next()
        yes = self.expression()
        self.expect(":", "in a conditional expression")
        no = self.expression()
        return ast.Ternary(self.span_from(start), cond, yes, no)

    def _operator(self) -> str:
        t = self.tok
        if t.kind != "OP":
            return ""
        if t.text == ">":
            if self.closing_angle:
                return ""
            nxt = self.peek()
            if nxt.text == ">" and not nxt.space:
                return ">>"
            if nxt.text == ">=" and not nxt.space:
                return ""
        return t.text

    def binary(self, level: int) -> ast.Expr:
        start = self.tok
        left = self.unary()
        while True:
            op = self._operator()
            strength = PRECEDENCE.get(op)
            if strength is None or strength < level:
                return left
            self.next()
            if op == ">>":
                self.next()
            right = self.binary(strength + 1)
            left = ast.Binary(self.span_from(start), op, left, right)

    def unary(self) -> ast.Expr:
        t = self.tok
        if t.kind == "OP":
            if t.text in ("!", "~", "-", "+"):
                self.next()
                arg = self.unary()
                return ast.Unary(self.span_from(t), t.text, arg)
            if t.text == "(" and self._at_cast():
                self.next()
                ty = self.type_ref()
                self.expect(")")
                arg = self.unary()
                return ast.Cast(self.span_from(t), ty, arg)
        return self.postfix(self.primary(), t)

    def _at_cast(self) -> bool:
        """Is the ``(`` here the start of a cast? Yes if a whole type and ``)`` follow."""
        t = self.peek()
        if t.kind != "ID" and t.text != ".":
            return False
        if t.kind == "ID" and t.text in TYPE_KEYWORDS:
            if t.text in ("error", "match_kind") and self.peek(2).text == ".":
                return False
        else:
            name = self.peek(2) if t.text == "." else t
            if not self.names_type(name.text):
                return False
        pos = self.pos
        self.next()
        try:
            self.type_ref()
            return self.at(")")
        except CompileError:
            return False
        finally:
            self.seek(pos)

    def primary(self) -> ast.Expr:
        t = self.tok
        kind, text = t.kind, t.text
        if kind == "INT":
            self.next()
            return self._int(t)
        if kind == "STR":
            self.next()
            value = string_value(text)
            while self.tok.kind == "STR":
                value += string_value(self.next().text)
            return ast.Str(self.span_from(t), value)
        if kind == "ID":
            if text in ("true", "false"):
                self.next()
                return ast.Bool(t.span, text == "true")
            if text == "this":
                self.next()
                return ast.Name(t.span, "this")
            if text in TYPE_KEYWORDS and not (text == "list" and self.peek().text != "<"):
                ty = self._prefix_type()
                return ast.TypeExpr(ty.span, ty)
            if self.is_name(t):
                self.next()
                return ast.Name(t.span, text)
        elif kind == "OP":
            if text == "(":
                self.next()
                outer, self.closing_angle = self.closing_angle, False
                e = self.expression()
                self.closing_angle = outer
                self.expect(")")
                return e
            if text == "{":
                return self._braces()
            if text == "." and self.peek().kind == "ID":
                self.next()
                name = self.next()
                return ast.Name(self.span_from(t), name.text, True)
            if text == "...":
                self.next()
                return ast.Dots(t.span)
        raise self.unexpected("an expression")

    def _int(self, t: Token) -> ast.Int:
        nxt = self.tok
        if nxt.kind in ("ID", "INT") and not nxt.space and nxt.line == t.end_line and nxt.col == t.end_col:
            raise fail("E003", f"malformed number '{t.text}{nxt.text}'", t.span.to(nxt.span))
        try:
            value, width, signed = parse_int(t.text)
        except ValueError:
            raise fail("E003", f"malformed number '{t.text}'", t.span) from None
        return ast.Int(t.span, value, width, signed, t.text)

    def _braces(self) -> ast.Expr:
        start = self.expect("{")
        if self.at("#"):
            self.next()
            self.expect("}")
            return ast.Invalid(self.span_from(start))
        named: list[tuple[str, ast.Expr]] = []
        items: list[ast.Expr] = []
        dots = False
        is_named = self.is_name(self.tok) and self.peek().text == "="
        while not self.at("}"):
            if self.at("...") and self.peek().text in ("}", ","):
                self.next()
                dots = True
                self.accept(",")
                break
            if is_named:
                name = self.ident("of a field")
                self.expect("=", "in a structure")
                named.append((name.text, self.expression()))
            else:
                items.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}", "after a list")
        span = self.span_from(start)
        if is_named:
            return ast.StructExpr(span, tuple(named), dots)
        return ast.ListExpr(span, tuple(items), dots)

    def postfix(self, e: ast.Expr, start: Token) -> ast.Expr:
        while True:
            t = self.tok
            if t.kind != "OP":
                return e
            text = t.text
            if text == ".":
                self.next()
                name = self.tok
                if name.kind != "ID":
                    raise self.unexpected("a member name", "after '.'")
                self.next()
                e = ast.Member(self.span_from(start), e, name.text, name.span)
            elif text == "[":
                e = self._subscript(e, start)
            elif text == "(":
                args = self.arguments()
                e = ast.Call(self.span_from(start), e, (), args)
            elif text == "<" and isinstance(e, (ast.Name, ast.Member)):
                targs = self.try_type_args("(")
                if targs is not None:
                    args = self.arguments()
                    e = ast.Call(self.span_from(start), e, targs, args)
                    continue
                if isinstance(e, ast.Name) and self.names_type(e.name):
                    targs = self.try_type_args(".")
                    if targs is not None:
                        base = ast.TName(e.span, e.name, e.rooted)
                        e = ast.TypeExpr(
                            self.span_from(start), ast.TGeneric(self.span_from(start), base, targs)
                        )
                        continue
                return e
            else:
                return e

    def _subscript(self, e: ast.Expr, start: Token) -> ast.Expr:
        self.expect("[")
        first = self.expression()
        if self.at("+:"):
            self.next()
            width = self.expression()
            self.expect("]")
            return ast.Slice(self.span_from(start), e, first, width, True)
        if self.accept(":"):
            lo = self.expression()
            self.expect("]", "after a slice")
            return ast.Slice(self.span_from(start), e, first, lo)
        self.expect("]", "after an index")
        return ast.Index(self.span_from(start), e, first)

    def arguments(self) -> tuple[ast.Arg, ...]:
        self.expect("(")
        args: list[ast.Arg] = []
        while not self.at(")"):
            start = self.tok
            name = None
            if self.is_name(self.tok) and self.peek().text == "=":
                name = self.next().text
                self.next()
            value: ast.Expr | None = None
            if self.at("_"):
                self.next()
            else:
                value = self.expression()
            args.append(ast.Arg(self.span_from(start), name, value))
            if not self.accept(","):
                break
        self.expect(")", "after arguments")
        return tuple(args)

    # -- key sets ------------------------------------------------------------------------------

    def keyset(self) -> tuple[ast.Expr, ...]:
        """One key set: ``(a, b)`` or a single element."""
        if self.at("("):
            pos = self.pos
            self.next()
            items = [self.keyset_element()]
            while self.accept(","):
                if self.at(")"):
                    break
                items.append(self.keyset_element())
            if self.at(")"):
                self.next()
                if self.tok.text in (":", "&&&", "..") or len(items) > 1:
                    if self.tok.text == ":":
                        return tuple(items)
                    if len(items) > 1:
                        return tuple(items)
            self.seek(pos)
        return (self.keyset_element(),)

    def keyset_element(self) -> ast.Expr:
        t = self.tok
        if t.text == "default" or t.text == "_":
            self.next()
            return ast.DontCare(t.span, t.text == "default")
        e = self.expression()
        if self.accept("&&&"):
            mask = self.expression()
            return ast.Mask(self.span_from(t), e, mask)
        if self.accept(".."):
            hi = self.expression()
            return ast.Range(self.span_from(t), e, hi)
        return e

    # -- annotations ---------------------------------------------------------------------------

    def annotations(self) -> ast.Annotations:
        out: list[ast.Annotation] = []
        while self.at("@"):
            start = self.next()
            if self.tok.kind != "ID":
                raise self.unexpected("a name", "of an annotation")
            name = self.next().text
            if name == "pragma":
                out.append(self._pragma(start))
            elif self.at("("):
                toks = self._balanced("(", ")")
                out.append(ast.Annotation(self.span_from(start), name, tuple(toks)))
            elif self.at("["):
                exprs, pairs = self._structured()
                out.append(ast.Annotation(self.span_from(start), name, None, exprs, pairs))
            else:
                out.append(ast.Annotation(self.span_from(start), name))
        return tuple(out)

    def _pragma(self, start: Token) -> ast.Annotation:
        """``@pragma name arguments`` up to the end of the line."""
        if self.tok.kind != "ID" or self.tok.line != start.line:
            raise self.unexpected("a name", "after @pragma")
        name = self.next().text
        toks: list[Token] = []
        while self.tok.line == start.line and self.tok.file is start.file and self.tok.kind != "EOF":
            toks.append(self.next())
        return ast.Annotation(self.span_from(start), name, tuple(toks) if toks else None)

    def _balanced(self, opening: str, closing: str) -> list[Token]:
        first = self.expect(opening)
        depth = 1
        toks: list[Token] = []
        while True:
            if self.tok.kind == "EOF":
                raise fail("E004", "annotation not closed", first.span)
            t = self.next()
            if t.kind == "OP":
                depth += (t.text == opening) - (t.text == closing)
            if depth == 0:
                return toks
            toks.append(t)

    def _structured(self) -> tuple[tuple[ast.Expr, ...] | None, tuple[tuple[str, ast.Expr], ...] | None]:
        self.expect("[")
        exprs: list[ast.Expr] = []
        pairs: list[tuple[str, ast.Expr]] = []
        while not self.at("]"):
            if self.tok.kind == "ID" and self.peek().text == "=":
                key = self.next()
                self.next()
                if any(k == key.text for k, _ in pairs):
                    raise fail("E035", f"key '{key.text}' given twice", key.span)
                pairs.append((key.text, self.expression()))
            else:
                exprs.append(self.expression())
            if not self.accept(","):
                break
        self.expect("]", "after a structured annotation")
        if pairs and exprs:
            raise fail("E035", "annotation mixes expressions and key-value pairs", exprs[0].span)
        return (None, tuple(pairs)) if pairs else (tuple(exprs), None)
