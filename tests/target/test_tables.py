# SPDX-License-Identifier: Apache-2.0
"""Match tables against a plain search over the entries, and the control interface's errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from target.api import DeviceError, FieldMatch, TableEntry
from target.engine import Device
from tests.target.programs import Builder, assign, field, forward_to, param

WIDTHS = {"f1": 8, "f2": 32, "f3": 24, "f4": 128, "f5": 48, "f6": 16}
MISS = 0xFFFF


def program(kinds: list[tuple[str, str]], **extra: Any) -> str:
    """One table over header x; the hit action's argument is emitted in header z."""
    b = Builder()
    b.header("x", list(WIDTHS.items()))
    b.header("z", [("result", 32)])
    b.action("hit", [("value", 32)], [assign(field("z", "result"), param(0))])
    b.action("other", [("value", 32)], [assign(field("z", "result"), param(0))])
    b.run("first", [forward_to(2)])
    b.table(
        "t",
        [(kind, "x", name) for kind, name in kinds],
        ["hit", "other"],
        default="hit",
        default_args=[MISS],
        **extra,
    )
    return b.json()


def frame(values: dict[str, int]) -> bytes:
    data = b"".join(values[n].to_bytes(w // 8, "big") for n, w in WIDTHS.items())
    return data + bytes(4)


def lookup(device: Device, values: dict[str, int]) -> int:
    device.inject(1, frame(values))
    (out,) = device.collect(2)
    return int.from_bytes(out[-4:], "big")


def matches(kind: str, match: FieldMatch, value: int, width: int) -> bool:
    if kind == "exact":
        return value == match[0]
    if kind == "lpm":
        return value >> (width - match[1]) == match[0] >> (width - match[1])
    if kind == "ternary":
        return value & match[1] == match[0]
    if kind == "range":
        return match[0] <= value <= match[1]
    return match == () or value == match[0]


def random_match(rng: random.Random, kind: str, width: int, pool: list[int]) -> FieldMatch:
    value = rng.choice(pool)
    ones = (1 << width) - 1
    if kind == "exact":
        return (value,)
    if kind == "lpm":
        length = rng.choice([0, 1, width // 2, width - 1, width])
        return (value & (ones ^ (ones >> length)), length)
    if kind == "ternary":
        mask = rng.choice([0, ones, ones >> 3, rng.getrandbits(width) & 0xF0F0F0 & ones])
        return (value & mask, mask)
    if kind == "range":
        low, high = sorted([value, rng.choice(pool)])
        return (low, high)
    return () if rng.random() < 0.5 else (value,)


CASES = [
    [("exact", "f1")],
    [("exact", "f2")],
    [("exact", "f1"), ("exact", "f4"), ("exact", "f6")],
    [("lpm", "f2")],
    [("exact", "f1"), ("lpm", "f4")],
    [("ternary", "f2"), ("ternary", "f5")],
    [("ternary", "f4"), ("exact", "f1"), ("lpm", "f3")],
    [("range", "f6"), ("exact", "f1")],
    [("range", "f6"), ("range", "f2"), ("ternary", "f3")],
    [("optional", "f1"), ("optional", "f3"), ("ternary", "f6")],
]


@pytest.mark.parametrize("kinds", CASES, ids=lambda kinds: "-".join(k for k, _ in kinds))
def test_lookups_match_a_plain_search(
    kinds: list[tuple[str, str]], make_device: Callable[..., Device]
) -> None:
    rng = random.Random(str(kinds))
    device = make_device(program(kinds))
    pools = {n: [rng.getrandbits(w) for _ in range(4)] + [0, (1 << w) - 1] for n, w in WIDTHS.items()}
    ordered = any(k in ("ternary", "range", "optional") for k, _ in kinds)
    entries: dict[tuple[tuple[FieldMatch, ...], int], TableEntry] = {}
    miss = MISS
    for step in range(300):
        if rng.random() < 0.05:
            miss = MISS + step
            device.table_set_default("t", "other", (miss,))
        key = tuple(random_match(rng, kind, WIDTHS[name], pools[name]) for kind, name in kinds)
        priority = rng.randrange(1, 40) if ordered else 0
        if rng.random() < 0.3 and entries:
            key, priority = rng.choice(list(entries))
            device.table_delete("t", key, priority)
            del entries[key, priority]
        elif (key, priority) in entries:
            entry = TableEntry(key, "other", (rng.getrandbits(32),), priority)
            with pytest.raises(DeviceError) as error:
                device.table_insert("t", entry)
            assert error.value.code == "ALREADY_EXISTS"
            device.table_modify("t", entry)
            entries[key, priority] = entry
        else:
            entry = TableEntry(key, "hit", (step,), priority)
            device.table_insert("t", entry)
            entries[key, priority] = entry
        values = {n: rng.choice(pools[n]) for n in WIDTHS}
        found = [
            e for e in entries.values()
            if all(
                matches(kind, m, values[name], WIDTHS[name])
                for (kind, name), m in zip(kinds, e.key, strict=True)
            )
        ]  # fmt: skip
        got = lookup(device, values)
        if not found:
            assert got == miss
        elif ordered:
            best = max(e.priority for e in found)
            assert got in {e.args[0] for e in found if e.priority == best}
        else:
            lpm = next((i for i, (kind, _) in enumerate(kinds) if kind == "lpm"), None)
            longest = max(found, key=lambda e: e.key[lpm][1] if lpm is not None else 0)
            assert got == longest.args[0]
    assert sorted(device.table_entries("t"), key=repr) == sorted(entries.values(), key=repr)


def test_many_entries(make_device: Callable[..., Device]) -> None:
    device = make_device(program([("lpm", "f2")]))
    for i in range(20000):
        length = 32 if i % 2 else 24
        device.table_insert("t", TableEntry(((i << 8, length),), "hit", (i,)))
    values = dict.fromkeys(WIDTHS, 0)
    for i in (0, 1, 2, 4711, 19998, 19999):
        assert lookup(device, {**values, "f2": i << 8}) == i
        assert lookup(device, {**values, "f2": (i << 8) + 5}) == (MISS if i % 2 else i)
    for i in range(0, 20000, 2):
        device.table_delete("t", ((i << 8, 24),))
    assert lookup(device, {**values, "f2": 4 << 8}) == MISS
    assert lookup(device, {**values, "f2": 5 << 8}) == 5
    assert len(device.table_entries("t")) == 10000


def test_entries_come_back_in_order(make_device: Callable[..., Device]) -> None:
    device = make_device(program([("exact", "f2")]))
    wanted = [TableEntry(((v,),), "hit", (v,)) for v in (9, 3, 7, 1)]
    for entry in wanted:
        device.table_insert("t", entry)
    assert device.table_entries("t") == wanted
    device.table_modify("t", TableEntry(((3,),), "other", (5,)))
    assert [e.key[0][0] for e in device.table_entries("t")] == [9, 3, 7, 1]
    assert device.table_entry("t", ((3,),)).action == "other"


def test_const_entries(make_device: Callable[..., Device]) -> None:
    def entry(value: int, mask: int, priority: int, result: int) -> dict[str, object]:
        return {
            "match_key": [{"match_type": "ternary", "key": hex(value), "mask": hex(mask)}],
            "action_entry": {"action_id": 0, "action_data": [hex(result)]},
            "priority": priority,
        }

    # In a BMv2 JSON the smaller priority wins.
    entries = [entry(0x10, 0xF0, 1, 100), entry(0x12, 0xFF, 2, 200), entry(0, 0, 3, 300)]
    device = make_device(program([("ternary", "f1")], entries=entries))
    values = dict.fromkeys(WIDTHS, 0)
    assert lookup(device, {**values, "f1": 0x12}) == 100
    assert lookup(device, {**values, "f1": 0x55}) == 300
    assert [e.const for e in device.table_entries("t")] == [True] * 3
    with pytest.raises(DeviceError, match="const"):
        device.table_insert("t", TableEntry(((1, 1),), "hit", (1,), 5))
    with pytest.raises(DeviceError, match="const"):
        device.table_delete("t", device.table_entries("t")[0].key, device.table_entries("t")[0].priority)


def test_default_action(make_device: Callable[..., Device]) -> None:
    device = make_device(program([("exact", "f2")]))
    values = dict.fromkeys(WIDTHS, 0)
    assert device.table_default("t") == ("hit", (MISS,))
    device.table_set_default("t", "other", (77,))
    assert lookup(device, values) == 77
    assert device.table_default("t") == ("other", (77,))
    device.table_set_default("t", None, ())
    assert lookup(device, values) == MISS


def test_direct_counters(make_device: Callable[..., Device]) -> None:
    device = make_device(program([("exact", "f2")], with_counters=True))
    device.table_insert("t", TableEntry(((5,),), "hit", (1,)))
    values = dict.fromkeys(WIDTHS, 0)
    length = len(frame(values))
    for value in (5, 5, 6):
        lookup(device, {**values, "f2": value})
    assert device.direct_counter_read("t", ((5,),)) == (2, 2 * length)
    device.table_modify("t", TableEntry(((5,),), "other", (2,)))
    assert device.direct_counter_read("t", ((5,),)) == (2, 2 * length)
    device.direct_counter_write("t", ((5,),), 0, 10, 2**40)
    lookup(device, {**values, "f2": 5})
    assert device.direct_counter_read("t", ((5,),)) == (11, 2**40 + length)


@pytest.mark.parametrize(
    ("key", "action", "args", "priority", "code"),
    [
        (((1,),), "nothing", (1,), 0, "INVALID_ARGUMENT"),
        (((1,),), "hit", (), 0, "INVALID_ARGUMENT"),
        (((1,),), "hit", (2**32,), 0, "INVALID_ARGUMENT"),
        (((1,),), "hit", (-1,), 0, "INVALID_ARGUMENT"),
        (((2**32,),), "hit", (1,), 0, "INVALID_ARGUMENT"),
        (((-1,),), "hit", (1,), 0, "INVALID_ARGUMENT"),
        (((1, 2),), "hit", (1,), 0, "INVALID_ARGUMENT"),
        (((1,), (1,)), "hit", (1,), 0, "INVALID_ARGUMENT"),
        ((), "hit", (1,), 0, "INVALID_ARGUMENT"),
        (((1,),), "hit", (1,), 3, "INVALID_ARGUMENT"),
    ],
)
def test_bad_entries_change_nothing(
    key: tuple[FieldMatch, ...],
    action: str,
    args: tuple[int, ...],
    priority: int,
    code: str,
    make_device: Callable[..., Device],
) -> None:
    device = make_device(program([("exact", "f2")]))
    with pytest.raises(DeviceError) as error:
        device.table_insert("t", TableEntry(key, action, args, priority))
    assert error.value.code == code
    assert device.table_entries("t") == []


def test_errors_name_the_object(make_device: Callable[..., Device]) -> None:
    device = make_device(program([("lpm", "f2")], max_size=1))
    with pytest.raises(DeviceError, match="'u'") as error:
        device.table_entries("u")
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError, match="outside its mask"):
        device.table_insert("t", TableEntry(((0x0A000001, 8),), "hit", (1,)))
    device.table_insert("t", TableEntry(((0x0A000000, 8),), "hit", (1,)))
    with pytest.raises(DeviceError, match="full") as error:
        device.table_insert("t", TableEntry(((0x0B000000, 8),), "hit", (1,)))
    assert error.value.code == "RESOURCE_EXHAUSTED"
    with pytest.raises(DeviceError) as error:
        device.table_delete("t", ((0x0C000000, 8),))
    assert error.value.code == "NOT_FOUND"
    empty = make_device()
    with pytest.raises(DeviceError, match="no pipeline") as error:
        empty.table_entries("t")
    assert error.value.code == "FAILED_PRECONDITION"
