# SPDX-License-Identifier: Apache-2.0
"""Command line, with the options of ``p4c-bm2-ss``.

Exit status: 0 if the program compiled (warnings or not), 1 for errors in the program, 2 for a bad command
line. Outputs are written only when there was no error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .diag import CompileError, Diagnostics
from .driver import STAGES, Options, Result, compile_file, preprocess
from .preprocessor import render

PROG = "p4c-bm2-ss"


class _Macro(argparse.Action):
    """``-D`` and ``-U``, kept in the order given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        macros = getattr(namespace, "macros", None) or []
        macros.append((self.dest, str(values)))
        namespace.macros = macros


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    p = _Parser(
        prog="python -m compiler",
        description="Compile a P4_16 program for v1model to BMv2 JSON and P4Info.",
        allow_abbrev=False,
    )
    p.add_argument("source", nargs="?", help="P4 program")
    p.add_argument("-o", dest="output", metavar="FILE", help="write the BMv2 JSON to FILE")
    p.add_argument(
        "-I", dest="include", metavar="DIR", action="append", default=[], help="search DIR for includes"
    )
    p.add_argument("-D", dest="D", metavar="NAME[=VALUE]", action=_Macro, help="define a macro")
    p.add_argument("-U", dest="U", metavar="NAME", action=_Macro, help="undefine a macro")
    p.add_argument(
        "-E", dest="preprocess_only", action="store_true", help="preprocess to standard output only"
    )
    p.add_argument(
        "--p4runtime-files",
        metavar="FILES",
        help="write P4Info to FILES (comma-separated; the suffix tells the format: .txtpb, .json, .bin)",
    )
    p.add_argument(
        "--p4runtime-entries-files",
        metavar="FILES",
        help="write static entries as a P4Runtime WriteRequest to FILES",
    )
    p.add_argument("--std", default="p4-16", help="language version; only p4-16")
    p.add_argument("--arch", default="v1model", help="architecture; only v1model")
    p.add_argument("--target", default="bmv2", help="target; only bmv2")
    p.add_argument("--pp", metavar="FILE", help="write the preprocessed program to FILE")
    p.add_argument(
        "--dump-after",
        metavar="STAGE",
        action="append",
        default=[],
        help=f"write the program after STAGE to standard error; one of {', '.join(STAGES)}, or all",
    )
    p.add_argument("--list-stages", action="store_true", help="list the stages and stop")
    p.add_argument("--Werror", action="store_true", help="treat warnings as errors")
    p.add_argument("--Wdisable", action="store_true", help="show no warnings")
    p.add_argument(
        "--emit-externs", action="store_true", help="pass externs v1model does not have on to the target"
    )
    p.add_argument("--maxErrorCount", type=int, default=20, metavar="N", help="give up after N errors")
    p.add_argument("-v", "--version", action="store_true", help="show the version and stop")
    return p


def _bad(message: str) -> int:
    sys.stderr.write(f"{PROG}: error: {message}\n")
    return 2


def _targets(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


def _check_suffixes(names: Sequence[str]) -> str | None:
    for name in names:
        if not name.endswith((".txtpb", ".txt", ".json", ".bin")):
            return f"{name}: unknown format; known suffixes are .txtpb, .txt, .json and .bin"
    return None


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    if args.version:
        sys.stdout.write(f"{PROG} (P4_16 compiler) {__version__}\n")
        return 0
    if args.list_stages:
        sys.stdout.write("".join(f"{s}\n" for s in STAGES))
        return 0
    if args.source is None:
        return _bad("no input file")
    if args.std != "p4-16":
        return _bad(f"--std {args.std}: only p4-16 is supported")
    if args.arch != "v1model":
        return _bad(f"--arch {args.arch}: only v1model is supported")
    if args.target != "bmv2":
        return _bad(f"--target {args.target}: only bmv2 is supported")
    for stage in args.dump_after:
        if stage != "all" and stage not in STAGES:
            return _bad(f"--dump-after {stage}: no such stage; see --list-stages")
    infos, entries = _targets(args.p4runtime_files), _targets(args.p4runtime_entries_files)
    problem = _check_suffixes([*infos, *entries])
    if problem:
        return _bad(problem)
    if not os.path.isfile(args.source):
        return _bad(f"{args.source}: no such file")
    options = Options(
        args.include, getattr(args, "macros", None) or [], max(1, args.maxErrorCount), args.emit_externs
    )
    if args.preprocess_only:
        return _preprocess_only(args.source, options)
    return _run(args, options, infos, entries)


def _preprocess_only(source: str, options: Options) -> int:
    diags = Diagnostics()
    try:
        text = render(preprocess(source, options, diags))
    except CompileError as e:
        if e.diagnostic is not None:
            diags.add(e.diagnostic)
        text = ""
    sys.stderr.write(diags.render())
    if not diags.error_count:
        sys.stdout.write(text)
    return 1 if diags.error_count else 0


def _run(args: argparse.Namespace, options: Options, infos: list[str], entries: list[str]) -> int:
    def observe(stage: str, value: object) -> None:
        if "all" in args.dump_after or stage in args.dump_after:
            from .dump import dump

            sys.stderr.write(f"---- after {stage}\n{dump(value)}")

    result = compile_file(args.source, options, observe)
    outputs: list[tuple[str, bytes]] = []
    if result.ok and (infos or entries):
        _p4runtime(result, infos, entries, outputs)
    diags = result.diags
    failed = diags.error_count > 0
    shown = [d for d in diags.items if d.is_error or not args.Wdisable]
    sys.stderr.write("".join(d.render() + "\n" for d in shown))
    if args.Werror and any(not d.is_error for d in shown):
        failed = True
    if failed:
        count = max(diags.error_count, 1)
        sys.stderr.write(f"{count} error{'s' if count > 1 else ''}\n")
        return 1
    if args.pp:
        outputs.append((args.pp, render(result.tokens).encode()))
    if args.output:
        outputs.append((args.output, (json.dumps(result.json, indent=2) + "\n").encode()))
    return _write(outputs)


def _p4runtime(
    result: Result, infos: list[str], entries: list[str], outputs: list[tuple[str, bytes]]
) -> None:
    from .emit.p4info import P4InfoBuilder, json_of, text_of

    assert result.flat is not None
    try:
        builder = P4InfoBuilder(result.flat, result.diags)
        info = builder.build()
        request = builder.entries()
    except CompileError as e:
        if e.diagnostic is not None:
            result.diags.add(e.diagnostic)
        return
    for names, message in ((infos, info), (entries, request)):
        for name in names:
            if name.endswith(".bin"):
                data = message.SerializeToString(deterministic=True)
            elif name.endswith(".json"):
                data = json_of(message).encode()
            else:
                data = text_of(message).encode()
            outputs.append((name, data))


def _write(outputs: Sequence[tuple[str, bytes]]) -> int:
    for name, data in outputs:
        try:
            with open(name, "wb") as f:
                f.write(data)
        except OSError as e:
            return _bad(f"{name}: cannot write: {e.strerror}")
    return 0
