# SPDX-License-Identifier: Apache-2.0
"""Lines of C with indentation, fresh names, and comments that no name can break out of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_SAFE = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$:<>[]()-+=, ")


def comment(text: str, limit: int = 80) -> str:
    """`text` as a C comment. Characters that could end the comment or a line become '_'."""
    clean = "".join(c if c in _SAFE else "_" for c in text[:limit])
    return f"/* {clean} */"


def c_string(text: str, limit: int = 200) -> str:
    """`text` as a C string literal: everything but letters, digits and plain punctuation is escaped."""
    out = []
    for byte in text.encode("utf-8", "replace")[:limit]:
        char = chr(byte)
        out.append(char if char in _SAFE else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def c_u64(value: int) -> str:
    """A 64-bit constant."""
    value &= (1 << 64) - 1
    return f"UINT64_C({value})" if value < 10 else f"UINT64_C({value:#x})"


class Emitter:
    """Collects lines. Names that it makes are unique within one emitter."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self._names = 0

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def label(self, name: str) -> None:
        self.lines.append("    " * max(0, self.depth - 1) + f"{name}:;")

    def fresh(self, prefix: str = "t") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    @contextmanager
    def block(self, head: str = "", tail: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}" + tail)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
