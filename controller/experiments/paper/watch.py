# SPDX-License-Identifier: Apache-2.0
"""What is counted while a run goes on: messages, budgets, queues."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from controller.experiments.paper.audit import Audit
from controller.experiments.paper.rows import FlowRow, QueueRow, StepRow, TimeRow
from hosts.checker import StepBooks
from hosts.endpoint import Stats
from hosts.messages import MessageKey
from hosts.workload import Kind, Observer, kind_of
from profiles import Configuration
from topologies import Tier, Topology
from virtual import Completion, StepBudgets, VirtualFabric
from virtual.control import StepReport

DATA_QUEUE = 0

Name = tuple[str, int]
"""Arm and seed."""


class FlowTotals:
    """Messages by kind and step. `add` is called for each, so it does little."""

    def __init__(self) -> None:
        self._durations: dict[tuple[Kind, int], array[int]] = defaultdict(lambda: array("q"))
        self._sums: dict[tuple[Kind, int], list[int]] = defaultdict(lambda: [0] * 8)
        self._exempt: dict[int, list[int]] = defaultdict(lambda: [0] * 5)
        self._seen = [0] * 5
        self.messages = 0
        self.bytes = 0

    def add(self, key: MessageKey, message: Completion) -> None:
        """Its sender has the last acknowledgement."""
        name = (kind_of(key), key.step)
        self._durations[name].append(message.time_ns - message.posted_ns)
        row = self._sums[name]
        row[0] += message.length_bytes
        row[1] += message.retransmitted_bytes
        row[2] += message.forgiven_bytes
        row[3] += message.naks
        row[4] += message.signals
        row[5] += message.rate_cuts
        row[6] += message.rtos
        row[7] += bool(message.naks or message.forgiven_bytes)
        self.messages += 1
        self.bytes += message.length_bytes

    def gradient_step_ended(self, step: int, hosts: Sequence[Stats]) -> None:
        """Of all ranks: what the hosts counted of exemptions since the last one belongs to this step."""
        names = ("exempt_messages", "obeying_again_messages", "flag_changes", "exempt_ns", "obeying_again_ns")
        now = [sum(getattr(stats, name) for stats in hosts) for name in names]
        self._exempt[step] = [new - old for new, old in zip(now, self._seen, strict=True)]
        self._seen = now

    def rows(self, name: Name) -> list[FlowRow]:
        found = []
        for (kind, step), sums in sorted(self._sums.items()):
            durations = np.frombuffer(self._durations[kind, step], np.int64)
            exempt = self._exempt[step] if kind is Kind.GRADIENT else [0] * 5
            middle, late = np.quantile(durations, (0.5, 0.99), method="nearest")
            times = [int(durations.sum()), int(middle), int(late), int(durations.max())]
            values = [*name, str(kind), step, len(durations), *sums, *exempt, *times]
            found.append(FlowRow(*values))  # type: ignore[arg-type]
        return found


class Budgets(Observer):
    """Installs, closes and removes every rank's steps, in its NIC and with the checker, and keeps what they
    say at the end.
    """

    def __init__(
        self,
        name: Name,
        fabric: VirtualFabric,
        configuration: Configuration,
        control: StepBudgets,
        audit: Audit,
        flows: FlowTotals,
    ) -> None:
        assert configuration.study is not None
        self.rows: list[StepRow] = []
        self.differences: list[str] = []
        """Between the NICs' byte states at their steps' ends and the checkers' books; none are due."""
        self.open: dict[int, set[int]] = defaultdict(set)
        """By step, the ranks with an open budget."""
        self._name = name
        self._fabric = fabric
        self._study = configuration.study
        self._budget = configuration.budget
        self._control = control
        self._audit = audit
        self._flows = flows
        self._hosts = fabric.host_names
        self._ended: dict[int, int] = defaultdict(int)

    def is_critical(self, step: int) -> bool:
        return step in self._study.critical_steps

    def step_opens(self, ranks: Sequence[int], step: int, expected_bytes: int) -> None:
        p_ppm = self._budget.p_ppm(self.is_critical(step))
        for rank in ranks:
            self._audit.open(rank, step, p_ppm, expected_bytes)
        self._control.open([self._hosts[rank] for rank in ranks], step, p_ppm, expected_bytes)
        self.open[step].update(ranks)

    def step_closes(self, rank: int, step: int) -> None:
        self._control.close([self._hosts[rank]], step)
        self._audit.close(rank, step)

    def step_ends(self, rank: int, step: int) -> None:
        host = self._hosts[rank]
        report = self._control.finish([host], step)[host]
        books = self._audit.books(rank, step)
        self.differences += self._audit.differences(rank, step, report.state)
        self._audit.remove(rank, step)
        self.rows.append(self._row(rank, report, books))
        self.open[step].discard(rank)
        self._ended[step] += 1
        if self._ended[step] == self._study.ranks:
            self._flows.gradient_step_ended(step, [self._fabric.stats(name) for name in self._hosts])

    def _row(self, rank: int, report: StepReport, books: StepBooks) -> StepRow:
        installed, state, events = report.installed, report.state, report.events
        values = [
            *self._name,
            rank,
            installed.step,
            self.is_critical(installed.step),
            installed.p_ppm,
            installed.expected_bytes,
            installed.budget,
            state.received,
            state.forgiven,
            state.outstanding,
            state.trimmed,
            books.forgiven_bytes,
            books.trimmed_bytes,
            *books.trimmed_by_fifth,
            *books.forgiven_by_fifth,
            *(getattr(events, field) for field in _EVENTS),
            events.notification_ignored + events.request_exempt,
            events.became_exempt,
            events.became_obeying,
        ]
        return StepRow(*values)


