# SPDX-License-Identifier: Apache-2.0
"""Figures from files whose figures are known, the table against published ranges, and the plan."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from controller.experiments.paper import plots, rows, table
from controller.experiments.paper.arms import ARMS, BASELINE, BY_KEY, find, seeded
from controller.experiments.paper.estimate import seconds_left, shown
from controller.experiments.paper.metrics import METRICS, against, figures
from controller.experiments.paper.plan import parse_scale, plan
from controller.experiments.paper.published import Tolerance
from controller.experiments.paper.published import figures as published
from hosts.messages import MessageKey
from profiles import ProfileError, load
from tests.experiments.paper_cells import ARM, SEED, STUDY, cell, collective, flow, step, totals

MS = 1_000_000


def _tables() -> dict[str, list[Any]]:
    """4 ranks, 4 steps: the first is critical, the burst comes in the third."""
    spans = {1: 40, 2: 20, 3: 30, 4: 24}
    gradient = [
        collective(s, r, s * 100 * MS + r, (s * 100 + span - (3 - r)) * MS)
        for s, span in spans.items()
        for r in range(4)
    ]
    rings = [
        collective(s, r, (s * 100 - 50) * MS, (s * 100 - 50 + r + 1) * MS, "tp")
        for s in spans
        for r in range(4)
    ]
    burst = [collective(3, r, 300 * MS, (310 + r) * MS, "burst", index=i) for i, r in enumerate((0, 1))]
    return {
        "collectives": gradient + rings + burst,
        "steps": [
            step(
                s, r, forgiven_bytes=5_000 if s == 1 else 50_000, checked_trimmed_bytes=60_000,
                trimmed_fifth_1=40_000, forgiven_fifth_1=10_000, trimmed_fifth_5=20_000,
                forgiven_fifth_5=15_000, signals_ignored=100,
            )
            for s in spans
            for r in range(4)
        ],
        "flows": [
            *(
                flow(
                    "dp", s, bytes=4_000_000, forgiven_bytes=20_000 if s == 1 else 200_000, timeouts=s,
                    signals=1_000, rate_cuts=10, retransmitted_bytes=40_000, exempt_flows=8,
                    obeying_again_flows=2, flag_changes=4, exempt_ns=60, obeying_again_ns=16 * MS,
                    duration_sum_ns=80,
                )
                for s in spans
            ),
            *(flow("tp", s, bytes=16_000_000, repair_requests=10, signals=500) for s in spans),
        ],
        "totals": [totals(training_ns=500 * MS, late_bytes=4_000)],
    }  # fmt: skip


def test_figures_of_a_whole_run(tmp_path: Path) -> None:
    found = figures(cell(tmp_path, _tables()))
    assert set(found) <= set(METRICS)
    assert found["training_ms"] == 500
    # Ranks end 3, 2, 1, 0 ms before the last; steps 2, 3, 4 are not critical.
    assert found["dp_median_ms"] == pytest.approx(23, abs=1.1)
    assert found["dp_p99_ms"] == pytest.approx(30, abs=1e-3)
    assert found["dp_critical_median_ms"] == pytest.approx(38, abs=1.1)
    assert (found["dp_span_median_ms"], found["dp_span_burst_step_ms"]) == (20, 30)
    assert (found["dp_span_after_burst_ms"], found["burst_drain_ms"]) == (24, 11)
    assert (found["tp_median_ms"], found["tp_max_ms"]) == (4, 4)  # of a pair of ranks: 2 and 4
    assert found["tp_mean_ms"] == 3
    assert found["goodput_gb_per_s"] == pytest.approx(3 * 4 * 1e6 / 0.074 / 1e9)
    offered = 4 * 20_000_000
    trimmed = 16 * 60_000 + 4 * 10 * 4096
    forgiven = 20_000 + 3 * 200_000
    assert found["trimmed_percent"] == pytest.approx(100 * trimmed / offered)
    assert found["unforgiven_percent"] == pytest.approx(100 * (trimmed - forgiven) / offered)
    assert found["lost_percent"] == pytest.approx(100 * forgiven / 16e6)
    assert found["late_percent"] == pytest.approx(100 * 4_000 / 16e6)
    assert found["retransmitted_percent"] == pytest.approx(100 * 160_000 / offered)
    assert found["timeouts"] == 10
    assert found["signals_taken_million"] == pytest.approx(0.006)
    assert found["signals_ignored_million"] == pytest.approx(0.0016)
    assert found["exempt_flows_percent"] == 80
    assert found["exempt_time_percent"] == 75
    assert found["flag_changes_per_exempt_flow"] == 0.5
    assert found["obeying_again_flows_percent"] == 25
    assert (found["obeying_again_ms_each"], found["obeying_again_ms_per_exempt_flow"]) == (8, 2)
    assert (found["budget_used_percent"], found["budget_used_critical_percent"]) == (50, 100)
    assert found["first_fifth_trimmed_gb"] == pytest.approx(16 * 40_000 / 1e9)
    assert found["first_fifth_forgiven_percent"] == 25
    assert found["last_fifth_forgiven_percent"] == 75


def test_fewer_steps_stand_for_the_whole_by_kind(tmp_path: Path) -> None:
    """4 critical and 16 other steps of 20, from 1 and 3."""
    whole = STUDY | {"steps": 20, "critical_steps": [1, 2, 3, 20]}
    found = figures(cell(tmp_path, _tables(), whole_study=whole))
    ends = {1: 140, 2: 220, 3: 330, 4: 424}
    compute = STUDY["compute_ns"] / 1e6
    lengths = [ends[1] + compute, ends[2] - ends[1], ends[3] - ends[2], ends[4] - ends[3]]
    assert found["training_ms"] == pytest.approx(4 * lengths[0] + 16 / 3 * sum(lengths[1:]))
    assert found["timeouts"] == pytest.approx(4 * 1 + 16 / 3 * (2 + 3 + 4))
    forgiven, schedule = 4 * 20_000 + 16 * 200_000, 20 * 4e6
    assert found["lost_percent"] == pytest.approx(100 * forgiven / schedule)
    assert found["first_fifth_trimmed_gb"] == pytest.approx(20 * 160_000 / 1e9)


def test_without_budgets_there_are_no_fifths(tmp_path: Path) -> None:
    tables = _tables()
    tables["steps"] = [step(row.step, row.rank, budget_bytes=0, trimmed_fifth_1=9) for row in tables["steps"]]
    found = figures(cell(tmp_path, tables))
    assert not [name for name in found if "fifth" in name or "budget" in name]


def test_without_rate_control_no_signal_is_taken(tmp_path: Path) -> None:
    assert figures(cell(tmp_path, _tables(), rate_control=False))["signals_taken_million"] == 0


def test_comparisons_are_with_the_baseline_of_the_seed() -> None:
    found = against({"training_ms": 85.0, "tp_mean_ms": 3.3}, {"training_ms": 100.0, "tp_mean_ms": 3.0})
    assert found["reduction_percent"] == pytest.approx(15)
    assert found["tp_change_percent"] == pytest.approx(10)


# --- published figures and the table


def test_published_figures_have_an_arm_a_metric_and_a_tolerance() -> None:
    every = published()
    assert len({(row.arm, row.metric) for row in every}) == len(every) > 80
    for row in every:
        assert row.arm in BY_KEY and row.metric in METRICS
        assert row.low <= row.high
        assert row.holds(row.low, row.high)
    assert {row.arm for row in every} == set(BY_KEY)


@pytest.mark.parametrize(
    ("tolerance", "low", "high", "inside"),
    [
        (Tolerance(percent=2), 98, 102, True),
        (Tolerance(percent=2), 97.9, 100, False),
        (Tolerance(percent=2), 100, 102.1, False),
        (Tolerance(points=0.5), 99.5, 100.5, True),
        (Tolerance(points=0.5), 99.4, 100, False),
    ],
)
def test_inside_means_the_whole_measured_range(
    tolerance: Tolerance, low: float, high: float, inside: bool
) -> None:
    from controller.experiments.paper.published import Published

    row = Published("forgive", "training_ms", 100, 100, "", tolerance)
    assert row.holds(low, high) is inside


def test_the_table_has_a_line_per_arm_and_figure(tmp_path: Path) -> None:
    cells: dict[tuple[str, int], dict[str, float]] = {
        ("tight", 1): {"training_ms": 1700.0, "tp_mean_ms": 6.0},
        ("tight", 2): {"training_ms": 1698.0, "tp_mean_ms": 6.0},
        ("forgive", 1): {"training_ms": 1420.0, "tp_mean_ms": 6.0, "lost_percent": 7.6},
        ("forgive", 2): {"training_ms": 1500.0, "tp_mean_ms": 6.0, "lost_percent": 7.5},
        ("no_cc", 1): {"training_ms": 1355.7, "tp_mean_ms": 6.0},
        ("dcqcn", 3): {"training_ms": 1700.0, "tp_mean_ms": 6.0},
    }
    lines = table.compare(cells)
    table.write(lines, tmp_path / "table.csv")
    read = list(csv.DictReader((tmp_path / "table.csv").open()))
    found = {(row["row"], row["metric"]): row for row in read}
    assert list(dict.fromkeys(row["row"] for row in read)) == ["no_cc", "dcqcn", "tight", "forgive"]
    training = found["forgive", "training_ms"]
    assert (training["measured_low"], training["measured_high"], training["seeds"]) == ("1420", "1500", "1 2")
    assert (training["published_low"], training["published_high"]) == ("1414", "1424.5")
    assert training["inside"] == "no"
    assert found["no_cc", "training_ms"]["inside"] == found["forgive", "lost_percent"]["inside"] == "yes"
    assert found["forgive", "tp_mean_ms"]["inside"] == ""
    assert float(found["forgive", "reduction_percent"]["measured_high"]) == pytest.approx(16.47, abs=0.01)
    assert ("tight", "reduction_percent") not in found
    assert ("dcqcn", "reduction_percent") not in found  # its seed has no baseline
    assert not list(tmp_path.glob("*.part"))


def test_plots_are_made_of_the_files(tmp_path: Path) -> None:
    queues = [rows.QueueRow(ARM, SEED, t, "leaf to host", t, t / 2) for t in range(3)]
    times = [rows.TimeRow(ARM, SEED, 3, t, 4, 9, t, t, t, t) for t in range(3)]
    made = cell(tmp_path / "cell", _tables() | {"queues": queues, "timeline": times})
    plots.draw({(ARM, SEED): made}, tmp_path)
    assert {p.name for p in tmp_path.glob("*.png")} == {"completion.png", "budgets.png", "queues.png"}


# --- arms


def test_arms_change_what_they_are_named_for() -> None:
    profile = load("paper")
    made = {arm.key: arm.profile(profile).configuration() for arm in ARMS}
    assert [key for key, c in made.items() if not c.dcqcn.enabled] == ["no_cc"]
    tolerant = {"forgive", "forgive_p25", "forgive_p0", "no_vesting", "no_exemption"}
    assert {key for key, c in made.items() if c.budget.p_high_ppm} == tolerant
    thresholds = {key: made[key].budget.forgive_threshold for key in tolerant}
    assert thresholds.pop("forgive_p25") == 2**30
    assert thresholds.pop("forgive_p0") == 0
    assert set(thresholds.values()) == {2**32}
    assert [key for key in tolerant if not made[key].budget.vesting] == ["no_vesting"]
    assert [key for key in tolerant if made[key].budget.exemption == "never"] == ["no_exemption"]
    assert {arm.key for arm in ARMS if arm.sheds} == {"tight", "loose", "shedding"}
    assert all(arm.arm.sheds == (arm.sheds is not None) for arm in ARMS)
    assert BASELINE in BY_KEY


def test_baselines_shed_by_the_profile_s_tolerance() -> None:
    profile = load("paper").override({"budget.p_low_ppm": 1_000, "budget.p_high_ppm": 20_000})
    by_step = {
        key: [shed.p_ppm if (shed := BY_KEY[key].shedding(profile, 5)(s)) else None for s in (3, 4, 20)]
        for key in ("dcqcn", "tight", "loose", "shedding", "forgive")
    }
    assert by_step == {
        "dcqcn": [None] * 3, "forgive": [None] * 3, "tight": [1_000] * 3, "loose": [20_000] * 3,
        "shedding": [1_000, 20_000, 1_000],
    }  # fmt: skip
    # One stream of draws: the same messages in every arm of a seed.
    loose, phased = (BY_KEY[key].shedding(profile, 5)(4) for key in ("loose", "shedding"))
    assert loose is not None and phased is not None
    keys = [MessageKey(4, 0, 8, n) for n in range(3_000)]
    assert [k for k in keys if loose.sheds(k, 10**6)] == [k for k in keys if phased.sheds(k, 10**6)] != []


def test_a_seed_is_the_switches_seed_unless_another_is_given() -> None:
    profile = load("paper")
    assert seeded(profile, 9550582, None).fabric.seed == 9550582
    assert seeded(profile, 9550582, 3).fabric.seed == 3


def test_unknown_arms() -> None:
    assert find([]) == ARMS
    assert [arm.key for arm in find(["forgive", "no_cc"])] == ["no_cc", "forgive"]
    with pytest.raises(ProfileError, match=r"--arms forgiving: there is none; give some of no_cc, dcqcn"):
        find(["forgiving"])


# --- the plan


@pytest.mark.parametrize(
    ("scale", "steps", "critical", "burst"),
    [
        ("full", 20, (1, 2, 3, 20), True),
        ("1", 20, (1, 2, 3, 20), True),
        ("0.1", 2, (1,), False),
        ("0.05", 1, (), False),
        ("0.01", 1, (), False),
        ("0.5", 10, (1, 2), False),
        ("0.9", 18, (1, 2, 3, 4), True),
    ],
)
def test_smaller_runs_have_fewer_steps_and_nothing_else(
    scale: str, steps: int, critical: tuple[int, ...], burst: bool
) -> None:
    profile = load("paper")
    made = plan(profile, scale)
    assert (made.study.steps, made.study.critical_steps) == (steps, critical)
    assert (made.study.burst is not None) is burst
    assert made.is_whole is (steps == 20)
    assert (len(made.says()) > 1) is not made.is_whole
    whole = profile.study
    assert whole is not None
    assert bool(made.study.start_spread_ns) is not made.is_whole
    undone = {
        "study.steps": 20,
        "study.critical_steps": list(whole.critical_steps),
        "study.start_spread_ns": 0,
    }
    same = made.profile.override(undone)
    if not burst:
        assert whole.burst is not None
        same = same.override({f"study.burst.{n}": getattr(whole.burst, n) for n in whole.burst.__slots__})
    assert same == profile


@pytest.mark.parametrize("scale", ["0", "-1", "1.5", "all", ""])
def test_scales_that_cannot_be(scale: str) -> None:
    with pytest.raises(ProfileError, match=r"--scale .*: give full, or a number above 0 and at most 1"):
        parse_scale(scale)


# --- how long it will take


def test_estimates() -> None:
    assert seconds_left([], {"a": (0.01, 3.0)}, 5, 2) is None
    assert seconds_left([100.0, 200.0], {}, 4, 2) == 300
    # One half done after 50 s, and one not begun that takes as long: side by side at the end.
    assert seconds_left([], {"a": (0.5, 50.0)}, 0, 2) == 50
    assert seconds_left([], {"a": (0.5, 50.0)}, 1, 2) == 75
    assert seconds_left([100.0], {"a": (0.0, 10.0)}, 0, 2) == 90
    assert [shown(s) for s in (None, 3, 40, 600, 9_000)] == [
        "no estimate yet", "about 10 s left", "about 40 s left", "about 10 min left", "about 2.5 h left",
    ]  # fmt: skip
