# SPDX-License-Identifier: Apache-2.0
"""The independent checker: recounts every byte of a run from packet captures.

It shares no code and no counter with the dataplane. From the packets that
crossed a NIC's two ports, and from what the controller installed, it replays
the receiver's books and holds the paper's promises against them:

- forgiven <= p / (1 - p) * received at every report (with vesting), and
  forgiven <= budget always;
- only gradient traffic of an eligible step is forgiven;
- the flags of every report are those of the books at that instant;
- every byte of every flow is settled exactly once, and its host is told so;
- every trimmed header reaches its receiver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controller.experiments.captures import DELIVERY_FORGIVEN, Data, Feedback, read_roce

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class InstalledStep:
    """What a rank's NIC was told of one step. Bytes."""

    step: int
    slot: int
    p_ppm: int
    budget: int
    packet_bytes: int
    vesting: bool
    exemption: int
    eligible: bool
    trimmed_starts_flow: bool


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One message as its receiver expects it. step None: outside any step."""

    qp: int
    source: int
    length: int
    gradient: bool
    step: int | None
    label: str


@dataclass(slots=True)
class StepBooks:
    """Recounted bytes of one rank and step."""

    received: int = 0
    forgiven: int = 0
    outstanding: int = 0
    trimmed: int = 0
    unknown: int = 0
    """Of trimmed: of headers that found no flow and started none. The NIC does not count them."""
    requested: int = 0
    reports: int = 0
    exhausted_reports: int = 0
    late_bytes: int = 0
    trail: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(time in ns, received, forgiven, outstanding) at every forgiveness."""


@dataclass(slots=True)
class FlowBooks:
    """Masks over a message's blocks; bit i = block i."""

    plan: FlowPlan
    settled: int = 0
    forgiven: int = 0
    charged: int = 0
    exempt_eligible: bool | None = None
    first_ns: int = 0
    last_ns: int = 0


@dataclass(slots=True)
class Recount:
    """The result for one NIC. violations: one line each; empty when all promises held."""

    nic: str
    steps: dict[int, StepBooks]
    flows: dict[int, FlowBooks]
    totals: Counter[str]
    violations: list[str]
    sent: dict[tuple[int, int, int], int]
    """Packets this NIC's host sent: key -> payload bytes."""
    arrived: dict[tuple[int, int, int], bool]
    """Packets that arrived for this host: key -> came trimmed."""

    def forgiven_ranges(self, qp: int, block: int) -> list[tuple[int, int]]:
        """[start, end) byte ranges of a flow that were forgiven."""
        books = self.flows[qp]
        return list(_runs(books.forgiven, block, books.plan.length))


def _runs(mask: int, block: int, length: int) -> Iterable[tuple[int, int]]:
    at = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        at += skip
        run = (~mask & (mask + 1)).bit_length() - 1
        yield at * block, min((at + run) * block, length)
        mask >>= run
        at += run


