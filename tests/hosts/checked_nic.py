# SPDX-License-Identifier: Apache-2.0
"""A NIC under the checker: the reference model decides, and the checker sees every frame at its ports.

Promises are honest whatever a random plan installs: the expected bytes of a step are those of the flows that
join it, its budget is p times as much."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from hosts.checker import Checker, StepPromise
from tests.model.reference import NicModel
from tests.model.traffic import Event, FromHost, FromWire, Install, Plan, Remove, Wait, resolve
from tests.support import wire
from tests.support.nic import CLASSES, HOST, SEED, WIRE, Step

MILLION = 1_000_000

Change = Callable[[int, bytes], list[bytes]]
"""What the NIC sends instead of a frame: (port, frame) -> frames."""


def promise(step: Step, expected: int) -> StepPromise:
    return StepPromise(
        step_tag=step.tag,
        p_ppm=step.p_ppm,
        expected_bytes=expected,
        budget_bytes=step.budget,
        packet_bytes=step.packet_bytes,
        open=step.open,
        forgive_threshold=step.forgive_threshold,
        vesting=step.vesting,
        exemption=step.exemption,
        eligible=step.eligible,
        notification_interval_us=step.notification_interval_us,
        forgiveness_echoes=step.forgiveness_echoes,
        trimmed_starts_flow=step.trimmed_starts_flow,
    )


def lengths(plan: Plan) -> dict[int, int]:
    """Message bytes by flow slot."""
    return {slot: length + plan.prefix * wire.BLOCK for slot, length in enumerate(plan.lengths)}


def is_gradient(dscp: int) -> bool:
    return CLASSES[dscp][0]


def expected_bytes(events: Iterable[Event], length_of: dict[int, int]) -> dict[int, int]:
    """By step tag: the gradient bytes of the flows that join it."""
    steps: dict[int, Step] = {}
    started: set[int] = set()
    joined: set[int] = set()
    expected: dict[int, int] = {}
    for event in events:
        if isinstance(event, Install):
            steps[event.slot] = event.step
            expected.setdefault(event.step.tag, 0)
        elif isinstance(event, Remove):
            del steps[event.slot]
        elif isinstance(event, FromWire) and event.packet.opcode == wire.WRITE_ONLY:
            qp = event.packet.dest_qp
            slot, _, flow_slot = wire.split_queue_pair(qp)
            step = steps.get(slot)
            if event.packet.payload or step is None or step.trimmed_starts_flow:
                started.add(qp)
            if step is not None and qp in started and qp not in joined:
                joined.add(qp)
                if is_gradient(event.packet.dscp):
                    expected[step.tag] += length_of[flow_slot]
    return expected


def honest(events: list[Event], length_of: dict[int, int]) -> tuple[list[Event], dict[int, int]]:
    """The events with budgets that fit, and the expected bytes by tag."""
    expected = expected_bytes(events, length_of)
    fitted: list[Event] = []
    for event in events:
        if isinstance(event, Install):
            budget = event.step.p_ppm * expected[event.step.tag] // MILLION
            event = replace(event, step=replace(event.step, budget=budget))
        fitted.append(event)
    return fitted, expected


class CheckedNic:
    """The model with the checker at its ports. `change` is applied to every frame that leaves. Frames wait in
    their port's queue until `flush`, or until `lag` packets have come after them. `complete`: every message
    is to be. `plain`: packets look as our own hosts make them, one sequence number after the other in each
    flow; otherwise their meaningless fields have any value."""

    def __init__(
        self,
        length_of: dict[int, int],
        model: NicModel | None = None,
        change: Change = lambda port, frame: [frame],
        *,
        host_lag: int = 0,
        wire_lag: int = 0,
        complete: bool = False,
        plain: bool = False,
    ) -> None:
        self.model = NicModel(CLASSES, seed=SEED) if model is None else model
        self.change = change
        self.length_of = length_of
        self.expected: dict[int, int] = {}
        self.now_us = 0
        self.broken = False
        self.expecting: set[int] = set()
        self._complete = complete
        self._plain = plain
        self._psns: dict[int, int] = {}
        self._lags = {HOST: host_lag, WIRE: wire_lag}
        self._queues: dict[int, deque[tuple[int, bytes]]] = {HOST: deque(), WIRE: deque()}
        self._packets = 0
        self.checker = Checker(
            gradient_dscp=wire.DSCP_GRADIENT,
            gradient_trimmed_dscp=wire.DSCP_GRADIENT_TRIMMED,
            data_trimmed_dscp=wire.DSCP_DATA_TRIMMED,
            notification_interval_us=self.model.notification_interval_us,
        )

    @property
    def now_ns(self) -> int:
        return self.now_us * 1000

    def install(self, slot: int, step: Step) -> None:
        self.model.install(slot, step)
        self.checker.set_step(self.now_ns, slot, promise(step, self.expected.get(step.tag, 0)))

    def remove(self, slot: int) -> None:
        self.model.remove(slot)
        self.checker.remove_step(self.now_ns, slot)

    def restart(self) -> None:
        """Frames that wait are lost."""
        for queue in self._queues.values():
            queue.clear()
        self.model.restart()
        self.checker.restart(self.now_ns)

    def packet(self, port: int, packet: wire.Roce) -> None:
        """Under a sequence number of its own, as every packet of our transport."""
        psn = self._packets
        if self._plain:
            psn = self._psns[packet.dest_qp] = self._psns.get(packet.dest_qp, 0) + 1
            packet = packet.but(ack_req=0, reserved7=0, fecn=0, identification=0)
        packet = packet.but(psn=psn & 0xFFFFFF)
        if port == WIRE and packet.opcode == wire.WRITE_ONLY:
            self._expect(packet.dest_qp)
        self.frame(port, packet.encode())

    def _expect(self, qp: int) -> None:
        """Announces a flow at its first packet; stale ones are announced to nobody."""
        flow = self.model.receivers.get(qp & 1023)
        fresh = flow is None or 0 < ((qp >> 10) - flow.owner) % wire.OWNERS < wire.OWNERS // 2
        if fresh and qp not in self.expecting:
            # A host uses a slot again once its message is complete, all reports included.
            self.flush()
            self.expecting.add(qp)
            self.checker.expect(qp, self.length_of[qp & 1023])
            if not self._complete:
                self.checker.forget(qp)

    def frame(self, port: int, frame: bytes) -> None:
        self._packets += 1
        self._see(port, False, frame)
        for out, sent in self.model.receive(port, frame, self.now_us):
            for changed in self.change(out, sent):
                self._queues[out].append((self._packets, changed))
        self._leave(self._packets)

    def _leave(self, packets: int) -> None:
        for port in (HOST, WIRE):
            queue = self._queues[port]
            while queue and queue[0][0] + self._lags[port] <= packets:
                self._see(port, True, queue.popleft()[1])

    def _see(self, port: int, outgoing: bool, frame: bytes) -> None:
        see = self.checker.wire if port == WIRE else self.checker.host
        self.broken |= see(self.now_ns, outgoing, frame)

    def flush(self) -> None:
        self._leave(1 << 60)

    def run(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Install):
                self.install(event.slot, event.step)
            elif isinstance(event, Remove):
                self.remove(event.slot)
            elif isinstance(event, Wait):
                self.now_us += event.microseconds
            elif isinstance(event, FromWire | FromHost):
                self.packet(WIRE if isinstance(event, FromWire) else HOST, event.packet)

    def run_plan(self, plan: Plan) -> None:
        events, self.expected = honest(resolve(plan), self.length_of)
        self.run(events)
        self.flush()
