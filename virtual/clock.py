# SPDX-License-Identifier: Apache-2.0
"""Simulated time: Python's timers and the engine's events in one order.

While a callback runs, time stands still. The order of callbacks depends on times and on the order in which
timers were set, so a run repeats exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from virtual.errors import VirtualError

NEVER = 2**64 - 2
STRIDE_NS = 10_000
"""How far beyond its next event the engine is sent when no timer bounds it: so much later than the last
event is the time when nothing is left to do."""


Event: TypeAlias = tuple[int, ...]
"""Starts with its time in ns; the rest is between the engine and the handler."""


class Engine(Protocol):
    """What the clock drives."""

    def run(self, until_ns: int) -> Sequence[Event]:
        """Move to `until_ns`, or to the first events that somebody waits for: these."""

    def next_event(self) -> int | None:
        """A time before which nothing happens by itself; None: nothing ever does."""


def _nobody(event: Event) -> None:
    raise VirtualError(f"an event at {event[0]} ns that nobody waits for")


class Timer:
    """A callback that will come, unless it is cancelled."""

    __slots__ = ("callback", "time_ns")

    def __init__(self, time_ns: int, callback: Callable[[], object] | None) -> None:
        self.time_ns = time_ns
        self.callback = callback

    def cancel(self) -> None:
        self.callback = None


class Clock:
    """now_ns: simulated nanoseconds since the start. handler: who is told of the engine's events."""

    def __init__(self, engine: Engine) -> None:
        self.now_ns = 0
        self.handler: Callable[[Event], None] = _nobody
        self._engine = engine
        self._timers: list[tuple[int, int, Timer]] = []
        self._serial = 0
        self._stopped = False

    def at(self, time_ns: int, callback: Callable[[], object]) -> Timer:
        """Call back at a time. Raises VirtualError for the past."""
        if time_ns < self.now_ns:
            raise VirtualError(f"a timer at {time_ns} ns: it is {self.now_ns} ns already; give a later time")
        timer = Timer(time_ns, callback)
        self._serial += 1
        heapq.heappush(self._timers, (time_ns, self._serial, timer))
        return timer

    def after(self, delay_ns: int, callback: Callable[[], object]) -> Timer:
        """Call back so much later; 0: as soon as the callback that asks has returned."""
        return self.at(self.now_ns + delay_ns, callback)

    def stop(self) -> None:
        """From a callback: let `run` return after it."""
        self._stopped = True

    def run(self, until_ns: int | None = None) -> bool:
        """Go on until `stop`, until `until_ns`, or until nothing is left to happen. True unless the last.

        With `until_ns`, time is moved there even if nothing happens. Errors of callbacks end the run and are
        raised here.
        """
        self._stopped = False
        limit = NEVER if until_ns is None else until_ns
        timers, engine = self._timers, self._engine
        while True:
            while timers and timers[0][0] <= self.now_ns:
                callback = heapq.heappop(timers)[2].callback
                if callback is not None:
                    callback()
                    if self._stopped:
                        return True
            if self.now_ns >= limit:
                return True
            bound = min(timers[0][0], limit) if timers else limit
            if bound == NEVER:
                following = engine.next_event()
                if following is None:
                    return False
                bound = max(following, self.now_ns) + STRIDE_NS
            events = engine.run(bound)
            if not events:
                self.now_ns = bound
                continue
            handler = self.handler
            for event in events:
                self.now_ns = event[0]
                handler(event)
            if self._stopped:
                return True
