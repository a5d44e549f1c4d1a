# SPDX-License-Identifier: Apache-2.0
"""The checker on captures of known content: silent on honest traffic, loud on every kind of fraud.

Honest traffic comes from the reference model of the NIC, which shares no code with the checker.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from controller.experiments.captures import CaptureError, read_frames, read_roce
from controller.experiments.recount import FlowPlan, InstalledStep, Recount, Recounter, check_arrivals
from tests.model.reference import NicModel
from tests.support import wire
from tests.support.nic import CLASSES, HOST, NEVER, PAPER, WIRE, Step

PACKET = 1024
STEP, SLOT, SENDER = 4, 4, 0x0A000003
FULL = 40 * PACKET
TAIL = 700

Frames = list[tuple[int, bytes]]
"""(port, frame) in the order of a NIC's interfaces."""


def write_pcap(path: Path, frames: list[bytes]) -> Path:
    """Nanosecond pcap, as tcpdump writes it, 128 bytes kept of each frame."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1)]
    for i, frame in enumerate(frames):
        out.append(struct.pack("<IIII", 1, i, min(len(frame), 128), len(frame)) + frame[:128])
    path.write_bytes(b"".join(out))
    return path


def is_request(port: int, frame: bytes) -> bool:
    """A retransmission request on the wire."""
    feedback = wire.decode(frame).feedback if port == WIRE else None
    return feedback is not None and feedback.syndrome == wire.NAK


@dataclass
class Scene:
    """One rank's step: 3 gradient flows with a tail each, 1 flow of other traffic, random trims."""

    step: Step
    seed: int = 1
    length: int = FULL + TAIL

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.model = NicModel(CLASSES, seed=7)
        self.model.install(SLOT, self.step)
        self.frames: Frames = []
        qps = [wire.queue_pair(SLOT, 1, slot) for slot in (1, 2, 3)] + [wire.queue_pair(7, 1, 9)]
        self.plans = [
            FlowPlan(qp, SENDER, self.length, i < 3, STEP if i < 3 else None, f"flow {i}")
            for i, qp in enumerate(qps)
        ]
        self.address = 0
        queue = [(i, at) for i in range(len(qps)) for at in range(0, self.length, PACKET)]
        rng.shuffle(queue)
        psn = 0
        while queue:
            flow, at = queue.pop(0)
            length = min(PACKET, self.length - at)
            dscp = wire.DSCP_GRADIENT if flow < 3 else wire.DSCP_DATA
            packet = wire.data(
                qps[flow], at, length, psn=psn, end=at + length == self.length, source_qp=0x400 + flow,
                dscp=dscp, ecn=wire.CE if rng.random() < 0.3 else wire.ECT0,
            )  # fmt: skip
            if rng.random() < 0.3:
                packet = packet.trimmed(wire.DSCP_GRADIENT_TRIMMED if flow < 3 else wire.DSCP_DATA_TRIMMED)
            psn += 1
            self.address = packet.dst_ip
            frame = packet.encode()
            self.frames.append((WIRE, frame))
            answers = self.model.receive(WIRE, frame)
            self.frames += [(port, bytes(out)) for port, out in answers]
            if any(is_request(port, bytes(out)) for port, out in answers):
                queue.insert(rng.randrange(len(queue) + 1), (flow, at))

    def installed(self) -> InstalledStep:
        return InstalledStep(
            STEP, SLOT, self.step.p_ppm, self.step.budget, self.step.packet_bytes, self.step.vesting,
            self.step.exemption, self.step.eligible, self.step.trimmed_starts_flow,
        )  # fmt: skip

    def recount(self, tmp_path: Path, frames: Frames | None = None, **other: object) -> Recount:
        frames = self.frames if frames is None else frames
        wire_file = write_pcap(tmp_path / "wire.pcap", [f for port, f in frames if port == WIRE])
        host_file = write_pcap(tmp_path / "host.pcap", [f for port, f in frames if port == HOST])
        installed = replace(self.installed(), **other)  # type: ignore[arg-type]
        trimmed = frozenset((wire.DSCP_GRADIENT_TRIMMED, wire.DSCP_DATA_TRIMMED))
        counter = Recounter(
            "nic1", self.address, self.plans, [installed], trimmed, 512, wire.DSCP_GRADIENT_TRIMMED
        )
        return counter.run(wire_file, host_file)


def scene(**fields: object) -> Scene:
    expected = 3 * (FULL + TAIL)
    given: dict[str, object] = {"tag": STEP + 1, "p_ppm": 100_000, "packet_bytes": PACKET}
    given |= fields
    given.setdefault("budget", int(given["p_ppm"]) * expected // 1_000_000)  # type: ignore[call-overload]
    return Scene(Step(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"p_ppm": 5_000},
        {"p_ppm": 0},
        {"vesting": False},
        {"exemption": NEVER},
        {"exemption": 2},
        {"forgive_threshold": 1 << 30},
        {"eligible": False},
        {"forgiveness_echoes": True},
        {"trimmed_starts_flow": False},
    ],
    ids=str,
)
def test_honest_traffic_breaks_no_promise_and_counts_as_the_nic_does(
    tmp_path: Path, policy: dict[str, object]
) -> None:
    made = scene(**policy)
    result = made.recount(tmp_path)
    assert result.violations == []
    report = made.model.query(SLOT)
    books = result.steps[STEP]
    assert (books.received, books.forgiven, books.outstanding, books.trimmed - books.unknown) == (
        report.received, report.forgiven, report.outstanding, report.trimmed,
    )  # fmt: skip
    assert result.totals["settled_bytes"] == sum(p.length for p in made.plans)


