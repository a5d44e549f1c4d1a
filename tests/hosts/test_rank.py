# SPDX-License-Identifier: Apache-2.0
"""The host process: what it refuses, and that whatever goes wrong reaches the controller as one line."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosts import rank
from hosts.coordination import Bye, Hello, Message, StepBegin, Trouble, decode
from hosts.job import RunFile
from hosts.rank import main
from hosts.training import Digits


def run_file(directory: Path, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "hosts": {"h1": (1, "127.0.0.1"), "h2": (2, "127.0.0.1"), "h3": (3, "127.0.0.1")},
        "group": ["h1", "h2"],
        "ring": [],
        "ring_bytes": 1024,
        "steps": 1,
        "seed": 1,
        "hidden": 2,
        "batch": 8,
        "learning_rate": 0.1,
        "momentum": 0.9,
        "detector_threshold": 0.5,
        "detector_window": 1,
        "reduce_scatter_fill": "rescale",
        "all_gather_fill": "own",
        "shed_low_ppm": 0,
        "shed_high_ppm": 0,
        "transport": {"line_rate_bps": 1_000_000_000},
        "dcqcn": None,
        "data": str(directory / "digits.npz"),
        "socket": str(directory / "s"),
        "directory": str(directory),
        "keep_arrays": False,
    }
    return values | changes


def write(directory: Path, content: object) -> str:
    path = directory / "run.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_run_file_comes_back_as_it_was(tmp_path: Path) -> None:
    run = RunFile(**run_file(tmp_path))
    run.save(tmp_path / "x.json")
    assert RunFile.load(tmp_path / "x.json") == run


def without(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Expecting"),
        ("[]", "run.json"),
        ({}, "no hosts"),
        (without("steps", run_file(Path("/x"))), "steps"),
        (run_file(Path("/x"), colour="red"), "colour"),
        (run_file(Path("/x"), hosts={"h1": 1}), "run.json"),
        (run_file(Path("/x"), group=["h1", "h9"]), "h9: in group or ring, but not in hosts"),
        (run_file(Path("/x"), group=["h2"]), "h1 has nothing to do"),
        (run_file(Path("/x"), transport={"line_rate_bps": 0}), "line_rate_bps"),
        (run_file(Path("/x"), transport={"colour": 0}), "colour"),
        (run_file(Path("/x"), dcqcn={"gain": 2}), "dcqcn.gain"),
    ],
)
def test_a_bad_run_file_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: object, words: str
) -> None:
    assert main([write(tmp_path, content), "h1"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_missing_run_file_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nothing.json"), "h1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["one"]) == 2
    assert "usage" in capsys.readouterr().err


def test_no_controller_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, run_file(tmp_path)), "h1"]) == 1
    err = capsys.readouterr().err
    assert "no controller here" in err and err.count("\n") == 1


class Listener:
    """A controller that hears one host out; hangs up after the first message when `rude`."""

    def __init__(self, path: Path) -> None:
        self.heard: list[Message] = []
        self.rude = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                self.heard.append(decode(line))
                if self.rude or isinstance(self.heard[-1], Bye):
                    return

    def end(self) -> list[Message]:
        self._thread.join(20)
        self._socket.close()
        return self.heard


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(rank, "PACING_PRIORITY", 0)
    Digits.load(1).save(tmp_path / "digits.npz")
    made = Listener(tmp_path / "s")
    yield made
    made.end()


def test_an_address_that_is_not_here_is_told(tmp_path: Path, listener: Listener) -> None:
    hosts = {"h1": (1, "198.51.100.1"), "h2": (2, "127.0.0.1")}
    assert main([write(tmp_path, run_file(tmp_path, hosts=hosts)), "h1"]) == 1
    (told,) = listener.end()
    assert isinstance(told, Trouble) and told.host == "h1"
    assert "no interface here has this address" in told.why


def test_a_bug_is_told_by_its_name(
    tmp_path: Path,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(_run: object, _host: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(rank, "job_of", broken)
    assert main([write(tmp_path, run_file(tmp_path)), "h1"]) == 1
    assert listener.end() == [Hello("h1"), Trouble("h1", "RuntimeError: two lines")]
    assert "Traceback" in capsys.readouterr().err  # the log has it all


def test_a_parameter_out_of_range_is_told(tmp_path: Path, listener: Listener) -> None:
    bad = run_file(tmp_path, detector_threshold=-1)
    assert main([write(tmp_path, bad), "h1"]) == 1
    assert "detector threshold" in str(listener.end()[-1])


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_data_that_cannot_be_read_is_told(tmp_path: Path, listener: Listener, content: bytes | None) -> None:
    (tmp_path / "digits.npz").unlink()
    if content is not None:
        (tmp_path / "digits.npz").write_bytes(content)
    assert main([write(tmp_path, run_file(tmp_path)), "h1"]) == 1
    told = listener.end()[-1]
    assert isinstance(told, Trouble) and told.why.count("\n") == 0
    assert "digits.npz" in told.why or "pickle" in told.why


def test_a_controller_that_hangs_up_ends_the_host(
    tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    listener.rude = True
    assert main([write(tmp_path, run_file(tmp_path)), "h1"]) == 1
    assert listener.end() == [Hello("h1")]
    assert capsys.readouterr().err == "rank: the controller has gone\n"


def test_a_rank_offers_both_halves_of_every_pair_before_it_waits(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_go(_self: object, _step: int) -> None:
        raise EOFError

    monkeypatch.setattr(rank.Controller, "wait_go", first_go)
    hosts = {f"h{i}": (i, "127.0.0.1") for i in (1, 2, 3)}
    assert main([write(tmp_path, run_file(tmp_path, hosts=hosts, group=["h1", "h2", "h3"])), "h2"]) == 1
    begin = listener.end()[-1]
    assert isinstance(begin, StepBegin)
    size = 64 * 2 + 2 + 2 * 2 + 2 + 2 * 10 + 10
    shards = [4 * (size // 3 + (i < size % 3)) for i in range(3)]
    lengths = {h: {o.key: o.length_bytes for o in each} for h, each in begin.offers.items()}
    assert lengths == {
        "h1": {"1.1.2.0": shards[1], "1.1.2.1": shards[0]},
        "h3": {"1.3.2.0": shards[1], "1.3.2.1": shards[2]},
    }
    assert begin.expected_bytes == 2 * shards[1] + shards[0] + shards[2]
    assert all(o.gradient for each in begin.offers.values() for o in each)
    assert len({o.qp for each in begin.offers.values() for o in each}) == 4
    assert begin.critical and begin.change == 1e308
