# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: errors and warnings with a stable code, a place, and the source line under it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .source import NO_SPAN, Span

#: Every code, with the kind of mistake it stands for. Codes are stable: never reuse one.
CODES: dict[str, str] = {
    "E001": "cannot read file",
    "E002": "preprocessor directive",
    "E003": "character or literal that is not P4",
    "E004": "syntax",
    "E005": "user error directive",
    "E010": "name not declared",
    "E011": "name declared twice",
    "E012": "no such field, method or member",
    "E013": "kind of name used in the wrong place",
    "E020": "types do not agree",
    "E021": "number or names of arguments",
    "E022": "type cannot be inferred",
    "E023": "type not allowed here",
    "E024": "not an lvalue, or direction violated",
    "E025": "value known at compile time expected",
    "E026": "value out of range",
    "E027": "bit width",
    "E028": "cast not allowed",
    "E030": "statement or declaration in the wrong place",
    "E031": "table property",
    "E032": "table entry or key",
    "E033": "parser state",
    "E034": "switch or select",
    "E035": "annotation",
    "E036": "recursion",
    "E037": "static assertion failed",
    "E040": "not supported by the v1model target",
    "E041": "limit of the target exceeded",
    "E042": "architecture expected v1model",
    "E050": "control-plane name or id",
    "E060": "command line",
    "W101": "unused declaration",
    "W102": "value does not fit and is truncated",
    "W103": "possibly uninitialised value",
    "W104": "unreachable code",
    "W105": "deprecated",
    "W106": "feature ignored by this target",
    "W107": "annotation ignored",
    "W108": "shadowed declaration",
    "W109": "preprocessor",
}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message. `hint` names the mend where there is an obvious one."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    notes: tuple[tuple[str, Span], ...] = ()

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E")

    def render(self) -> str:
        """``file:line:column: error[CODE]: message``, then the line with a caret, then the hint."""
        word = "error" if self.is_error else "warning"
        out = [f"{_place(self.span)}{word}[{self.code}]: {self.message}", *_excerpt(self.span)]
        if self.hint:
            out.append(f"    = help: {self.hint}")
        for text, span in self.notes:
            out += [f"{_place(span)}note: {text}", *_excerpt(span)]
        return "\n".join(out)


def _place(span: Span) -> str:
    return f"{span.file.name}:{span.line}:{span.col}: " if span.line else ""


def _excerpt(span: Span) -> Iterator[str]:
    line = span.file.line(span.line) if span.line else ""
    if not line.strip():
        return
    lead = "".join("\t" if c == "\t" else " " for c in line[: span.col - 1])
    width = (span.end_col if span.end_line == span.line else len(line) + 1) - span.col
    yield f"    {line.rstrip()}"
    yield f"    {lead}{'^' * max(1, min(width, len(line.rstrip()) + 1 - span.col))}"


class CompileError(Exception):
    """Raised to leave a construct that has already been reported, or is reported by `diagnostic`."""

    def __init__(self, diagnostic: Diagnostic | None = None) -> None:
        super().__init__(diagnostic.message if diagnostic else "compilation failed")
        self.diagnostic = diagnostic


class Diagnostics:
    """Collects the diagnostics of one run, without doubles, in order of appearance."""

    def __init__(self, *, max_errors: int = 20) -> None:
        self.items: list[Diagnostic] = []
        self.max_errors = max_errors
        self.error_count = 0
        self._seen: set[tuple[str, str, str, int, int]] = set()

    def add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        key = (diagnostic.code, diagnostic.message, span.file.name, span.line, span.col)
        if key in self._seen:
            return
        self._seen.add(key)
        if not diagnostic.is_error and span.file.system:
            return
        self.items.append(diagnostic)
        if diagnostic.is_error:
            self.error_count += 1
            if self.error_count >= self.max_errors:
                raise CompileError

    def error(
        self,
        code: str,
        message: str,
        span: Span = NO_SPAN,
        *,
        hint: str | None = None,
        notes: tuple[tuple[str, Span], ...] = (),
    ) -> None:
        self.add(Diagnostic(code, message, span, hint, notes))

    def warning(self, code: str, message: str, span: Span = NO_SPAN, *, hint: str | None = None) -> None:
        self.add(Diagnostic(code, message, span, hint))

    def check(self) -> None:
        """Leave the run when there has been an error."""
        if self.error_count:
            raise CompileError

    def render(self) -> str:
        return "".join(d.render() + "\n" for d in self.items)


def fail(code: str, message: str, span: Span = NO_SPAN, *, hint: str | None = None) -> CompileError:
    """Exception that carries one error; whoever catches it reports it and goes on after the construct."""
    return CompileError(Diagnostic(code, message, span, hint))
