# SPDX-License-Identifier: Apache-2.0
"""What the control plane and the NICs say against the recount: silent when they agree, loud when not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from controller.experiments.coordinator import StepBytes, StepOutcome
from controller.experiments.recount import FlowBooks, FlowPlan, Recount, StepBooks
from controller.experiments.training_run import ArmRun, Placement
from controller.experiments.verdict import _budget_violations, _missing, _plans, _state_violations
from hosts.coordination import Offer, StepBegin, StepDone
from profiles import load
from topologies import fat_tree

CONFIGURATION = load("mininet").at_rate(10_000_000)
OFFERS = {"h3": [Offer("1.2.1.0", 7, 60_000, True), Offer("1.2.1.1", 8, 60_000, True)]}
BEGIN = StepBegin("h1", 1, False, 1.0, 0.1, 120_000, OFFERS)
DONE = StepDone("h1", 1, 10, 20, [5], 2048, 0, [], 100, 0, 0, 0, 0, 0.5)
STATE = StepBytes(117_952, 2048, 0, 4096, {})
OUTCOME = StepOutcome(BEGIN, DONE, 100_000, 12_000, STATE)
BOOKS = StepBooks(received=117_952, forgiven=2048, outstanding=0, trimmed=4096)


def run(outcome: StepOutcome) -> ArmRun:
    return ArmRun([outcome], {}, {}, {}, Path(), Placement(("h1", "h3"), ()))


def recounts(books: StepBooks = BOOKS) -> dict[str, Recount]:
    flows = {
        7: FlowBooks(FlowPlan(7, 1, 60_000, True, 1, ""), forgiven=0b1100),
        8: FlowBooks(FlowPlan(8, 1, 60_000, True, 1, "")),
    }
    return {"h1": Recount("nic1", {1: books}, flows, Counter(), [], {}, {})}


def test_agreement_is_silent() -> None:
    assert _budget_violations(run(OUTCOME), CONFIGURATION) == []
    assert _state_violations(run(OUTCOME), recounts()) == []


@pytest.mark.parametrize(
    "outcome",
    [
        replace(OUTCOME, budget=12_001),
        replace(OUTCOME, p_ppm=5_000),
        replace(OUTCOME, begin=replace(BEGIN, critical=True)),
        replace(OUTCOME, begin=replace(BEGIN, expected_bytes=120_004)),
        replace(OUTCOME, begin=replace(BEGIN, offers={})),
    ],
)
def test_another_budget_than_the_schedules_is_named(outcome: StepOutcome) -> None:
    (line,) = _budget_violations(run(outcome), CONFIGURATION)
    assert line.startswith("h1 step 1: (expected, p, budget)")


def test_traffic_that_is_never_eligible_has_no_budget() -> None:
    offers = {"h4": [Offer("1.2.1.0", 7, 60_000, False)]}
    ring = StepOutcome(replace(BEGIN, host="h2", expected_bytes=0, offers=offers), DONE, 0, 0, None)
    assert _budget_violations(run(ring), CONFIGURATION) == []


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (replace(OUTCOME, state=replace(STATE, received=1)), "(received, forgiven, outstanding)"),
        (replace(OUTCOME, state=replace(STATE, forgiven=1)), "(received, forgiven, outstanding)"),
        (replace(OUTCOME, state=replace(STATE, outstanding=1)), "(received, forgiven, outstanding)"),
        (replace(OUTCOME, state=replace(STATE, trimmed=4097)), "4097 trimmed"),
        (replace(OUTCOME, done=replace(DONE, forgiven_bytes=0)), "the host knows of 0"),
        (replace(OUTCOME, p_ppm=0, state=replace(STATE, received=1)), "(received, forgiven, outstanding)"),
    ],
)
def test_books_that_differ_are_named(outcome: StepOutcome, words: str) -> None:
    (line,) = _state_violations(run(outcome), recounts())
    assert line.startswith("h1 step 1: ") and words in line


def test_a_late_trim_after_the_query_is_no_violation() -> None:
    assert _state_violations(run(OUTCOME), recounts(replace(BOOKS, trimmed=5120))) == []


def test_a_shed_message_is_a_placeholder_on_the_wire_and_a_gap_in_the_gradient() -> None:
    shed = replace(OUTCOME, done=replace(DONE, shed=["1.2.1.1"]))
    whole, placeholder = _plans(fat_tree(4), [shed])["h1"]
    assert (whole.length, whole.gradient, whole.step) == (60_000, True, 1)
    assert (placeholder.length, placeholder.gradient, placeholder.step) == (64, False, 1)
    assert whole.source == int(fat_tree(4).host("h3").ip)
    assert _missing(run(shed), recounts(), 1, 512) == {(1, 0, 0): [(1024, 2048)], (1, 0, 1): [(0, 60_000)]}
