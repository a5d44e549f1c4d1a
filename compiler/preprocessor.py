# SPDX-License-Identifier: Apache-2.0
"""C-style preprocessor over tokens, so that every token keeps its exact place in its own file.

Directives: ``#include``, ``#define`` (with and without parameters, ``#``, ``##``, ``__VA_ARGS__``),
``#undef``, ``#if``/``#ifdef``/``#ifndef``/``#elif``/``#else``/``#endif``, ``#error``, ``#warning``,
``#line`` and ``#pragma`` (ignored). A token that comes out of a macro stands where the macro was used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .diag import CompileError, Diagnostics, fail
from .lexer import parse_int, string_value, tokenize
from .ppexpr import evaluate
from .source import SourceFile, Span, Token

INCLUDE_DEPTH = 100
SYSTEM_DIR = Path(__file__).parent / "p4include"


@dataclass(slots=True)
class Macro:
    """A macro; `params` is None for one without parameters, `variadic` if the last one is ``...``."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False


@dataclass(slots=True)
class _Branch:
    """One open ``#if``: is the current group live, has any group been, and the enclosing state."""

    live: bool
    taken: bool
    outer: bool
    start: Token
    seen_else: bool = False


class Preprocessor:
    """Runs over a file and what it includes; `tokens` collects the result."""

    def __init__(self, diags: Diagnostics, include_dirs: Sequence[str] = ()) -> None:
        self.diags = diags
        self.include_dirs = list(include_dirs)
        self.macros: dict[str, Macro] = {}
        self.tokens: list[Token] = []
        self._depth = 0
        self._files: dict[str, SourceFile] = {}
        self._counter = 0
        cmd = SourceFile("<predefined>", "", system=True)
        self._command_file = cmd
        self.define("__p4c__", "1")
        self.define("__P4C_VERSION__", "1002005")

    def define(self, name: str, value: str = "1") -> None:
        """Define a macro as ``-D name=value`` does; `name` may be ``f(x)``."""
        file = SourceFile("<command line>", f"{name} {value}", system=True)
        line = [t for t in tokenize(file) if t.kind not in ("NL", "EOF")]
        self._define(line)

    def undefine(self, name: str) -> None:
        self.macros.pop(name, None)

    # -- files ---------------------------------------------------------------------------------

    def run(self, path: str) -> list[Token]:
        """Preprocess the file at `path`; the result ends in one EOF token."""
        file = self._load(path, system=False)
        if file is None:
            raise fail("E001", f"{path}: cannot read file", hint="check the path")
        self._file(file)
        self.tokens.append(Token("EOF", "", file, len(file.lines), 1, len(file.lines), 1, True))
        return self.tokens

    def run_text(self, name: str, text: str) -> list[Token]:
        """As :meth:`run`, for text that is no file."""
        file = SourceFile(name, text)
        self._file(file)
        self.tokens.append(Token("EOF", "", file, len(file.lines), 1, len(file.lines), 1, True))
        return self.tokens

    def _load(self, path: str, *, system: bool) -> SourceFile | None:
        cached = self._files.get(path)
        if cached is not None:
            return cached
        try:
            data = Path(path).read_bytes()
        except OSError:
            return None
        file = SourceFile(path, data.decode("utf-8", errors="replace").replace("\r\n", "\n"), system=system)
        self._files[path] = file
        return file

    def _file(self, file: SourceFile) -> None:
        toks = tokenize(file)
        branches: list[_Branch] = []
        live = True
        i, n = 0, len(toks)
        out = self.tokens
        macros = self.macros
        bol = True
        while i < n:
            t = toks[i]
            kind = t.kind
            if kind == "NL":
                bol = True
                i += 1
                continue
            if kind == "EOF":
                break
            if bol and t.text == "#" and kind == "OP":
                j = i + 1
                while toks[j].kind not in ("NL", "EOF"):
                    j += 1
                try:
                    live = self._directive(t, toks[i + 1 : j], branches, live, file)
                except CompileError as e:
                    if e.diagnostic is None:
                        raise
                    self.diags.add(e.diagnostic)
                    live = live and (not branches or branches[-1].live)
                i = j
                continue
            bol = False
            if not live:
                while toks[i].kind not in ("NL", "EOF"):
                    i += 1
                continue
            if kind == "ID" and (t.text in macros or t.text in _DYNAMIC):
                i = self._expand_at(toks, i, out)
                continue
            out.append(t)
            i += 1
        for b in branches:
            self.diags.error("E002", "conditional without #endif", b.start.span)

    # -- directives ----------------------------------------------------------------------------

    def _directive(
        self, sharp: Token, line: list[Token], branches: list[_Branch], live: bool, file: SourceFile
    ) -> bool:
        if not line:
            return live
        head, rest = line[0], line[1:]
        name = head.text
        if name in ("if", "ifdef", "ifndef"):
            branch = _Branch(False, False, live, sharp)
            branches.append(branch)
            branch.live = branch.taken = live and self._condition(name, head, rest)
            return branch.live
        if name in ("elif", "else", "endif"):
            return self._conditional(name, head, rest, branches)
        if not live:
            return False
        if name == "include":
            self._include(head, rest, file)
        elif name == "define":
            self._define(rest, head)
        elif name == "undef":
            if not rest or rest[0].kind != "ID":
                raise fail("E002", "#undef needs a macro name", head.span)
            self.macros.pop(rest[0].text, None)
        elif name == "error":
            raise fail("E005", f"#error {_raw(rest)}".rstrip(), sharp.span)
        elif name == "warning":
            self.diags.warning("W109", f"#warning {_raw(rest)}".rstrip(), sharp.span)
        elif name not in ("pragma", "line") and head.kind != "INT":
            raise fail("E002", f"unknown directive #{name}", head.span)
        return True

    def _conditional(self, name: str, head: Token, rest: list[Token], branches: list[_Branch]) -> bool:
        if not branches:
            raise fail("E002", f"#{name} without #if", head.span)
        b = branches[-1]
        if name == "endif":
            branches.pop()
            return b.outer
        if b.seen_else:
            raise fail("E002", f"#{name} after #else", head.span)
        if name == "else":
            b.seen_else = True
            b.live = b.outer and not b.taken
        else:
            b.live = b.outer and not b.taken and self._condition("if", head, rest)
        b.taken = b.taken or b.live
        return b.live

    def _condition(self, name: str, head: Token, rest: list[Token]) -> bool:
        if name != "if":
            if not rest or rest[0].kind != "ID":
                raise fail("E002", f"#{name} needs a macro name", head.span)
            return (rest[0].text in self.macros) == (name == "ifdef")
        resolved: list[Token] = []
        i = 0
        while i < len(rest):
            t = rest[i]
            if t.text == "defined":
                parens = i + 3 < len(rest) and rest[i + 1].text == "(" and rest[i + 3].text == ")"
                k = i + 2 if parens else i + 1
                if k >= len(rest) or rest[k].kind != "ID":
                    raise fail("E002", "defined needs a macro name", t.span)
                resolved.append(_make("INT", "1" if rest[k].text in self.macros else "0", t))
                i = k + (2 if parens else 1)
            else:
                resolved.append(t)
                i += 1
        return evaluate(self._expand(resolved, frozenset()), head) != 0

    def _include(self, head: Token, rest: list[Token], file: SourceFile) -> None:
        if rest and rest[0].kind == "ID":
            rest = self._expand(rest, frozenset())
        if rest and rest[0].kind == "STR":
            name = string_value(rest[0].text)
            dirs = [os.path.dirname(file.name)]
        elif len(rest) >= 3 and rest[0].text == "<" and rest[-1].text == ">":
            first, last = rest[0], rest[-1]
            same = first.file is last.file and first.line == last.line
            name = (
                first.file.line(first.line)[first.end_col - 1 : last.col - 1]
                if same
                else "".join(t.text for t in rest[1:-1])
            )
            dirs = []
        else:
            raise fail("E002", '#include needs "file" or <file>', head.span)
        candidates = [(d, False) for d in (*dirs, *self.include_dirs)] + [(str(SYSTEM_DIR), True)]
        if os.path.isabs(name):
            candidates = [("", False)]
        for directory, system in candidates:
            found = self._load(os.path.join(directory, name), system=system or file.system)
            if found is not None:
                break
        else:
            raise fail(
                "E002", f"{name}: included file not found", rest[0].span, hint="give its directory with -I"
            )
        if self._depth >= INCLUDE_DEPTH:
            raise fail("E002", f"{name}: includes nested too deeply", rest[0].span)
        self._depth += 1
        self._file(found)
        self._depth -= 1

    def _define(self, line: list[Token], head: Token | None = None) -> None:
        if not line or line[0].kind != "ID":
            raise fail("E002", "#define needs a macro name", (line[0] if line else head or _NOWHERE).span)
        name = line[0]
        params: tuple[str, ...] | None = None
        variadic = False
        body = line[1:]
        if body and body[0].text == "(" and not body[0].space:
            names: list[str] = []
            i = 1
            while i < len(body) and body[i].text != ")":
                t = body[i]
                if t.text == "...":
                    names.append("__VA_ARGS__")
                    variadic = True
                elif t.kind == "ID":
                    names.append(t.text)
                elif t.text != ",":
                    raise fail("E002", f"macro {name.text}: bad parameter list", t.span)
                i += 1
            if i >= len(body):
                raise fail("E002", f"macro {name.text}: parameter list not closed", name.span)
            params = tuple(names)
            body = body[i + 1 :]
        self.macros[name.text] = Macro(name.text, params, tuple(body), variadic)

    # -- expansion -----------------------------------------------------------------------------

    def _expand_at(self, toks: list[Token], i: int, out: list[Token]) -> int:
        """Expand the macro at `toks[i]` into `out`; returns the index after what it consumed."""
        t = toks[i]
        end = i + 1
        macro = self.macros.get(t.text)
        if macro is not None and macro.params is not None:
            j = end
            while toks[j].kind == "NL":
                j += 1
            if toks[j].text != "(" or toks[j].kind != "OP":
                out.append(t)
                return end
            depth = 0
            while True:
                k = toks[j]
                if k.kind == "EOF":
                    raise fail("E002", f"macro {t.text}: arguments not closed", t.span)
                if k.kind == "OP":
                    depth += (k.text == "(") - (k.text == ")")
                j += 1
                if depth == 0:
                    break
            end = j
        group = [x for x in toks[i:end] if x.kind != "NL"]
        for x in self._expand(group, frozenset()):
            # What a macro produced stands where the macro was used; its arguments keep their place.
            inside = x.file is t.file and (t.line, t.col) <= (x.line, x.col)
            out.append(x if inside else _make(x.kind, x.text, t, space=x.space))
        return end

    def _expand(self, toks: list[Token], hidden: frozenset[str]) -> list[Token]:
        out: list[Token] = []
        i = 0
        while i < len(toks):
            t = toks[i]
            if t.kind != "ID" or t.text in hidden:
                out.append(t)
                i += 1
                continue
            if t.text in _DYNAMIC and t.text not in self.macros:
                out.append(self._dynamic(t))
                i += 1
                continue
            macro = self.macros.get(t.text)
            if macro is None:
                out.append(t)
                i += 1
                continue
            if macro.params is None:
                body = self._paste([_moved(b, t) for b in macro.body])
                out += self._expand(body, hidden | {t.text})
                i += 1
                continue
            if i + 1 >= len(toks) or toks[i + 1].text != "(":
                out.append(t)
                i += 1
                continue
            args, i = self._arguments(macro, toks, i)
            body = self._substitute(macro, args, t, hidden)
            # A macro that the body ends in may take its arguments from what follows.
            if body and body[-1].kind == "ID" and i < len(toks) and toks[i].text == "(":
                inner = self.macros.get(body[-1].text)
                if inner is not None and inner.params is not None and body[-1].text not in hidden:
                    toks = [*body, *toks[i:]]
                    hidden = hidden | {t.text}
                    i = 0
                    continue
            out += self._expand(body, hidden | {t.text})
        return out

    def _arguments(self, macro: Macro, toks: list[Token], i: int) -> tuple[list[list[Token]], int]:
        name = toks[i]
        assert macro.params is not None
        args: list[list[Token]] = [[]]
        depth = 0
        j = i + 1
        while j < len(toks):
            t = toks[j]
            if t.kind == "OP" and t.text == "(":
                depth += 1
                if depth > 1:
                    args[-1].append(t)
            elif t.kind == "OP" and t.text == ")":
                depth -= 1
                if depth == 0:
                    break
                args[-1].append(t)
            elif (
                t.text == ","
                and t.kind == "OP"
                and depth == 1
                and not (macro.variadic and len(args) == len(macro.params))
            ):
                args.append([])
            else:
                args[-1].append(t)
            j += 1
        else:
            raise fail("E002", f"macro {name.text}: arguments not closed", name.span)
        if not macro.params and args == [[]]:
            args = []
        if macro.variadic and len(args) == len(macro.params) - 1:
            args.append([])
        if len(args) != len(macro.params):
            raise fail(
                "E002", f"macro {name.text} takes {len(macro.params)} arguments, got {len(args)}", name.span
            )
        return args, j + 1

    def _substitute(
        self, macro: Macro, args: list[list[Token]], use: Token, hidden: frozenset[str]
    ) -> list[Token]:
        assert macro.params is not None
        index = {p: k for k, p in enumerate(macro.params)}
        expanded: dict[int, list[Token]] = {}
        out: list[Token] = []
        body = macro.body
        i = 0
        while i < len(body):
            b = body[i]
            if b.text == "#" and i + 1 < len(body) and body[i + 1].text in index:
                text = _raw(args[index[body[i + 1].text]]).replace("\\", "\\\\").replace('"', '\\"')
                out.append(_make("STR", f'"{text}"', use, space=b.space))
                i += 2
                continue
            k = index.get(b.text) if b.kind == "ID" else None
            if k is None:
                out.append(_moved(b, use))
            else:
                pasted = (i > 0 and body[i - 1].text == "##") or (
                    i + 1 < len(body) and body[i + 1].text == "##"
                )
                if pasted:
                    out += args[k] or [_make("EMPTY", "", use)]
                else:
                    if k not in expanded:
                        expanded[k] = self._expand(args[k], hidden)
                    out += expanded[k]
            i += 1
        return self._paste(out)

    def _paste(self, toks: list[Token]) -> list[Token]:
        if not any(t.text == "##" for t in toks):
            return [t for t in toks if t.kind != "EMPTY"]
        out: list[Token] = []
        i = 0
        while i < len(toks):
            t = toks[i]
            if t.text == "##" and out and i + 1 < len(toks):
                left = out.pop()
                joined = left.text + toks[i + 1].text
                parts = [x for x in tokenize(SourceFile("<paste>", joined)) if x.kind not in ("NL", "EOF")]
                out += [_make(x.kind, x.text, left, space=left.space) for x in parts]
                i += 2
                continue
            out.append(t)
            i += 1
        return [t for t in out if t.kind != "EMPTY"]

    def _dynamic(self, t: Token) -> Token:
        if t.text == "__LINE__":
            return _make("INT", str(t.line), t)
        if t.text == "__FILE__":
            return _make("STR", f'"{t.file.name}"', t)
        self._counter += 1
        return _make("INT", str(self._counter - 1), t)


