# SPDX-License-Identifier: Apache-2.0
"""Messages between ranks on a simulated fabric: `hosts.messages.MessageLayer` without sockets.

An `Exchange` knows every message of the fabric; each collective of each rank talks to a `VirtualMessages` of
its own. A message is posted at both ends at the instant its sender sends it, and everything of it (queue
pairs, flows) is freed once its sender has the last acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from hosts.endpoint import Range, TrafficClass
from hosts.messages import (
    NO_STEP_SLOT,
    STEP_SLOTS,
    Arrival,
    Collective,
    CollectiveError,
    FloatArray,
    MessageKey,
)
from profiles import WindowKind
from virtual.clock import Event
from virtual.errors import VirtualError
from virtual.fabric import VirtualFabric

DeliverAt: TypeAlias = Literal["sender_done", "receiver"]

SENT, RECEIVED, FAILED, DOUBLE = 1, 2, 3, 4
"""As in virtual/core/attach.h."""

_WHY = {
    -1: "an argument is out of its range",
    -2: "no memory",
    -3: "all queue pairs of the sender are in use",
    -4: "all queue pairs of the receiver are in use",
    -5: "the engine refuses the port",
    -6: "no such host",
}


class Completion(NamedTuple):
    """One message, whole. Times in ns; received_ns 0: only for a failed one. Fields as in attach.h.

    sender, receiver: numbers of hosts in the topology's order, from 0. Bytes are payload bytes; naks,
    signals, rate_cuts and rtos are the sender's, of this flow.
    """

    time_ns: int
    posted_ns: int
    first_ns: int
    received_ns: int
    retransmitted_bytes: int
    type: int
    message: int
    sender: int
    receiver: int
    posted_bytes: int
    length_bytes: int
    forgiven_bytes: int
    naks: int
    signals: int
    rate_cuts: int
    rtos: int
    offset: int


@dataclass(frozen=True, slots=True)
class CountedArrival(Arrival):
    """An arrival whose missing ranges were not asked for: `missing` is empty, their sum is known."""

    forgiven_bytes: int = 0

    @property
    def missing_bytes(self) -> int:
        return self.length_bytes if self.shed else self.forgiven_bytes


class _Expected:
    """A receive."""

    __slots__ = ("buffer", "layer", "length")

    def __init__(self, layer: VirtualMessages, length: int, buffer: FloatArray | None) -> None:
        self.layer = layer
        self.length = length
        self.buffer = buffer


class _Flying:
    """A message from its send to its last acknowledgement. post: the arguments it was posted with, buffers
    among them. arrived: its receiver was told, or will be as soon as it expects it (early).
    """

    __slots__ = ("arrived", "early", "expected", "key", "layer", "post")

    def __init__(
        self, key: MessageKey, layer: VirtualMessages, expected: _Expected | None, post: tuple[Any, ...]
    ) -> None:
        self.key = key
        self.layer = layer
        self.expected = expected
        self.post = post
        self.arrived = False
        self.early: Arrival | None = None


@dataclass(slots=True)
class StartedOver:
    """What messages had done when a NIC's restart made them start over: hosts' sums count it once more. A
    message counts each time. Payload bytes.
    """

    messages: int = 0
    sent_bytes: int = 0
    """For the first time."""
    settled_bytes: int = 0
    """Received or forgiven by their hosts."""


class Exchange:
    """All messages of a fabric; another one may follow when none of them is in flight.

    ranks: number in a MessageKey -> host. deliver_at: when a receiver is told, "receiver" when its own last
    byte is settled, "sender_done" when the sender has the last acknowledgement (the convention of the paper's
    study). eager: a message without payload may be sent before it is expected. ranges: give arrivals their
    missing ranges; False: only their sum, which is cheaper (`CountedArrival`). Windows are the
    configuration's: one for all flows, or each pair's by its path.
    """

    def __init__(
        self,
        fabric: VirtualFabric,
        ranks: Mapping[int, str],
        *,
        deliver_at: DeliverAt = "receiver",
        eager: bool = False,
        ranges: bool = True,
    ) -> None:
        if deliver_at not in ("sender_done", "receiver"):
            raise VirtualError(f"deliver_at = {deliver_at!r}: give 'sender_done' or 'receiver'")
        if fabric.in_flight():
            raise VirtualError("messages of another exchange are in flight; let them end, or use that one")
        self.fabric = fabric
        self.names = dict(ranks)
        self.hosts = {rank: fabric.number(name) for rank, name in ranks.items()}
        self.on_posted: Callable[[MessageKey, int], None] | None = None
        """Told of every message that is sent: its key and the receiver's queue pair."""
        self.on_complete: Callable[[MessageKey, Completion], None] | None = None
        """Told of every message when its sender has the last acknowledgement, before the collectives are."""
        self.started_over = StartedOver()
        self._ffi, self._lib = fabric.native
        self._attach = fabric.attach
        self._clock = fabric.clock
        self._eager = eager
        self._ranges = ranges
        self._by_path = fabric.configuration.transport.window is WindowKind.PATH
        self._windows: dict[tuple[int, int], int] = {}
        self._expected: dict[MessageKey, _Expected] = {}
        self._early: dict[MessageKey, _Flying] = {}
        self._flying: dict[int, _Flying] = {}
        self._null = self._ffi.NULL
        self._at_sender = deliver_at == "sender_done"
        fabric.tell_received(not self._at_sender)
        fabric.clock.handler = self._handle
        fabric.on_restart.append(self._restarted)
        fabric.in_flight = lambda: bool(self._flying)

    def layer(self, rank: int) -> VirtualMessages:
        """A rank's end, for one collective. Serve it before the collective posts anything."""
        return VirtualMessages(self, rank)

    @property
    def in_flight(self) -> list[MessageKey]:
        """Messages whose sender does not have the last acknowledgement."""
        return [flying.key for flying in self._flying.values()]

    # --- posting

    def _expect(
        self, layer: VirtualMessages, key: MessageKey, length: int, buffer: FloatArray | None
    ) -> None:
        if key in self._expected:
            raise ValueError(f"message {key}: expected already")
        expected = _Expected(layer, length, buffer)
        early = self._early.pop(key, None)
        if early is None:
            self._expected[key] = expected
            return
        early.expected = expected
        if early.early is not None:
            arrival = early.early
            self._clock.after(0, lambda: self._arrive(expected, key, arrival))

    def _send(
        self,
        layer: VirtualMessages,
        key: MessageKey,
        length: int,
        data: FloatArray | None,
        traffic_class: TrafficClass,
    ) -> None:
        expected = self._expected.pop(key, None)
        receiver = self.hosts[key.destination]
        ffi = self._ffi
        pointer = buffer = self._null
        if data is not None:
            pointer = ffi.from_buffer("uint8_t[]", data)
        posted = length
        if expected is not None:
            posted = expected.length
            if expected.buffer is not None:
                buffer = ffi.from_buffer("uint8_t[]", expected.buffer, require_writable=True)
        elif not self._eager or data is not None:
            raise CollectiveError(f"message {key}: rank {key.destination} does not expect it yet")
        gradient = traffic_class is TrafficClass.GRADIENT
        post = (
            layer.host,
            receiver,
            length,
            posted,
            0 if gradient else 1,
            key.step % STEP_SLOTS if gradient else NO_STEP_SLOT,
            self._window(layer.host, receiver) if self._by_path else 0,
            pointer,
            buffer,
        )
        flying = _Flying(key, layer, expected, post)
        self._post(flying)
        if expected is None:
            self._early[key] = flying

    def _post(self, flying: _Flying) -> None:
        number = self._lib.attach_post(self._attach, *flying.post)
        if number < 0:
            raise VirtualError(f"message {flying.key}: {_WHY[number]}")
        self._flying[number] = flying
        if self.on_posted is not None:
            self.on_posted(flying.key, int(self._lib.attach_queue_pair(self._attach, number)))

    def _restarted(self, host: str) -> None:
        """Messages on their way to a host whose NIC has forgotten them start over."""
        receiver = self.fabric.number(host)
        for number, flying in list(self._flying.items()):
            if flying.post[1] == receiver:
                del self._flying[number]
                self._count(number)
                self._lib.attach_release(self._attach, number)
                if flying.arrived:  # only its sender doesn't know: nothing is taken twice
                    flying.post = (*flying.post[:-1], self._null)
                self._post(flying)

    def _count(self, number: int) -> None:
        progress = self._ffi.new("attach_progress_t *")
        self._lib.attach_get_progress(self._attach, number, progress)
        self.started_over.messages += 1
        self.started_over.sent_bytes += int(progress.sent_bytes)
        self.started_over.settled_bytes += int(progress.settled_bytes)

    def _window(self, sender: int, receiver: int) -> int:
        known = self._windows.get((sender, receiver))
        if known is None:
            access, core = self.fabric.path(sender, receiver)
            known = self.fabric.configuration.path_window_bytes(access, core)
            self._windows[sender, receiver] = known
        return known

    # --- what happened

    def _handle(self, event: Event) -> None:
        kind, number = event[5], event[6]
        flying = self._flying[number]
        if kind == SENT:
            received = event[3]
            if not received:
                raise VirtualError(f"message {flying.key}: acknowledged, but its receiver does not have it")
            arrival = self._arrival(flying, event) if self._at_sender else None
            del self._flying[number]
            self._lib.attach_release(self._attach, number)
            if self.on_complete is not None:
                self.on_complete(flying.key, Completion._make(event))
            layer = flying.layer
            layer._sent(flying.key)
            layer._then()
            if arrival is not None:
                self._deliver(flying, arrival)
        elif kind == RECEIVED:
            if not flying.arrived:
                self._deliver(flying, self._arrival(flying, event))
        elif kind == FAILED:
            raise CollectiveError(
                f"message {flying.key} to rank {flying.key.destination} failed after {event[15]} timeouts at "
                f"{event[0]} ns: no answer; is its path or its NIC down?"
            )
        else:
            raise CollectiveError(f"message {flying.key}: bytes from {event[16]} were delivered twice")

    def _arrival(self, flying: _Flying, event: Event) -> Arrival:
        length, sent, forgiven = event[9], event[10], event[11]
        if flying.expected is not None:
            length = flying.expected.length
        if sent < length:
            return Arrival(flying.key, length, (Range(0, length),), True)
        if not forgiven:
            return Arrival(flying.key, length, ())
        if not self._ranges:
            return CountedArrival(flying.key, length, (), False, forgiven)
        return Arrival(flying.key, length, self._missing(event[6]))

    def _missing(self, number: int) -> tuple[Range, ...]:
        capacity = 64
        while True:
            ranges = self._ffi.new("transport_range_t[]", capacity)
            count = self._lib.attach_forgiven(self._attach, number, ranges, capacity)
            if count <= capacity:
                return tuple(Range(int(r.start), int(r.length_bytes)) for r in ranges[0:count])
            capacity = count

    def _deliver(self, flying: _Flying, arrival: Arrival) -> None:
        flying.arrived = True
        if flying.expected is None:
            flying.early = arrival
        else:
            self._arrive(flying.expected, flying.key, arrival)

    def _arrive(self, expected: _Expected, key: MessageKey, arrival: Arrival) -> None:
        if arrival.length_bytes < expected.length:  # it came before its true length was known: a placeholder
            arrival = Arrival(key, expected.length, (Range(0, expected.length),), True)
        layer = expected.layer
        layer._received(arrival)
        layer._then()


