# SPDX-License-Identifier: Apache-2.0
"""What each target is asked for: device settings, the fabric file, command lines, Thrift calls."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiles import load
from topologies import fat_tree
from topologies.targets import Bmv2, DeviceSettings, Embedded, Target, TargetError, settings
from topologies.targets.bmv2 import command_line, queue_settings
from topologies.targets.embedded import fabric_json
from topologies.targets.thrift import QueueClient, ThriftError


def devices() -> dict[str, DeviceSettings]:
    configuration = load("mininet").override({"fabric.core_rate_ppm": 500_000}).at_rate(8_000_000)
    return {device.name: device for device in settings(fat_tree(4), configuration)}


def test_settings_follow_the_topology_and_the_configuration() -> None:
    configuration = load("mininet").override({"fabric.core_rate_ppm": 500_000}).at_rate(8_000_000)
    found = devices()
    assert len(found) == 36
    assert len({device.grpc_address for device in found.values()}) == 36
    nic, edge = found["nic1"], found["edge1"]
    assert (nic.device_id, nic.grpc_address, nic.cpu_port, nic.priority_queues) == (
        1,
        "127.0.0.1:9559",
        255,
        3,
    )
    host, wire = nic.ports
    assert (host.port, host.interface, host.rate_bps, host.delay_ns) == (1, "nic1-eth1", 0, 0)
    # A quarter faster than its link, so that it works off what a stall left.
    assert (wire.port, wire.interface, wire.rate_bps) == (2, "nic1-eth2", 10_000_000)
    assert wire.delay_ns == configuration.links.access_delay_ns > 0
    assert [port.rate_bps for port in edge.ports] == [8_000_000, 8_000_000, 4_000_000, 4_000_000]
    assert edge.ports[3].delay_ns == configuration.links.fabric_delay_ns
    assert edge.ports[3].queue_bytes[0] >= 2 * configuration.queue.data_limit_bytes


def test_without_a_configuration_nothing_is_limited() -> None:
    ports = [port for device in settings(fat_tree(2), None) for port in device.ports]
    assert {(port.rate_bps, port.delay_ns) for port in ports} == {(0, 0)}


def test_the_fabric_file_is_what_the_target_reads(tmp_path: Path) -> None:
    from target.launch.fabric import load_fabric

    path = tmp_path / "fabric.json"
    wanted = list(devices().values())
    path.write_text(fabric_json(wanted))
    read = load_fabric(path)
    assert [device.name for device in read] == [device.name for device in wanted]
    for got, want in zip(read, wanted, strict=True):
        assert (got.device_id, got.grpc_addr, got.cpu_port) == (
            want.device_id,
            want.grpc_address,
            want.cpu_port,
        )
        assert got.priority_queues == want.priority_queues
        for port, asked in zip(got.ports, want.ports, strict=True):
            for name in ("port", "interface", "rate_bps", "queue_bytes", "delay_ns"):
                assert getattr(port, name) == getattr(asked, name)
    assert len(json.loads(path.read_text())) == 36


def test_bmv2_command_line() -> None:
    words = command_line(devices()["nic1"], Path("/logs"), 9090)
    assert words[:2] == ["simple_switch_grpc", "--no-p4"]
    before, after = words[: words.index("--")], words[words.index("--") + 1 :]
    assert before[before.index("-i") :] == ["-i", "1@nic1-eth1", "-i", "2@nic1-eth2"]
    assert "--thrift-port" in before
    assert after == [
        *("--grpc-server-addr", "127.0.0.1:9559"),
        *("--cpu-port", "255"),
        *("--priority-queues", "3"),
    ]


def test_bmv2_queues() -> None:
    """Only data is limited, at the rate of full frames; every depth is far above the program's own limit."""
    edge = devices()["edge1"]
    frame = edge.ports[0].frame_bytes
    rows = queue_settings(edge)
    assert [row for row in rows if row[0] == "rate"] == [
        ("rate", 1, 0, 8_000_000 // (8 * frame)),
        ("rate", 2, 0, 8_000_000 // (8 * frame)),
        ("rate", 3, 0, 4_000_000 // (8 * frame)),
        ("rate", 4, 0, 4_000_000 // (8 * frame)),
    ]
    depths = {(port, priority): value for what, port, priority, value in rows if what == "depth"}
    assert set(depths) == {(port, priority) for port in range(1, 5) for priority in range(3)}
    limit = load("mininet").at_rate(8_000_000).queue.data_limit_bytes
    assert min(depths.values()) * 60 > limit


def test_bmv2_has_no_delay(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"^BMv2 has no link delay; set the profile's fabric delays to 0$"):
        Bmv2().start(list(devices().values()), tmp_path)


@pytest.mark.parametrize(("target", "name"), [(Embedded(), "the embedded target"), (Bmv2(), "BMv2")])
def test_strict_priorities_only(target: Target, name: str, tmp_path: Path) -> None:
    profile = load("bmv2").override({"queue.trimmed_share_percent": 25})
    asked = settings(fat_tree(2), profile.at_rate(10**7))
    with pytest.raises(TargetError) as caught:
        target.start(asked, tmp_path)
    said = f"{name} has strict priorities only; set the profile's queue.trimmed_share_percent to 0"
    assert str(caught.value) == said


class FakeThrift:
    """Reads calls as Thrift's binary protocol writes them, answers with one code."""

    def __init__(self, code: int = 0, unknown: bool = False, silent: bool = False) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self._code, self._unknown, self._silent = code, unknown, silent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(ConnectionError):  # a client that gives up reads no further
            self._serve()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb") as stream:
            while header := stream.read(8):
                version, length = struct.unpack(">II", header)
                assert version == 0x80010001
                name = stream.read(length).decode()
                stream.read(4)
                values = []
                while (kind := stream.read(1)[0]) != 0:
                    (field,) = struct.unpack(">h", stream.read(2))
                    size, form = {8: (4, ">i"), 10: (8, ">q")}[kind]
                    values.append(struct.unpack(form, stream.read(size))[0])
                    assert field == len(values)
                self.calls.append((name, values))
                if self._silent:
                    return
                method = name.partition(":")[2].encode()
                kind = 3 if self._unknown else 2
                answer = struct.pack(">II", 0x80010000 | kind, len(method)) + method + struct.pack(">i", 0)
                stream.write(answer + struct.pack(">bhi", 8, 0, self._code) + b"\0")
                stream.flush()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def thrift(request: pytest.FixtureRequest) -> Iterator[FakeThrift]:
    server = FakeThrift(**getattr(request, "param", {}))
    yield server
    server.close()


def test_thrift_calls(thrift: FakeThrift) -> None:
    with QueueClient("127.0.0.1", thrift.port) as client:
        client.set_depth(3, 1, 8192)
        client.set_rate(4, 0, 5_000_000_000)
    assert thrift.calls == [
        ("simple_switch:set_egress_priority_queue_depth", [3, 1, 8192]),
        ("simple_switch:set_egress_priority_queue_rate", [4, 0, 5_000_000_000]),
    ]


@pytest.mark.parametrize(
    ("thrift", "said"),
    [
        ({"code": 1}, "set_egress_priority_queue_depth(port 1, priority 0): refused, code 1"),
        ({"unknown": True}, "isn't known there; use BMv2 1.15.2 or later with Thrift"),
        ({"silent": True}, "the connection was closed; does this BMv2 have Thrift?"),
    ],
    indirect=["thrift"],
)
def test_thrift_errors(thrift: FakeThrift, said: str) -> None:
    with QueueClient("127.0.0.1", thrift.port) as client, pytest.raises(ThriftError) as caught:
        client.set_depth(1, 0, 1)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"127.0.0.1:{thrift.port}: ")


def test_no_thrift_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ThriftError, match="no Thrift server at 127"):
            QueueClient("127.0.0.1", unused.getsockname()[1])
