# SPDX-License-Identifier: Apache-2.0
"""From what an arm left to records, and to the list of broken promises."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from controller import StepPolicy
from controller.experiments.coordinator import RunError, StepOutcome
from controller.experiments.gradients import Missing, check_step, drift
from controller.experiments.records import ArmRecord, StepRecord, TpRecord
from controller.experiments.recount import FlowPlan, InstalledStep, Recount, Recounter, check_arrivals
from controller.experiments.training_run import ArmRun, nic_interfaces
from controller.nic import EXEMPTION_CODES
from hosts.messages import STEP_SLOTS, MessageKey
from hosts.shedding import PLACEHOLDER_BYTES
from profiles import Configuration
from topologies import Topology


@dataclass(frozen=True, slots=True)
class Verdict:
    """An arm in numbers. violations: one line each."""

    steps: list[StepRecord]
    tp: list[TpRecord]
    arm: ArmRecord
    violations: list[str]


def _plans(topology: Topology, outcomes: Iterable[StepOutcome]) -> dict[str, list[FlowPlan]]:
    """What every host expected: receiver -> flows."""
    plans: dict[str, list[FlowPlan]] = {}
    for outcome in outcomes:
        shed = set(outcome.done.shed)
        for sender, offers in outcome.begin.offers.items():
            source = int(topology.host(sender).ip)
            for offer in offers:
                given_up = offer.key in shed
                plans.setdefault(outcome.begin.host, []).append(
                    FlowPlan(
                        offer.qp,
                        source,
                        PLACEHOLDER_BYTES if given_up else offer.length_bytes,
                        offer.gradient and not given_up,
                        outcome.begin.step if offer.gradient else None,
                        f"message {offer.key}",
                    )
                )
    return plans


def _installed(
    outcomes: Iterable[StepOutcome], configuration: Configuration
) -> dict[str, list[InstalledStep]]:
    policy = StepPolicy.of(configuration)
    installed: dict[str, list[InstalledStep]] = {}
    for outcome in outcomes:
        if outcome.state is not None:
            step = outcome.begin.step
            installed.setdefault(outcome.begin.host, []).append(
                InstalledStep(
                    step, step % STEP_SLOTS, outcome.p_ppm, outcome.budget, policy.packet_bytes,
                    policy.vesting, EXEMPTION_CODES[policy.exemption], policy.eligible,
                    policy.trimmed_starts_flow,
                )
            )  # fmt: skip
    return installed


def _recount(job: tuple[Recounter, str, str]) -> Recount:
    from pathlib import Path

    recounter, wire, host = job
    return recounter.run(Path(wire), Path(host))


def recount(run: ArmRun, topology: Topology, configuration: Configuration) -> dict[str, Recount]:
    """Recount every NIC of the run from its captures, by host; several at a time. Raises CaptureError,
    RunError.
    """
    hosts = [*run.placement.ranks, *run.placement.ring]
    plans = _plans(topology, run.outcomes)
    installed = _installed(run.outcomes, configuration)
    trimmed = frozenset((configuration.dscp.gradient_trimmed, configuration.dscp.data_trimmed))
    jobs = []
    for name, wire, host in nic_interfaces(topology, hosts):
        recounter = Recounter(
            topology.host(name).nic, int(topology.host(name).ip), plans.get(name, []),
            installed.get(name, []), trimmed, configuration.wire.block_bytes,
            configuration.dscp.gradient_trimmed,
        )  # fmt: skip
        jobs.append((recounter, str(run.captures[wire]), str(run.captures[host])))
    # Ctrl-C ends the helpers at once and without a word; this process then says so.
    with ProcessPoolExecutor(initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL)) as pool:
        try:
            return dict(zip(hosts, pool.map(_recount, jobs), strict=True))
        except BrokenProcessPool:
            raise RunError("a process that recounts captures was killed: is there memory left?") from None


def _missing(run: ArmRun, recounts: dict[str, Recount], step: int, block: int) -> Missing:
    """Byte ranges of a step's messages that never came, by the captures."""
    index = {name: i for i, name in enumerate(run.placement.ranks)}
    found: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for outcome in run.outcomes:
        if outcome.begin.step != step or outcome.begin.host not in index:
            continue
        shed = set(outcome.done.shed)
        for sender, offers in outcome.begin.offers.items():
            for offer in offers:
                place = (index[sender], index[outcome.begin.host], MessageKey.parse(offer.key).sequence)
                if offer.key in shed:
                    found[place] = [(0, offer.length_bytes)]
                elif ranges := recounts[outcome.begin.host].forgiven_ranges(offer.qp, block):
                    found[place] = ranges
    return found


