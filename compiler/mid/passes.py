# SPDX-License-Identifier: Apache-2.0
"""The passes over the flat program, in order. Each is a function from one program to the next."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from .. import ir
from ..diag import CompileError, Diagnostics
from .flat import FlatControl, FlatProgram
from .loops import Unroller
from .lower import Lowerer
from .tree import walk_stmts

FlatPass = Callable[[FlatProgram, Diagnostics], FlatProgram]
_StmtPass = Callable[[Sequence[ir.Stmt], str], Sequence[ir.Stmt]]


def _max_label(program: FlatProgram) -> int:
    top = 0
    for c in program.controls:
        bodies = [*c.body, *(a.body for a in c.actions if a.body is not None)]
        for s in bodies:
            top = max([top, *(x.label for x in walk_stmts(s) if isinstance(x, (ir.Scope, ir.Leave)))])
    return top


def _each_body(program: FlatProgram, f: _StmtPass, diags: Diagnostics) -> FlatProgram:
    """`f` on the statements of every control, action and parser state."""

    def run(stmts: Sequence[ir.Stmt], path: str) -> Sequence[ir.Stmt]:
        try:
            return f(stmts, path)
        except CompileError as e:
            if e.diagnostic is None:
                raise
            diags.add(e.diagnostic)
            return ()

    seen: set[ir.Action] = set()
    made: dict[FlatControl, FlatControl] = {}
    for c in program.controls:
        for a in c.actions:
            if a not in seen and a.body is not None:
                seen.add(a)
                a.body = ir.Block(a.span, tuple(run((a.body,), a.name)))
        path = c.decl.name
        made[c] = dataclasses.replace(c, body=tuple(run(c.body, path)))
    for s in program.parser.states:
        s.body = list(run(s.body, s.name))
    return dataclasses.replace(
        program,
        verify=made[program.verify],
        ingress=made[program.ingress],
        egress=made[program.egress],
        compute=made[program.compute],
        deparser=made[program.deparser],
    )


def unroll_loops(program: FlatProgram, diags: Diagnostics) -> FlatProgram:
    """Unroll loops whose bounds are known."""
    labels = itertools.count(_max_label(program) + 1)
    unroller = Unroller(diags, lambda: next(labels))
    return _each_body(program, lambda s, _path: unroller.run(s), diags)


def lower_statements(program: FlatProgram, diags: Diagnostics) -> FlatProgram:
    """Split assignments of structs, spell out comparisons, turn value switches into ifs."""
    return _each_body(program, lambda s, path: Lowerer(program.names, path, diags).run(s), diags)


#: Name and function of every pass, in order.
PASSES: list[tuple[str, FlatPass]] = [
    ("unroll_loops", unroll_loops),
    ("lower_statements", lower_statements),
]
