# SPDX-License-Identifier: Apache-2.0
"""The command line: outputs, exit status, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import json_format, text_format

from compiler.cli import main
from compiler.driver import STAGES
from tests.compiler.support import HERE, REPO, SHELL

TABLES = HERE / "good" / "tables.p4"


def test_as_a_module(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    done = subprocess.run(
        [sys.executable, "-m", "compiler", str(TABLES), "-o", str(out), "--std", "p4-16"],
        cwd=REPO, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["__meta__"]["version"] == [2, 23]


def test_p4info_in_three_forms(tmp_path: Path) -> None:
    names = [tmp_path / f"i{suffix}" for suffix in (".txtpb", ".json", ".bin")]
    assert main([str(TABLES), "--p4runtime-files", ",".join(map(str, names))]) == 0
    text, from_json, binary = p4i.P4Info(), p4i.P4Info(), p4i.P4Info()
    text_format.Parse(names[0].read_text(), text)
    json_format.Parse(names[1].read_text(), from_json)
    binary.ParseFromString(names[2].read_bytes())
    assert text == from_json == binary
    assert {t.preamble.alias for t in text.tables} >= {"acl", "routes", "ranked", "spread"}


def test_an_error_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text(SHELL.format(body="x = 1;", fields="bit<8> a;", meta="", locals=""))
    assert (
        main([str(bad), "-o", str(tmp_path / "o.json"), "--p4runtime-files", str(tmp_path / "i.txtpb")]) == 1
    )
    assert list(tmp_path.iterdir()) == [bad]
    assert "error[E010]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nowhere.p4"],
        [str(TABLES), "--std", "p4-14"],
        [str(TABLES), "--arch", "psa"],
        [str(TABLES), "--p4runtime-files", "x.yaml"],
        [str(TABLES), "--dump-after", "nothing"],
        [str(TABLES), "-o", "/nonexistent/dir/x.json"],
    ],
)
def test_bad_command_line(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert "error" in err and err.count("\n") == 1 + err.count("warning")


def test_macros_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "m.p4"
    source.write_text("#ifdef A\nconst bit<8> x = A;\n#else\nno_a\n#endif\n")
    assert main([str(source), "-E", "-DA=3"]) == 0
    assert "const bit<8> x = 3;" in capsys.readouterr().out
    assert main([str(source), "-E", "-DA=3", "-UA"]) == 0
    assert "no_a" in capsys.readouterr().out


def test_pp_output_compiles_again(tmp_path: Path) -> None:
    text, first, second = tmp_path / "t.p4", tmp_path / "1.json", tmp_path / "2.json"
    assert main([str(TABLES), "--pp", str(text), "-o", str(first)]) == 0
    lines = [x for x in text.read_text().splitlines() if not x.startswith("#")]
    text.write_text("\n".join(lines))
    assert main([str(text), "-o", str(second)]) == 0
    one, two = json.loads(first.read_text()), json.loads(second.read_text())
    assert [t["name"] for t in one["pipelines"][0]["tables"] if "tbl" not in t["name"]] == [
        t["name"] for t in two["pipelines"][0]["tables"] if "tbl" not in t["name"]
    ]


@pytest.mark.parametrize("stage", STAGES)
def test_dump_after(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(HERE / "good" / "controls.p4"), "--dump-after", stage]) == 0
    err = capsys.readouterr().err
    assert f"---- after {stage}" in err
    assert "clamp" in err or stage not in ("preprocess", "parse")


def test_warnings_as_errors(tmp_path: Path) -> None:
    source = tmp_path / "w.p4"
    source.write_text(SHELL.format(body="hdr.h.a = 300;", fields="bit<8> a;", meta="", locals=""))
    assert main([str(source)]) == 0
    assert main([str(source), "--Werror"]) == 1
    assert main([str(source), "--Wdisable"]) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert "0." in capsys.readouterr().out
