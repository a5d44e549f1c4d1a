# SPDX-License-Identifier: Apache-2.0
"""A device of either target in a namespace of its own: veth pairs, a process, P4Runtime.

For programs that have entered a private network namespace (`topologies.isolate`); needs root.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.programs import Program
from tests.support.p4rt import P4RuntimeControl
from topologies import veth
from topologies.targets import DeviceSettings, PortSettings, find

ADDRESS = "127.0.0.1:9559"
QUEUE_BYTES = 16 << 20
"""Far above every limit of the tests: whatever a program admits must leave."""
FRAME_LIMIT = 65536


def settings(
    name: str, ports: Sequence[int], rates_bps: Mapping[int, int], frame_bytes: int
) -> DeviceSettings:
    """One device with a port on each `<name><port>`; the test's end of the pair is `<name><port>t`."""
    return DeviceSettings(
        name=name,
        device_id=1,
        grpc_address=ADDRESS,
        cpu_port=255,
        priority_queues=3,
        ports=tuple(
            PortSettings(
                port=port,
                interface=f"{name}{port}",
                rate_bps=rates_bps.get(port, 0),
                queue_bytes=(QUEUE_BYTES,) * 3,
                delay_ns=0,
                frame_bytes=frame_bytes,
                trimmed_share_percent=0,
            )
            for port in ports
        ),
    )


def make_interfaces(device: DeviceSettings) -> None:
    """Both ends of every port's pair, up. Raises VethError."""
    lines = []
    for port in device.ports:
        veth.create_pair(port.interface, f"{port.interface}t")
        lines += [f"link set {port.interface} up", f"link set {port.interface}t up"]
    veth.run_ip(lines)


class VethDut:
    """`dut.Dut` over veth pairs, on any target."""

    in_memory = False

    def __init__(self, target: str, program: Program, ports: Sequence[int], logs: Path) -> None:
        device = settings(program.name, ports, {}, 1024)
        make_interfaces(device)
        self._sockets = {port.port: _open(f"{port.interface}t") for port in device.ports}
        self._target = find(target)
        self._target.start((device,), logs)
        self.control = P4RuntimeControl(ADDRESS, device.device_id, program.p4info, program.json)

    def send(self, port: int, frame: bytes) -> None:
        self._sockets[port].send(frame)

    def poll(self, port: int | None, timeout_s: float) -> tuple[int, bytes] | None:
        deadline = time.monotonic() + timeout_s
        ports = {self._sockets[at]: at for at in (self._sockets if port is None else (port,))}
        while True:
            ready, _, _ = select.select(list(ports), [], [], max(0.0, deadline - time.monotonic()))
            for sock in ready:
                frame, address = sock.recvfrom(FRAME_LIMIT)
                if address[2] != socket.PACKET_OUTGOING:
                    return ports[sock], frame
            if not ready:
                return None

    def drain(self) -> dict[int, list[bytes]]:
        got: dict[int, list[bytes]] = {}
        while (left := self.poll(None, 0)) is not None:
            got.setdefault(left[0], []).append(left[1])
        return got

    def advance(self, microseconds: int) -> None:
        raise NotImplementedError("the clock of this device is its own")

    def close(self) -> None:
        self.control.close()
        self._target.stop()
        for sock in self._sockets.values():
            sock.close()


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind((interface, 0))
    return sock
