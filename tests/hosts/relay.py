# SPDX-License-Identifier: Apache-2.0
"""NICs on the loopback interface: each host has one, at an address of its own, to which its peers send."""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from hosts import wire
from tests.hosts.harness import Fate, Nic

_networks = itertools.count(os.getpid() * 16)


def loopback_network() -> Callable[[int], str]:
    """Addresses 127.a.b.x that no other test process uses at the same time."""
    number = next(_networks) % (250 * 250)
    return lambda host: f"127.{1 + number // 250}.{1 + number % 250}.{host}"


@dataclass(frozen=True)
class Seen:
    """A data packet as it came from its host."""

    packet: wire.Data
    tos: int


class Relay:
    """`nic_address(i)` stands for host i. `fate` is asked for every data packet, from the relay's thread;
    of its delays only their number matters."""

    def __init__(self, hosts: int, fate: Callable[[int, wire.Data], Fate]) -> None:
        self._address = loopback_network()
        self._fate = fate
        self.nics = [Nic() for _ in range(hosts)]
        self.seen: list[Seen] = []
        self.errors: list[Exception] = []
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        for host in range(hosts):
            endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            endpoint.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            endpoint.bind((self.nic_address(host), wire.UDP_PORT_ROCE))
            endpoint.setblocking(False)
            self._selector.register(endpoint, selectors.EVENT_READ, host)
            self._sockets.append(endpoint)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def host_address(self, host: int) -> str:
        return self._address(1 + host)

    def nic_address(self, host: int) -> str:
        return self._address(101 + host)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for endpoint in self._sockets:
            endpoint.close()
        self._selector.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for key, _ in self._selector.select(0.05):
                    self._drain(key.data, self._sockets[key.data])
        except Exception as error:
            self.errors.append(error)

    def _drain(self, host: int, endpoint: socket.socket) -> None:
        while True:
            try:
                data, control, _, sender = endpoint.recvmsg(65536, 64)
            except BlockingIOError:
                return
            packet = wire.decode_data(data)
            tos = next(body[0] for level, kind, body in control if level == socket.IPPROTO_IP)
            self.seen.append(Seen(packet, tos))
            fate = self._fate(host, packet)
            for _ in fate.delays_ns:
                delivery, feedback = self.nics[host].data(packet, fate)
                if delivery is not None:
                    encoded = delivery.encode()
                    if fate.trimmed:
                        encoded = encoded[: -packet.length_bytes]
                    endpoint.sendto(encoded, (self.host_address(host), wire.UDP_PORT_ROCE))
                for _ in fate.feedback_delays_ns:
                    endpoint.sendto(feedback.encode(), sender)
