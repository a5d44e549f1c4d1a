# SPDX-License-Identifier: Apache-2.0
"""Lexer: text of one file to tokens, newlines included (the preprocessor needs them)."""

from __future__ import annotations

import re

from .source import SourceFile, Token

_TOKEN = re.compile(
    r"""
    (?P<SKIP>(?:[ \t\r\f\v]+|\\\r?\n)+)
  | (?P<NL>\n)
  | (?P<LINECOMMENT>//(?:\\\r?\n|[^\n])*)
  | (?P<COMMENT>/\*.*?\*/)
  | (?P<ID>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<INT>(?:[0-9]+[ws])?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*))
  | (?P<STR>"(?:\\(?:.|\n)|[^"\\])*")
  | (?P<OP>
        \|\+\|=|\|-\|=|\|\+\||\|-\||&&&|\.\.\.|\.\.|<<=|<<|<=|>=|==|!=|&&|\|\||\+\+|\+:|\#\#
      | \+=|-=|\*=|/=|%=|&=|\|=|\^=
      | [-+*/%&|^~!<>=?:;,.(){}\[\]@\#])
  | (?P<BAD>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_DIGITS = re.compile(r"(?:(?P<width>[0-9]+)(?P<sign>[ws]))?(?P<body>.*)", re.DOTALL)

KEYWORDS = frozenset(
    [
        "abstract",
        "action",
        "actions",
        "apply",
        "bool",
        "bit",
        "break",
        "const",
        "continue",
        "control",
        "default",
        "else",
        "entries",
        "enum",
        "error",
        "exit",
        "extern",
        "false",
        "for",
        "header",
        "header_union",
        "if",
        "in",
        "inout",
        "int",
        "key",
        "match_kind",
        "type",
        "out",
        "parser",
        "package",
        "pragma",
        "return",
        "select",
        "state",
        "string",
        "struct",
        "switch",
        "table",
        "this",
        "transition",
        "true",
        "tuple",
        "typedef",
        "varbit",
        "valueset",
        "list",
        "void",
    ]
)


def tokenize(file: SourceFile) -> list[Token]:
    """All tokens of `file`, an EOF last. Bad characters become BAD tokens; the parser reports them."""
    text = file.text
    out: list[Token] = []
    line, line_start, space, pos = 1, 0, True, 0
    match = _TOKEN.match
    size = len(text)
    append = out.append
    while pos < size:
        m = match(text, pos)
        assert m is not None  # BAD matches anything
        kind = m.lastgroup
        end = m.end()
        if kind == "ID" or kind == "OP" or kind == "INT":
            append(
                Token(
                    kind, text[pos:end], file, line, pos - line_start + 1, line, end - line_start + 1, space
                )
            )
            space = False
        elif kind == "NL":
            append(Token("NL", "\n", file, line, pos - line_start + 1, line, end - line_start + 1, space))
            line += 1
            line_start = end
            space = True
        elif kind == "STR":
            append(
                Token(
                    "STR", text[pos:end], file, line, pos - line_start + 1, line, end - line_start + 1, space
                )
            )
            newlines = text.count("\n", pos, end)
            if newlines:
                line += newlines
                line_start = text.rfind("\n", pos, end) + 1
            space = False
        elif kind == "BAD":
            append(
                Token(
                    "BAD", text[pos:end], file, line, pos - line_start + 1, line, end - line_start + 1, space
                )
            )
            space = False
        else:  # white space and comments
            newlines = text.count("\n", pos, end)
            if newlines:
                line += newlines
                line_start = text.rfind("\n", pos, end) + 1
            space = True
        pos = end
    append(Token("NL", "\n", file, line, pos - line_start + 1, line, pos - line_start + 1, True))
    append(Token("EOF", "", file, line, pos - line_start + 1, line, pos - line_start + 1, True))
    return out


def parse_int(text: str) -> tuple[int, int | None, bool]:
    """Value, width (None if not given) and signedness of an integer literal such as ``8w0xFF``.

    Raises ValueError if the literal is malformed.
    """
    m = _DIGITS.fullmatch(text)
    assert m is not None
    body = m["body"].replace("_", "")
    width = int(m["width"]) if m["width"] else None
    prefix = body[:2].lower()
    if prefix == "0x":
        value = int(body[2:], 16)
    elif prefix == "0b":
        value = int(body[2:], 2)
    elif prefix == "0o":
        value = int(body[2:], 8)
    elif prefix == "0d":
        value = int(body[2:], 10)
    else:
        value = int(body, 10)
    return value, width, m["sign"] == "s"


def string_value(text: str) -> str:
    """Value of a string literal token. P4 keeps escapes but for ``\\"``, ``\\\\`` and line joins."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    return re.sub(r"\\(\n|.)", _unescape, body, flags=re.DOTALL)


def _unescape(m: re.Match[str]) -> str:
    c = m[1]
    return "" if c == "\n" else {"n": "\n", "r": "\r", "t": "\t"}.get(c, c)