_DYNAMIC = frozenset({"__LINE__", "__FILE__", "__COUNTER__"})
_NOWHERE = Token("EOF", "", SourceFile("<command line>", "", system=True), 0, 0, 0, 0, False)


def _make(kind: str, text: str, at: Token, *, space: bool | None = None) -> Token:
    return Token(
        kind, text, at.file, at.line, at.col, at.end_line, at.end_col, at.space if space is None else space
    )


def _moved(t: Token, at: Token) -> Token:
    return Token(t.kind, t.text, at.file, at.line, at.col, at.end_line, at.end_col, t.space)


def _raw(toks: Sequence[Token]) -> str:
    return "".join((" " if t.space and i else "") + t.text for i, t in enumerate(toks))


def render(tokens: Sequence[Token]) -> str:
    """Preprocessed program as text, with ``# line "file"`` markers, as ``--pp`` writes it."""
    out: list[str] = []
    file: SourceFile | None = None
    line = 0
    for t in tokens:
        if t.kind == "EOF":
            break
        if t.file is not file or not line <= t.line <= line + 8:
            out.append(f'{"" if not out else chr(10)}# {t.line} "{t.file.name}"\n')
            file, line = t.file, t.line
            out.append(" " * (t.col - 1))
        elif t.line > line:
            out.append("\n" * (t.line - line) + " " * (t.col - 1))
            line = t.line
        elif t.space:
            out.append(" ")
        out.append(t.text)
    return "".join(out) + "\n"


__all__ = ["Macro", "Preprocessor", "Span", "parse_int", "render"]