class Recounter:
    """Replays one NIC's captures. `trimmed_dscp`: the DSCPs of trimmed headers; `forgivable_dscp`: that of
    gradient traffic among them.
    """

    def __init__(
        self,
        nic: str,
        address: int,
        flows: Sequence[FlowPlan],
        steps: Sequence[InstalledStep],
        trimmed_dscp: frozenset[int],
        block_bytes: int,
        forgivable_dscp: int,
    ) -> None:
        self._address = address
        self._forgivable_dscp = forgivable_dscp
        self._block = block_bytes
        self._trimmed_dscp = trimmed_dscp
        self._installed: Mapping[int, InstalledStep] = {s.step: s for s in steps}
        self._result = Recount(
            nic, {s.step: StepBooks() for s in steps}, {f.qp: FlowBooks(f) for f in flows},
            Counter(), [], {}, {},
        )  # fmt: skip
        if len(self._result.flows) != len(flows):
            self._violation("two flows were given the same queue pair")

    def run(self, wire: Path, host: Path) -> Recount:
        """wire, host: captures of the NIC's two ports, complete."""
        deliveries = self._deliveries(host)
        inbound: list[Data] = []
        answers: dict[tuple[int, int, int], Feedback] = {}
        for packet in read_roce(wire):
            if isinstance(packet, Data):
                if packet.dst == self._address:
                    inbound.append(packet)
                elif packet.src != self._address:
                    self._violation(f"a packet neither from nor for this host: {packet}")
                else:
                    if packet.key in self._result.sent:
                        self._violation(f"two packets under one sequence number: {packet}")
                    self._result.sent[packet.key] = packet.length
                    self._result.totals["sent_bytes"] += packet.length
                    self._result.totals["sent_packets"] += 1
            elif isinstance(packet, Feedback) and packet.src == self._address:
                if packet.key in answers:
                    self._violation(f"two answers to one packet: {packet}")
                answers[packet.key] = packet
        for packet in inbound:
            self._arrival(packet, deliveries.pop(packet.key, None), answers.pop(packet.key, None))
        for stray in deliveries.values():
            self._violation(f"the host was given a packet that never arrived: {stray}")
        for answer in answers.values():
            self._violation(f"an answer to a packet that never arrived: {answer}")
        self._close()
        return self._result

    def _violation(self, text: str) -> None:
        self._result.violations.append(f"{self._result.nic}: {text}")

    def _deliveries(self, host: Path) -> dict[tuple[int, int, int], Data]:
        found: dict[tuple[int, int, int], Data] = {}
        for packet in read_roce(host, self._address):
            if isinstance(packet, Data) and packet.dst == self._address:
                if packet.key in found:
                    self._violation(f"one packet was delivered twice: {packet}")
                found[packet.key] = packet
        return found

    def _bytes(self, mask: int, length: int) -> int:
        """Bytes of the masked blocks of a message of `length` bytes."""
        total = mask.bit_count() * self._block
        tail = length % self._block
        if tail and mask >> (length // self._block) & 1:
            total -= self._block - tail
        return total

    def _arrival(self, packet: Data, delivery: Data | None, answer: Feedback | None) -> None:
        trimmed = packet.dscp in self._trimmed_dscp
        self._result.arrived[packet.key] = trimmed
        flow = self._result.flows.get(packet.qp)
        if flow is None:
            self._violation(f"a packet of a flow nobody expects: {packet}")
            return
        plan = flow.plan
        end = packet.offset + packet.length
        if packet.offset % self._block or end > plan.length or (end % self._block and end < plan.length):
            self._violation(f"{plan.label}: a range outside its message: {packet}")
            return
        flow.first_ns = flow.first_ns or packet.time_ns
        flow.last_ns = packet.time_ns
        installed = self._installed.get(plan.step) if plan.step is not None else None
        if trimmed and flow.exempt_eligible is None and installed and not installed.trimmed_starts_flow:
            self._unknown(packet, flow, self._result.steps[installed.step], delivery, answer)
            return
        if flow.exempt_eligible is None:
            flow.exempt_eligible = bool(
                plan.gradient and installed and installed.p_ppm > 0 and installed.eligible
            )
        first = packet.offset // self._block
        blocks = -(-packet.length // self._block)
        span = ((1 << blocks) - 1) << first
        missing = span & ~flow.settled
        books = self._result.steps[plan.step] if installed and plan.step is not None else None
        charge = books if flow.exempt_eligible else None
        if trimmed:
            self._trimmed(packet, flow, missing, first, delivery, installed, books, charge)
        else:
            self._data(packet, flow, missing, span, first, delivery, charge)
        self._report(packet, flow, answer, trimmed, missing, installed, charge)

    def _data(
        self, packet: Data, flow: FlowBooks, missing: int, span: int, first: int, delivery: Data | None,
        charge: StepBooks | None,
    ) -> None:  # fmt: skip
        length = flow.plan.length
        told = (delivery.accept << first) if delivery else 0
        if told != missing or (delivery and delivery.event == DELIVERY_FORGIVEN):
            self._violation(
                f"{flow.plan.label}: host told to accept {told:#x}, new is {missing:#x}: {packet}"
            )
        new = self._bytes(missing, length)
        self._result.totals["settled_bytes"] += new
        self._result.totals["duplicate_bytes"] += packet.length - new
        if charge:
            charge.received += new
            charge.outstanding -= self._bytes(missing & flow.charged, length)
            charge.late_bytes += self._bytes(span & flow.forgiven, length)
        flow.charged &= ~missing
        flow.settled |= missing

    def _trimmed(
        self, packet: Data, flow: FlowBooks, missing: int, first: int, delivery: Data | None,
        installed: InstalledStep | None, books: StepBooks | None, charge: StepBooks | None,
    ) -> None:  # fmt: skip
        length = flow.plan.length
        lacking = self._bytes(missing, length)
        self._result.totals["trimmed_bytes"] += packet.length
        self._result.totals["trimmed_packets"] += 1
        if books:
            books.trimmed += packet.length
        if charge:
            charge.outstanding += self._bytes(missing & ~flow.charged, length)
            flow.charged |= missing
        if delivery is None:
            if missing:
                self._result.totals["requested_packets"] += 1
                if books:
                    books.requested += lacking
            return
        if delivery.event != DELIVERY_FORGIVEN or delivery.accept << first != missing:
            self._violation(f"{flow.plan.label}: a trimmed header came as {delivery}, missing {missing:#x}")
        if not charge or not installed or packet.dscp != self._forgivable_dscp:
            self._violation(f"{flow.plan.label}: forgiven, but not eligible: {packet}")
            return
        charge.forgiven += lacking
        charge.outstanding -= lacking
        flow.charged &= ~missing
        flow.forgiven |= missing
        flow.settled |= missing
        self._result.totals["settled_bytes"] += lacking
        self._result.totals["forgiven_bytes"] += lacking
        charge.trail.append((packet.time_ns, charge.received, charge.forgiven, charge.outstanding))
        self._bounds(flow.plan.label, installed, charge)

    def _unknown(
        self, packet: Data, flow: FlowBooks, books: StepBooks, delivery: Data | None, answer: Feedback | None
    ) -> None:
        """A header of a flow that only data may start: a bare request, and nothing else happens."""
        label = flow.plan.label
        self._result.totals["trimmed_bytes"] += packet.length
        self._result.totals["trimmed_packets"] += 1
        self._result.totals["requested_packets"] += 1
        books.trimmed += packet.length
        books.unknown += packet.length
        books.requested += packet.length
        if delivery is not None:
            self._violation(f"{label}: a header of a flow that has not started came as {delivery}")
        if answer is None:
            self._violation(f"{label}: no answer to {packet}")
            return
        said = (answer.nak, answer.start, answer.length, answer.rcv_nxt, answer.eligible, answer.exhausted)
        if said != (True, packet.offset, packet.length, 0, False, False):
            self._violation(
                f"{label}: not the bare request of a flow that has not started: {answer} to {packet}"
            )

    def _bounds(self, label: str, installed: InstalledStep, books: StepBooks) -> None:
        if books.forgiven > installed.budget:
            self._violation(f"{label}: forgiven {books.forgiven} > budget {installed.budget}")
        received, p = books.received, installed.p_ppm
        if installed.vesting and books.forgiven * (MILLION - p) > p * received:
            self._violation(f"{label}: forgiven {books.forgiven} > p/(1-p) * {received}, p {p} ppm")

    def _report(
        self, packet: Data, flow: FlowBooks, answer: Feedback | None, trimmed: bool, missing: int,
        installed: InstalledStep | None, charge: StepBooks | None,
    ) -> None:  # fmt: skip
        label = flow.plan.label
        if answer is None:
            self._violation(f"{label}: no answer to {packet}")
            return
        if answer.nak and not trimmed:
            self._violation(f"{label}: a retransmission request for data that arrived: {packet}")
        if (answer.start, answer.length) != (packet.offset, packet.length):
            self._violation(f"{label}: the answer names another range: {answer} to {packet}")
        front = (~flow.settled & (flow.settled + 1)).bit_length() - 1
        if answer.rcv_nxt != front * self._block:
            self._violation(f"{label}: rcv_nxt {answer.rcv_nxt}, recounted {front * self._block}")
        if trimmed and answer.nak != bool(missing & ~flow.forgiven):
            self._violation(f"{label}: asked for a settled range, or did not ask for a missing one: {packet}")
        eligible = exhausted = False
        if charge and installed:
            charge.reports += 1
            self._bounds(label, installed, charge)
            full = charge.forgiven + charge.outstanding + installed.packet_bytes > installed.budget
            eligible = installed.exemption != 1
            exhausted = full and installed.exemption != 2
            charge.exhausted_reports += exhausted
        gone = charge is not None and not missing and self._settled(flow.plan.step)
        if gone and answer.exhausted and answer.eligible:
            return
        if (answer.eligible, answer.exhausted) != (eligible, exhausted):
            sent, due = (answer.eligible, answer.exhausted), (eligible, exhausted)
            self._violation(f"{label}: flags {sent}, recounted {due}: {packet}")

    def _lacking(self, flow: FlowBooks) -> int:
        """Blocks of a flow that are not settled, as a mask."""
        return ((1 << -(-flow.plan.length // self._block)) - 1) & ~flow.settled

    def _settled(self, step: int | None) -> bool:
        """Nothing of the step is missing: its entry may be removed, and a late duplicate is then told
        that there is no budget (eligible, exhausted): docs/dataplane.md.
        """
        flows = self._result.flows.values()
        return not any(self._lacking(flow) for flow in flows if flow.plan.step == step)

    def _close(self) -> None:
        for flow in self._result.flows.values():
            if lacking := self._lacking(flow):
                self._violation(f"{flow.plan.label}: {lacking.bit_count()} blocks were never settled")
        for step, books in self._result.steps.items():
            if books.outstanding:
                self._violation(f"step {step}: {books.outstanding} bytes still outstanding at the end")


def check_arrivals(recounts: Sequence[Recount]) -> tuple[int, int]:
    """(packets sent, packets that never arrived in either form) over all NICs."""
    arrived = set().union(*(r.arrived.keys() for r in recounts)) if recounts else set()
    sent = [key for r in recounts for key in r.sent]
    return len(sent), sum(key not in arrived for key in sent)
