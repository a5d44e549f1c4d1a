# SPDX-License-Identifier: Apache-2.0
"""Instructions a frame of each part of a program, counted by valgrind's callgrind.

Unlike times they do not depend on what else the machine does. A C program does what the pipeline benchmark
does; it is told what to install by a script.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import cffi

from target import build
from target.api import TableEntry
from target.bmjson import Program
from target.codegen import Generated
from target.engine import Engine
from target.pipeline import compile_pipeline
from target.tables import TableControl

_BENCHMARK = "sw_device_benchmark"
_PARTS = {
    "parser_and_ingress": "on_receive",
    "replication": "sw_pool_copy",
    "egress": "on_egress",
    "deparser": "on_deparse",
}
"""Functions of the program and the engine. Where nothing comes between, egress has the deparser in it."""


class _Script:
    """Stands in for the engine under `TableControl`, and writes down what is installed."""

    def __init__(self) -> None:
        self.ffi: Any = cffi.FFI()
        self.lib = self
        self.lines: list[str] = []

    def _write(self, kind: str, table: int, priority: int, action: int, *arrays: Any) -> int:
        values = [[] if array == self.ffi.NULL else [int(v) for v in array] for array in arrays]
        numbers = [table, priority, action, *(len(v) for v in values), *(n for v in values for n in v)]
        self.lines.append(" ".join([kind, *map(str, numbers)]))
        return 0

    def sw_table_insert(self, pipeline: Any, table: int, *rest: Any) -> int:
        key, mask, ranges, priority, action, args, _ = rest
        return self._write("insert", table, priority, action, key, mask, ranges, args)

    def sw_table_set_default(self, pipeline: Any, table: int, action: int, args: Any, _: int) -> int:
        null = self.ffi.NULL
        return self._write("default", table, 0, action, null, null, null, args)


def _install(program: Program, generated: Generated, state: dict[str, Any]) -> list[str]:
    """Lines of a script, for a state as `target.benchmark.state` installs it."""
    script = _Script()
    engine = cast(Engine, script)
    tables = {
        name: TableControl(engine, None, table, program, generated.tables[name])
        for name, table in program.tables.items()
    }
    for item in state.get("tables", []):
        table, args = tables[item["table"]], tuple(item.get("args", ()))
        key = tuple(tuple(match) for match in item["key"])
        if key:
            table.insert(TableEntry(key, item["action"], args, item.get("priority", 0)))
        else:
            table.set_default(item["action"], args)
    script.lines.append("commit")
    for group, replicas in state.get("groups", {}).items():
        numbers = [int(group), len(replicas), *(n for replica in replicas for n in replica)]
        script.lines.append(" ".join(["group", *map(str, numbers)]))
    return script.lines


def measure_instructions(
    text: str, frames: Sequence[bytes], state: dict[str, Any], port: int, rounds: int
) -> dict[str, float]:
    """Instructions a frame by part, and of all that the engine does with one.

    Raises ValueError without valgrind.
    """
    if shutil.which("valgrind") is None or shutil.which("callgrind_annotate") is None:
        raise ValueError("counting instructions needs valgrind: install it")
    program, generated, path = compile_pipeline(text)
    lines = [*_install(program, generated, state), f"frames {len(frames)} {rounds} {port}"]
    lines += [f"{len(frame)} {frame.hex()}" for frame in frames]
    source = (Path(__file__).parent / "bench_instructions.c").read_text()
    driver = build.executable("bench-instructions", source, [str(build.runtime_library())])
    with tempfile.TemporaryDirectory() as scratch:
        script, found = Path(scratch, "script"), Path(scratch, "callgrind.out")
        script.write_text("\n".join(lines) + "\n")
        options = [f"--callgrind-out-file={found}", f"--toggle-collect={_BENCHMARK}"]
        _run(["valgrind", "-q", "--tool=callgrind", *options, str(driver), str(path), str(script)])
        table = _run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(found)])
    costs: dict[str, int] = {}
    for line in table.splitlines():
        match = re.match(r"\s*([\d,]+) .*?:(\w+)[ \[]", line + " ")
        if match:
            costs.setdefault(match[2], int(match[1].replace(",", "")))
    named = {part: costs.get(name, 0) for part, name in _PARTS.items()} | {"all": costs[_BENCHMARK]}
    return {part: round(cost / len(frames) / rounds, 1) for part, cost in named.items()}


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{command[0]}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
