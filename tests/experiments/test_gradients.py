# SPDX-License-Identifier: Apache-2.0
"""The exact-mean check on arrays of known content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.experiments.gradients import bounds, check_step, drift, lost_mask

RANKS, SIZE = 3, 100
Arrays = list[npt.NDArray[np.float32]]


def all_reduce(put: Arrays, lost: dict[tuple[int, int, int], list[tuple[int, int]]]) -> Arrays:
    """What honest ranks return, in float64 throughout."""
    got = [np.zeros(SIZE, np.float32) for _ in range(RANKS)]
    for owner, shard in enumerate(bounds(SIZE, RANKS)):
        size = shard.stop - shard.start
        here = [~lost_mask(size, lost.get((r, owner, 0), [])) for r in range(RANKS)]
        parts = [np.where(h, p[shard].astype(np.float64), 0) for h, p in zip(here, put, strict=True)]
        got[owner][shard] = (np.sum(parts, axis=0) / np.sum(here, axis=0)).astype(np.float32)
        for rank in set(range(RANKS)) - {owner}:
            gone = lost_mask(size, lost.get((owner, rank, 1), []))
            got[rank][shard] = np.where(gone, put[rank][shard], got[owner][shard])
    return got


@pytest.fixture
def arrays(tmp_path: Path) -> Arrays:
    rng = np.random.default_rng(3)
    put = [rng.standard_normal(SIZE).astype(np.float32) for _ in range(RANKS)]
    for rank, array in enumerate(put):
        np.save(tmp_path / f"gradient-1-{rank}.npy", array)
    return put


def save(directory: Path, got: Arrays) -> None:
    for rank, array in enumerate(got):
        np.save(directory / f"reduced-1-{rank}.npy", array)


LOST = {(1, 0, 0): [(0, 40)], (2, 1, 1): [(8, 12), (100, 132)]}


@pytest.mark.parametrize("lost", [{}, LOST])
def test_an_honest_all_reduce_passes(
    tmp_path: Path, arrays: Arrays, lost: dict[tuple[int, int, int], list[tuple[int, int]]]
) -> None:
    save(tmp_path, all_reduce(arrays, lost))
    assert check_step(tmp_path, 1, RANKS, lost) == []


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize("place", [0, 33, 34, 99])
def test_one_wrong_value_anywhere_is_found(tmp_path: Path, arrays: Arrays, rank: int, place: int) -> None:
    got = all_reduce(arrays, LOST)
    got[rank][place] += 0.01
    save(tmp_path, got)
    assert check_step(tmp_path, 1, RANKS, LOST)


def test_what_is_no_number_is_found(tmp_path: Path, arrays: Arrays) -> None:
    got = all_reduce(arrays, {})
    for array in got:
        array[50] = np.nan
    save(tmp_path, got)
    assert any("not the exact mean" in line for line in check_step(tmp_path, 1, RANKS, {}))


def test_missing_and_odd_arrays_are_found(tmp_path: Path, arrays: Arrays) -> None:
    assert "missing" in check_step(tmp_path, 1, RANKS, {})[0]
    save(tmp_path, [*all_reduce(arrays, {})[:2], np.zeros(3, np.float32)])
    assert "different shapes" in check_step(tmp_path, 1, RANKS, {})[0]


def test_bytes_given_up_in_silence_are_found(tmp_path: Path, arrays: Arrays) -> None:
    save(tmp_path, all_reduce(arrays, LOST))
    assert len(check_step(tmp_path, 1, RANKS, {})) >= 2


@given(st.integers(1, 500), st.lists(st.tuples(st.integers(0, 499), st.integers(1, 99)), max_size=5))
def test_a_value_is_lost_when_any_of_its_bytes_is(size: int, spans: list[tuple[int, int]]) -> None:
    ranges = [(min(a, 4 * size), min(a + n, 4 * size)) for a, n in spans]
    touched = {byte // 4 for a, b in ranges for byte in range(a, b)}
    assert {int(i) for i in np.flatnonzero(lost_mask(size, [r for r in ranges if r[0] < r[1]]))} == touched


def test_drift_is_the_largest_relative_distance(tmp_path: Path) -> None:
    for rank, value in enumerate((1.0, 1.0, 1.5)):
        np.save(tmp_path / f"weights-{rank}.npy", np.full(4, value, np.float32))
    assert drift(tmp_path, RANKS) == pytest.approx(0.5)
