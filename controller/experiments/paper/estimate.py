# SPDX-License-Identifier: Apache-2.0
"""How long the rest will take, as far as that can be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ENOUGH = 0.05
"""Share of a cell that must be done before its speed says anything."""


def seconds_left(
    finished_seconds: Sequence[float], running: Mapping[str, tuple[float, float]], waiting: int, jobs: int
) -> float | None:
    """finished_seconds: of each finished cell. running: by name, (share done, seconds so far). waiting: cells
    not begun. jobs: how many run at once. None: nothing is known yet.

    A cell not begun takes the mean of the others; a running one goes on as fast as it came.
    """
    known = [seconds / share for share, seconds in running.values() if share >= ENOUGH]
    lengths = [*finished_seconds, *known]
    if not lengths:
        return None
    mean = sum(lengths) / len(lengths)
    rest = [
        max(0.0, (seconds / share if share >= ENOUGH else max(mean, seconds)) - seconds)
        for share, seconds in running.values()
    ]
    if not waiting:
        return max(rest, default=0.0)
    return (sum(rest) + waiting * mean) / jobs


def shown(seconds: float | None) -> str:
    """In words, no finer than it can be."""
    if seconds is None:
        return "no estimate yet"
    if seconds < 90:
        return f"about {round(seconds / 10) * 10 or 10:d} s left"
    minutes = seconds / 60
    if minutes < 90:
        return f"about {minutes:.0f} min left"
    return f"about {minutes / 60:.1f} h left"
