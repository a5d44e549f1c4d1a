# SPDX-License-Identifier: Apache-2.0
"""Endpoints joined by a network in memory, in simulated time.

Between them stands a NIC that keeps the contract of docs/dataplane.md (scoreboard, feedback, delivery header)
and decides nothing by itself: what becomes of each packet is the test's `fate`."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from hosts import wire
from hosts.config import TransportConfig
from hosts.endpoint import Endpoint, Event, OutgoingPacket, Status


@dataclass(frozen=True)
class Fate:
    """Of one data packet. `delays_ns`: one delivery each, none = lost without a trim."""

    delays_ns: tuple[int, ...] = (1_000,)
    trimmed: bool = False
    forgive: bool = False
    """If trimmed: the receiver's NIC forgives what is missing, else it asks for it again."""
    marked: bool = False
    feedback_delays_ns: tuple[int, ...] = (1_000,)


@dataclass
class Scoreboard:
    """One flow at the receiving NIC. Bit sets over blocks."""

    received: int = 0
    forgiven: int = 0
    length_bytes: int | None = None
    requested_bytes: int = 0

    @property
    def settled(self) -> int:
        return self.received | self.forgiven

    @property
    def rcv_nxt(self) -> int:
        settled = self.settled
        return ((settled + 1) & ~settled).bit_length() * wire.BLOCK_BYTES - wire.BLOCK_BYTES


class Nic:
    """The receiving side: a packet in; what the host gets, and the feedback."""

    def __init__(self) -> None:
        self.flows: defaultdict[int, Scoreboard] = defaultdict(Scoreboard)

    def data(self, packet: wire.Data, fate: Fate) -> tuple[wire.Delivery | None, wire.Feedback]:
        flow = self.flows[packet.bth.dest_qp]
        first = packet.offset // wire.BLOCK_BYTES
        mask = (1 << wire.block_count(packet.length_bytes)) - 1
        missing = mask & ~(flow.settled >> first)
        delivery = None
        nak = False
        becn = fate.marked
        if fate.trimmed:
            if missing and fate.forgive:
                flow.forgiven |= missing << first
                delivery = wire.Delivery(packet, wire.DELIVERY_FORGIVEN, missing)
                becn = True
            elif missing:
                nak = becn = True
                flow.requested_bytes += packet.length_bytes
        else:
            flow.received |= missing << first
            if missing:
                delivery = wire.Delivery(packet, wire.DELIVERY_DATA, missing)
        bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, packet.source_qp, packet.bth.psn, becn=becn)
        return delivery, wire.Feedback(bth, nak, flow.rcv_nxt, packet.offset, packet.length_bytes)


@dataclass
class Host:
    address: int
    endpoint: Endpoint
    nic: Nic = field(default_factory=Nic)
    wake_ns: int | None = None
    events: list[Event] = field(default_factory=list)


FateOf = Callable[[OutgoingPacket], Fate]


class Simulation:
    """Hosts by number; `fate` is asked once for every data packet that leaves a host."""

    def __init__(self, hosts: int, config: Callable[[int], TransportConfig], fate: FateOf) -> None:
        self.now_ns = 0
        self.fate = fate
        self.sent: list[tuple[int, OutgoingPacket]] = []
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.hosts = []
        for number in range(hosts):
            endpoint = Endpoint(config(number))
            self.hosts.append(Host(address_of(number), endpoint))
        self._by_address = {host.address: host for host in self.hosts}
        self.on_event: Callable[[Host, Event], None] = lambda host, event: None

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time_ns, next(self._order), action))

    def kick(self, host: Host) -> None:
        """Let a host send what it may, tell its events, and set its next wake-up."""
        while (packet := host.endpoint.poll(self.now_ns)) is not None:
            self.sent.append((self.now_ns, packet))
            self._transmit(packet)
        for event in list(host.endpoint.events()):
            host.events.append(event)
            self.on_event(host, event)
        wake = host.endpoint.next_wake()
        if wake is not None:
            wake = max(wake, self.now_ns)
            if host.wake_ns is None or wake < host.wake_ns:
                host.wake_ns = wake
                self.at(wake, lambda: self._wake(host, wake))

    def _wake(self, host: Host, wake: int) -> None:
        if host.wake_ns == wake:
            host.wake_ns = None
            self.kick(host)

    def _transmit(self, packet: OutgoingPacket) -> None:
        receiver = self._by_address[packet.destination]
        sender = self._by_address[int.from_bytes(packet.frame_header[26:30], "big")]
        fate = self.fate(packet)
        data = wire.decode_data(packet.udp_payload)
        for delay in fate.delays_ns:
            self.at(self.now_ns + delay, lambda: self._arrive(sender, receiver, data, fate))

    def _arrive(self, sender: Host, receiver: Host, data: wire.Data, fate: Fate) -> None:
        carried = data.payload is not None or fate.trimmed
        delivery, feedback = receiver.nic.data(data, fate)
        if delivery is not None:
            encoded = delivery.encode()
            if fate.trimmed and data.payload is not None:
                encoded = encoded[: -len(data.payload)]
            true_bytes = len(encoded) + (0 if carried else data.length_bytes)
            status = receiver.endpoint.receive(self.now_ns, encoded, true_bytes)
            assert status is Status.ACCEPTED, status
            self.kick(receiver)
        encoded_feedback = feedback.encode()
        for delay in fate.feedback_delays_ns:
            self.at(self.now_ns + delay, lambda: self._feedback(sender, encoded_feedback))

    def _feedback(self, sender: Host, encoded: bytes) -> None:
        sender.endpoint.receive(self.now_ns, encoded)
        self.kick(sender)

    def run(self, *, until_ns: int | None = None, steps: int = 10_000_000) -> None:
        """Until nothing is left to do, or the time."""
        for _ in range(steps):
            if not self._queue or (until_ns is not None and self._queue[0][0] > until_ns):
                return
            self.now_ns, _, action = heapq.heappop(self._queue)
            action()
        raise AssertionError("the simulation does not end")


def address_of(number: int) -> int:
    return 0x0A000001 + number


def config_for(number: int, **changes: object) -> TransportConfig:
    """A host at 100 Gb/s without congestion control."""
    values: dict[str, object] = {"line_rate_bps": 100_000_000_000, "dcqcn": None, "rto_ns": 50_000}
    address = ".".join(str(b) for b in address_of(number).to_bytes(4, "big"))
    return TransportConfig(address=address, **(values | changes))  # type: ignore[arg-type]
