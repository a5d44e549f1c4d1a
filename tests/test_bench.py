# SPDX-License-Identifier: Apache-2.0
"""`make bench`: its inputs are what they claim to be, and it runs. No figure is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from controller.programs import REPOSITORY, compile_programs
from hosts import wire
from hosts.bench import SCENARIOS
from hosts.wire import ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES, Data
from profiles import Configuration, load
from scripts import bench, bench_virtual
from target.benchmark.state import install
from target.engine import Device, Engine
from topologies import NIC_HOST_PORT, NIC_WIRE_PORT, fat_tree

pytestmark = pytest.mark.slow

PACKETS = bench.QUICK.packets
TRIMMED_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + wire.BTH_BYTES + wire.RETH_BYTES


@pytest.fixture(scope="module")
def config() -> Configuration:
    return load("mininet").at_rate(10**10)


@pytest.fixture(scope="module")
def nic(config: Configuration) -> bench.Load:
    return bench.nic_load(compile_programs().nic, fat_tree(4), config, bench.QUICK.flows, PACKETS)


@pytest.fixture(scope="module")
def switch(config: Configuration) -> bench.Load:
    return bench.switch_load(compile_programs().switch, fat_tree(4), config, bench.QUICK.flows)


def packet(frame: bytes) -> Data:
    return wire.decode_data(frame[ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES :])


def device_of(engine: Engine, inputs: bench.Load, *ports: int) -> Device:
    device = engine.add_device("bench", 1, priority_queues=8)
    for port in ports:
        device.add_port(port)
    device.load_pipeline(inputs.program.json.read_text())
    install(device, inputs.state)
    return device


def test_the_mix_that_a_nic_gets(nic: bench.Load) -> None:
    packets = [packet(frame) for frame in nic.frames]
    assert all(packet.length_bytes == 1024 for packet in packets)
    assert len({p.bth.dest_qp for p in packets}) == len(bench.OWNERS) * bench.QUICK.flows
    trimmed = sum(p.payload is None for p in packets) / len(packets)
    assert 0.04 < trimmed < 0.06
    late, furthest = 0, defaultdict[int, int](int)
    for p in packets:
        if p.bth.psn < PACKETS:  # not sent again
            late += p.offset < furthest[p.bth.dest_qp]
            furthest[p.bth.dest_qp] = max(furthest[p.bth.dest_qp], p.offset)
    assert 0.08 < late / len(packets) < 0.12


def test_the_counters_are_read(nic: bench.Load, switch: bench.Load) -> None:
    received = bench.check(nic, ["data_received", "trimmed_received"], ["forgiven", "refused_class"])
    assert received["forgiven"] > 0 and received["refused_class"] > 0
    with pytest.raises(bench.BenchError, match=r"nic: of \d+ frames sent, the program counted"):
        bench.check(nic, ["data_received", "trimmed_received"], ["forgiven"])
    assert bench.check(switch, ["forwarded"])["forwarded"] == 2 * len(switch.frames)
    ports = bench.count(switch, switch.frames, 1)["forwarded"]
    assert set(ports) == {2, 3, 4}  # the neighbour and, sprayed, both ways up
    assert 0.8 < ports[3] / ports[4] < 1.25
    switch.frames.append(bytes(60))
    try:
        with pytest.raises(bench.BenchError, match="'malformed': 2"):
            bench.check(switch, ["forwarded"])
    finally:
        switch.frames.pop()


def test_every_message_completes(nic: bench.Load, config: Configuration) -> None:
    """And every packet is answered: to the wire always, to the host unless it is to be sent again."""
    with Engine() as engine:
        device = device_of(engine, nic, NIC_HOST_PORT, NIC_WIRE_PORT)
        answers: Counter[str] = Counter()
        for frame in nic.frames:
            device.inject(NIC_WIRE_PORT, frame)
            engine.run_until(engine.now_ns + 1000)
            (feedback,) = device.collect(NIC_WIRE_PORT)
            to_host = device.collect(NIC_HOST_PORT)
            body = feedback[ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES :]
            nak = wire.decode_feedback(body).nak
            assert len(to_host) == (0 if nak else 1)
            answers["NAK" if nak else "ACK"] += 1
        blocks = PACKETS * config.wire.payload_bytes // wire.BLOCK_BYTES
        next_missing = device.register_read_all("flow_next")[: bench.QUICK.flows]
    assert set(next_missing) == {blocks}
    again = sum(packet(frame).bth.psn >= PACKETS for frame in nic.frames)
    assert answers == {"ACK": len(nic.frames) - again, "NAK": again}


def test_what_leaves_the_switch(switch: bench.Load) -> None:
    with Engine() as engine:
        device = device_of(engine, switch, 1, 2, 3, 4)
        for frame in switch.frames[:100]:
            device.inject(1, frame)
        engine.run_until(1_000_000)
        out = [frame for port in (2, 3, 4) for frame in device.collect(port)]
    sent = Counter(frame[ETHERNET_BYTES + IPV4_BYTES :] for frame in switch.frames[:100])
    assert Counter(frame[ETHERNET_BYTES + IPV4_BYTES :] for frame in out) == sent
    for frame in out:
        ip = frame[ETHERNET_BYTES : ETHERNET_BYTES + IPV4_BYTES]
        assert ip[8] == 63
        assert wire.ipv4_checksum(ip) == 0


def test_it_runs(tmp_path: Path) -> None:
    out = tmp_path / "sub" / "bench.json"
    command = [sys.executable, "-m", "scripts.bench", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    figures = result["figures"]
    assert all(value > 0 for value in figures.values()), figures
    assert all(name in done.stdout for name in figures)
    expected = {"switch_pipeline_mpps", "nic_pipeline_mpps", "compile_nic_own_cpu_s"}
    expected |= {"virtual_ring_mhops_per_cpu_s", "virtual_incast_mhops_per_cpu_s"}
    expected |= {
        f"virtual_{side**2}_ranks_{what}"
        for side in bench.QUICK.virtual_sides
        for what in ("mhops_per_cpu_s", "setup_cpu_s", "resident_mib")
    }
    expected |= {"veth_switch_share_of_bare"} if os.geteuid() == 0 else set()
    assert expected <= figures.keys()
    assert sum(name.startswith("transport_") for name in figures) == len(SCENARIOS)
    for line in result["skipped"]:
        assert f"skipped {line}" in done.stdout


def test_skipping_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(bench, "P4C", "p4c-that-nobody-has")
    monkeypatch.setattr(bench_virtual, "HTSIM", "htsim-that-nobody-has")
    result = bench.measure(compile_programs(), bench.QUICK)
    assert result["skipped"] == [
        "veth: needs root",
        "p4c's time: no p4c-that-nobody-has on PATH",
        "htsim: no htsim-that-nobody-has on PATH",
    ]
    assert not any(word in name for name in result["figures"] for word in ("veth", "p4c", "htsim"))


def test_hops_are_counted() -> None:
    """A ring without congestion: every packet and its acknowledgement cross each link of the path once."""
    packets = 16
    run = bench_virtual.run_virtual(compile_programs(), bench_virtual.RING, packets * 4096)
    crossing = bench_virtual.LEAVES  # flows from the last host of a leaf to the first of the next
    links = (bench_virtual.HOSTS - crossing) * 2 + crossing * 4
    assert run.data_hops == packets * links
    assert run.hops == 2 * run.data_hops


def test_a_peer_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_virtual, "HTSIM", "false")
    with pytest.raises(bench_virtual.VirtualBenchError, match="false ring: 0 of 64 flows finished"):
        bench_virtual.run_htsim(bench_virtual.RING, 4096)


def test_bad_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert bench.main(["--quick", "--out", str(tmp_path / "file" / "bench.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
