# SPDX-License-Identifier: Apache-2.0
"""Numbers wider than two machine words where they are rare: ranges of keys, and division."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from target.api import DeviceError, TableEntry
from target.engine import Device
from tests.target.programs import Builder, Json, assign, call, const, field, forward_to, op

MakeDevice = Callable[..., Device]


def to_bytes(value: int, width: int) -> bytes:
    return value.to_bytes(width // 8, "big")


def range_program(width: int, entries: list[tuple[int, int, int]] | None = None) -> Builder:
    """`entries`: (low, high, result), the first in order wins."""
    b = Builder()
    b.header("x", [("small", 8), ("v", width), ("result", 8)])
    b.action("hit", [("n", 8)], [assign(field("x", "result"), {"type": "runtime_data", "value": 0})])
    b.action("miss", [], [])
    b.run("go", [forward_to(2)])
    key = [("range", "x", "small"), ("exact", "x", "small"), ("range", "x", "v")]
    rows: Json = {}
    if entries is not None:
        digits = width // 4
        rows["entries"] = [
            {
                "match_key": [
                    {"match_type": "range", "start": "0x00", "end": "0x7f"},
                    {"match_type": "exact", "key": "0x07"},
                    {"match_type": "range", "start": f"0x{low:0{digits}x}", "end": f"0x{high:0{digits}x}"},
                ],
                "action_entry": {"action_id": 0, "action_data": [hex(n)]},
                "priority": place + 1,
            }
            for place, (low, high, n) in enumerate(entries)
        ]
    b.table("t", key, ["hit", "miss"], default="miss", **rows)
    return b


WIDTHS = (72, 128, 2048)


def ranges_of(width: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Ranges that lie within one another, and values at their borders."""
    top = 1 << width - 1
    step = 1 << 64
    entries = [(step, step + 5, 1), (step - 1, 2 * step, 2), (top, top, 3), (0, top | 1, 4)]
    values = [v + d for low, high, _ in entries for v in (low, high) for d in (-1, 0, 1)]
    return entries, [v for v in values if 0 <= v < 1 << width]


def winner(entries: list[tuple[int, int, int]], value: int) -> int:
    return next((n for low, high, n in entries if low <= value <= high), 0)


def test_const_entries_with_wide_ranges(make_device: MakeDevice) -> None:
    for width in (72, 320):
        entries, values = ranges_of(width)
        device = make_device(range_program(width, entries).json())
        for value in values:
            device.inject(1, b"\7" + to_bytes(value, width) + b"\0" + bytes(24))
            expected = b"\7" + to_bytes(value, width) + bytes([winner(entries, value)]) + bytes(24)
            assert device.collect(2) == [expected], (width, hex(value))


@pytest.mark.parametrize("width", WIDTHS)
def test_entries_with_wide_ranges(width: int, make_device: MakeDevice) -> None:
    """Inserted, found, changed and deleted by their exact bounds."""
    entries, values = ranges_of(width)
    device = make_device(range_program(width).json())

    def entry(place: int, n: int) -> TableEntry:
        low, high, _ = entries[place]
        return TableEntry(((0, 0x7F), (7,), (low, high)), "hit", (n,), priority=10 - place)

    def check(live: dict[int, int]) -> None:
        for value in values:
            device.inject(1, b"\7" + to_bytes(value, width) + b"\0")
            found = next(
                (live[i] for i, (lo, hi, _) in enumerate(entries) if i in live and lo <= value <= hi), 0
            )
            assert device.collect(2)[0][-1] == found, hex(value)

    for place in range(4):
        device.table_insert("t", entry(place, place + 1))
    check({0: 1, 1: 2, 2: 3, 3: 4})
    with pytest.raises(DeviceError) as error:
        device.table_insert("t", entry(0, 9))
    assert error.value.code == "ALREADY_EXISTS"
    device.table_modify("t", entry(1, 77))
    device.table_delete("t", entry(0, 0).key, 10)
    check({1: 77, 2: 3, 3: 4})
    assert device.table_entry("t", entry(2, 0).key, 8).args == (3,)
    with pytest.raises(DeviceError) as error:
        device.table_insert("t", TableEntry(((0, 1), (7,), (5, 4)), "hit", (1,), 1))
    assert error.value.code == "INVALID_ARGUMENT"


def test_division_of_wide_values(make_device: MakeDevice) -> None:
    rng = random.Random(3)
    for width in (72, 136, 512):
        b = Builder()
        b.header("x", [("a", width), ("b", width), ("q", width), ("r", width)])
        a, d = field("x", "a"), field("x", "b")
        b.run(
            "go",
            [assign(field("x", "q"), op("/", a, d)), assign(field("x", "r"), op("%", a, d)), forward_to(2)],
        )
        device = make_device(b.json())
        top = (1 << width) - 1
        pairs = [(top, top), (top, 1), (top, top - 1), (0, top), (top, (1 << width // 2) + 1), (top - 1, top)]
        pairs += [(top, 1 << width - 1), (1 << width - 1, 3)]
        pairs += [(rng.getrandbits(width), 1 + rng.getrandbits(rng.randrange(1, width))) for _ in range(40)]
        for x, y in pairs:
            device.inject(1, to_bytes(x, width) + to_bytes(y, width) + bytes(width // 4))
            expected = b"".join(to_bytes(v, width) for v in (x, y, x // y, x % y))
            assert device.collect(2) == [expected], (hex(x), hex(y))


def test_division_of_sums_and_by_zero(make_device: MakeDevice) -> None:
    """A sum of two wide values is wider than both. By 0 there is nothing to compare with: it ends BMv2."""
    width = 256
    b = Builder()
    b.header("x", [("a", width), ("b", width), ("q", width), ("r", 8)])
    total = op("+", field("x", "a"), field("x", "a"))
    b.run(
        "go",
        [
            assign(field("x", "q"), op("/", total, field("x", "b"))),
            call("assign", field("x", "r"), op("%", total, const(251))),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    top = (1 << width) - 1
    for x, y in ((top, 2), (top, top), (top - 5, 0)):
        device.inject(1, to_bytes(x, width) + to_bytes(y, width) + bytes(33))
        quotient = 2 * x // y if y else 0
        expected = to_bytes(x, width) + to_bytes(y, width) + to_bytes(quotient & top, width)
        assert device.collect(2) == [expected + bytes([2 * x % 251])]
