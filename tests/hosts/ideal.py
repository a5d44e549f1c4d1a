# SPDX-License-Identifier: Apache-2.0
"""A clock and a network without queues: every message takes its time, whatever else is on its way."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hosts.endpoint import Range, TrafficClass
from hosts.messages import Arrival, Collective, FloatArray, MessageKey


class IdealClock:
    """`hosts.workload.Clock`, run to the end by `run`."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._timers: list[tuple[int, int, Callable[[], object]]] = []
        self._serial = 0

    def after(self, delay_ns: int, callback: Callable[[], object]) -> None:
        assert delay_ns >= 0
        self._serial += 1
        heapq.heappush(self._timers, (self.now_ns + delay_ns, self._serial, callback))

    def run(self) -> None:
        while self._timers:
            self.now_ns, _, callback = heapq.heappop(self._timers)
            callback()


@dataclass
class Sending:
    """A message that was sent."""

    key: MessageKey
    length_bytes: int
    traffic_class: TrafficClass
    sent_ns: int
    done_ns: int


@dataclass
class IdealMessages:
    """`hosts.workload.Messages`. time_ns: of a message from its key and length; both ends are told then, the
    sender first."""

    clock: IdealClock
    time_ns: Callable[[MessageKey, int], int]
    keep: bool = True
    log: list[Sending] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    on_send: Callable[[MessageKey], None] = lambda key: None
    expected: dict[MessageKey, tuple[IdealLayer, int]] = field(default_factory=dict)
    waiting: dict[MessageKey, int] = field(default_factory=dict)

    def layer(self, rank: int) -> IdealLayer:
        return IdealLayer(self, rank)

    def send(self, layer: IdealLayer, key: MessageKey, length: int, traffic_class: TrafficClass) -> None:
        assert layer.rank == key.source
        self.on_send(key)
        time_ns = self.time_ns(key, length)
        self.messages += 1
        self.bytes += length
        if self.keep:
            now = self.clock.now_ns
            self.log.append(Sending(key, length, traffic_class, now, now + time_ns))

        def done() -> None:
            layer.collective.on_sent(key)
            if key in self.expected:
                self.arrive(key, length)
            else:
                self.waiting[key] = length

        self.clock.after(time_ns, done)

    def arrive(self, key: MessageKey, length: int) -> None:
        layer, posted = self.expected.pop(key)
        shed = length < posted
        missing = (Range(0, posted),) if shed else ()
        layer.collective.on_received(Arrival(key, posted, missing, shed))


class IdealLayer:
    """`hosts.workload.Layer`."""

    def __init__(self, messages: IdealMessages, rank: int) -> None:
        self.messages = messages
        self.rank = rank
        self.collective: Any = None

    def serve(self, collective: Collective) -> None:
        self.collective = collective

    def expect(
        self, key: MessageKey, *, length_bytes: int, buffer: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        assert key.destination == self.rank and buffer is None
        assert key not in self.messages.expected
        self.messages.expected[key] = (self, length_bytes)
        if key in self.messages.waiting:
            length = self.messages.waiting.pop(key)
            self.messages.clock.after(0, lambda: self.messages.arrive(key, length))

    def send(
        self, key: MessageKey, *, length_bytes: int, data: FloatArray | None, traffic_class: TrafficClass
    ) -> None:
        assert data is None
        self.messages.send(self, key, length_bytes, traffic_class)
