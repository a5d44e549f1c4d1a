# SPDX-License-Identifier: Apache-2.0
"""What test_veth.py runs in a network namespace of its own: python veth_scenarios.py NAME WORKDIR."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from target.api import TableEntry
from target.engine import Device, Engine
from target.launch.engine import native_engine
from target.launch.fabric import parse_fabric
from tests.target.programs import Builder, assign, field, forward_to, param, std

QUIET_S = 0.3
WAIT_S = 10.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def veth(port: int, mtu: int = 9500) -> None:
    ip(
        "link",
        "add",
        f"s{port}",
        "mtu",
        str(mtu),
        "type",
        "veth",
        "peer",
        "name",
        f"h{port}",
        "mtu",
        str(mtu),
    )
    for end in (f"s{port}", f"h{port}"):
        ip("link", "set", end, "up")


def setup(*ports: int) -> None:
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for port in ports:
        veth(port)


class Host:
    """The far end of a port."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        self.socket.bind((f"h{port}", 0))

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def receive(self, count: int) -> list[bytes]:
        """`count` frames, and no more."""
        frames: list[bytes] = []
        self.socket.settimeout(WAIT_S)
        while len(frames) < count:
            frames.append(self.socket.recv(65536))
        self.socket.settimeout(QUIET_S)
        try:
            frames.append(self.socket.recv(65536))
        except TimeoutError:
            return frames
        raise AssertionError(f"{len(frames)} frames instead of {count}")


def program(priority: bool = False) -> str:
    """By destination address: to a port; the priority is the source address's last byte."""
    b = Builder()
    b.header("eth", [("dst", 48), ("src", 48), ("type", 16)])
    b.action("to", [("port", 9)], [assign(std("egress_spec"), param(0))])
    b.action("drop", [], [forward_to(511)])
    if priority:
        b.run("prio", [assign(std("priority"), field("eth", "src"))])
    b.table("t", [("exact", "eth", "dst")], ["to", "drop"], default="drop")
    return b.json()


def frame(dst: int, size: int = 60, tag: int = 0, src: int = 0) -> bytes:
    head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + b"\x12\x34" + struct.pack(">I", tag)
    return head.ljust(size, b"\x5a")


def switch(engine: Engine, ports: list[int], **config: int) -> Device:
    device = engine.add_device("s1", 1, **config)
    for port in ports:
        device.add_port(port, f"s{port}")
    device.load_pipeline(program())
    routes(device, ports)
    return device


def routes(device: Device, ports: list[int]) -> None:
    for port in ports:
        device.table_insert("t", TableEntry(((port,),), "to", (port,)))


def forwarding(work: Path) -> None:
    setup(1, 2, 3)
    with Engine() as engine:
        device = switch(engine, [1, 2, 3])
        hosts = {p: Host(p) for p in (1, 2, 3)}
        engine.start()
        wanted = [frame(2, 60 + i % 1400, i) for i in range(500)]
        for f in wanted:
            hosts[1].send(f)
        assert hosts[2].receive(500) == wanted
        hosts[3].send(frame(1))
        hosts[3].send(frame(99))
        assert hosts[1].receive(1) == [frame(1)]
        counters = device.port_counters(2)
        assert (counters.tx_packets, counters.tx_bytes) == (500, sum(map(len, wanted)))
        assert device.port_counters(3).rx_packets == 2
        assert device.stats()["ingress_drops"] == 1


