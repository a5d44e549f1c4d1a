# SPDX-License-Identifier: Apache-2.0
"""Random programs whose values live across controls, replication and the deparser, against an evaluator."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from target.engine import Device
from tests.target import programs
from tests.target.programs import Builder, Json, assign, call, case, const, default_case, extract, op, std

HEADERS = {
    "a": [("kind", 8), ("a1", 3), ("a2", 13), ("a3", 32), ("a4", 1), ("a5", 7), ("a6", 24)],
    "b": [("b1", 48), ("b2", 5), ("b3", 11), ("b4", 128)],
    "c": [("c1", 4), ("c2", 60), ("c3", 16), ("c4", 8), ("c5", 136)],
}
METADATA = [("m1", 1), ("m2", 8), ("m3", 9), ("m4", 16), ("m5", 33), ("m6", 64), ("m7", 100), ("m8", 150)]
WIDTHS = {(h, f): w for h, fields in {**HEADERS, "m": METADATA}.items() for f, w in fields}
PORTS = (2, 3)

Field: TypeAlias = tuple[str, str]


@dataclass
class State:
    """Of one packet: fields, valid headers."""

    values: dict[Field, int] = field(default_factory=lambda: dict.fromkeys(WIDTHS, 0))
    valid: set[str] = field(default_factory=set)
    rid: int = 0

    def value(self, where: Field) -> int:
        return self.rid if where == ("standard_metadata", "egress_rid") else self.values[where]


Step: TypeAlias = Callable[[State], int | None]
"""Changes the state; the number of steps to skip."""


class Generator:
    """Primitives with their meaning in Python."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def field(self) -> Field:
        # Metadata as often as headers: it is what has to survive.
        headers = [f for f in WIDTHS if f[0] != "m" and f[1] != "kind"]
        return self.rng.choice([self.rng.choice(headers), ("m", self.rng.choice(METADATA)[0])])

    def operand(self, egress: bool) -> tuple[Json, Callable[[State], int]]:
        pick = self.rng.random()
        if pick < 0.2:
            value = self.rng.getrandbits(self.rng.choice([1, 8, 40, 130]))
            return const(value), lambda state: value
        if egress and pick < 0.3:
            return std("egress_rid"), lambda state: state.rid
        where = self.field()
        return programs.field(*where), lambda state: state.value(where)

    def assignment(self, egress: bool) -> tuple[Json, Step]:
        dest = self.field()
        mask = (1 << WIDTHS[dest]) - 1
        (left, lv), (right, rv) = self.operand(egress), self.operand(egress)
        pick = self.rng.random()
        if pick < 0.4:
            expr, value = left, lv
        elif pick < 0.7:
            expr, value = op("+", left, right), lambda s: lv(s) + rv(s)
        else:
            expr, value = op("^", left, right), lambda s: lv(s) ^ rv(s)

        def step(state: State) -> None:
            state.values[dest] = value(state) & mask

        return assign(programs.field(*dest), expr), step

    def validity(self) -> tuple[Json, Step]:
        name = self.rng.choice("bc")
        header = {"type": "header", "value": name}
        if self.rng.random() < 0.5:

            def add(state: State) -> None:
                if name not in state.valid:
                    state.valid.add(name)
                    state.values.update({(name, f): 0 for f, _ in HEADERS[name]})

            return call("add_header", header), add
        return call("remove_header", header), lambda state: state.valid.discard(name)

    def action(self, egress: bool, validity: bool) -> tuple[list[Json], list[Step]]:
        """A few primitives, some of them skipped under a condition."""
        count = self.rng.randrange(1, 7)
        calls: list[Json] = []
        steps: list[Step] = []
        while len(calls) < count:
            pick = self.rng.random()
            if pick < 0.2 and len(calls) + 1 < count:
                skipped = self.rng.randrange(1, count - len(calls))
                calls.append(self._jump(egress, len(calls) + 1 + skipped, skipped, steps))
            elif pick < 0.35 and validity:
                self._add(self.validity(), calls, steps)
            else:
                self._add(self.assignment(egress), calls, steps)
        return calls, steps

    @staticmethod
    def _add(found: tuple[Json, Step], calls: list[Json], steps: list[Step]) -> None:
        calls.append(found[0])
        steps.append(found[1])

    def _jump(self, egress: bool, target: int, skipped: int, steps: list[Step]) -> Json:
        operand, value = self.operand(egress)
        odd = op("&", operand, const(1))
        steps.append(lambda state: skipped if value(state) & 1 == 0 else None)
        return call("_jump_if_zero", odd, const(target))


