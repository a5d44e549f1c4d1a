# SPDX-License-Identifier: Apache-2.0
"""Frames of which only the beginning is carried: the same decisions, zeros for the rest."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.programs import compile_programs
from profiles import load
from scripts import bench
from target.api import DeviceError
from target.benchmark.state import install
from target.bmjson import load as load_json
from target.engine import Device, Engine
from target.parse_reach import parse_reach
from tests.target.programs import (
    Builder,
    Json,
    assign,
    call,
    case,
    const,
    default_case,
    extract,
    field,
    forward_to,
    op,
    std,
)
from tests.target.virtual import Host, add_forwarder, deep, frame
from topologies import fat_tree

X_BYTES = 10
LABEL_BYTES, LABELS = 3, 10


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def device_of(engine: Engine, program: str, *ports: int, name: str = "d") -> Device:
    device = engine.add_device(name, len(engine.devices) + 1, priority_queues=8)
    for port in ports:
        device.add_port(port)
    device.load_pipeline(program)
    return device


# --- the project's own programs


@pytest.mark.parametrize("which", ["switch", "nic"])
def test_many_frames_of_the_projects_programs_without_payload(engine: Engine, which: str) -> None:
    """Each frame whole and as headers alone, to two devices with the same state: the same comes out."""
    config, topology = load("mininet").at_rate(10**10), fat_tree(4)
    programs = compile_programs()
    inputs = (
        bench.switch_load(programs.switch, topology, config, 64)
        if which == "switch"
        else bench.nic_load(programs.nic, topology, config, 16, 16)
    )
    json = inputs.program.json.read_text()
    reach = parse_reach(load_json(json))
    assert reach is not None and reach < 128
    ports = (1, 2, 3, 4) if which == "switch" else (1, 2)
    whole, bare = (device_of(engine, json, *ports, name=name) for name in ("whole", "bare"))
    for device in (whole, bare):
        install(device, inputs.state)
    out = 0
    for data in inputs.frames:
        whole.inject(inputs.port, data)
        bare.inject(inputs.port, data[:reach], len(data))
        engine.run_until(engine.now_ns + 1000)
        for port in ports:
            expected, got = whole.collect(port), bare.collect(port)
            assert got == expected, data.hex()
            out += len(expected)
    assert out >= len(inputs.frames)
    assert whole.stats() | {"held_bytes": 0} == bare.stats() | {"held_bytes": 0}
    for register in load_json(json).registers:
        assert whole.register_read_all(register) == bare.register_read_all(register), register


# --- reading beyond what is carried


def label(number: int, more: bool = True) -> bytes:
    return (more << 23 | number).to_bytes(3, "big")


def x(kind: int, rest: bytes = b"") -> bytes:
    return bytes([kind]) + bytes(X_BYTES - 1) + rest


BODIES = {
    "plain": x(0),
    "labels": x(1, label(5) + label(6) + label(7, False) + bytes(5) + b"\x09"),
    "labels to the end": x(1, b"".join(label(i) for i in range(20))),
    "look ahead": x(2, bytes(8) + bytes([0, 0, 0, 0, 1, 2])),
    "far": x(3, bytes(200) + bytes([0, 0, 0, 0, 3, 4])),
}


@pytest.mark.parametrize("length", [10, 11, 13, 30, 60, 215, 216, 217, 300, 1500, 9000])
@pytest.mark.parametrize("body", BODIES)
def test_what_is_not_carried_is_zero(engine: Engine, body: str, length: int) -> None:
    """However much is carried, it is as if the rest of the frame were there and zero."""
    device = device_of(engine, deep(), 1, 2)
    data = BODIES[body][:length]
    for carried in {0, 1, 9, 10, 11, 13, 18, 24, 40, 210, len(data)}:
        head = data[:carried]
        device.inject(1, head.ljust(length, b"\0"))
        (expected,) = device.collect(2)
        device.inject(1, head, length)
        (got,) = device.collect(2)
        assert got == expected, carried
        assert len(got) == length or body == "far"  # what is skipped is not sent on


def test_reach_of_parsers() -> None:
    def reach(build: Builder) -> int | None:
        return parse_reach(load_json(build.json()))

    assert parse_reach(load_json(deep())) == X_BYTES + 200 + 6
    b = Builder()
    b.header("x", [("a", 8)])
    b.header("y", [("b", 32)])
    b.state("start", [extract("x")], [field("x", "a")], case("0x01", "y"), default_case(None))
    b.state("y", [extract("y")], [{"type": "lookahead", "value": [8, 8]}], case("0x00", None))
    b.run("go", [forward_to(2)])
    assert reach(b) == 1 + 4 + 2
    again = [extract("x")]
    b = Builder()
    b.header("x", [("a", 8)])
    b.state("start", again, [field("x", "a")], case("0x01", "start"), default_case(None))
    b.run("go", [forward_to(2)])
    assert reach(b) is None
    b = Builder()
    b.header("x", [("a", 8)])
    skip: Json = {
        "op": "advance",
        "parameters": [{"type": "expression", "value": op("<<", field("x", "a"), const(3))}],
    }
    b.state("start", [extract("x"), skip])
    b.run("go", [forward_to(2)])
    assert reach(b) is None


@pytest.mark.parametrize("carried", [1, 2, 5, 30])
def test_a_parser_without_bound_sees_zeros_too(engine: Engine, carried: int) -> None:
    """[n] says how many bytes to skip; the byte behind them goes to the front."""
    b = Builder()
    b.header("x", [("n", 8)])
    b.header("y", [("v", 8)])
    amount = op("<<", field("x", "n"), const(3))
    skip = {"op": "advance", "parameters": [{"type": "expression", "value": amount}]}
    b.state("start", [extract("x"), skip, extract("y")])
    b.deparser = ["x"]
    b.run("go", [forward_to(2), assign(field("x", "n"), field("y", "v"))])
    device = device_of(engine, b.json(), 1, 2)
    data = bytes([20, *range(1, 60)])
    device.inject(1, data[:carried].ljust(5000, b"\0"))
    device.inject(1, data[:carried], 5000)
    first, second = device.collect(2)
    assert first == second
    assert first[0] == (21 if carried == 30 else 0)


def test_checksums_over_the_payload(engine: Engine) -> None:
    b = Builder()
    b.header("x", [("csum", 16), ("a", 24)])
    inputs = [{"type": "field", "value": ["x", "a"]}, {"type": "payload"}]
    b.extra["calculations"] = [{"name": "k", "id": 0, "algo": "csum16", "input": inputs}]
    b.extra["checksums"] = [
        {"name": "s", "id": 0, "target": ["x", "csum"], "type": "generic", "calculation": "k",
         "if_cond": None, "update": True, "verify": False}
    ]  # fmt: skip
    b.run("go", [forward_to(2)])
    device = device_of(engine, b.json(), 1, 2)
    data = bytes(range(1, 40))
    for carried in (2, 5, 6, 20, 39):
        for length in (39, 40, 1501):
            device.inject(1, data[:carried].ljust(length, b"\0"))
            device.inject(1, data[:carried], length)
            first, second = device.collect(2)
            assert first == second


# --- every way through a device


def detour(kind: str) -> str:
    """Frames go to port 2 by resubmission, recirculation, clone or multicast; `n` counts passes."""
    b = Builder()
    b.header("x", [("n", 8), ("a", 8)])
    b.header("y", [("b", 64)])
    b.header("meta", [("pass_", 8)], metadata=True)
    b.extra["field_lists"] = [
        {"id": 1, "name": "f", "elements": [{"type": "field", "value": ["meta", "pass_"]}]}
    ]
    count = assign(field("meta", "pass_"), op("+", field("meta", "pass_"), const(1)))
    first = op("==", field("meta", "pass_"), const(1))
    note = assign(field("x", "n"), op("+", field("x", "n"), field("meta", "pass_")))
    unless = call("_jump_if_zero", first, const(5))
    ingress, egress = [forward_to(2), count, note], []
    if kind == "resubmit":
        ingress += [unless, call("resubmit", const(1))]
    if kind == "clone":
        ingress += [unless, call("clone_ingress_pkt_to_egress", const(1), const(1))]
    if kind == "multicast":
        ingress += [assign(std("mcast_grp"), const(3))]
    if kind == "recirculate":
        egress += [call("_jump_if_zero", first, const(2)), call("recirculate", const(1))]
    if kind == "egress clone":
        normal = op("==", std("instance_type"), const(0))
        egress += [
            call("_jump_if_zero", normal, const(2)),
            call("clone_egress_pkt_to_egress", const(1), const(1)),
        ]
    if kind == "truncate":
        egress += [call("truncate", const(40))]
    if kind == "shorter":
        ingress += [call("remove_header", {"type": "header", "value": "y"})]
    if kind == "longer":
        b.header("z", [("c", 128)])
        b.deparser = ["x", "z", "y"]
        b.state("start", [extract("x"), extract("y")])
        ingress += [call("add_header", {"type": "header", "value": "z"}), assign(field("z", "c"), const(77))]
    b.run("in", ingress)
    if egress:
        b.run("out", egress, "egress")
    return b.json()


KINDS = ["resubmit", "clone", "multicast", "recirculate", "egress clone", "truncate", "shorter", "longer"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_through_a_device(engine: Engine, kind: str) -> None:
    device = device_of(engine, detour(kind), 1, 2, 3)
    device.mcast_group_set(3, [(2, 1), (3, 2), (2, 3)])
    device.clone_session_set(1, [(3, 0), (2, 1)], 30)
    data = bytes([0, 7, *range(50, 90)])
    for carried in (0, 1, 2, 5, 9, 10, 11, 20, 42):
        for length in (42, 100, 2000, 8000):
            outs = []
            for frame_, wire in ((data[:carried].ljust(length, b"\0"), None), (data[:carried], length)):
                device.inject(1, frame_, wire)
                engine.run_until(engine.now_ns + 10)
                outs.append([device.collect(port) for port in (2, 3)])
            assert outs[0] == outs[1], (carried, length)
            assert sum(map(len, outs[0])) >= 1


def test_a_growing_frame_goes_on_without_payload(engine: Engine) -> None:
    """The device adds 16 bytes; the next one and the endpoint see them, and no payload."""
    first = device_of(engine, detour("longer"), 1, 2, name="first")
    second = add_forwarder(engine, "second", [(1, 2)])
    second.add_port(1)
    second.add_port(2)
    first.connect(2, second, 1)
    host = Host(engine)
    second.attach(2, host.endpoint)
    first.inject(1, bytes([0, 0, *range(8)]), 3000)
    engine.run_until(10)
    (got,) = host.received
    assert got.wire_bytes == 3016
    assert got.data == bytes([1, 0]) + (77).to_bytes(16, "big") + bytes(range(8))


# --- captures, packet-in


def records(path: Path) -> list[tuple[int, bytes, int]]:
    """(time in ns, bytes, original length)"""
    text = path.read_bytes()
    assert text[:4] == struct.pack("=I", 0xA1B23C4D)
    at, found = 24, []
    while at < len(text):
        seconds, ns, kept, length = struct.unpack_from("=4I", text, at)
        found.append((seconds * 10**9 + ns, text[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return found


def test_captures_hold_what_is_carried(engine: Engine, tmp_path: Path) -> None:
    a = add_forwarder(engine, "a", [(2, 2)])
    a.add_port(1)
    a.add_port(2, rate_bps=8 * 10**9, delay_ns=100)
    a.attach(2, Host(engine).endpoint)
    for port in (1, 2):
        a.capture(port, str(tmp_path))
    head = frame(size=20)
    a.inject(1, head, 4000)
    a.inject(1, frame(size=60))
    engine.run_until(10**6)
    for port in (1, 2):
        a.flush_capture(port)
    assert records(tmp_path / "a-1_in.pcap") == [(0, head, 4000), (0, frame(size=60), 60)]
    assert records(tmp_path / "a-2_out.pcap") == [(4100, head, 4000), (4160, frame(size=60), 60)]


def test_a_packet_in_is_whole(engine: Engine) -> None:
    import threading

    device = engine.add_device("d", 1, cpu_port=255)
    b = Builder()
    b.header("x", [("a", 8)])
    b.run("go", [forward_to(255)])
    device.load_pipeline(b.json())
    device.add_port(1)
    got: list[bytes] = []
    there = threading.Event()

    def take(data: bytes) -> None:
        got.append(data)
        there.set()

    device.set_packet_in(take)
    device.inject(1, b"abc", 100)
    assert there.wait(10)
    assert got == [b"abc".ljust(100, b"\0")]


def test_frames_that_can_not_be(engine: Engine) -> None:
    device = device_of(engine, deep(), 1, 2)
    for data, wire in (
        (b"abc", 2),
        (b"abc", 0),
        (b"", 0),
        (b"abc", 20_000),
        (bytes(20_000), None),
        (b"a", -1),
    ):
        with pytest.raises(DeviceError) as error:
            device.inject(1, data, wire)
        assert error.value.code == "INVALID_ARGUMENT"
    assert device.port_counters(1).rx_packets == 0


# --- determinism

RUN = """
import sys
from tests.target.test_virtual_frames import busy_fabric
busy_fabric(sys.argv[1])
"""


def busy_fabric(directory: str) -> None:
    """Hosts behind four devices in a ring with losses and shares; captures everywhere."""
    with Engine() as engine:
        devices, hosts = [], []
        for i in range(4):
            routes = [(i, 1), *((j, 2) for j in range(4) if j != i)]
            device = add_forwarder(engine, f"d{i}", routes, seed=i)
            device.add_port(1, rate_bps=20 * 10**9, delay_ns=300)
            for port in (2, 3):
                device.add_port(
                    port,
                    rate_bps=10**10 + i,
                    delay_ns=1000 + 7 * i,
                    share_ppm=[300_000, 100_000, 0],
                    frame_adjust=-10,
                    min_frame=30,
                    queue_bytes=9000,
                )
            devices.append(device)
        for i, device in enumerate(devices):
            device.connect(2, devices[(i + 1) % 4], 3)
            device.set_loss(2, 50_000, seed=i)
            for port in (1, 2, 3):
                device.capture(port, directory)
            host = Host(engine)
            hosts.append(host)
            device.attach(1, host.endpoint, gate=2 if i % 2 else None)
            for n in range(300):
                host.send(
                    frame((i + 1 + n % 3) % 4, n % 3, n % 256, 20), 20 + (n * 131 + i) % 1400, at=n * 97
                )
            device.kick(1)
        engine.run_until(40_000)
        devices[2].set_link(2, False)
        engine.run_until(60_000)
        devices[2].set_link(2, True)
        engine.run_until(10**8)
        for device in devices:
            for port in (1, 2, 3):
                device.flush_capture(port)
        counters = [device.port_counters(port) for device in devices for port in (1, 2, 3)]
        sent = sum(c.rx_packets for c in counters)
        gone = sum(c.tx_packets + c.lost_packets + sum(c.queue_drops) for c in counters)
        assert sent == gone + sum(d.stats()["ingress_drops"] for d in devices)
        Path(directory, "counters").write_text("\n".join(map(str, counters)))


def test_two_processes_give_the_same_captures(tmp_path: Path) -> None:
    outputs = []
    for name in ("one", "two"):
        directory = tmp_path / name
        directory.mkdir()
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(directory)],
            cwd=root, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs.append({path.name: path.read_bytes() for path in sorted(directory.iterdir())})
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 25
    assert sum(map(len, outputs[0].values())) > 100_000
