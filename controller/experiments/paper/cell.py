# SPDX-License-Identifier: Apache-2.0
"""One arm with one seed, from an empty fabric to its files.

`python -m controller.experiments.paper.cell FILE` runs the specification in FILE and says how far it is, a
line of JSON each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controller import ControllerError, Fabric, Programs, StepPolicy, compile_programs
from controller.experiments import records
from controller.experiments.paper import rows
from controller.experiments.paper.arms import BY_KEY, StudyArm, seeded
from controller.experiments.paper.audit import Audit
from controller.experiments.paper.plan import Plan, plan
from controller.experiments.paper.watch import Budgets, FlowTotals, Samples
from controller.experiments.session import topology_of
from hosts.messages import CollectiveError, MessageKey
from hosts.workload import TrainingJob, kind_of
from profiles import Configuration, Profile, ProfileError, load
from topologies import Topology, TopologyError
from virtual import Exchange, FaultPlan, StepBudgets, VirtualError, VirtualFabric

SAMPLE_NS = 250_000
"""Simulated time between looks at queues and budgets."""

STALL_NS = 5_000_000_000
"""Simulated time without a finished message after which a run has failed (the study's deadline)."""

REPORT_MESSAGES = 500

KNOWN = (ControllerError, CollectiveError, ProfileError, TopologyError, VirtualError, OSError)

Report = Callable[[Mapping[str, Any]], None]


class StalledError(CollectiveError):
    """A run that does not come to its end."""


@dataclass(frozen=True, slots=True)
class Specification:
    """All that a cell depends on, but for the sources. profile: a name or a file; settings: as for --set.

    hash_seed: of the switches' draws instead of the seed.
    """

    arm: str
    seed: int
    scale: str
    profile: str
    settings: tuple[str, ...] = ()
    hash_seed: int | None = None

    @property
    def name(self) -> str:
        return f"{self.arm}-{self.seed}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Specification:
        values = json.loads(text)
        return cls(**(values | {"settings": tuple(values["settings"])}))

    def planned(self) -> tuple[StudyArm, Profile, Plan]:
        """The arm, the profile without its keys, and the plan with them. Raises ProfileError."""
        arm = BY_KEY[self.arm]
        base = seeded(load(self.profile).override_text(self.settings), self.seed, self.hash_seed)
        return arm, base, plan(arm.profile(base), self.scale)

    def fingerprint(self, programs: Programs) -> str:
        """Of the configuration and the compiled P4 programs: what a cell's results are results of."""
        _, base, planned = self.planned()
        told = planned.profile.configuration().to_json() + repr((base.budget, self.arm, self.seed))
        digest = hashlib.sha256(told.encode())
        for program in (programs.switch, programs.nic):
            digest.update(program.json.read_bytes())
        return digest.hexdigest()[:16]


def finished(directory: Path) -> Mapping[str, Any] | None:
    """The manifest of a finished cell, None if there is none. Raises records.ResultsError if it is broken."""
    try:
        text = (directory / "manifest.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        manifest = json.loads(text)
        manifest["fingerprint"]
    except (ValueError, KeyError, TypeError):
        raise records.ResultsError(f"{directory}/manifest.json: unreadable; remove {directory}") from None
    assert isinstance(manifest, dict)
    return manifest


class _Run:
    """One job on one fabric."""

    def __init__(
        self, specification: Specification, net: VirtualFabric, fabric: Fabric, audit: Audit, report: Report
    ) -> None:
        arm, base, planned = specification.planned()
        configuration = net.configuration
        assert configuration.study is not None
        self.name = (specification.arm, specification.seed)
        self.net = net
        self.fabric = fabric
        self.audit = audit
        self.flows = FlowTotals()
        control = StepBudgets(fabric, StepPolicy.of(configuration))
        self.budgets = Budgets(self.name, net, configuration, control, audit, self.flows)
        self.samples = Samples(self.name, net, self.budgets, audit)
        ranks = dict(enumerate(net.host_names))
        self.exchange = Exchange(net, ranks, deliver_at="sender_done", eager=True, ranges=False)
        self.job = TrainingJob(
            net.clock,
            self.exchange,
            planned.study,
            observer=self.budgets,
            shedding=arm.shedding(base, specification.seed),
            on_finished=net.clock.stop,
        )
        self.exchange.on_posted = self._posted
        self.exchange.on_complete = self._complete
        self._lengths = self.job.message_lengths()
        self._report = report
        self._planned = self.job.planned_messages()
        self._last_message_ns = 0

    def _posted(self, key: MessageKey, qp: int) -> None:
        self.audit.posted(key, qp, self._lengths[kind_of(key)])

    def _complete(self, key: MessageKey, message: Any) -> None:
        self.flows.add(key, message)
        self._last_message_ns = message.time_ns
        if self.flows.messages % REPORT_MESSAGES == 0:
            self._report({"done": self.flows.messages / self._planned, "simulated_ns": message.time_ns})

    def _sample(self) -> None:
        self.samples.take()
        clock = self.net.clock
        quiet = clock.now_ns - self._last_message_ns
        longest = STALL_NS + 2 * self.job.study.compute_ns
        if quiet > longest:
            raise StalledError(
                f"no message has finished for {quiet} ns of simulated time; waiting for "
                f"{self.job.waiting_for()[:400]}"
            )
        clock.after(SAMPLE_NS, self._sample)

    def run(self) -> None:
        """To the end of the last step. Raises one of `KNOWN`."""
        clock = self.net.clock
        clock.after(SAMPLE_NS, self._sample)
        self.job.start()
        clock.run()
        if not self.job.finished:
            raise StalledError(f"nothing is left to happen; waiting for {self.job.waiting_for()[:400]}")
        self.samples.take()
        # What is still on its way, repeats and answers, arrives before anything is counted.
        clock.run(clock.now_ns + STALL_NS // 1000)

    # --- what it leaves

    def tables(self) -> dict[str, list[Any]]:
        found = [
            rows.CollectiveRow(
                *self.name, r.rank, r.step, str(r.kind), r.index, r.start_ns, r.end_ns, r.missing_bytes,
                r.shed_bytes,
            )
            for r in self.job.records
        ]  # fmt: skip
        return {
            "collectives": found,
            "steps": self.budgets.rows,
            "flows": self.flows.rows(self.name),
            "timeline": self.samples.times,
            "queues": self.samples.queues,
            "totals": [self._totals()],
        }

    def _totals(self) -> rows.TotalsRow:
        hosts = [self.net.stats(name) for name in self.net.host_names]
        checked = self.audit.stats()
        switches = self.fabric.switch_counters().values()
        lost = sum(
            self.net.device(switch.name).port_counters(link.end(switch.name).number).queue_drops[1]
            for switch in self.net.topology.switches()
            for link in self.net.topology.links_of(switch.name)
        )
        sent = sum(h.sent_packets for h in hosts)
        return rows.TotalsRow(
            *self.name,
            steps=self.job.study.steps,
            ranks=self.job.study.ranks,
            training_ns=max(self.job.rank_end_ns.values()),
            offered_bytes=sum(h.first_bytes for h in hosts),
            sent_packets=sent,
            retransmitted_bytes=sum(h.retransmitted_bytes for h in hosts),
            forgiven_bytes=sum(h.forgiven_bytes for h in hosts),
            shed_bytes=sum(r.shed_bytes for r in self.job.records),
            trimmed_bytes=sum(c.trimmed_bytes for c in checked),
            trimmed_packets=sum(s.total.trimmed for s in switches),
            marked_packets=sum(s.total.marked for s in switches),
            lost_headers=lost,
            late_bytes=sum(c.late_bytes for c in checked),
            reports_checked=sum(c.reports for c in checked),
            # A link's far end is a switch's port or a NIC's: what switches and NICs put on links.
            hops=sum(s.total.forwarded for s in switches) + sent + sum(c.reports for c in checked),
        )

    def violations(self) -> list[str]:
        """Broken promises, and bytes that are not where they must be; a line each."""
        lines = self.audit.finish() + self.budgets.differences
        over = self.exchange.started_over
        hosts = [self.net.stats(name) for name in self.net.host_names]
        settled = sum(h.received_bytes + h.forgiven_bytes for h in hosts)
        for what, count, due in (
            ("messages sent", self.flows.messages, self._planned),
            (
                "bytes sent for the first time",
                sum(h.first_bytes for h in hosts),
                self.flows.bytes + over.sent_bytes,
            ),
            ("bytes received or forgiven", settled, self.flows.bytes + over.settled_bytes),
            ("blocks delivered twice", sum(h.double_settlements for h in hosts), 0),
            ("malformed packets at hosts", sum(h.malformed for h in hosts), 0),
            ("rank-steps", len(self.budgets.rows), self.job.study.steps * self.job.study.ranks),
        ):
            if count != due:
                lines.append(f"{what}: {count}, but it must be {due}")
        for row in self.budgets.rows:
            where = f"rank {row.rank}, step {row.step}"
            if row.forgiven_bytes > row.budget_bytes:
                lines.append(f"{where}: forgiven {row.forgiven_bytes} of a budget of {row.budget_bytes}")
            if (row.rank, row.step) in self.audit.restarted:
                continue  # its bytes are not the whole step's: says `Audit.restarted`
            total = row.received_bytes + row.forgiven_bytes
            if row.p_ppm and (total != row.expected_bytes or row.outstanding_bytes):
                lines.append(
                    f"{where}: received and forgiven {total} of {row.expected_bytes} bytes, "
                    f"{row.outstanding_bytes} outstanding at its end"
                )
        return lines


def run(specification: Specification, directory: Path, report: Report) -> Mapping[str, Any]:
    """Run the cell and leave its files in `directory`, which must not exist. Returns the manifest.

    Raises one of `KNOWN`; then nothing is left.
    """
    began, cpu = time.monotonic(), time.process_time()
    _, _, planned = specification.planned()
    configuration = planned.profile.configuration()
    topology = topology_of(planned.profile)
    _check_size(topology, planned)
    programs = compile_programs()
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        tables, violations = _simulate(specification, topology, configuration, programs, partial, report)
        (partial / "configuration.json").write_text(configuration.to_json(), encoding="utf-8")
        manifest = records.manifest(
            {"specification": asdict(specification)},
            {
                "wall": round(time.monotonic() - began, 3),
                "cpu": round(time.process_time() - cpu, 3),
            },
        )
        manifest |= {
            "arm": specification.arm,
            "seed": specification.seed,
            "fingerprint": specification.fingerprint(programs),
            "study": asdict(planned.study),
            "whole_study": asdict(planned.whole),
            "scaling": planned.says(),
            "payload_bytes": configuration.wire.payload_bytes,
            "rate_control": configuration.dcqcn.enabled,
            "violations": violations,
            "largest_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        rows.save(partial, tables, manifest)
        os.replace(partial, directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return manifest


def _check_size(topology: Topology, planned: Plan) -> None:
    if len(topology.hosts) != planned.study.ranks:
        raise ProfileError(
            f"{planned.profile.name}: study.tensor_parallel x study.data_parallel is {planned.study.ranks}; "
            f"the fabric has {len(topology.hosts)} hosts: give it as many"
        )


def _simulate(
    specification: Specification,
    topology: Topology,
    configuration: Configuration,
    programs: Programs,
    directory: Path,
    report: Report,
) -> tuple[dict[str, list[Any]], list[str]]:
    seed = specification.seed
    with VirtualFabric(topology, configuration, directory=directory / "run", seed=seed) as net:
        try:
            with Fabric(topology, net.devices, programs) as fabric:
                fabric.install(configuration, seed=seed)
                FaultPlan(net, fabric, configuration.faults, seed)
                with Audit(net, configuration) as audit:
                    job = _Run(specification, net, fabric, audit, report)
                    job.run()
                    return job.tables(), job.violations()
        finally:
            shutil.rmtree(directory / "run", ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done, also with violations (the manifest has them); 2 can't run."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    told = json.loads(Path(path).read_text(encoding="utf-8"))
    specification = Specification.from_json(json.dumps(told["specification"]))

    def report(state: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(dict(state)) + "\n")
        sys.stdout.flush()

    try:
        run(specification, Path(told["directory"]), report)
    except KNOWN as problem:
        sys.stderr.write(f"{specification.name}: {problem}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
