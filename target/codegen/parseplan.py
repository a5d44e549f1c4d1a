# SPDX-License-Identifier: Apache-2.0
"""What is known of a parse beforehand: where headers start, whether the deparser puts them back there."""

from __future__ import annotations

from dataclasses import dataclass

from target.bmjson.model import Advance, Extract, ParseState, Program

MOST_OFFSETS = 16
"""Offsets at which a state may be entered, beyond which they are not told apart."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """How a state may be entered."""

    offsets: frozenset[int] | None
    """Bytes extracted so far; None: not known."""
    last: int
    """The furthest place in the deparser's order of any header extracted so far, -1: none."""


class ParsePlan:
    """Data flow over the parser's states.

    `offset[h]`: where header h starts in each frame that has it; absent: in various places, or never parsed.
    `irregular`: states after which the frame's headers are not those that the deparser would write in their
    places, because a header is skipped, left out, repeated, or in another order.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.entries: dict[str, _Entry] = {}
        self.irregular: set[str] = set()
        self._starts: dict[str, set[int] | None] = {}
        order = program.deparser
        self._place = {name: i for i, name in enumerate(order) if order.count(name) == 1}
        self._in_unions = {name for union in program.unions.values() for name in union.headers}
        self._flow()
        self.offset = {
            name: next(iter(starts))
            for name, starts in self._starts.items()
            if starts is not None and len(starts) == 1
        }

    def parsed(self, header: str) -> bool:
        """Whether the parser may extract the header."""
        return header in self._starts

    def _flow(self) -> None:
        parser = self.program.parser
        if parser.init_state is None:
            return
        self.entries[parser.init_state] = _Entry(frozenset([0]), -1)
        work = [parser.init_state]
        while work:
            name = work.pop()
            state = parser.states[name]
            after = self._state(state, self.entries[name])
            for target in {t.next_state for t in state.transitions}:
                if target is None:
                    continue
                known = self.entries.get(target)
                merged = after if known is None else _merge(known, after)
                if merged != known:
                    self.entries[target] = merged
                    work.append(target)

    def _state(self, state: ParseState, entry: _Entry) -> _Entry:
        offsets, last = entry.offsets, entry.last
        for op in state.ops:
            if isinstance(op, Extract):
                names = self.program.stack_headers(op.target, op.member) if op.is_stack else (op.target,)
                for name in names:
                    self._start(name, offsets)
                places = [self._place.get(name, -1) for name in names]
                # A header of a union takes the place of another one.
                if min(places) <= last or len(places) > 1 or names[0] in self._in_unions:
                    self.irregular.add(state.name)
                last = max(last, *places)
                size = self.program.headers[names[0]].type.width // 8
                known = offsets is not None and op.length is None
                offsets = frozenset(o + size for o in offsets or ()) if known else None
            elif isinstance(op, Advance):
                self.irregular.add(state.name)
                offsets = None
        return _Entry(offsets, last)

    def _start(self, name: str, offsets: frozenset[int] | None) -> None:
        known = self._starts.get(name, set())
        self._starts[name] = None if known is None or offsets is None else known | offsets


def _merge(a: _Entry, b: _Entry) -> _Entry:
    offsets = None if a.offsets is None or b.offsets is None else a.offsets | b.offsets
    if offsets is not None and len(offsets) > MOST_OFFSETS:
        offsets = None
    return _Entry(offsets, max(a.last, b.last))
