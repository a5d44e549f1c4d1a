# SPDX-License-Identifier: Apache-2.0
"""The clock by itself, over an engine with a list of events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from virtual.clock import Clock, Event
from virtual.errors import VirtualError


class Events:
    """An engine that stops at each of its events."""

    def __init__(self, *times: int) -> None:
        self.times = list(times)

    def run(self, until_ns: int) -> Sequence[Event]:
        return [(self.times.pop(0),)] if self.times and self.times[0] <= until_ns else ()

    def next_event(self) -> int | None:
        return self.times[0] if self.times else None


def test_events_and_timers_come_in_order_of_time() -> None:
    clock, seen = Clock(Events(5, 10, 25)), list[tuple[str, int]]()
    clock.handler = lambda event: seen.append(("event", event[0]))
    for at in (20, 10, 0):
        clock.at(at, lambda at=at: seen.append(("timer", at)))  # type: ignore[misc]
    assert not clock.run()
    assert seen == [("timer", 0), ("event", 5), ("event", 10), ("timer", 10), ("timer", 20), ("event", 25)]


def test_timers_of_one_time_come_in_the_order_they_were_set() -> None:
    clock, seen = Clock(Events()), list[int]()
    for number in range(3):
        clock.after(7, lambda number=number: seen.append(number))  # type: ignore[misc]
    clock.after(7, lambda: clock.after(0, lambda: seen.append(9)))
    clock.run()
    assert seen == [0, 1, 2, 9] and clock.now_ns == 7


def test_a_cancelled_timer_does_not_come() -> None:
    clock = Clock(Events())
    clock.after(1, lambda: pytest.fail("cancelled")).cancel()
    assert not clock.run()


def test_run_stops_where_it_is_told() -> None:
    clock, seen = Clock(Events(30)), list[int]()
    clock.handler = lambda event: seen.append(event[0])
    assert clock.run(20) and (clock.now_ns, seen) == (20, [])
    clock.after(5, clock.stop)
    assert clock.run() and clock.now_ns == 25
    clock.handler = lambda event: clock.stop()
    assert clock.run() and clock.now_ns == 30
    assert not clock.run()
    assert clock.run(50) and clock.now_ns == 50


def test_the_past_is_refused_and_an_event_needs_a_handler() -> None:
    clock = Clock(Events(30))
    clock.run(20)
    with pytest.raises(VirtualError, match="it is 20 ns already"):
        clock.at(19, lambda: None)
    with pytest.raises(VirtualError, match="nobody waits for"):
        clock.run()
