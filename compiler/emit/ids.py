# SPDX-License-Identifier: Apache-2.0
"""P4Runtime ids and aliases, computed as p4c computes them.

The top byte of an id tells the kind of resource (P4Runtime specification, "ID Allocation"), the rest is
Jenkins' one-at-a-time hash of the name, moved on by one where it is taken. ``@id`` overrides.
"""

from __future__ import annotations

from .. import annos as an
from ..ast import Annotations
from ..diag import Diagnostics, fail
from ..source import Span

PREFIX = {
    "action": 0x01,
    "table": 0x02,
    "value_set": 0x03,
    "controller_header": 0x04,
    "action_profile": 0x11,
    "counter": 0x12,
    "direct_counter": 0x13,
    "meter": 0x14,
    "direct_meter": 0x15,
    "register": 0x16,
    "digest": 0x17,
}


def one_at_a_time(name: str) -> int:
    """Jenkins' one-at-a-time hash, 32 bits."""
    h = 0
    for byte in name.encode():
        h = (h + byte) & 0xFFFFFFFF
        h = (h + (h << 10)) & 0xFFFFFFFF
        h ^= h >> 6
    h = (h + (h << 3)) & 0xFFFFFFFF
    h ^= h >> 11
    return (h + (h << 15)) & 0xFFFFFFFF


class SymbolTable:
    """Names of all resources, then their ids and aliases."""

    def __init__(self, diags: Diagnostics) -> None:
        self.diags = diags
        self._ids: dict[str, dict[str, int | None]] = {}
        self._spans: dict[tuple[str, str], Span] = {}
        self._taken: set[int] = set()
        self._names: set[str] = set()
        self._suffixes: dict[tuple[str, ...], int] = {}

    def add(self, kind: str, name: str, annos: Annotations, span: Span) -> None:
        group = self._ids.setdefault(kind, {})
        if name in group:
            first = self._spans[kind, name]
            if kind in ("action", "table") and (first.file, first.line, first.col) != (
                span.file,
                span.line,
                span.col,
            ):
                raise fail(
                    "E050", f"two {kind}s have the control-plane name '{name}'", span, hint="give one a @name"
                )
            return
        self._spans[kind, name] = span
        group[name] = self._explicit(kind, annos, span)
        if name not in self._names:
            self._names.add(name)
            parts = name.split(".")
            for i in range(1, len(parts) + 1):
                suffix = tuple(parts[-i:])
                self._suffixes[suffix] = self._suffixes.get(suffix, 0) + 1

    def _explicit(self, kind: str, annos: Annotations, span: Span) -> int | None:
        a = an.find(annos, "id")
        if a is None:
            return None
        value = an.int_arg(a)
        prefix = PREFIX[kind] << 24
        if value < 0 or value >= 1 << 32:
            raise fail("E050", f"@id({value}) is not a 32-bit number", a.span)
        if value & 0xFF000000 not in (0, prefix):
            raise fail(
                "E050",
                f"@id(0x{value:x}) has the wrong top byte for a {kind}; it must be 0x{PREFIX[kind]:02x}",
                a.span,
            )
        value |= prefix
        if value in self._taken:
            raise fail("E050", f"@id 0x{value:x} is used twice", a.span)
        self._taken.add(value)
        return value

    def assign(self) -> None:
        """Give ids to all names that have none, kind by kind, in order of the names."""
        for kind in sorted(self._ids, key=lambda k: PREFIX[k]):
            group = self._ids[kind]
            prefix = PREFIX[kind] << 24
            for name in sorted(n for n, i in group.items() if i is None):
                h = one_at_a_time(name)
                while prefix | (h & 0xFFFFFF) in self._taken:
                    h += 1
                group[name] = prefix | (h & 0xFFFFFF)
                self._taken.add(prefix | (h & 0xFFFFFF))

    def id(self, kind: str, name: str) -> int:
        value = self._ids[kind][name]
        assert value is not None
        return value

    def alias(self, name: str) -> str:
        """Shortest suffix of the dotted name that no other name has."""
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            if self._suffixes[tuple(parts[-i:])] < 2:
                return ".".join(parts[-i:])
        return name


def field_ids(annos: list[Annotations], spans: list[Span]) -> list[int]:
    """Ids of match fields or parameters: ``@id`` where given, else counted from 1 around those."""
    out: list[int | None] = []
    taken: set[int] = set()
    for a, span in zip(annos, spans, strict=True):
        found = an.find(a, "id")
        value = an.int_arg(found) if found is not None else None
        if value == 0:
            raise fail("E050", "0 is no valid @id", span)
        if value is not None:
            if value in taken:
                raise fail("E050", f"@id {value} is used twice", span)
            taken.add(value)
        out.append(value)
    index = 1
    ids: list[int] = []
    for value in out:
        if value is not None:
            index += 1
            ids.append(value)
            continue
        while index in taken:
            index += 1
        taken.add(index)
        ids.append(index)
    return ids
