# SPDX-License-Identifier: Apache-2.0
"""Accordion's criterion: is this step inside a critical learning regime?

Source: Agarwal et al., "Accordion" (MLSys 2021), and the paper's section
"Gradient tolerance varies by step": a step is critical while the norm of the
gradient changes fast relative to an earlier one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Verdict:
    """One step's classification.

    norm: L2 norm of the gradient (unit of the gradient).
    change: |norm now - norm before| / norm before; infinite without a norm to
        compare with, or when that norm was 0.
    """

    critical: bool
    norm: float
    change: float


class NormChangeDetector:
    """InCriticalRegime(gradients) over the gradients of one rank.

    threshold: relative change at and above which a step is critical (0.5 in
        Accordion's published runs).
    window: how many steps back the norm is compared with. Steps without such a
        predecessor are critical: nothing is known about them, and a wrong
        "critical" costs time where a wrong "not critical" costs gradient.
    """

    def __init__(self, threshold: float = 0.5, window: int = 1) -> None:
        if not (threshold > 0 and math.isfinite(threshold)):
            raise ValueError(f"detector threshold {threshold}: give a positive number, 0.5 for example")
        if window < 1:
            raise ValueError(f"detector window {window}: give 1 step or more")
        self.threshold = threshold
        self._norms: deque[float] = deque(maxlen=window)

    def classify(self, gradient: npt.NDArray[np.float32]) -> Verdict:
        """Classify the step whose gradient this is (any shape); call once per step, in order."""
        norm = float(np.linalg.norm(gradient.astype(np.float64, copy=False)))
        if not math.isfinite(norm):
            raise ValueError("the gradient has a norm that is not finite: training has diverged")
        before = self._norms[0] if len(self._norms) == self._norms.maxlen else 0.0
        change = abs(norm - before) / before if before > 0 else math.inf
        self._norms.append(norm)
        return Verdict(change >= self.threshold, norm, change)