def test_forgiveness_happens_in_the_scene(tmp_path: Path) -> None:
    assert scene().recount(tmp_path).steps[STEP].forgiven > 0


def test_headers_of_flows_that_have_not_started_are_counted_apart(tmp_path: Path) -> None:
    assert scene().recount(tmp_path).steps[STEP].unknown == 0
    made = scene(trimmed_starts_flow=False)
    assert made.recount(tmp_path).steps[STEP].unknown >= made.model.counters["unknown_flow"] * TAIL > 0


@pytest.mark.parametrize(
    ("starts", "words"),
    [(True, "not the bare request"), (False, "flags")],
    ids=("header starts", "data starts"),
)
def test_flow_started_by_the_other_rule_is_named(tmp_path: Path, starts: bool, words: str) -> None:
    result = scene(trimmed_starts_flow=starts).recount(tmp_path, trimmed_starts_flow=not starts)
    assert any(words in line for line in result.violations)


def deliveries(frames: Frames, event: int) -> list[int]:
    """Places of host deliveries of a kind."""
    found = []
    for i, (port, frame) in enumerate(frames):
        told = wire.decode(frame, delivered=True).delivery if port == HOST else None
        if told is not None and told.event == event:
            found.append(i)
    return found


def on_wire(frames: Frames, opcode: int) -> list[int]:
    """Places of packets of an opcode on the wire."""
    return [i for i, (port, f) in enumerate(frames) if port == WIRE and wire.decode(f).opcode == opcode]


def lose_delivery(frames: Frames) -> Frames:
    at = deliveries(frames, 1)[5]
    return frames[:at] + frames[at + 1 :]


def deliver_twice(frames: Frames) -> Frames:
    at = deliveries(frames, 1)[5]
    return [*frames[:at], frames[at], *frames[at:]]


def hide_forgiveness(frames: Frames) -> Frames:
    at = deliveries(frames, 2)[0]
    return frames[:at] + frames[at + 1 :]


def lie_about_the_mask(frames: Frames) -> Frames:
    at = deliveries(frames, 1)[0]
    packet = wire.decode(frames[at][1], delivered=True)
    assert packet.delivery is not None
    wrong = replace(packet, delivery=replace(packet.delivery, accept=packet.delivery.accept ^ 1))
    return [*frames[:at], (HOST, wrong.encode()), *frames[at + 1 :]]


def _feedback(frames: Frames, change: Callable[[wire.Roce], wire.Roce], number: int = 20) -> Frames:
    eligible = [i for i in on_wire(frames, wire.ACKNOWLEDGE) if wire.decode(frames[i][1]).exemption_eligible]
    at = eligible[number]
    return [*frames[:at], (WIRE, change(wire.decode(frames[at][1])).encode()), *frames[at + 1 :]]


def flip_exhausted(frames: Frames) -> Frames:
    return _feedback(frames, lambda p: replace(p, budget_exhausted=1 - p.budget_exhausted))


def drop_eligible(frames: Frames) -> Frames:
    return _feedback(frames, lambda p: replace(p, exemption_eligible=0))


def wrong_rcv_nxt(frames: Frames) -> Frames:
    def change(packet: wire.Roce) -> wire.Roce:
        assert packet.feedback is not None
        return replace(packet, feedback=replace(packet.feedback, rcv_nxt=packet.feedback.rcv_nxt + 512))

    return _feedback(frames, change)


def no_answer(frames: Frames) -> Frames:
    at = on_wire(frames, wire.ACKNOWLEDGE)[3]
    return frames[:at] + frames[at + 1 :]


def answer_from_nowhere(frames: Frames) -> Frames:
    return _feedback(frames, lambda p: replace(p, psn=p.psn + 100_000))


def never_arrived(frames: Frames) -> Frames:
    """The last data packet, with its answer and its delivery, is missing."""
    return frames[: on_wire(frames, wire.WRITE_ONLY)[-1]]


@pytest.mark.parametrize(
    ("fraud", "words"),
    [
        (lose_delivery, "told to accept 0x0"),
        (deliver_twice, "delivered twice"),
        (hide_forgiveness, "did not ask for a missing one"),
        (lie_about_the_mask, "told to accept"),
        (flip_exhausted, "flags"),
        (drop_eligible, "flags"),
        (wrong_rcv_nxt, "rcv_nxt"),
        (no_answer, "no answer"),
        (answer_from_nowhere, "never arrived"),
        (never_arrived, "never settled"),
    ],
)
def test_fraud_is_named(tmp_path: Path, fraud: Callable[[Frames], Frames], words: str) -> None:
    made = scene()
    result = made.recount(tmp_path, fraud(made.frames))
    assert any(words in line for line in result.violations), result.violations[:5]


