# SPDX-License-Identifier: Apache-2.0
"""How a run of the study is made smaller.

By fewer steps, and by nothing else. Every message, queue, window, delay and timer keeps its size, so every
ratio that decides a trim or a cut keeps it too: packets per message, per window and per queue, round trips
per timer, packets per DCQCN period. Dividing all sizes and times instead would keep the ratios in bytes, but
not the number of packets: a tenth of this fabric marks one packet per rate-decrease period where the study
marks ten, and its DCQCN then hardly cuts. Shortening the collectives would leave only the first bursts of a
step, where the study trimmed seven times as much as in the last.

What changes: there are fewer steps to take a median of; critical steps are the first fifth (the study: steps
1, 2, 3 and 20 of 20); no burst comes before step 18; a training time of 20 steps is put together of the two
kinds of step. And ranks begin apart, by as much as they end a step apart: a whole run begins in unison, its
second step still shows that (almost twice the trims of later ones without congestion control), and of twenty
steps these two matter little, of two they are all.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiles import Profile, ProfileError, Study

START_SPREAD_NS = 3_000_000
"""Ranks end a gradient all-reduce 1 to 8 ms apart, by arm."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A profile's study at a scale. profile: with the steps that are run. whole: the study unscaled."""

    scale: str
    profile: Profile
    whole: Study

    @property
    def study(self) -> Study:
        study = self.profile.study
        assert study is not None
        return study

    @property
    def is_whole(self) -> bool:
        return self.study.steps == self.whole.steps

    def says(self) -> list[str]:
        """What the scale changes, one line each."""
        if self.is_whole:
            return [f"all {self.whole.steps} steps"]
        share = self.study.steps / self.whole.steps
        critical = ", ".join(map(str, self.study.critical_steps)) or "none"
        lines = [
            f"{self.study.steps} of {self.whole.steps} steps, {share:.0%} of the bytes; messages, queues, "
            "windows, delays and timers are those of the study",
            f"critical steps: {critical} (whole: {', '.join(map(str, self.whole.critical_steps))})",
            f"training time of {self.whole.steps} steps is put together of the steps that were run",
            f"ranks begin within {self.study.start_spread_ns / 1e6:g} ms (whole: all at once)",
        ]
        if self.study.burst is None and self.whole.burst is not None:
            lines.append(f"no background burst (whole: in step {self.whole.burst.step})")
        return lines


def parse_scale(text: str) -> float:
    """ "full" or a number above 0 and at most 1. Raises ProfileError."""
    try:
        scale = 1.0 if text == "full" else float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise ProfileError(f"--scale {text}: give full, or a number above 0 and at most 1, such as 0.1")
    return scale


def plan(profile: Profile, scale: str) -> Plan:
    """Raises ProfileError."""
    whole = profile.study
    if whole is None:
        raise ProfileError(f"{profile.name}: study is missing; add the table, as in profiles/paper.toml")
    steps = max(1, int(whole.steps * parse_scale(scale) + 1e-9))
    if steps == whole.steps:
        return Plan(scale, profile, whole)
    share = sum(step <= whole.steps for step in whole.critical_steps) / whole.steps
    # One step alone is not critical; of two or more, the first at least.
    critical = 0 if steps == 1 else max(1, round(share * steps))
    changes = {
        "study.steps": steps,
        "study.critical_steps": list(range(1, critical + 1)),
        "study.start_spread_ns": START_SPREAD_NS,
    }
    smaller = profile.override(changes, "--scale")
    if whole.burst is not None and whole.burst.step > steps:
        smaller = smaller.override({"study.burst": None}, "--scale")
    return Plan(scale, smaller, whole)
