# SPDX-License-Identifier: Apache-2.0
"""Generated expressions against Python's integers, which are as unlimited as BMv2's."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from target.engine import Device
from tests.target.programs import Builder, Json, assign, call, const, extract, field, forward_to, op

# Sizes around the limits of the representations: one word, two words, arrays.
_WIDTHS = [1, 7, 8, 13, 16, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256, 333, 512]
INPUTS: list[tuple[str, int]] = [(chr(97 + i), w) for i, w in enumerate(_WIDTHS)] + [("pad", 3)]
_SIGNED_WIDTHS = [2, 8, 32, 64, 65, 128, 200]
SIGNED: list[tuple[str, int]] = [(f"s{i}", w) for i, w in enumerate(_SIGNED_WIDTHS)] + [("spad", 5)]
OPERATORS = [
    "+", "-", "*", "&", "|", "^", "~", "<<", ">>", "?", "two_comp_mod", "usat_cast", "sat_cast", "b2d",
    "mask", "/", "%", "slice",
]  # fmt: skip
OUT_WIDTHS = [1, 8, 16, 17, 32, 48, 64, 65, 96, 128, 129, 200, 256, 512, 1111]


def mask(width: int) -> int:
    return (1 << width) - 1


def signed(value: int, width: int) -> int:
    value &= mask(width)
    return value - (1 << width) if value >> (width - 1) else value


class Random:
    """Random expressions with a Python evaluator each."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def data(self, depth: int) -> tuple[Json, Callable[[dict[str, int]], int]]:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            pick = rng.random()
            if pick < 0.25:
                value = rng.choice(
                    [0, 1, 2, 255, mask(32), mask(64), 1 << 64, rng.getrandbits(rng.choice([8, 70, 300]))]
                )
                return const(value), lambda env: value
            if pick < 0.45:
                name, width = rng.choice(SIGNED[:-1])
                return field("y", name), lambda env: signed(env[name], width)
            name, _ = rng.choice(INPUTS)
            return field("x", name), lambda env: env[name]
        kind = rng.choice(OPERATORS)
        left, le = self.data(depth - 1)
        if kind == "~":
            return op("~", None, left), lambda env: ~le(env)
        if kind == "b2d":
            test, te = self.boolean(depth - 1)
            return op("b2d", None, test), lambda env: int(te(env))
        if kind in ("two_comp_mod", "usat_cast", "sat_cast"):
            width = rng.choice([2, 8, 16, 32, 63, 64, 65, 127, 128, 129, 256])
            low, high = (0, mask(width)) if kind == "usat_cast" else (-(1 << (width - 1)), mask(width - 1))
            expr = op(kind, left, const(width))
            if kind == "two_comp_mod":
                return expr, lambda env: signed(le(env), width)
            return expr, lambda env: min(max(le(env), low), high)
        if kind == "mask":
            ones = mask(rng.choice([1, 8, 16, 32, 64, 65, 128, 200]))
            return op("&", left, const(ones)), lambda env: le(env) & ones
        if kind == "slice":
            shift, ones = rng.randrange(0, 200), mask(rng.choice([1, 8, 32, 64, 128]))
            return op("&", op(">>", left, const(shift)), const(ones)), lambda env: le(env) >> shift & ones
        if kind in ("<<", ">>"):
            amount = rng.choice([0, 1, 7, 63, 64, 65, 130])
            name = rng.choice(["", "", "", "a", "b", "c"])
            right = field("x", name) if name else const(amount)

            def re_(env: dict[str, int]) -> int:
                return env[name] if name else amount

            if kind == "<<":
                return op("<<", left, right), lambda env: le(env) << re_(env)
            return op(">>", left, right), lambda env: le(env) >> re_(env)
        right, re2 = self.data(depth - 1)
        if kind in ("/", "%"):
            # v1model divides unsigned values by constants; the engine 128 bits at most.
            ones, d = mask(rng.choice([8, 64, 100])), rng.choice([1, 2, 3, 10, 255, 1 << 40, mask(63)])
            a = op("&", left, const(ones))
            if kind == "/":
                return op("/", a, const(d)), lambda env: (le(env) & ones) // d
            return op("%", a, const(d)), lambda env: (le(env) & ones) % d
        if kind == "?":
            test, te = self.boolean(depth - 1)
            return op("?", left, right, test), lambda env: le(env) if te(env) else re2(env)
        functions: dict[str, Callable[[int, int], int]] = {
            "+": lambda x, y: x + y,
            "-": lambda x, y: x - y,
            "*": lambda x, y: x * y,
            "&": lambda x, y: x & y,
            "|": lambda x, y: x | y,
            "^": lambda x, y: x ^ y,
        }
        f = functions[kind]
        return op(kind, left, right), lambda env: f(le(env), re2(env))

    def boolean(self, depth: int) -> tuple[Json, Callable[[dict[str, int]], bool]]:
        rng = self.rng
        kind = rng.choice(["==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b"])
        if depth > 0 and kind in ("and", "or"):
            (a, ae), (b, be) = self.boolean(depth - 1), self.boolean(depth - 1)
            if kind == "and":
                return op("and", a, b), lambda env: ae(env) and be(env)
            return op("or", a, b), lambda env: ae(env) or be(env)
        if depth > 0 and kind == "not":
            a, ae = self.boolean(depth - 1)
            return op("not", None, a), lambda env: not ae(env)
        left, le = self.data(max(0, depth - 1))
        if kind == "d2b":
            return op("d2b", None, left), lambda env: le(env) != 0
        right, re_ = self.data(max(0, depth - 1))
        functions: dict[str, Callable[[int, int], bool]] = {
            "==": lambda x, y: x == y,
            "!=": lambda x, y: x != y,
            "<": lambda x, y: x < y,
            "<=": lambda x, y: x <= y,
            ">": lambda x, y: x > y,
            ">=": lambda x, y: x >= y,
        }
        name = kind if kind in functions else "=="
        f = functions[name]
        return op(name, left, right), lambda env: f(le(env), re_(env))