_EVENTS = (
    "forgiven", "refused_vesting", "refused_draw", "refused_closed", "data_late", "exhausted_set",
    "exhausted_cleared",
)  # fmt: skip


class Samples:
    """Budgets and queues at regular times. Looks at the clock only through `take`."""

    def __init__(self, name: Name, fabric: VirtualFabric, budgets: Budgets, audit: Audit) -> None:
        self.times: list[TimeRow] = []
        self.queues: list[QueueRow] = []
        self._name = name
        self._fabric = fabric
        self._budgets = budgets
        self._audit = audit
        self._ports = [
            (ports, [(fabric.device(node), number) for node, number in ends])
            for ports, ends in switch_ports(fabric.topology).items()
        ]

    def take(self) -> None:
        now = self._fabric.clock.now_ns
        for ports, ends in self._ports:
            peaks = [device.take_peaks(number)[1][DATA_QUEUE] for device, number in ends]
            largest = max(peaks)
            if largest:
                self.queues.append(QueueRow(*self._name, now, ports, largest, sum(peaks) / len(peaks)))
        for step, ranks in self._budgets.open.items():
            if ranks:
                self._take_step(now, step, sorted(ranks))

    def _take_step(self, now: int, step: int, ranks: Sequence[int]) -> None:
        books = [self._audit.books(rank, step) for rank in ranks]
        ended = [row for row in self._budgets.rows if row.step == step]
        self.times.append(
            TimeRow(
                *self._name,
                step,
                now,
                len(ranks),
                sum(b.limit_bytes for b in books) + sum(r.budget_bytes for r in ended),
                sum(b.received_bytes for b in books) + sum(r.received_bytes for r in ended),
                sum(b.forgiven_bytes for b in books) + sum(r.checked_forgiven_bytes for r in ended),
                sum(b.outstanding_bytes for b in books),
                sum(b.trimmed_bytes for b in books) + sum(r.checked_trimmed_bytes for r in ended),
            )
        )


def switch_ports(topology: Topology) -> Mapping[str, list[tuple[str, int]]]:
    """Ports of switches by what they lead to, as (switch, port). Other families: by their layers' names."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for switch in topology.switches():
        for link in topology.links_of(switch.name):
            end, other = link.end(switch.name), link.other(switch.name)
            beyond = "host" if link.tier is Tier.ACCESS else topology.device(other.node).layer
            found[f"{switch.layer} to {beyond}"].append((switch.name, end.number))
    return found
