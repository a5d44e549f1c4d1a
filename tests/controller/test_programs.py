# SPDX-License-Identifier: Apache-2.0
"""Compiling the programs: which compiler, when, and what is said if it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller import ControllerError, choose_compiler, compile_programs
from controller import programs as module
from controller.programs import REPOSITORY, compile_program

GOOD = """#!{python}
import sys
open("{log}", "a").write("run\\n")
words = sys.argv[1:]
for option in ("-o", "--p4runtime-files"):
    open(words[words.index(option) + 1], "w").write(open(words[-1]).read())
"""
BAD = """#!{python}
import sys
sys.stderr.write("a.p4(3): warning: nothing\\na.p4(7): error: x is not declared\\n  x = 3;\\n")
sys.exit(1)
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "p4src"
    (folder / "include").mkdir(parents=True)
    (folder / "switch.p4").write_text("switch")
    (folder / "nic.p4").write_text("nic")
    (folder / "include" / "headers.p4").write_text("headers")
    return folder


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A p4c-bm2-ss of our own, first on PATH; returns the log of its runs."""
    log = tmp_path / "log"
    program = tmp_path / "bin" / "p4c-bm2-ss"
    program.parent.mkdir()
    program.write_text(script.format(python=sys.executable, log=log))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return log


def test_compiled_once_until_a_source_changes(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = install(tmp_path, monkeypatch, GOOD)
    build = tmp_path / "build"
    first = compile_programs("p4c", sources, build)
    assert first.switch.json == build / "p4c" / "switch.json"
    assert first.nic.p4info == build / "p4c" / "nic.p4info.txtpb"
    assert first.switch.json.read_text() == "switch"
    assert first.compiler == "p4c-bm2-ss"
    assert log.read_text().count("run") == 2
    assert compile_programs("p4c", sources, build) == first
    assert log.read_text().count("run") == 2
    (sources / "include" / "headers.p4").write_text("other headers")
    compile_programs("p4c", sources, build)
    assert log.read_text().count("run") == 4
    first.nic.json.unlink()
    compile_programs("p4c", sources, build)
    assert log.read_text().count("run") == 5


def test_an_error_is_one_line(tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, BAD)
    build = tmp_path / "build"
    with pytest.raises(ControllerError) as caught:
        compile_programs("p4c", sources, build)
    assert str(caught.value) == f"{sources / 'switch.p4'} doesn't compile: a.p4(7): error: x is not declared"
    assert list((build / "p4c").iterdir()) == []


def test_choosing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPILER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_compiler() == "own"
    with pytest.raises(ControllerError, match="p4c-bm2-ss isn't on PATH; install p4c, or use COMPILER=own"):
        choose_compiler("p4c")
    monkeypatch.setenv("COMPILER", "gcc")
    with pytest.raises(ControllerError, match="COMPILER=gcc: give p4c, own or auto"):
        choose_compiler()
    monkeypatch.setenv("COMPILER", "own")
    install(tmp_path, monkeypatch, GOOD)
    assert choose_compiler() == "own"
    monkeypatch.delenv("COMPILER")
    assert choose_compiler() == "p4c"


def test_no_such_program(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="no such program; give the directory of the P4 sources"):
        compile_program(tmp_path / "switch.p4", "own", tmp_path)


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which(module.P4C) is None, reason="p4c-bm2-ss isn't on PATH")
def test_the_real_one(tmp_path: Path) -> None:
    programs = compile_programs("p4c", REPOSITORY / "p4src", tmp_path)
    assert '"ingress"' in programs.nic.json.read_text()
    assert "SwitchIngress.ipv4_routes" in programs.switch.p4info.read_text()


def command(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "controller", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_compile_from_the_command_line() -> None:
    status, out, err = command("compile")
    assert (status, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith("p4src/switch.p4 -> build/")
    assert second.startswith("p4src/nic.p4 -> build/")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--target", "tofino"), "no target tofino; give embedded or bmv2\n"),
        (("run", "--profile", "nonesuch"), "profile nonesuch: there is none; give a .toml file or one of: "),
        (("run", "--set", "fabric.k=3"), "--set: fabric.k is 3; a fat-tree needs an even k of 2 or more\n"),
        (("run", "--rate", "1"), "mininet: link rate 1 bit/s; give 87520 or more "),
        (
            ("program", "nowhere.json"),
            "nowhere.json: No such file or directory; give the file of a topology\n",
        ),
    ],
)
def test_bad_command_lines_get_one_line(words: tuple[str, ...], said: str) -> None:
    status, out, err = command(*words)
    assert (status, out) == (2, "")
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_what_is_compiled_does_not_tell_where_the_repository_stands(tmp_path: Path) -> None:
    program = compile_program(REPOSITORY / "p4src" / "nic.p4", "own", tmp_path)
    assert '"p4src/nic.p4"' in program.json.read_text()
    assert str(REPOSITORY) not in program.json.read_text()