def late_duplicate(made: Scene) -> list[tuple[int, bytes]]:
    """A data packet of the scene once more, with another PSN, and what the NIC answers."""
    packet = wire.decode(made.frames[on_wire(made.frames, wire.WRITE_ONLY)[0]][1])
    full = wire.data(made.plans[0].qp, 0, PACKET, psn=5000, source_qp=0x400, dscp=wire.DSCP_GRADIENT)
    frame = replace(full, src_ip=packet.src_ip, dst_ip=packet.dst_ip).encode()
    return [(WIRE, frame), *((p, bytes(f)) for p, f in made.model.receive(WIRE, frame))]


@pytest.mark.parametrize("exemption", [PAPER, NEVER, 2])
def test_a_late_duplicate_may_meet_a_step_that_has_gone(tmp_path: Path, exemption: int) -> None:
    made = scene(exemption=exemption)
    made.model.remove(SLOT)
    assert made.recount(tmp_path, made.frames + late_duplicate(made)).violations == []


def test_a_report_of_no_budget_before_the_step_is_over_is_named(tmp_path: Path) -> None:
    made = scene(budget=1 << 40)
    cut = made.frames[:-40]
    made.model.remove(SLOT)
    result = made.recount(tmp_path, cut + late_duplicate(made))
    assert any("flags" in line for line in result.violations)


def test_forgiven_without_a_gradient_class_is_named(tmp_path: Path) -> None:
    made = scene()
    frames = []
    for port, frame in made.frames:
        packet = wire.decode(frame) if port == WIRE else None
        if packet is not None and packet.dscp == wire.DSCP_GRADIENT_TRIMMED:
            frame = replace(packet, dscp=wire.DSCP_DATA_TRIMMED).encode()
        frames.append((port, frame))
    assert any("not eligible" in line for line in made.recount(tmp_path, frames).violations)


def test_a_strangers_packet_is_named(tmp_path: Path) -> None:
    made = scene()
    stray = wire.data(made.plans[0].qp, 0, PACKET, psn=1, source_qp=0x400)
    frames = [*made.frames, (WIRE, replace(stray, src_ip=1, dst_ip=2).encode())]
    assert any("neither from nor for" in line for line in made.recount(tmp_path, frames).violations)


def test_a_sequence_number_used_twice_is_named(tmp_path: Path) -> None:
    made = scene()
    own = replace(wire.data(made.plans[0].qp, 0, PACKET, psn=1, source_qp=9), src_ip=made.address, dst_ip=2)
    frames = [*made.frames, (WIRE, own.encode()), (WIRE, own.encode())]
    assert any("one sequence number" in line for line in made.recount(tmp_path, frames).violations)


def test_more_than_the_vested_share_is_named(tmp_path: Path) -> None:
    result = scene(vesting=False).recount(tmp_path, vesting=True)
    assert any("p/(1-p)" in line for line in result.violations)


def test_more_than_the_budget_is_named(tmp_path: Path) -> None:
    result = scene().recount(tmp_path, budget=PACKET)
    assert any("> budget" in line for line in result.violations)


def test_forgiven_traffic_that_is_no_gradient_is_named(tmp_path: Path) -> None:
    made = scene()
    made.plans = [replace(p, gradient=False) for p in made.plans]
    assert any("not eligible" in line for line in made.recount(tmp_path).violations)


def test_a_lost_packet_is_counted() -> None:
    lost, came = (1, 2, 3), (1, 2, 4)
    here = Recount("nic1", {}, {}, Counter(), [], {lost: 5, came: 5}, {})
    there = Recount("nic2", {}, {}, Counter(), [], {}, {came: False})
    assert check_arrivals([here, there]) == (2, 1)


def test_ranges_of_forgiven_blocks(tmp_path: Path) -> None:
    made = scene()
    result = made.recount(tmp_path)
    total = sum(b - a for p in made.plans for a, b in result.forgiven_ranges(p.qp, 512))
    assert total == result.totals["forgiven_bytes"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a capture at all",
        b"\x4d\x3c\xb2\xa1",
        b"\x4d\x3c\xb2\xa1" + bytes(28) + b"\xff" * 8,
        b"\x4d\x3c\xb2\xa1" + bytes(20) + bytes(7),
    ],
)
def test_a_broken_capture_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"x\.pcap"):
        list(read_frames(path))


def test_a_packet_without_room_for_its_headers_is_refused(tmp_path: Path) -> None:
    frame = wire.data(1, 0, PACKET, psn=1, source_qp=1).encode()[:60]
    with pytest.raises(CaptureError, match=r"x\.pcap: packet 1: 60 bytes"):
        list(read_roce(write_pcap(tmp_path / "x.pcap", [frame])))


def test_a_capture_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        list(read_frames(tmp_path / "x.pcap"))


def test_policies_are_those_of_the_dataplane() -> None:
    assert (PAPER, NEVER) == (0, 1)
