# SPDX-License-Identifier: Apache-2.0
"""Messages between ranks: what a collective is written against, and the same over a `Transport`.

A collective posts receives and sends and is told of each completion; it never sees a packet, a clock or a
socket. So the same code runs over the network and in simulated time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hosts.endpoint import DoubleSettlement, Failed, Range, Received, Sent, TrafficClass
from hosts.transport import Transport

FloatArray: TypeAlias = NDArray[np.float32]

STEP_SLOTS = 7
"""Slots of the NIC's step table that steps take in turn: `step % STEP_SLOTS`."""
NO_STEP_SLOT = 7
"""The slot without an entry, for flows outside any step."""


class Phase(Enum):
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"


@dataclass(frozen=True, slots=True, order=True)
class MessageKey:
    """Names a message for both of its ends. `sequence`: which of the messages from source to destination in
    this step; phases and chunks of a step have different ones."""

    step: int
    source: int
    destination: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.step}.{self.source}.{self.destination}.{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> MessageKey:
        """From `str(key)`. Raises ValueError."""
        try:
            step, source, destination, sequence = map(int, text.split("."))
        except ValueError:
            raise ValueError(f"message key {text!r}: must be step.source.destination.sequence") from None
        return cls(step, source, destination, sequence)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that is complete at its receiver."""

    key: MessageKey
    length_bytes: int
    """As posted."""
    missing: tuple[Range, ...]
    """Forgiven, or given up by the sender: never arrived. Merged, ascending."""
    shed: bool = False
    """The sender gave up the whole message and sent a placeholder."""

    @property
    def missing_bytes(self) -> int:
        return sum(piece.length_bytes for piece in self.missing)


class MessageLayer(Protocol):
    """Whoever implements this calls the collective's `on_sent` and `on_received` once per message, never from
    inside these methods."""

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        """Be ready for a message of `length_bytes`. `buffer`, of that size, gets the payload; None: no
        payload."""

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        """Send a message. `data`, of that size, must stay unchanged until `on_sent`; None: no payload."""


class Collective(Protocol):
    """An operation that its layer drives."""

    @property
    def finished(self) -> bool: ...
    def on_sent(self, key: MessageKey) -> None: ...
    def on_received(self, arrival: Arrival) -> None: ...
    def waiting_for(self) -> str:
        """What is still missing, in words."""


class CollectiveError(Exception):
    """A collective cannot complete: names the message, the peer and the cause."""


class TransportMessages:
    """Messages over a `Transport`.

    Queue pairs are chosen by the receiver: after the `expect`s of a step, hand `offers(peer)` to each peer,
    and give what peers hand over to `learn`, before anything is sent. Call `retire(step)` once every peer
    is known to be done with the step (when all have offered for the one after next, say): until then late
    retransmissions must be answered."""

    def __init__(self, transport: Transport, rank: int, addresses: Mapping[int, str]) -> None:
        self._transport = transport
        self._rank = rank
        self._addresses = dict(addresses)
        self._offers: dict[MessageKey, int] = {}
        self._learned: dict[MessageKey, int] = {}
        self._expected: dict[int, tuple[MessageKey, int]] = {}
        self._sending: dict[int, MessageKey] = {}
        self._received: dict[MessageKey, Received] = {}
        self.sent: list[tuple[MessageKey, Sent]] = []
        self.received: list[tuple[MessageKey, Received]] = []
        """Completions with their statistics, in order; the caller may clear both."""

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        if key in self._offers:
            raise ValueError(f"message {key}: expected already")
        gradient = traffic_class is TrafficClass.GRADIENT
        qp = self._transport.alloc_receive_qp(key.step % STEP_SLOTS if gradient else NO_STEP_SLOT)
        message = self._transport.post_receive(
            qp=qp, buffer=buffer, length_bytes=length_bytes if buffer is None else None
        )
        self._offers[key] = qp
        self._expected[message] = (key, qp)

    def offers(self, peer: int) -> dict[MessageKey, int]:
        """Queue pairs for what `peer` will send here, of all steps not retired."""
        return {key: qp for key, qp in self._offers.items() if key.source == peer}

    def learn(self, offers: Mapping[MessageKey, int]) -> None:
        """Queue pairs that peers chose for what is sent to them."""
        self._learned.update(offers)

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        try:
            qp = self._learned.pop(key)
            address = self._addresses[key.destination]
        except KeyError:
            raise CollectiveError(
                f"message {key}: rank {key.destination} has not offered a queue pair"
            ) from None
        message = self._transport.post_send(
            destination=address,
            dst_qp=qp,
            data=data,
            length_bytes=length_bytes if data is None else None,
            traffic_class=traffic_class,
        )
        self._sending[message] = key

    def poll(self, timeout_s: float) -> list[Arrival | MessageKey]:
        """Completions, waiting at most so long: an Arrival for a receive, the key for a send. Raises
        CollectiveError for a message that failed or a block that was delivered twice."""
        done: list[Arrival | MessageKey] = []
        for event in self._transport.wait(timeout_s):
            if isinstance(event, Sent):
                key = self._sending.pop(event.message)
                self.sent.append((key, event))
                done.append(key)
            elif isinstance(event, Received):
                key, _ = self._expected[event.message]
                self.received.append((key, event))
                shed = event.length_bytes < event.posted_bytes
                missing = (Range(0, event.posted_bytes),) if shed else event.forgiven
                done.append(Arrival(key, event.posted_bytes, missing, shed))
            elif isinstance(event, Failed):
                key = self._sending.pop(event.message)
                raise CollectiveError(
                    f"message {key} to rank {key.destination} failed after {event.stats.rtos} timeouts: "
                    f"{event.stats.settled_bytes} of {event.length_bytes} bytes settled"
                )
            elif isinstance(event, DoubleSettlement):
                key, _ = self._expected[event.message]
                raise CollectiveError(f"message {key}: bytes from {event.offset} were delivered twice")
        return done

    def run(
        self,
        collectives: Iterable[Collective],
        timeout_s: float,
        *,
        owner: Callable[[MessageKey], int] | None = None,
    ) -> None:
        """Drive started collectives until all have finished. `owner` gives the index of a message's
        collective when there are several. Raises CollectiveError, on a timeout with what is missing."""
        running = list(collectives)
        deadline = time.monotonic() + timeout_s
        while not all(collective.finished for collective in running):
            left = deadline - time.monotonic()
            if left <= 0:
                missing = "; ".join(c.waiting_for() for c in running if not c.finished)
                raise CollectiveError(
                    f"rank {self._rank}: not done in {timeout_s:g} s, waiting for {missing}"
                )
            for item in self.poll(left):
                key = item.key if isinstance(item, Arrival) else item
                collective = running[owner(key) if owner else 0]
                if isinstance(item, Arrival):
                    collective.on_received(item)
                else:
                    collective.on_sent(item)

    def retire(self, step: int) -> None:
        """Free the queue pairs and buffers of a step's receives."""
        for message, (key, qp) in list(self._expected.items()):
            if key.step == step:
                self._transport.retire(message, qp)
                del self._expected[message]
                del self._offers[key]