def _nobody(_: object) -> None:
    raise VirtualError("a message completed and no collective is served; call serve first")


def _nothing() -> None: ...


class VirtualMessages:
    """A rank's end of an exchange, for one collective: a `MessageLayer`.

    layer = exchange.layer(rank)
    collective = RingAllReduce(layer, ...)
    layer.serve(collective, then=lambda: collective.finished and next_thing())
    """

    __slots__ = ("_exchange", "_received", "_sent", "_then", "host", "rank")

    def __init__(self, exchange: Exchange, rank: int) -> None:
        if rank not in exchange.hosts:
            raise VirtualError(f"rank {rank} has no host; the exchange knows {sorted(exchange.hosts)}")
        self.rank = rank
        self.host = exchange.hosts[rank]
        self._exchange = exchange
        self._sent: Callable[[MessageKey], None] = _nobody
        self._received: Callable[[Arrival], None] = _nobody
        self._then: Callable[[], object] = _nothing

    def serve(self, collective: Collective, then: Callable[[], object] | None = None) -> None:
        """From now on completions go to this collective; `then` is called after each of them."""
        self._sent, self._received = collective.on_sent, collective.on_received
        self._then = then or _nothing

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        self._exchange._expect(self, key, length_bytes, buffer)

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        self._exchange._send(self, key, length_bytes, data, traffic_class)
