# SPDX-License-Identifier: Apache-2.0
"""Accordion's criterion on gradients of known norm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.detector import NormChangeDetector, Verdict


def of_norm(norm: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """(4,) with that L2 norm."""
    return np.full(4, norm / 2, np.float32)


def verdicts(norms: list[float], threshold: float = 0.5, window: int = 1) -> list[Verdict]:
    detector = NormChangeDetector(threshold, window)
    return [detector.classify(of_norm(norm)) for norm in norms]


def test_a_step_with_nothing_to_compare_with_is_critical() -> None:
    (first,) = verdicts([2.0])
    assert first == Verdict(True, 2.0, math.inf)


def test_change_is_relative_to_the_earlier_norm() -> None:
    assert [v.change for v in verdicts([4.0, 2.0, 3.0, 3.0])[1:]] == [0.5, 0.5, 0.0]


def test_the_threshold_itself_is_critical() -> None:
    assert [v.critical for v in verdicts([4.0, 2.0, 2.5, 4.5, 4.5])] == [True, True, False, True, False]


def test_the_window_says_how_far_back() -> None:
    found = verdicts([1.0, 8.0, 4.0, 1.0, 8.0, 4.0, 1.5], window=3)
    assert [v.critical for v in found] == [True] * 3 + [False] * 3 + [True]
    assert found[6].change == 0.5


def test_after_a_norm_of_zero_a_step_is_critical() -> None:
    assert [v.critical for v in verdicts([1.0, 0.0, 1.0, 1.0])] == [True, True, True, False]


@given(st.lists(st.floats(0.125, 1024, width=32), min_size=2, max_size=12), st.integers(1, 4))
def test_the_scale_of_the_gradient_does_not_matter(norms: list[float], window: int) -> None:
    scaled = [norm * 1024 for norm in norms]
    before, after = verdicts(norms, window=window), verdicts(scaled, window=window)
    assert [(v.critical, v.change) for v in before] == [(v.critical, v.change) for v in after]


def test_a_large_gradient_does_not_overflow() -> None:
    (verdict,) = verdicts([1e30])
    assert verdict.norm == pytest.approx(1e30)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="diverged"):
        NormChangeDetector().classify(np.array([1.0, value], np.float32))


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan, math.inf])
def test_a_threshold_without_meaning_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="detector threshold"):
        NormChangeDetector(threshold)


def test_a_window_without_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="detector window 0"):
        NormChangeDetector(0.5, 0)
