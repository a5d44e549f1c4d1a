# SPDX-License-Identifier: Apache-2.0
"""The P4 programs, compiled when their sources changed.

`compile_programs()` uses p4c-bm2-ss when it is on PATH (or COMPILER=p4c asks for it), else the project's own
compiler (COMPILER=own). Outputs go to build/p4c/ or build/own/: BMv2 JSON and P4Info, named as p4c's users
expect.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.errors import ControllerError

REPOSITORY = Path(__file__).resolve().parent.parent
P4C = "p4c-bm2-ss"
COMPILE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Program:
    """One compiled program. compiler: "p4c" or "own"."""

    name: str
    json: Path
    p4info: Path
    compiler: str


@dataclass(frozen=True, slots=True)
class Programs:
    """The two programs of a fabric, from the same compiler."""

    switch: Program
    nic: Program

    @property
    def compiler(self) -> str:
        """What made them, for a message: the program's name."""
        return P4C if self.switch.compiler == "p4c" else "the project's own compiler"


def choose_compiler(name: str | None = None) -> str:
    """ "p4c" or "own": what is asked for (argument, then COMPILER), else or for "auto" p4c if it is on PATH.

    Raises ControllerError if it is not known, or asked for and not there.
    """
    wanted = name or os.environ.get("COMPILER") or "auto"
    if wanted == "auto":
        wanted = "p4c" if shutil.which(P4C) else "own"
    if wanted not in ("p4c", "own"):
        raise ControllerError(f"COMPILER={wanted}: give p4c, own or auto")
    if wanted == "p4c" and shutil.which(P4C) is None:
        raise ControllerError(f"{P4C} isn't on PATH; install p4c, or use COMPILER=own")
    return wanted


def compile_programs(
    compiler: str | None = None, sources: Path = REPOSITORY / "p4src", build: Path = REPOSITORY / "build"
) -> Programs:
    """Compile `switch.p4` and `nic.p4`, or find them compiled already. Raises ControllerError with the first
    error.
    """
    chosen = choose_compiler(compiler)
    return Programs(*(compile_program(sources / f"{name}.p4", chosen, build) for name in ("switch", "nic")))


def compile_program(source: Path, compiler: str, build: Path) -> Program:
    """One program, cached by the content of all P4 files around it and the compiler."""
    if not source.exists():
        raise ControllerError(f"{source}: no such program; give the directory of the P4 sources")
    out = build / compiler
    program = Program(source.stem, out / f"{source.stem}.json", out / f"{source.stem}.p4info.txtpb", compiler)
    stamp = out / f"{source.stem}.sources"
    # The JSON names its source: in the same way wherever the repository stands.
    named = source.relative_to(REPOSITORY) if source.is_relative_to(REPOSITORY) else source
    content = f"{content_key(source, compiler)} {named}"
    try:
        if stamp.read_text() == content and program.json.exists() and program.p4info.exists():
            return program
    except OSError:
        pass
    out.mkdir(parents=True, exist_ok=True)
    fresh = [path.with_name(f".{os.getpid()}.{path.name}") for path in (program.json, program.p4info)]
    command = [P4C] if compiler == "p4c" else [sys.executable, "-m", "compiler"]
    command += ["-o", str(fresh[0]), "--p4runtime-files", str(fresh[1]), str(named)]
    try:
        _run(command, source)
        for new, path in zip(fresh, (program.json, program.p4info), strict=True):
            new.replace(path)
    finally:
        for new in fresh:
            new.unlink(missing_ok=True)
    stamp.write_text(content)
    return program


def content_key(source: Path, compiler: str) -> str:
    """Changes with any P4 file around the source, and with the compiler."""
    return _digest(source.parent.rglob("*.p4"), _identity(compiler))


def _run(command: Sequence[str], source: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False
        )
    except OSError as error:
        raise ControllerError(f"{command[0]}: {error.strerror}; install it") from None
    except subprocess.TimeoutExpired:
        raise ControllerError(f"{source}: no result after {COMPILE_SECONDS:.0f} s of {command[0]}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        first = next(
            (line for line in lines if "error" in line.lower()), lines[-1] if lines else "no message"
        )
        raise ControllerError(f"{source} doesn't compile: {first.strip()}")


def _identity(compiler: str) -> str:
    if compiler == "p4c":
        path = Path(shutil.which(P4C) or P4C).resolve()
        stat = path.stat()
        return f"{path} {stat.st_size} {stat.st_mtime_ns}"
    files = [p for p in (REPOSITORY / "compiler").rglob("*") if p.suffix in (".py", ".p4")]
    return _digest(files, "")


def _digest(files: Iterable[Path], more: str) -> str:
    digest = hashlib.sha256(more.encode())
    for path in sorted(files):
        digest.update(f"\0{path.name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    """`python -m controller.programs`: compile both programs, say by what and where to."""
    try:
        programs = compile_programs()
    except ControllerError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for program in (programs.switch, programs.nic):
        json, info = (path.relative_to(REPOSITORY) for path in (program.json, program.p4info))
        sys.stdout.write(f"p4src/{program.name}.p4 -> {json}, {info} (by {programs.compiler})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
