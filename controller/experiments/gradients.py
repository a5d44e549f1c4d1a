# SPDX-License-Identifier: Apache-2.0
"""Holds what an all-reduce returned against the exact mean of what the ranks put in.

Exact means in float64, from the arrays the ranks saved; which bytes never came is
taken from the recount of the captures, not from what the ranks say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

FLOAT_BYTES = 4
Missing = Mapping[tuple[int, int, int], Sequence[tuple[int, int]]]
"""(source index, destination index, phase) -> byte ranges [start, end) that never arrived; phase 0
reduce-scatter, 1 all-gather."""


def bounds(elements: int, ranks: int) -> list[slice]:
    """Each rank's shard: the first `elements % ranks` are one longer."""
    cuts = [i * (elements // ranks) + min(i, elements % ranks) for i in range(ranks + 1)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def lost_mask(size: int, ranges: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """(size,) True where a float32 lies in one of the byte ranges, even partly."""
    mask = np.zeros(size, bool)
    for start, end in ranges:
        mask[start // FLOAT_BYTES : -(-end // FLOAT_BYTES)] = True
    return mask


def check_step(directory: Path, step: int, ranks: int, missing: Missing) -> list[str]:
    """What is wrong with one step, one line each.

    Every owner's shard must be the mean of what arrived (values that never came are left out and the rest
    rescaled), within float32 rounding; every other rank must hold the owner's bits, and its own gradient
    where the owner's value never came.
    """
    try:
        put = [np.load(directory / f"gradient-{step}-{r}.npy") for r in range(ranks)]
        got = [np.load(directory / f"reduced-{step}-{r}.npy") for r in range(ranks)]
    except (OSError, ValueError) as problem:
        return [f"step {step}: arrays are missing or broken: {problem}"]
    if len({array.shape for array in (*put, *got)}) > 1:
        return [f"step {step}: arrays of different shapes: {sorted({a.shape for a in (*put, *got)})}"]
    wrong: list[str] = []
    for owner, shard in enumerate(bounds(put[0].size, ranks)):
        size = shard.stop - shard.start
        total = np.zeros(size)
        magnitude = np.zeros(size)
        arrived = np.zeros(size)
        for rank in range(ranks):
            here = ~lost_mask(size, missing.get((rank, owner, 0), ()))
            part = put[rank][shard].astype(np.float64)
            total += np.where(here, part, 0.0)
            magnitude += np.where(here, np.abs(part), 0.0)
            arrived += here
        mean = total / arrived
        # Each of the ranks' additions rounds once, as do the few operations after them.
        slack = (ranks + 8) * np.finfo(np.float32).eps * magnitude / arrived + 1e-37
        off = ~(np.abs(got[owner][shard] - mean) <= slack)  # a value that is no number is off
        if off.any():
            wrong.append(f"step {step}, rank {owner}: {int(off.sum())} reduced values are not the exact mean")
        for rank in range(ranks):
            if rank == owner:
                continue
            lost = lost_mask(size, missing.get((owner, rank, 1), ()))
            due = np.where(lost, put[rank][shard], got[owner][shard])
            if not np.array_equal(got[rank][shard], due):
                count = int((got[rank][shard] != due).sum())
                wrong.append(f"step {step}, rank {rank}: {count} values differ from what rank {owner} sent")
    return wrong


def drift(directory: Path, ranks: int) -> float:
    """Largest relative L2 distance of a replica's final weights from rank 0's."""
    first = np.load(directory / "weights-0.npy").astype(np.float64)
    scale = float(np.linalg.norm(first)) or 1.0
    others = (np.load(directory / f"weights-{r}.npy") for r in range(1, ranks))
    return max((float(np.linalg.norm(w - first)) / scale for w in others), default=0.0)
