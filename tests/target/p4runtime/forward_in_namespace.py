# SPDX-License-Identifier: Apache-2.0
"""Run by `test_command_line` inside a fresh network namespace: forwards frames between two veth pairs."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client
from tests.target.p4runtime.processes import embedded_command, process, wait_until_answering

ALL_FRAMES = 0x0003


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _socket(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
    sock.bind((interface, 0))
    sock.settimeout(20)
    return sock


def _frame(dst: int, payload: bytes) -> bytes:
    return dst.to_bytes(6, "big") + bytes.fromhex("020000000001") + b"\x12\x34" + payload


def _receive(sock: socket.socket, ether_type: bytes = b"\x12\x34") -> bytes:
    """The next frame of the test; the kernel sends its own besides."""
    while True:
        frame = sock.recv(4096)
        if frame[12:14] == ether_type:
            return frame


def main(directory: Path) -> None:
    for name, peer in (("a0", "a1"), ("b0", "b1")):
        _ip("link", "add", name, "type", "veth", "peer", "name", peer)
        for end in (name, peer):
            _ip("link", "set", end, "up")
    address, log = f"unix:{directory}/p4rt.sock", directory / "log"
    (directory / "pcaps").mkdir()
    command = embedded_command(
        *("--no-p4", "-i", "1@a0", "-i", "2@b0", "--device-id", "1", "--pcap", "pcaps"),
        *("--port-rate", "2=10M", "--port-queue", "2=64K", "--port-delay", "2=1000"),
        *("--", "--cpu-port", "255", "--grpc-server-addr", address),
    )
    with process(command, log) as running:
        wait_until_answering(address, running, log)
        client = Client(address)
        stream = client.primary()
        client.set_config(program.config())
        to_cpu = e.exact(0xCC)
        to_cpu.table_entry.action.action.Clear()
        to_cpu.table_entry.action.action.action_id = program.TO_CPU
        client.insert(e.exact(0xBB, port=2), e.exact(0xAA, port=1), to_cpu)
        left, right = _socket("a1"), _socket("b1")
        for number in range(50):
            left.send(_frame(0xBB, bytes([number]) * 100))
        got = [_receive(right) for _ in range(50)]
        assert got == [_frame(0xBB, bytes([n]) * 100) for n in range(50)], got
        right.send(_frame(0xAA, b"back" * 20))
        frames = [_receive(left)]
        # An AF_PACKET socket sees what it has sent itself on some kernels: skip those.
        while frames[-1][:6] != (0xAA).to_bytes(6, "big"):
            frames.append(_receive(left))
        left.send(_frame(0xCC, b"to the CPU" * 10))
        packet = stream.receive().packet
        assert packet.payload == _frame(0xCC, b"to the CPU" * 10), packet
        assert packet.metadata[0].value == b"\x01", packet
        (counter,) = client.read(e.counter(0))
        assert counter.counter_entry.data.packet_count == 51, counter
        client.close()
    for name in ("a0_in", "a0_out", "b0_in", "b0_out"):
        assert (directory / "pcaps" / f"{name}.pcap").stat().st_size > 24, name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
