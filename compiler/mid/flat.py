# SPDX-License-Identifier: Apache-2.0
"""The flat program: six blocks of v1model without sub-blocks, functions or parameters.

Declarations in it carry control-plane names. All blocks share three variables: the headers, the user
metadata and the standard metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import ir
from ..source import Span
from .inline import Names


@dataclass(slots=True, eq=False)
class FlatControl:
    """`body` is a Scope around the apply block; `returns` is its label."""

    name: str
    decl: ir.Control
    actions: list[ir.Action] = field(default_factory=list)
    tables: list[ir.Table] = field(default_factory=list)
    body: tuple[ir.Stmt, ...] = ()


@dataclass(slots=True, eq=False)
class FlatState:
    """`next` of a transition names a state, ``accept`` or ``reject``."""

    name: str
    span: Span
    body: list[ir.Stmt]
    transition: ir.Transition


@dataclass(slots=True, eq=False)
class FlatParser:
    name: str
    decl: ir.Parser
    states: list[FlatState] = field(default_factory=list)
    vsets: list[ir.ValueSet] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class FlatProgram:
    headers: ir.VarSym
    meta: ir.VarSym
    std: ir.VarSym
    parser: FlatParser
    verify: FlatControl
    ingress: FlatControl
    egress: FlatControl
    compute: FlatControl
    deparser: FlatControl
    #: Extern instances with control-plane names and constant arguments, in order.
    externs: list[ir.Instance]
    source: ir.Program
    #: Names of variables in use.
    names: Names

    @property
    def controls(self) -> tuple[FlatControl, ...]:
        return (self.verify, self.ingress, self.egress, self.compute, self.deparser)
