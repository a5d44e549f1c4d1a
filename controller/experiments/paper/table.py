# SPDX-License-Identifier: Apache-2.0
"""`table.csv`: what was measured beside what was published, a line per arm and figure."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.experiments.paper.arms import ARMS, BASELINE
from controller.experiments.paper.metrics import METRICS, Figures, against
from controller.experiments.paper.published import Published, figures

COLUMNS = (
    "row", "metric", "unit", "published_low", "published_high", "measured_low", "measured_high", "seeds",
    "inside", "tolerance", "source",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One arm and figure. inside: None where nothing was published."""

    row: str
    metric: str
    low: float
    high: float
    seeds: tuple[int, ...]
    published: Published | None

    @property
    def inside(self) -> bool | None:
        return None if self.published is None else self.published.holds(self.low, self.high)

    def cells(self) -> list[str]:
        published = self.published
        known = (_text(published.low), _text(published.high)) if published else ("", "")
        inside = {True: "yes", False: "no", None: ""}[self.inside]
        return [
            self.row, self.metric, METRICS[self.metric][0], *known, _text(self.low), _text(self.high),
            " ".join(map(str, self.seeds)), inside,
            str(published.tolerance) if published else "", published.source if published else "",
        ]  # fmt: skip


def _text(value: float) -> str:
    return f"{value:.6g}"


def compare(cells: Mapping[tuple[str, int], Figures]) -> list[Line]:
    """cells: figures by arm and seed. Figures against the baseline need the baseline's cell of that seed."""
    published = {(row.arm, row.metric): row for row in figures()}
    lines = []
    order = [arm.key for arm in ARMS] + sorted({key for key, _ in cells} - {arm.key for arm in ARMS})
    for key in order:
        by_seed = {seed: found for (arm, seed), found in sorted(cells.items()) if arm == key}
        full = {
            seed: against(found, cells[BASELINE, seed]) if (BASELINE, seed) in cells else found
            for seed, found in by_seed.items()
        }
        for metric in METRICS:
            values = {seed: found[metric] for seed, found in full.items() if metric in found}
            if not values or (metric in ("reduction_percent", "tp_change_percent") and key == BASELINE):
                continue
            row = published.get((key, metric))
            lines.append(Line(key, metric, min(values.values()), max(values.values()), tuple(values), row))
    return lines


def write(lines: Iterable[Line], path: Path) -> None:
    """The file is replaced as a whole. Raises OSError."""
    partial = path.with_suffix(".part")
    with partial.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(line.cells() for line in lines)
    os.replace(partial, path)


def summary(lines: Sequence[Line]) -> str:
    """How many of the published figures are inside."""
    known = [line for line in lines if line.published is not None]
    inside = sum(bool(line.inside) for line in known)
    return f"{inside} of {len(known)} published figures inside their tolerance"