def pack(fields: list[tuple[str, int]], values: dict[str, int]) -> bytes:
    bits, total = 0, 0
    for name, width in fields:
        bits = bits << width | (values[name] & mask(width))
        total += width
    assert total % 8 == 0, total
    return bits.to_bytes(total // 8, "big")


def interesting(rng: random.Random, width: int) -> int:
    return rng.choice(
        [0, 1, mask(width), 1 << (width - 1), rng.getrandbits(width), rng.getrandbits(max(1, width // 2))]
    )


@dataclass
class Case:
    """A program of random assignments, its frames, and what it must send out of port 2."""

    json: str
    frames: list[bytes]
    expected: list[bytes]


def random_case(seed: int, count: int) -> Case:
    generator = Random(seed)
    rng = generator.rng
    outputs: list[tuple[int, Callable[[dict[str, int]], int]]] = []
    primitives: list[Json] = []
    # simple_switch has room for 512 bytes of added headers.
    while sum(w for w, _ in outputs) < 8 * 512 - max(OUT_WIDTHS) - 8:
        expr, evaluate = generator.data(rng.choice([1, 2, 3]))
        primitives.append(assign(field("z", f"o{len(outputs)}"), expr))
        outputs.append((rng.choice(OUT_WIDTHS), evaluate))
    padding = -sum(w for w, _ in outputs) % 8
    if padding:
        outputs.append((padding, lambda env: 0))
    b = Builder()
    b.header("x", INPUTS)
    b.header("y", [(n, w, n != "spad") for n, w in SIGNED])
    names = [(f"o{i}", w) for i, (w, _) in enumerate(outputs)]
    b.header("z", names)
    b.state("start", [extract("x"), extract("y")])
    b.run("compute", [forward_to(2), call("add_header", {"type": "header", "value": "z"}), *primitives])
    frames, expected = [], []
    for _ in range(count):
        env = {n: interesting(rng, w) for n, w in [*INPUTS, *SIGNED]}
        head = pack(INPUTS, env) + pack(SIGNED, env)
        results = {n: evaluate(env) for (n, _), (_, evaluate) in zip(names, outputs, strict=True)}
        frames.append(head + b"payload")
        expected.append(head + pack(names, results) + b"payload")
    return Case(b.json(), frames, expected)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 12))])
def test_random_expressions(seed: int, make_device: Callable[..., Device]) -> None:
    case = random_case(seed, 120)
    device = make_device(case.json)
    for frame, expected in zip(case.frames, case.expected, strict=True):
        device.inject(1, frame)
        assert device.collect(2) == [expected]


def test_division_by_zero_is_zero(make_device: Callable[..., Device]) -> None:
    b = Builder()
    b.header("x", [("n", 8), ("d", 8), ("q", 8), ("r", 8)])
    n, d = field("x", "n"), field("x", "d")
    steps = [assign(field("x", "q"), op("/", n, d)), assign(field("x", "r"), op("%", n, d))]
    b.run("go", [forward_to(2), *steps])
    device = make_device(b.json())
    device.inject(1, bytes([17, 5, 9, 9]))
    device.inject(1, bytes([17, 0, 9, 9]))
    assert device.collect(2) == [bytes([17, 5, 3, 2]), bytes([17, 0, 0, 0])]


def test_every_field_width_survives(make_device: Callable[..., Device]) -> None:
    """Extracting, copying and emitting at every bit offset."""
    rng = random.Random(7)
    for start in (0, 1, 3, 7):
        fields = [(f"f{w}", w) for w in [*range(start + 1, 70, 3), *range(70, 2049, 391)]]
        total = sum(w for _, w in fields) + start
        fields = ([("lead", start)] if start else []) + fields
        if total % 8:
            fields.append(("pad", 8 - total % 8))
        b = Builder()
        b.header("x", fields)
        b.instance("z", "x")
        b.state("start", [extract("x")])
        copies = [assign(field("z", n), field("x", n)) for n, _ in fields]
        add = {"op": "add_header", "parameters": [{"type": "header", "value": "z"}]}
        b.run("copy", [forward_to(2), add, *copies])
        device = make_device(b.json())
        data = rng.randbytes(sum(w for _, w in fields) // 8)
        device.inject(1, data + b"tail")
        assert device.collect(2) == [data + data + b"tail"]
