# SPDX-License-Identifier: Apache-2.0
"""The study's figures (`published.toml`), and whether a measured range lies inside one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a measured figure may lie outside: percent of the published one, or `points` of its unit."""

    percent: float = 0.0
    points: float = 0.0

    def widen(self, low: float, high: float) -> tuple[float, float]:
        below = abs(low) * self.percent / 100 + self.points
        above = abs(high) * self.percent / 100 + self.points
        return low - below, high + above

    def __str__(self) -> str:
        return f"{self.percent:g} %" if self.percent else f"{self.points:g}"


@dataclass(frozen=True, slots=True)
class Published:
    """One figure of one arm: a range over seeds, or low = high."""

    arm: str
    metric: str
    low: float
    high: float
    source: str
    tolerance: Tolerance

    def holds(self, low: float, high: float) -> bool:
        """Whether a measured range lies inside, tolerance included."""
        least, most = self.tolerance.widen(self.low, self.high)
        return least <= low and high <= most


def _tolerance(value: float | Mapping[str, float]) -> Tolerance:
    if isinstance(value, Mapping):
        return Tolerance(**value)
    return Tolerance(percent=value)


def figures() -> list[Published]:
    """All of them, in the order of the file."""
    tree = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    tolerances = {metric: _tolerance(value) for metric, value in tree.pop("tolerance").items()}
    return [
        Published(arm, metric, row["low"], row["high"], row["source"], tolerances[metric])
        for arm, rows in tree.items()
        for metric, row in rows.items()
    ]
