# SPDX-License-Identifier: Apache-2.0
"""The arms of the study, as parameters of the same programs. What each does: the paper, "Results"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from controller.experiments.arms import DCQCN, FORGIVE, NO_VESTING, SHEDDING, Arm, forgiving_with
from hosts.shedding import Shedding
from profiles import Profile, ProfileError

Tolerance: TypeAlias = Literal["p_low", "p_high"]


@dataclass(frozen=True, slots=True)
class StudyArm:
    """key: its name in files and on the command line. study: its name in the study's data.

    sheds: the probability by which senders give up whole gradient messages on critical steps and on the
    others; None: they give up nothing.
    """

    key: str
    study: str
    arm: Arm
    sheds: tuple[Tolerance, Tolerance] | None = None

    def profile(self, profile: Profile) -> Profile:
        """The profile with this arm's keys."""
        return profile.override(self.arm.overrides, self.arm.name)

    def shedding(self, profile: Profile, seed: int) -> Callable[[int], Shedding | None]:
        """What senders shed, by step. profile: without the arm's keys, for they take the tolerance away."""
        if self.sheds is None:
            return lambda step: None
        if profile.study is None:
            raise ProfileError(f"{profile.name}: study is missing; add the table, as in paper.toml")
        budget = profile.budget
        by_name = {
            "p_low": Shedding(seed, budget.p_low_ppm),
            "p_high": Shedding(seed, budget.p_high_ppm),
        }
        critical, other = (by_name[name] for name in self.sheds)
        steps = frozenset(profile.study.critical_steps)
        return lambda step: critical if step in steps else other


_NOTHING_FORGIVEN = {**DCQCN.overrides, "transport.ignore_beyond_gap": "all"}
"""The study's receiver is silent beyond a gap, but for forgiven ranges: here it is silent for all flows."""

ARMS = (
    StudyArm(
        "no_cc",
        "none_*_zero",
        Arm(
            "congestion control off",
            "line rate within the window, no loss tolerated",
            {**_NOTHING_FORGIVEN, "dcqcn.enabled": False},
        ),
    ),
    StudyArm("dcqcn", "*_zero", replace(DCQCN, overrides=_NOTHING_FORGIVEN)),
    StudyArm(
        "tight",
        "fixed_p_low_baseline",
        Arm("tight baseline", "senders shed P_low on every step", _NOTHING_FORGIVEN, sheds=True),
        ("p_low", "p_low"),
    ),
    StudyArm(
        "loose",
        "fixed_p_high_baseline",
        Arm("loose baseline", "senders shed P_high on every step", _NOTHING_FORGIVEN, sheds=True),
        ("p_high", "p_high"),
    ),
    StudyArm("shedding", "dblp_policy", replace(SHEDDING, overrides=_NOTHING_FORGIVEN), ("p_low", "p_high")),
    StudyArm("forgive", "recovery_policy", FORGIVE),
    StudyArm("forgive_p25", "recovery_policy, coin 0.25", forgiving_with(0.25)),
    StudyArm("forgive_p0", "recovery_policy, coin 0", forgiving_with(0.0)),
    StudyArm("no_vesting", "up-front cap", NO_VESTING),
    StudyArm(
        "no_exemption",
        "*_recovery_p01",
        Arm("no exemption", "forgives, obeys congestion control", {"budget.exemption": "never"}),
    ),
)
"""In the order of the tables."""

BASELINE = "tight"
"""What reductions of the training time are measured against."""

BY_KEY = {arm.key: arm for arm in ARMS}


def find(keys: list[str]) -> tuple[StudyArm, ...]:
    """Arms by key, in the order of the tables. Raises ProfileError."""
    for key in keys:
        if key not in BY_KEY:
            raise ProfileError(f"--arms {key}: there is none; give some of {', '.join(BY_KEY)}")
    return tuple(arm for arm in ARMS if not keys or arm.key in keys)


def seeded(profile: Profile, seed: int, hash_seed: int | None) -> Profile:
    """A seed varies the switches' draws: marks, and with them paths, for both come from one seed of a
    switch; the coins of the NICs and the shedding take the seed itself. hash_seed: of the switches instead.
    """
    return profile.override({"fabric.seed": seed if hash_seed is None else hash_seed}, "--seeds")
