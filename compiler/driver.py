# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of the compiler on one program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import ast, ir
from .check import check_program
from .diag import CompileError, Diagnostics
from .emit.bmv2 import emit_bmv2
from .mid.flat import FlatProgram
from .mid.flatten import flatten
from .mid.passes import PASSES
from .parser import parse
from .preprocessor import Preprocessor
from .source import Token

#: Names of all stages, in order; ``--dump-after`` takes any of them.
STAGES: list[str] = ["preprocess", "parse", "check", "flatten", *(name for name, _ in PASSES)]


@dataclass(slots=True)
class Options:
    """What the command line can say about compiling, without the outputs."""

    include_dirs: Sequence[str] = ()
    #: ``-D`` and ``-U`` in the order given: ("D", "NAME=VALUE") or ("U", "NAME").
    macros: Sequence[tuple[str, str]] = ()
    #: Give up after this many errors.
    max_errors: int = 20
    #: Pass externs that v1model does not have on to the target.
    emit_externs: bool = False


@dataclass(slots=True)
class Result:
    """What compiling made; `json` and `flat` are None when there were errors."""

    diags: Diagnostics
    tokens: list[Token] = field(default_factory=list)
    tree: ast.Program | None = None
    checked: ir.Program | None = None
    flat: FlatProgram | None = None
    json: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        return self.diags.error_count == 0


Observer = Callable[[str, object], None]


def compile_file(path: str, options: Options | None = None, observe: Observer | None = None) -> Result:
    """Compile the P4 program at `path`.

    `observe` is called after each stage of :data:`STAGES` with its name and result. Errors are in
    ``Result.diags``; nothing is raised for a bad program.
    """
    return _compile(options or Options(), lambda pp: pp.run(path), path, observe)


def compile_text(text: str, name: str = "<text>", options: Options | None = None) -> Result:
    """As :func:`compile_file`, for a program that is no file."""
    return _compile(options or Options(), lambda pp: pp.run_text(name, text), name, None)


def preprocess(path: str, options: Options, diags: Diagnostics) -> list[Token]:
    """Tokens of the program after preprocessing."""
    return _preprocessor(options, diags).run(path)


def _preprocessor(options: Options, diags: Diagnostics) -> Preprocessor:
    pp = Preprocessor(diags, options.include_dirs)
    for kind, text in options.macros:
        if kind == "D":
            name, _, value = text.partition("=")
            pp.define(name, value if "=" in text else "1")
        else:
            pp.undefine(text)
    return pp


def _compile(
    options: Options, read: Callable[[Preprocessor], list[Token]], name: str, observe: Observer | None
) -> Result:
    diags = Diagnostics(max_errors=options.max_errors)
    result = Result(diags)

    def done(stage: str, value: object) -> None:
        if observe is not None:
            observe(stage, value)

    try:
        result.tokens = read(_preprocessor(options, diags))
        done("preprocess", result.tokens)
        result.tree = parse(result.tokens, diags)
        done("parse", result.tree)
        # After a syntax error only what was read is checked; follow-up errors would confuse.
        diags.check()
        result.checked = check_program(result.tree, diags)
        done("check", result.checked)
        diags.check()
        flat = flatten(result.checked, diags)
        done("flatten", flat)
        diags.check()
        for stage, run in PASSES:
            flat = run(flat, diags)
            done(stage, flat)
        json = emit_bmv2(flat, diags, name, emit_externs=options.emit_externs)
        diags.check()
        result.flat, result.json = flat, json
    except CompileError as e:
        if e.diagnostic is not None:
            diags.add(e.diagnostic)
    return result
