# SPDX-License-Identifier: Apache-2.0
"""How far into a frame a program's parser can read, so that a frame need not be there behind it."""

from __future__ import annotations

from target.bmjson.model import (
    Advance,
    Const,
    Expr,
    Extract,
    HeaderType,
    Lookahead,
    ParseState,
    Program,
    SetField,
    Verify,
)
from target.codegen.usage import walk


def parse_reach(program: Program) -> int | None:
    """Bytes from the frame's first one on, or None if there is no bound.

    The longest path through the parser: what its states extract, skip and look ahead at. States in a loop
    may only extract from header stacks, which fill up.
    """
    states, start = program.parser.states, program.parser.init_state
    if start is None:
        return 0
    reach: dict[str, int] = {}
    for component in _components(states, start):
        loop = len(component) > 1 or component[0] in _next(states[component[0]])
        members = [states[name] for name in component]
        step = _loop(program, members) if loop else _step(program, members[0])
        if step is None:
            return None
        moved, read = step
        rest = [reach[n] for name in component for n in _next(states[name]) if n not in component]
        for name in component:
            reach[name] = max(read, moved + max(rest, default=0))
    return reach[start]


def _next(state: ParseState) -> list[str]:
    return [t.next_state for t in state.transitions if t.next_state is not None]


def _step(program: Program, state: ParseState) -> tuple[int, int] | None:
    """(bytes that a state moves the cursor by, bytes from where it starts that it reads)."""
    bits = read = 0
    for op in state.ops:
        if isinstance(op, Extract):
            kind = _extracted(program, op)
            read = max(read, bits + _looked(op.length))
            bits += kind.room
        elif isinstance(op, Advance):
            if not isinstance(op.bits, Const):
                return None
            bits += op.bits.value
        elif isinstance(op, SetField):
            read = max(read, bits + _looked(op.source))
        elif isinstance(op, Verify):
            read = max(read, bits + _looked(op.condition))
    read = max([read, bits, *(bits + _looked(part) for part in state.key)])
    return (bits + 7) // 8, (read + 7) // 8


def _extracted(program: Program, op: Extract) -> HeaderType:
    name = program.stack_headers(op.target, op.member)[0] if op.is_stack else op.target
    return program.headers[name].type


def _depth(program: Program, stack: str) -> int:
    if stack in program.union_stacks:
        return len(program.union_stacks[stack].unions)
    return len(program.stacks[stack].headers)


def _looked(expr: Expr | None) -> int:
    return max((e.offset + e.width for e in walk(expr) if isinstance(e, Lookahead)), default=0)


def _loop(program: Program, states: list[ParseState]) -> tuple[int, int] | None:
    """The same for states that reach each other, however often."""
    # Bits that an element of each stack has at most.
    stacks: dict[str, int] = {}
    looked = 0
    for state in states:
        for op in state.ops:
            if isinstance(op, Extract) and op.is_stack:
                stacks[op.target] = max(stacks.get(op.target, 0), _extracted(program, op).room)
                looked = max(looked, _looked(op.length))
            elif isinstance(op, SetField):
                looked = max(looked, _looked(op.source))
            elif isinstance(op, Verify):
                looked = max(looked, _looked(op.condition))
            else:
                return None
        looked = max([looked, *(_looked(part) for part in state.key)])
    moved = sum(_depth(program, stack) * room for stack, room in stacks.items())
    return (moved + 7) // 8, (moved + looked + 7) // 8


def _components(states: dict[str, ParseState], start: str) -> list[list[str]]:
    """The states that are reached, grouped by loops, every group behind those that follow it (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_states: list[str] = []
    result: list[list[str]] = []
    work: list[tuple[str, int]] = [(start, 0)]
    while work:
        name, position = work.pop()
        if position == 0:
            index[name] = low[name] = len(index)
            open_states.append(name)
        following = _next(states[name])
        if position > 0:
            low[name] = min(low[name], low[following[position - 1]])
        while position < len(following):
            other = following[position]
            if other not in index:
                work += [(name, position + 1), (other, 0)]
                break
            if other in open_states:
                low[name] = min(low[name], index[other])
            position += 1
        else:
            if low[name] == index[name]:
                at = open_states.index(name)
                result.append(open_states[at:])
                del open_states[at:]
    return result
