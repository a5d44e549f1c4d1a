# SPDX-License-Identifier: Apache-2.0
"""nic.p4 beside the reference model: the same events to both, every packet, counter and byte compared."""

from __future__ import annotations

from dataclasses import asdict

from tests.model import traffic
from tests.model.reference import NicModel
from tests.support import nic, wire
from tests.support.dut import Dut, exchange
from tests.support.nic import CLASSES, COUNTERS, HOST, SEED, WIRE


class Mismatch(AssertionError):
    """Program and model differ; the message has the events that led there."""


def describe(port: int, frame: bytes) -> str:
    try:
        packet = wire.decode(frame, delivered=port == HOST)
    except wire.WireError as error:
        return f"port {port}: {len(frame)} bytes, {error}: {frame.hex()}"
    return f"port {port}: {packet.but(payload=b'')} + {len(packet.payload)} bytes"


def brief(event: traffic.Event) -> str:
    """An event in one line."""
    if isinstance(event, traffic.FromWire | traffic.FromHost):
        p = event.packet
        what = f"{type(event).__name__} qp={wire.split_queue_pair(p.dest_qp)} opcode={p.opcode:#x}"
        what += f" dscp={p.dscp} ecn={p.ecn}"
        if p.reth is not None:
            what += f" va={p.reth.virtual_addr} len={p.reth.dma_len} end={p.solicited}"
        if p.feedback is not None:
            what += f" {p.feedback} e={p.exemption_eligible} x={p.budget_exhausted} becn={p.becn}"
        return what
    return str(event)


class Comparison:
    """One run of events through both."""

    def __init__(self, dut: Dut) -> None:
        self.dut = dut
        self.model = NicModel(CLASSES, seed=SEED)
        self.now_us = 0
        self.history: list[traffic.Event] = []
        dut.control.reset()
        nic.configure(dut.control)

    def run(self, events: list[traffic.Event]) -> None:
        for event in events:
            self.history.append(event)
            self.apply(event)
        self.compare_counters()
        left = self.dut.poll(None, 0 if self.dut.in_memory else 0.2)
        if left is not None:
            self.fail(f"a frame that nobody expected: {describe(*left)}")

    def apply(self, event: traffic.Event) -> None:
        if isinstance(event, traffic.Install):
            change = event.slot in self.model.steps
            self.model.install(event.slot, event.step)
            (nic.modify if change else nic.install)(self.dut.control, event.slot, event.step)
        elif isinstance(event, traffic.Remove):
            self.model.remove(event.slot)
            nic.remove(self.dut.control, event.slot)
        elif isinstance(event, traffic.Query):
            self.compare_state(event.slot)
        elif isinstance(event, traffic.Wait):
            self.now_us += event.microseconds
            self.dut.advance(event.microseconds)
        else:
            port = HOST if isinstance(event, traffic.FromHost) else WIRE
            self.compare_packet(port, event.packet.encode())

    def compare_packet(self, port: int, frame: bytes) -> None:
        predicted: dict[int, list[bytes]] = {}
        for out, sent in self.model.receive(port, frame, self.now_us):
            predicted.setdefault(out, []).append(sent)
        got = exchange(self.dut, port, frame, {out: len(sent) for out, sent in predicted.items()})
        for out in sorted({*predicted, *got}):
            # Feedback and notification are two replicas of one packet: their order means nothing.
            wanted, found = sorted(predicted.get(out, [])), sorted(got.get(out, []))
            if wanted != found:
                self.fail(
                    "model:\n  "
                    + "\n  ".join(describe(out, f) for f in wanted)
                    + "\nprogram:\n  "
                    + "\n  ".join(describe(out, f) for f in found)
                )

    def compare_state(self, slot: int) -> None:
        report = nic.query(self.dut.control, slot)
        wanted = {name: int(value) for name, value in asdict(self.model.query(slot)).items()}
        found = {name: report[name] for name in wanted}
        if found != wanted:
            self.fail(f"state of slot {slot}\nmodel:   {wanted}\nprogram: {found}")

    def compare_counters(self) -> None:
        found = self.dut.control.counters(COUNTERS)
        wanted = {name: self.model.counters[name] for name in COUNTERS}
        if found != wanted:
            names = [name for name in COUNTERS if found[name] != wanted[name]]
            self.fail(f"counters (model, program): { {n: (wanted[n], found[n]) for n in names} }")

    def fail(self, message: str) -> None:
        events = "\n  ".join(brief(event) for event in self.history)
        raise Mismatch(f"after\n  {events}\n{message}")