def _budget_violations(run: ArmRun, configuration: Configuration) -> list[str]:
    """What was installed against the schedule and the lengths of the messages that were posted."""
    wrong = []
    for outcome in run.outcomes:
        begin = outcome.begin
        expected = sum(o.length_bytes for offers in begin.offers.values() for o in offers if o.gradient)
        p = configuration.budget.p_ppm(begin.critical) if expected else 0
        due = (expected, p, p * expected // 1_000_000)
        said = (begin.expected_bytes, outcome.p_ppm, outcome.budget)
        if said != due:
            wrong.append(f"{begin.host} step {begin.step}: (expected, p, budget) {said}, recounted {due}")
    return wrong


def _state_violations(run: ArmRun, recounts: dict[str, Recount]) -> list[str]:
    """The NIC's own books, and the host's, against the recount."""
    wrong = []
    for outcome in run.outcomes:
        if outcome.state is None:
            continue
        host, step = outcome.begin.host, outcome.begin.step
        books = recounts[host].steps[step]
        said = (outcome.state.received, outcome.state.forgiven, outcome.state.outstanding)
        counted = (books.received, books.forgiven, books.outstanding)
        if said != counted:
            wrong.append(f"{host} step {step}: (received, forgiven, outstanding) {said}, recounted {counted}")
        if outcome.done.forgiven_bytes != books.forgiven:
            wrong.append(
                f"{host} step {step}: the host knows of {outcome.done.forgiven_bytes} forgiven bytes, "
                f"recounted {books.forgiven}"
            )
        # Late duplicates may still be trimmed after the NIC was asked.
        trimmed = books.trimmed - books.unknown
        if outcome.state.trimmed > trimmed:
            wrong.append(f"{host} step {step}: {outcome.state.trimmed} trimmed, recounted {trimmed}")
    return wrong


def _step_record(arm: str, rank: int, outcome: StepOutcome) -> StepRecord:
    begin, done, state = outcome.begin, outcome.done, outcome.state
    assert state is not None
    events = state.events
    return StepRecord(
        arm=arm,
        step=begin.step,
        rank=rank,
        critical=begin.critical,
        gradient_norm=begin.norm,
        norm_change=begin.change,
        p_ppm=outcome.p_ppm,
        expected_bytes=begin.expected_bytes,
        budget_bytes=outcome.budget,
        received_bytes=state.received,
        forgiven_bytes=state.forgiven,
        trimmed_bytes=state.trimmed,
        outstanding_bytes=state.outstanding,
        shed_bytes=done.shed_bytes,
        start_ns=done.start_ns,
        end_ns=done.end_ns,
        sent_bytes=done.sent_bytes,
        retransmitted_bytes=done.retransmitted_bytes,
        timeouts=done.timeouts,
        rate_cuts=done.rate_cuts,
        echoes_sent=events["echo_sent"],
        notifications_taken=events["notification_delivered"] + events["request_obeyed"],
        notifications_ignored=events["notification_ignored"] + events["request_exempt"],
        exhausted_set=events["exhausted_set"],
        exhausted_cleared=events["exhausted_cleared"],
        became_exempt=events["became_exempt"],
        became_obeying=events["became_obeying"],
        refused_vesting=events["refused_vesting"],
        refused_draw=events["refused_draw"],
        late=events["data_late"],
        loss=done.loss,
    )


def judge(name: str, seed: int, run: ArmRun, topology: Topology, configuration: Configuration) -> Verdict:
    """Records of an arm, after recounting all of it."""
    ranks = {host: i for i, host in enumerate(run.placement.ranks)}
    recounts = recount(run, topology, configuration)
    violations = [line for r in recounts.values() for line in r.violations]
    violations += _budget_violations(run, configuration)
    violations += _state_violations(run, recounts)
    sent_packets, lost = check_arrivals(list(recounts.values()))
    trimmed_arrived = sum(r.totals["trimmed_packets"] for r in recounts.values())
    totals = [switch.total for switch in run.switches.values()]
    trimmed = sum(t.trimmed for t in totals)
    if trimmed != trimmed_arrived:
        violations.append(f"switches trimmed {trimmed} packets, {trimmed_arrived} headers arrived")
    steps = sorted({o.begin.step for o in run.outcomes})
    block = configuration.wire.block_bytes
    for step in steps:
        violations += check_step(run.directory, step, len(ranks), _missing(run, recounts, step, block))
    records = [
        _step_record(name, ranks[o.begin.host], o) for o in run.outcomes if o.begin.host in ranks
    ]  # fmt: skip
    tp = [
        TpRecord(name, o.begin.host, o.begin.step, i, at)
        for o in run.outcomes
        if o.begin.host not in ranks
        for i, at in enumerate(o.done.completions_ns)
    ]  # fmt: skip
    first_sent = sum(o.done.sent_bytes for o in run.outcomes)
    trimmed_bytes = sum(r.totals["trimmed_bytes"] for r in recounts.values())
    gradient_trimmed = sum(b.trimmed for r in recounts.values() for b in r.steps.values())
    gradient_sent = sum(r.sent_bytes for r in records)
    byes = [run.byes[host] for host in ranks]
    arm = ArmRecord(
        arm=name,
        seed=seed,
        steps=len(steps),
        training_ns=sum(
            max(r.end_ns for r in records if r.step == s) - min(r.start_ns for r in records if r.step == s)
            for s in steps
        ),
        trim_rate=trimmed_bytes / max(1, first_sent),
        gradient_trim_rate=gradient_trimmed / max(1, gradient_sent),
        sent_bytes=first_sent,
        sent_packets=sent_packets,
        retransmitted_bytes=sum(o.done.retransmitted_bytes for o in run.outcomes),
        forgiven_bytes=sum(r.forgiven_bytes for r in records),
        shed_bytes=sum(r.shed_bytes for r in records),
        forwarded=sum(t.forwarded for t in totals),
        marked=sum(t.marked for t in totals),
        trimmed=trimmed,
        dropped=sum(t.dropped for t in totals),
        lost=lost,
        training_loss=sum(b.loss for b in byes) / len(byes),
        test_accuracy=sum(b.accuracy for b in byes) / len(byes),
        drift=drift(run.directory, len(ranks)),
        violations=len(violations),
    )
    return Verdict(records, tp, arm, violations)
