# SPDX-License-Identifier: Apache-2.0
"""`python -m target`: options, bad input, readiness, signals, TLS, and a fabric of devices in one process."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from google.protobuf import text_format

from target.cli import main
from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client
from tests.target.p4runtime.processes import (
    ROOT,
    embedded_command,
    free_port,
    process,
    wait_until_answering,
)

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the embedded target needs a C compiler (cc)"
)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a bad command line gets."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("target: error: ")
    return lines[0]


# --- help


def test_help_needs_neither_a_compiler_nor_grpc() -> None:
    code = (
        "import sys\n"
        "from target.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        "    assert 'grpc' not in sys.modules and 'target.engine' not in sys.modules\n"
    )
    environment = {"PATH": "", "CC": "no-such-compiler", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    for word in (
        "--interface",
        "--no-p4",
        "--device-id",
        "--pcap",
        "--log-console",
        "--log-file",
        "--grpc-server-addr",
        "--cpu-port",
        "--drop-port",
        "--priority-queues",
        "--grpc-server-ssl",
        "--port-rate",
        "--port-queue",
        "--port-delay",
        "--fabric",
        "--threads",
        "--ready-file",
        "127.0.0.1:9559",
        "queue_bytes",
    ):
        assert word in done.stdout


def test_json_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json-version"]) == 0
    assert capsys.readouterr().out == "2.24\n"


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "--no-p4"),
        (["--frobnicate"], "--frobnicate"),
        (["--no-p4", "--", "--frobnicate"], "--frobnicate"),
        (["--no-p4", "--", "--", "x"], "'--'"),
        (["--no-p4", "-i", "veth0"], "veth0"),
        (["--no-p4", "-i", "x@veth0"], "'x'"),
        (["--no-p4", "-i", "1@no-such-if"], "no-such-if"),
        (["--no-p4", "-i", "1@lo", "-i", "1@lo2"], "1"),
        (["--no-p4", "-i", "1@lo", "-i", "2@lo"], "'lo'"),
        (["--no-p4", "-i", "600@lo"], "0..511"),
        (["--no-p4", "-i", "511@lo"], "drop port"),
        (["--no-p4", "-i", "255@lo", "--", "--cpu-port", "255"], "CPU port"),
        (["--no-p4", "--", "--cpu-port", "511"], "511"),
        (["--no-p4", "--", "--cpu-port", "0"], "1..511"),
        (["--no-p4", "--", "--cpu-port", "x"], "'x'"),
        (["--no-p4", "--", "--priority-queues", "0"], "priority queues"),
        (["--no-p4", "--", "--priority-queues", "9"], "1..8"),
        (["--no-p4", "--device-id", "-1"], "-1"),
        (["--no-p4", "--port-rate", "1=10M"], "no port 1"),
        (["--no-p4", "-i", "1@lo", "--port-rate", "1"], "PORT=VALUE"),
        (["--no-p4", "-i", "1@lo", "--port-rate", "1=fast"], "fas"),
        (["--no-p4", "-i", "1@lo", "--port-rate", "1=1", "--port-rate", "1=2"], "twice"),
        (["--no-p4", "-i", "1@lo", "--port-queue", "1=1K/2K"], "2 queue capacities"),
        (["--no-p4", "-i", "1@lo", "--port-queue", "1=0"], "0 bytes"),
        (["--no-p4", "-i", "1@lo", "--port-share", "1=1/2"], "2 shares"),
        (["--no-p4", "-i", "1@lo", "--port-share", "1=1000001"], "1000000"),
        (["--no-p4", "-i", "1@lo", "--port-share", "1=a"], "'a'"),
        (["--no-p4", "-i", "1@lo", "--port-share", "2=1"], "no port 2"),
        (["--no-p4", "-i", "1@lo", "--port-delay", "1=-5"], "negative"),
        (["--no-p4", "-L", "loud"], "loud"),
        (["--no-p4", "--log-console", "--log-file", "x"], "--log-file"),
        (["--no-p4", "--log-file", "/no/such/directory/x"], "/no/such/directory/x"),
        (["no-such-file.json"], "no-such-file.json"),
        (["--no-p4", "--p4info", "no-such-file"], "no-such-file"),
        (["--fabric", "no-such-file"], "no-such-file"),
        (["--fabric", "x", "-i", "1@lo"], "--interface"),
        (["--fabric", "x", "program.json"], "program"),
        (["--no-p4", "--threads", "0"], "0"),
        (["--no-p4", "--", "--grpc-server-cert", "x"], "--grpc-server-ssl"),
        (["--no-p4", "--", "--grpc-server-ssl"], "--grpc-server-cert"),
        (["--no-p4", "--pcap", "/no/such/directory"], "/no/such/directory"),
        (["--no-p4", "--use-files", "3"], "--use-files"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert named in _refused(arguments, capsys)


FABRIC: list[dict[str, Any]] = [
    {
        "name": "s1",
        "device_id": 1,
        "grpc_addr": "127.0.0.1:9559",
        "cpu_port": 255,
        "priority_queues": 2,
        "ports": [{"port": 1, "interface": "lo", "rate_bps": 1, "queue_bytes": [1, 2], "delay_ns": 0}],
    }
]


def _broken(change: str, value: Any = None) -> Any:
    """The fabric with one thing changed: `a.b` names the attribute, no value takes it away."""
    fabric = json.loads(json.dumps(FABRIC))
    place = fabric[0]
    *path, last = change.split(".")
    for step in path:
        place = place[step][0] if step == "ports" else place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return fabric


@pytest.mark.parametrize(
    ("fabric", "named"),
    [
        ({}, "array"),
        ([], "no device"),
        ([1], "[0]"),
        (_broken("name"), "'name' is missing"),
        (_broken("name", 5), "[0].name"),
        (_broken("device_id"), "'device_id' is missing"),
        (_broken("device_id", "1"), "device_id"),
        (_broken("device_id", True), "device_id"),
        (_broken("device_id", 1.5), "device_id"),
        (_broken("grpc_addr"), "'grpc_addr' is missing"),
        (_broken("cpu_ports", 5), "cpu_ports"),
        (_broken("cpu_port", 511), "511"),
        (_broken("priority_queues", 3), "queue capacities"),
        (_broken("ports.rate_bps", -1), "'s1'.ports[0].rate_bps"),
        (_broken("ports.rate_bps", "10M"), "'s1'.ports[0].rate_bps"),
        (_broken("ports.interface"), "'interface' is missing"),
        (_broken("ports.interface", "no-such-if"), "no-such-if"),
        (_broken("ports.queue_bytes", [0, 0]), "queue_bytes[0]"),
        (_broken("ports.share_ppm", [1]), "1 shares for 2"),
        (_broken("ports.share_ppm", [1, -1]), "share_ppm[1]"),
        (_broken("ports.share_ppm", 5), "share_ppm: expected an array"),
        (_broken("ports.share_ppm", [500_000, 500_001]), "1000000"),
        (_broken("ports.speed", 1), "speed"),
        (FABRIC + FABRIC, "'s1'"),
        ([FABRIC[0], {**FABRIC[0], "name": "s2"}], "address and device id"),
        ([FABRIC[0], {**FABRIC[0], "name": "s2", "device_id": 2}], "interface 'lo'"),
    ],
)
def test_a_bad_fabric_file_gets_one_line(
    fabric: Any, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(fabric))
    assert named in _refused(["--fabric", str(path)], capsys)


@pytest.mark.parametrize("text", ["", "[", "\x00", "[" * 100_000])
def test_garbage_as_fabric_file_gets_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fabric.json"
    path.write_text(text)
    assert str(path) in _refused(["--fabric", str(path)], capsys)


@needs_compiler
def test_a_busy_address_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ready = tmp_path / "ready"
        line = _refused(["--no-p4", "--ready-file", str(ready), "--", "--grpc-server-addr", address], capsys)
        assert address in line
        assert not ready.exists()
    path = tmp_path / "p4rt.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        assert str(path) in _refused(["--no-p4", "--", "--grpc-server-addr", f"unix:{path}"], capsys)
        assert path.exists()


@needs_compiler
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "host:port"),
        ("localhost", "host:port"),
        ("127.0.0.1:99999", "host:port"),
        ("127.0.0.1:http", "host:port"),
        ("no.such.host.invalid:9559", "no.such.host.invalid"),
        ("192.0.2.1:9559", "cannot assign"),
        ("unix:/no/such/directory/p4rt.sock", "/no/such/directory"),
        ("unix:/dev/null", "no socket"),
    ],
)
def test_an_impossible_address(address: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = _refused(["--no-p4", "--", "--grpc-server-addr", address], capsys)
    assert address in line
    assert reason in line


@needs_compiler
def test_a_program_that_cannot_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.json"
    broken = program.bmv2_program()
    del broken["pipelines"][0]["tables"][1]["key"]
    path.write_text(json.dumps(broken))
    line = _refused([str(path), "--", "--grpc-server-addr", f"unix:{tmp_path}/p4rt.sock"], capsys)
    assert "MyIngress.exact_t" in line


# --- life


def _wait_for(path: Path, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert running.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_then_a_signal_ends_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    ready, log, sock = tmp_path / "ready", tmp_path / "log", tmp_path / "p4rt.sock"
    command = embedded_command(
        *("--no-p4", "--device-id", "7", "--ready-file", str(ready)),
        *("--", "--grpc-server-addr", f"unix:{sock}", "--cpu-port", "255"),
    )
    with process(command, log) as running:
        _wait_for(ready, running, log)
        assert "device 7 ready" in ready.read_text()
        assert ready.read_text() == log.read_text()
        client = Client(f"unix:{sock}", 7)
        stream = client.primary()
        client.set_config(program.config())
        running.send_signal(number)
        assert running.wait(30) == 0
        with pytest.raises(Exception, match=r"UNAVAILABLE|CANCELLED"):
            stream.receive()
        client.close()
    assert not ready.exists()
    assert not sock.exists()
    assert "Traceback" not in log.read_text()


@needs_compiler
def test_a_stale_socket_of_a_killed_target_is_taken_over(tmp_path: Path) -> None:
    ready, log, sock = tmp_path / "ready", tmp_path / "log", tmp_path / "p4rt.sock"
    command = embedded_command(
        "--no-p4", "--ready-file", str(ready), "--", "--grpc-server-addr", f"unix:{sock}"
    )
    with process(command, log) as running:
        _wait_for(ready, running, log)
        running.kill()
        running.wait()
    assert sock.exists()
    ready.unlink()
    with process(command, log) as running:
        _wait_for(ready, running, log)
        with grpc.insecure_channel(f"unix:{sock}") as channel:
            p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=30)


@needs_compiler
def test_a_program_at_start_with_its_p4info_is_the_config(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(program.bmv2_json())
    (tmp_path / "text.txtpb").write_text(text_format.MessageToString(program.p4info()))
    (tmp_path / "binary.bin").write_bytes(program.p4info().SerializeToString())
    for p4info in ("text.txtpb", "binary.bin"):
        log = tmp_path / "log"
        address = f"127.0.0.1:{free_port()}"
        command = embedded_command(
            "program.json", "--p4info", p4info, "--device-id", "1", "--", "--grpc-server-addr", address
        )
        with process(command, log) as running:
            wait_until_answering(address, running, log)
            client = Client(address)
            assert client.get_config("P4INFO_AND_COOKIE").config.p4info == program.p4info()
            assert len(client.read(e.table(program.CONST_T))) == 2
            client.primary()
            client.insert(e.exact(1))
            client.close()


@needs_compiler
def test_programs_are_compiled_ahead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, bad, cache = tmp_path / "program.json", tmp_path / "bad.json", tmp_path / "cache"
    path.write_text(program.bmv2_json())
    bad.write_text("{")
    address = f"unix:{tmp_path}/p4rt.sock"
    line = _refused(["--no-p4", "--compile", str(bad), "--", "--grpc-server-addr", address], capsys)
    assert str(bad) in line
    ready, log = tmp_path / "ready", tmp_path / "log"
    command = embedded_command(
        *("--no-p4", "--compile", str(path), "--ready-file", str(ready)),
        *("--device-id", "1", "--", "--grpc-server-addr", address),
    )
    with process(command, log, XDG_CACHE_HOME=str(cache)) as running:
        _wait_for(ready, running, log)
        built = set(cache.rglob("program-*.so"))
        assert len(built) == 1
        client = Client(address)
        client.primary()
        client.set_config(program.config())
        client.close()
        assert set(cache.rglob("program-*.so")) == built


@needs_compiler
def test_log_options(tmp_path: Path) -> None:
    ready, log = tmp_path / "ready", tmp_path / "out"
    for arguments, place in (
        (["--log-file", str(tmp_path / "own")], tmp_path / "own.txt"),
        (["--log-console"], log),
    ):
        command = embedded_command(
            "--no-p4",
            *("--ready-file", str(ready), "--thrift-port", "9090"),
            *arguments,
            *("--log-flush", "-L", "debug"),
            *("--", "--grpc-server-addr", f"unix:{tmp_path}/p4rt.sock"),
        )
        with process(command, log) as running:
            _wait_for(ready, running, log)
            running.terminate()
            assert running.wait(30) == 0
        text = place.read_text()
        assert "ready" in text
        assert "--thrift-port has no effect" in text


@needs_compiler
def test_a_fabric_of_36_devices_in_one_process(tmp_path: Path) -> None:
    ready, log, fabric = tmp_path / "ready", tmp_path / "log", tmp_path / "fabric.json"
    devices = [
        {
            "name": f"s{n}",
            "device_id": n,
            # The last two share an address.
            "grpc_addr": f"unix:{tmp_path}/s{min(n, 35)}.sock",
            "cpu_port": 510,
            "priority_queues": 3,
            "ports": [],
        }
        for n in range(1, 37)
    ]
    fabric.write_text(json.dumps(devices))
    command = embedded_command("--fabric", str(fabric), "--threads", "2", "--ready-file", str(ready))
    with process(command, log) as running:
        _wait_for(ready, running, log)
        assert len(ready.read_text().splitlines()) == 36
        for device in (devices[0], devices[1], devices[34], devices[35]):
            client = Client(str(device["grpc_addr"]), int(str(device["device_id"])))
            client.primary()
            client.set_config(program.config())
            client.insert(e.exact(int(str(device["device_id"]))))
            (entry,) = client.read(e.table(program.EXACT_T))
            assert entry == e.exact(int(str(device["device_id"])))
            client.close()


# --- TLS


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@needs_compiler
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_tls_with_client_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    _openssl(tmp_path, *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("server", "client"):
        _openssl(
            tmp_path,
            *("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
            *("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        )
        _openssl(
            tmp_path,
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"),
            *("-copy_extensions", "copy", "-CAcreateserial", "-out", f"{name}.pem"),
        )
    for pair in (("server.pem", "client.key"), ("server.csr", "server.key")):
        files = ("--grpc-server-cert", str(tmp_path / pair[0]), "--grpc-server-key", str(tmp_path / pair[1]))
        assert pair[0] in _refused(["--no-p4", "--", "--grpc-server-ssl", *files], capsys)
    port, ready, log = free_port(), tmp_path / "ready", tmp_path / "log"
    command = embedded_command(
        *("--no-p4", "--device-id", "1", "--ready-file", str(ready), "--"),
        *("--grpc-server-addr", f"localhost:{port}", "--grpc-server-ssl"),
        *("--grpc-server-cacert", "ca.pem", "--grpc-server-cert", "server.pem"),
        *("--grpc-server-key", "server.key", "--grpc-server-with-client-auth"),
    )

    def ask(credentials: grpc.ChannelCredentials | None) -> p4r.CapabilitiesResponse:
        address = f"localhost:{port}"
        channel = (
            grpc.insecure_channel(address)
            if credentials is None
            else grpc.secure_channel(address, credentials)
        )
        with channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            response: p4r.CapabilitiesResponse = stub.Capabilities(p4r.CapabilitiesRequest(), timeout=30)
            return response

    authority = (tmp_path / "ca.pem").read_bytes()
    key, certificate = (tmp_path / "client.key").read_bytes(), (tmp_path / "client.pem").read_bytes()
    with process(command, log) as running:
        _wait_for(ready, running, log)
        assert ask(grpc.ssl_channel_credentials(authority, key, certificate)).p4runtime_api_version
        for stranger in (None, grpc.ssl_channel_credentials(authority)):
            with pytest.raises(grpc.RpcError):
                ask(stranger)


# --- real interfaces


@needs_compiler
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespace and veth")
def test_packets_between_interfaces(tmp_path: Path) -> None:
    """In a network namespace of its own: two veth pairs, one device between them, captures on."""
    script = Path(__file__).with_name("forward_in_namespace.py")
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