def own_frames_are_not_received(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        engine.start()
        host, far = Host(1), Host(2)
        host.send(frame(2))
        far.receive(1)
        assert device.port_counters(2).rx_packets == 0


def a_tap_at_our_end_sees_both_directions(work: Path) -> None:
    """tcpdump on the switch's interface shows what the switch sends, too."""
    setup(1, 2)
    with Engine() as engine:
        switch(engine, [1, 2])
        engine.start()
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        tap.bind(("s2", 0))
        tap.settimeout(WAIT_S)
        host, far = Host(1), Host(2)
        host.send(frame(2, tag=1))
        assert tap.recv(2000) == frame(2, tag=1)
        far.send(frame(1, tag=2))
        assert tap.recv(2000) == frame(1, tag=2)


def vlan_tags(work: Path) -> None:
    setup(1)
    with Engine() as engine:
        device = switch(engine, [1])
        device.add_port(3)  # in memory: no kernel touches what leaves there
        routes(device, [3])
        engine.start()
        host = Host(1)
        # The kernel takes the outer tag off on receipt: the engine has to put it back.
        for tag in (b"\x81\x00\x00\x07", b"\x88\xa8\x60\x09", b"\x81\x00\x00\x07\x81\x00\x00\x08"):
            wanted = frame(3)[:12] + tag + frame(3)[12:]
            host.send(wanted)
            got: list[bytes] = []
            until = time.monotonic() + WAIT_S
            while not got and time.monotonic() < until:
                got = device.collect(3)
            assert got == [wanted]


def unfinished_checksums(work: Path) -> None:
    """A local UDP sender leaves the checksum to the network card, and a veth pair has none."""
    setup(1)
    ip("addr", "add", "10.0.0.1/24", "dev", "h1")
    ip("neigh", "add", "10.0.0.2", "lladdr", "00:00:00:00:00:03", "dev", "h1")
    with Engine() as engine:
        device = switch(engine, [1])
        device.add_port(3)
        routes(device, [3])
        engine.start()
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for payload in (b"even", b"odd", b""):
            sender.sendto(payload, ("10.0.0.2", 4791))
            got: list[bytes] = []
            until = time.monotonic() + WAIT_S
            while not got and time.monotonic() < until:
                got = device.collect(3)
            udp = got[0][34:]
            pseudo = got[0][26:34] + struct.pack(">HH", 17, len(udp))
            data = pseudo + udp + b"\0" * (len(udp) % 2)
            total = sum(struct.unpack(f">{len(data) // 2}H", data))
            assert total % 0xFFFF == 0 and udp[6:8] != b"\0\0", udp.hex()


def large_frames(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        host, far = Host(1), Host(2)
        engine.start()
        wanted = [frame(2, size) for size in (2047, 2048, 2049, 4000, 9514)]
        for f in wanted:
            host.send(f)
        assert far.receive(5) == wanted
        ip("link", "set", "s2", "mtu", "1500")
        host.send(frame(2, 4000))
        host.send(frame(2, 100))
        assert far.receive(1) == [frame(2, 100)]
        assert device.port_counters(2).tx_errors == 1


def pacing(work: Path) -> None:
    """No frame comes faster than the rate allows, none is lost, the high priority comes first."""
    setup(1, 2)
    with Engine() as engine:
        device = engine.add_device("s1", 1, priority_queues=2)
        device.add_port(1, "s1")
        device.add_port(2, "s2", rate_bps=200_000, queue_bytes=1 << 20)  # 125 bytes: 5 ms
        device.load_pipeline(program(priority=True))
        routes(device, [1, 2])
        host, far = Host(1), Host(2)
        engine.start()
        start = time.monotonic()
        for i in range(80):
            host.send(frame(2, 125, i))
        host.send(frame(2, 125, 1000, src=1))
        tags = [struct.unpack(">I", f[14:18])[0] for f in far.receive(81)]
        elapsed = time.monotonic() - start - QUIET_S
        assert elapsed > 0.39, elapsed
        assert [t for t in tags if t != 1000] == list(range(80))
        assert tags.index(1000) < 79
        assert device.port_counters(2).queue_drops == (0, 0)


def weighted_shares(work: Path) -> None:
    """A fabric file's shares: while both queues wait, one frame in four is of the smaller share."""
    setup(1, 2)
    port = {"port": 2, "interface": "s2", "rate_bps": 500_000, "share_ppm": [750_000, 250_000, 0]}
    (settings,) = parse_fabric(
        [{"name": "s1", "device_id": 1, "grpc_addr": "127.0.0.1:1", "priority_queues": 3,
          "ports": [{"port": 1, "interface": "s1"}, port]}]
    )  # fmt: skip
    engine = native_engine()()
    try:
        device = engine.add_device(settings)
        assert isinstance(device, Device)
        device.load_pipeline(program(priority=True))
        routes(device, [1, 2])
        host, far = Host(1), Host(2)
        for i in range(60):
            host.send(frame(2, 125, i % 2, src=i % 2))
        engine.start()
        tags = [struct.unpack(">I", f[14:18])[0] for f in far.receive(60)]
    finally:
        engine.stop()
    # All came before the loop started, but the kernel hands them over in batches.
    busy = tags[8:36]
    assert 5 <= sum(busy) <= 9, tags
    assert set(tags[-17:]) == {1}


def interface_returns(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        engine.start()
        Host(1).send(frame(2))
        ip("link", "del", "h2")  # takes s2 along
        host = Host(1)
        for _ in range(3):
            host.send(frame(2))
        until = time.monotonic() + WAIT_S
        while device.port_up(2) and time.monotonic() < until:
            time.sleep(0.05)
        assert not device.port_up(2)
        assert device.port_up(1)
        veth(2)
        while not device.port_up(2) and time.monotonic() < until:
            time.sleep(0.05)
        assert device.port_up(2)
        far = Host(2)
        host.send(frame(2, tag=5))
        assert far.receive(1) == [frame(2, tag=5)]
        far.send(frame(1))
        Host(1)
        ip("link", "set", "s1", "down")
        ip("link", "set", "s1", "up")
        host.send(frame(2, tag=6))
        assert far.receive(1) == [frame(2, tag=6)]


def swap_under_traffic(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        engine.start()
        host, far = Host(1), Host(2)
        stop = threading.Event()
        sent = 0

        def blast() -> None:
            nonlocal sent
            while not stop.is_set():
                host.send(frame(2, tag=sent))
                sent += 1

        thread = threading.Thread(target=blast)
        thread.start()
        try:
            for i in range(40):
                device.load_pipeline(program(priority=i % 2 == 0))
                routes(device, [1, 2])
                time.sleep(0.02)
        finally:
            stop.set()
            thread.join()
        time.sleep(QUIET_S)
        counters = device.port_counters(1)
        stats = device.stats()
        assert counters.rx_packets + counters.rx_drops <= sent
        assert device.port_counters(2).tx_packets + stats["ingress_drops"] == counters.rx_packets
        assert device.port_counters(2).tx_packets > 0
        far.socket.close()


def packet_in_and_out(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2], cpu_port=510)
        device.table_insert("t", TableEntry(((500,),), "to", (510,)))
        got: list[bytes] = []
        device.set_packet_in(got.append)
        engine.start()
        host, far = Host(1), Host(2)
        host.send(frame(500, tag=3))
        until = time.monotonic() + WAIT_S
        while not got and time.monotonic() < until:
            time.sleep(0.01)
        assert got == [frame(500, tag=3)]
        device.packet_out(frame(2, tag=4))
        assert far.receive(1) == [frame(2, tag=4)]


def read_pcap(path: Path) -> list[tuple[int, bytes]]:
    data = path.read_bytes()
    magic, _, _, _, _, _, link = struct.unpack("<IHHiIII", data[:24])
    assert (magic, link) == (0xA1B23C4D, 1)
    result, at = [], 24
    while at < len(data):
        seconds, ns, kept, length = struct.unpack("<IIII", data[at : at + 16])
        assert kept == length
        result.append((seconds * 10**9 + ns, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return result


def captures(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        for port in (1, 2):
            device.capture(port, str(work))
        engine.start()
        begin = time.time_ns()
        host, far = Host(1), Host(2)
        wanted = [frame(2, 100 + i, i) for i in range(50)]
        for f in wanted:
            host.send(f)
        far.receive(50)
        for port in (1, 2):
            device.flush_capture(port)
        end = time.time_ns()
        for name in ("s1_in.pcap", "s2_out.pcap"):
            records = read_pcap(work / name)
            assert [f for _, f in records] == wanted
            times = [t for t, _ in records]
            assert times == sorted(times)
            assert begin - 10**8 <= times[0] <= times[-1] <= end + 10**8
        assert read_pcap(work / "s1_out.pcap") == read_pcap(work / "s2_in.pcap") == []


def many_devices(work: Path) -> None:
    """A chain of 12 devices on two engines, linked by veth pairs."""
    count = 12
    setup(1, 2)
    for i in range(count - 1):
        ip("link", "add", f"l{i}a", "type", "veth", "peer", "name", f"l{i}b")
        for end in "ab":
            ip("link", "set", f"l{i}{end}", "up")
    with Engine() as one, Engine() as two:
        for i in range(count):
            device = (one, two)[i % 2].add_device(f"d{i}", i)
            device.add_port(1, f"l{i - 1}b" if i else "s1")
            device.add_port(2, f"l{i}a" if i < count - 1 else "s2")
            device.load_pipeline(program())
            routes(device, [1, 2])
        one.start()
        two.start()
        host, far = Host(1), Host(2)
        wanted = [frame(2, 200, i) for i in range(200)]
        for f in wanted:
            host.send(f)
        assert far.receive(200) == wanted
        far.send(frame(1))
        assert host.receive(1) == [frame(1)]


def ports_come_and_go(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        device = switch(engine, [1, 2])
        host = Host(1)
        engine.start()
        for i in range(100):
            for _ in range(10):
                host.send(frame(2, tag=i))
            device.remove_port(1 if i % 3 == 0 else 2)
            device.add_port(1 if i % 3 == 0 else 2, "s1" if i % 3 == 0 else "s2")
        far = Host(2)
        host.send(frame(2, tag=1234))
        time.sleep(QUIET_S)
        far.socket.setblocking(False)
        seen = []
        while True:
            try:
                seen.append(far.socket.recv(65536))
            except BlockingIOError:
                break
        assert frame(2, tag=1234) in seen


def restart(work: Path) -> None:
    setup(1, 2)
    with Engine() as engine:
        switch(engine, [1, 2])
        host, far = Host(1), Host(2)
        for i in range(3):
            engine.start()
            host.send(frame(2, tag=i))
            assert far.receive(1) == [frame(2, tag=i)]
            engine.stop()
        assert engine.now_ns > 0


if __name__ == "__main__":
    scenarios: dict[str, Callable[[Path], None]] = {
        f.__name__: f
        for f in (
            forwarding, vlan_tags, large_frames, pacing, interface_returns, swap_under_traffic,
            packet_in_and_out, weighted_shares, captures, many_devices, restart, own_frames_are_not_received,
            a_tap_at_our_end_sees_both_directions,
            unfinished_checksums, ports_come_and_go,
        )
    }  # fmt: skip
    scenarios[sys.argv[1]](Path(sys.argv[2]))