def run(steps: Sequence[Step], state: State) -> None:
    index = 0
    while index < len(steps):
        index += 1 + (steps[index](state) or 0)


def parse(frame: bytes, order: Sequence[str]) -> tuple[State, bytes]:
    state = State()
    for name in order:
        size = sum(w for _, w in HEADERS[name]) // 8
        bits, left = int.from_bytes(frame[:size], "big"), 8 * size
        for where, width in HEADERS[name]:
            left -= width
            state.values[name, where] = bits >> left & ((1 << width) - 1)
        state.valid.add(name)
        frame = frame[size:]
    return state, frame


def emit(state: State, order: Sequence[str]) -> bytes:
    out = b""
    for name in order:
        if name in state.valid:
            bits = total = 0
            for where, width in HEADERS[name]:
                bits, total = bits << width | state.values[name, where], total + width
            out += bits.to_bytes(total // 8, "big")
    return out


PATHS: dict[int, Sequence[str]] = {0: "a", 1: "ab", 2: "acb", 3: "abc", 4: "ac"}
"""Headers in a frame, by the first byte. No order of the deparser suits all of them."""


def states(b: Builder) -> None:
    b.state(
        "start", [extract("a")], [programs.field("a", "kind")],
        *(case(hex(kind), f"k{kind}") for kind in PATHS if kind), default_case(None),
    )  # fmt: skip
    for kind, path in PATHS.items():
        if kind:
            b.state(f"k{kind}", [extract(name) for name in path[1:]])


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 60))]
)
def test_random_lifetimes(seed: int, moving: bool, make_device: Callable[..., Device]) -> None:
    generator = Generator(1000 + seed)
    rng = generator.rng
    b = Builder()
    for name, fields in HEADERS.items():
        b.header(name, fields)
    b.header("m", METADATA, metadata=True)
    b.deparser = list(rng.choice(["abc", "acb", "cab"]))
    states(b)
    b.run("replicate", [assign(std("mcast_grp"), const(1))])
    steps: dict[str, list[list[Step]]] = {"ingress": [], "egress": []}
    for pipeline, found in steps.items():
        for i in range(rng.randrange(1, 6)):
            calls, meaning = generator.action(pipeline == "egress", moving)
            b.run(f"{pipeline}{i}", calls, pipeline)
            found.append(meaning)
    device = make_device(b.json())
    device.mcast_group_set(1, [(port, 10 + port) for port in PORTS])
    for _ in range(40):
        kind = rng.randrange(len(PATHS))
        frame = bytes([kind]) + rng.randbytes(100)
        device.inject(1, frame)
        state, payload = parse(frame, PATHS[kind])
        for meaning in steps["ingress"]:
            run(meaning, state)
        for port in PORTS:
            replica = deepcopy(state)
            replica.rid = 10 + port
            for meaning in steps["egress"]:
                run(meaning, replica)
            assert device.collect(port) == [emit(replica, b.deparser) + payload]


def test_more_headers_than_a_word_has_bits(make_device: Callable[..., Device]) -> None:
    b = Builder()
    b.header("h0", [("f", 8)])
    names = [f"h{i}" for i in range(150)]
    for name in names[1:]:
        b.instance(name, "h0")
    b.state("start", [extract(name) for name in names])
    gone = {3, 62, 63, 64, 65, 127, 128, 149}
    headers = [{"type": "header", "value": names[i]} for i in sorted(gone)]
    b.run("out", [assign(std("egress_spec"), const(2)), *(call("remove_header", h) for h in headers)])
    b.run("more", [assign(programs.field(names[i], "f"), const(200)) for i in (0, 63, 66, 148)], "egress")
    device = make_device(b.json())
    device.inject(1, bytes(range(160)))
    kept = [200 if i in (0, 66, 148) else i for i in range(160) if i not in gone]
    assert device.collect(2) == [bytes(kept)]
