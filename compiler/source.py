# SPDX-License-Identifier: Apache-2.0
"""Source files, positions in them, and tokens."""

from __future__ import annotations


class SourceFile:
    """Text of one file, by the name the user knows it under."""

    __slots__ = ("lines", "name", "system", "text")

    def __init__(self, name: str, text: str, *, system: bool = False) -> None:
        self.name = name
        self.text = text
        self.system = system
        self.lines = text.split("\n")

    def line(self, number: int) -> str:
        """Line `number`, counted from 1, without its newline; empty if there is none."""
        if 1 <= number <= len(self.lines):
            return self.lines[number - 1]
        return ""


class Span:
    """Half-open region of a source file; lines and columns count from 1."""

    __slots__ = ("col", "end_col", "end_line", "file", "line")

    def __init__(self, file: SourceFile, line: int, col: int, end_line: int, end_col: int) -> None:
        self.file = file
        self.line = line
        self.col = col
        self.end_line = end_line
        self.end_col = end_col

    def __repr__(self) -> str:
        return f"{self.file.name}:{self.line}:{self.col}"

    def to(self, other: Span) -> Span:
        """Region from the start of this span to the end of `other`."""
        if other.file is not self.file or (other.end_line, other.end_col) < (self.line, self.col):
            return self
        return Span(self.file, self.line, self.col, other.end_line, other.end_col)

    def text(self, limit: int = 80) -> str:
        """Source text of the span, white space folded, at most `limit` characters."""
        if self.end_line == self.line:
            raw = self.file.line(self.line)[self.col - 1 : self.end_col - 1]
        else:
            parts = [self.file.line(self.line)[self.col - 1 :]]
            parts += [self.file.line(n) for n in range(self.line + 1, self.end_line)]
            parts.append(self.file.line(self.end_line)[: self.end_col - 1])
            raw = " ".join(parts)
        folded = " ".join(raw.split())
        return folded if len(folded) <= limit else folded[: limit - 4] + " ..."


BUILTIN = SourceFile("<builtin>", "", system=True)
NO_SPAN = Span(BUILTIN, 0, 0, 0, 0)


class Token:
    """One token. `kind` is ID, INT, STR, OP, NL (only inside the preprocessor), BAD or EOF.

    `space` tells whether white space stood before it; the parser needs that to join ``>`` and ``>``.
    """

    __slots__ = ("col", "end_col", "end_line", "file", "kind", "line", "space", "text")

    def __init__(
        self,
        kind: str,
        text: str,
        file: SourceFile,
        line: int,
        col: int,
        end_line: int,
        end_col: int,
        space: bool,
    ) -> None:
        self.kind = kind
        self.text = text
        self.file = file
        self.line = line
        self.col = col
        self.end_line = end_line
        self.end_col = end_col
        self.space = space

    def __repr__(self) -> str:
        return f"{self.kind}({self.text!r})"

    @property
    def span(self) -> Span:
        return Span(self.file, self.line, self.col, self.end_line, self.end_col)
