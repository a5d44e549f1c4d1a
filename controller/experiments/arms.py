# SPDX-License-Identifier: Apache-2.0
"""The arms of the experiments: the same programs, ranks and network, other parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the job.

    overrides: profile keys that this arm sets (`Profile.override`).
    sheds: the sender gives up whole gradient messages on the budget's schedule.
    """

    name: str
    meaning: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    sheds: bool = False


_NO_TOLERANCE = {"budget.p_low_ppm": 0, "budget.p_high_ppm": 0}

FORGIVE = Arm("FORGIVE", "forgives within the budget, exempts while it lasts")
DCQCN = Arm("DCQCN", "DCQCN, no loss tolerated: everything trimmed is sent again", _NO_TOLERANCE)
NO_VESTING = Arm("no vesting", "the whole budget at the step's start", {"budget.vesting": False})
SHEDDING = Arm("shedding", "the sender sheds whole messages on the same schedule", _NO_TOLERANCE, sheds=True)


def forgiving_with(probability: float) -> Arm:
    """FORGIVE with P, 0 to 1. Raises ValueError."""
    if not 0 <= probability <= 1:
        raise ValueError(f"P = {probability}: give a probability from 0 to 1")
    return Arm(
        f"P = {probability:g}",
        "forgives a range that passes the vesting rule with probability P",
        {"budget.forgive_ppm": round(probability * 1_000_000)},
    )
