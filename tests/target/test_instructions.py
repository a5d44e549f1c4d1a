# SPDX-License-Identifier: Apache-2.0
"""`python -m target.benchmark instructions` counts what a program does, part by part."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.target.programs import Builder, assign, call, const, field, forward_to, op

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")


def program(work: int, recirculates: bool = False) -> str:
    """`work` multiplications in egress."""
    b = Builder()
    b.header("x", [("a", 64), ("b", 64)])
    b.action("port", [("value", 64)], [assign(field("x", "a"), op("+", field("x", "a"), field("x", "b")))])
    b.table("t", [("exact", "x", "a")], ["port"], default="port", default_args=[1])
    b.run("out", [forward_to(2)])
    steps = [
        assign(field("x", "b"), op("*", field("x", "b"), op("+", field("x", "a"), const(i))))
        for i in range(work)
    ]
    b.run("work", steps, "egress")
    if recirculates:
        b.action("again", [], [call("recirculate", const(0))])
    return b.json()


def count(tmp_path: Path, text: str, rounds: int = 20) -> dict[str, float]:
    code, frames, entries = (tmp_path / name for name in ("p.json", "frames", "entries"))
    code.write_text(text)
    frames.write_text("\n".join((bytes([i]) * 40).hex() for i in range(4)))
    entries.write_text(json.dumps({"tables": [{"table": "t", "key": [[1]], "action": "port", "args": [5]}]}))
    options = ["--frames", str(frames), "--entries", str(entries), "--rounds", str(rounds)]
    command = [sys.executable, "-m", "target.benchmark", "instructions", str(code), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_work_is_counted_where_it_is_done(tmp_path: Path) -> None:
    little, much = count(tmp_path, program(1)), count(tmp_path, program(60))
    assert much["egress"] > little["egress"] + 60
    assert much["parser_and_ingress"] == little["parser_and_ingress"] > 0
    assert little["all"] > little["parser_and_ingress"] + little["egress"] > 0
    assert little["deparser"] == little["replication"] == 0


def test_counts_repeat(tmp_path: Path) -> None:
    assert count(tmp_path, program(3)) == count(tmp_path, program(3))


def test_a_deparser_of_its_own(tmp_path: Path) -> None:
    assert count(tmp_path, program(1, recirculates=True))["deparser"] > 0
