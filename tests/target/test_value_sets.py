# SPDX-License-Identifier: Apache-2.0
"""Parser value sets: members of every kind, replaced at once, compared in the order of the transitions."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from target.api import DeviceError, InRange, Masked, SetMember
from target.bmjson import JsonError, load
from target.codegen import generate
from target.engine import Device
from tests.target.programs import Builder, Json, case, const, default_case, extract, field, forward_to

MakeDevice = Callable[..., Device]


def in_set(name: str, target: str | None) -> Json:
    return {"type": "parse_vset", "value": name, "mask": None, "next_state": target}


def marks(b: Builder, name: str, result: int) -> None:
    """A state that says that it was reached."""
    b.state(name, [{"op": "set", "parameters": [field("x", "result"), const(result)]}])


FIELDS = [("a", 16), ("b", 3), ("c", 5), ("wide", 72)]


def program() -> Builder:
    """Sets `all` of four fields, `one` of the first; a constant between them."""
    b = Builder()
    b.header("x", [*FIELDS, ("result", 8)])
    b.extra["parse_vsets"] = [
        {"name": "all", "id": 0, "compressed_bitwidth": 96, "max_size": 4},
        {"name": "one", "id": 1, "compressed_bitwidth": 16},
    ]
    key = [field("x", name) for name, _ in FIELDS]
    constant = case("0x1234" + "00" + "00" + "00" * 9, "constant", "0xffff" + "00" + "00" + "00" * 9)
    b.state("start", [extract("x")], key, in_set("all", "all"), constant, default_case("next"))
    b.state("next", [], [field("x", "a")], in_set("one", "one"))
    marks(b, "all", 1)
    marks(b, "constant", 2)
    marks(b, "one", 3)
    b.run("go", [forward_to(2)])
    return b


def frame(a: int, b: int = 0, c: int = 0, wide: int = 0, result: int = 0) -> bytes:
    number = ((((a << 3 | b) << 5 | c) << 72 | wide) << 8) | result
    return number.to_bytes(13, "big") + bytes(range(24))


def exactly(*numbers: int) -> SetMember:
    widths = [w for _, w in FIELDS][: len(numbers)]
    return tuple(Masked(n, (1 << w) - 1) for n, w in zip(numbers, widths, strict=True))


def found(device: Device, a: int, b: int = 0, c: int = 0, wide: int = 0) -> int:
    device.inject(1, frame(a, b, c, wide))
    (out,) = device.collect(2)
    assert out == frame(a, b, c, wide, out[12])
    return out[12]


WIDE = 0x112233445566778899


def test_exact_members_and_the_order_of_transitions(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    device.value_set_replace("all", [exactly(7, 2, 3, WIDE), exactly(0x1234, 0, 0, 0)])
    for values, result in (
        ((7, 2, 3, WIDE), 1),
        ((7, 2, 3, WIDE + 1), 0),
        ((7, 1, 3, WIDE), 0),
        ((0x1234,), 1),
        ((0x1234, 1), 2),
    ):
        assert found(device, *values) == result, values


def test_sets_of_two_states(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    device.value_set_replace("all", [exactly(7, 2, 3, WIDE)])
    device.value_set_replace("one", [exactly(7), exactly(9)])
    assert [found(device, *v) for v in ((7, 2, 3, WIDE), (7, 2, 3, WIDE + 1), (9,), (10,))] == [1, 3, 3, 0]


def test_an_empty_set_has_nothing(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    assert [found(device, a) for a in (0, 7, 0x1234)] == [0, 0, 2]


def test_masks_and_ranges(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    low, high = 1 << 70, (1 << 70) + 1000
    member = (InRange(100, 200), Masked(0b100, 0b110), Masked(0, 0), InRange(low, high))
    other = (Masked(0xAB00, 0xFF00), Masked(0, 0), InRange(3, 3), Masked(0, 0))
    device.value_set_replace("all", [member, other])
    for values, result in (
        ((100, 4, 9, low), 1),
        ((200, 5, 31, high), 1),
        ((99, 4, 9, low), 0),
        ((201, 4, 9, low), 0),
        ((150, 6, 9, low), 0),
        ((150, 4, 9, low - 1), 0),
        ((150, 4, 9, high + 1), 0),
        ((0xABCD, 7, 3, 5), 1),
        ((0xABCD, 7, 4, 5), 0),
        ((0xACCD, 7, 3, 5), 0),
    ):
        assert found(device, *values) == result, values


def test_a_set_is_replaced_and_emptied(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    first, second = exactly(1, 0, 0, 0), exactly(2, 0, 0, 0)
    device.value_set_replace("all", [first, second, first])
    assert device.value_set_members("all") == [first, second]
    assert [found(device, a) for a in (1, 2)] == [1, 1]
    device.value_set_replace("all", [second])
    assert [found(device, a) for a in (1, 2)] == [0, 1]
    device.value_set_replace("all", [])
    assert [found(device, a) for a in (1, 2)] == [0, 0]
    device.load_pipeline(program().json())
    assert device.value_set_members("one") == []


def test_bad_members_change_nothing(make_device: MakeDevice) -> None:
    device = make_device(program().json())
    good = [exactly(1, 0, 0, 0)]
    device.value_set_replace("all", good)
    for members, code, named in (
        ([exactly(i, 0, 0, 0) for i in range(5)], "RESOURCE_EXHAUSTED", "takes 4 members"),
        ([exactly(1)], "INVALID_ARGUMENT", "4 fields"),
        ([(*exactly(1, 0, 0), Masked(1 << 72, 1 << 72))], "INVALID_ARGUMENT", "field 4"),
        ([(Masked(3, 1), *exactly(1, 0, 0, 0)[1:])], "INVALID_ARGUMENT", "outside its mask"),
        ([(InRange(3, 1), *exactly(1, 0, 0, 0)[1:])], "INVALID_ARGUMENT", "no range"),
        ([(Masked(-1, 1), *exactly(1, 0, 0, 0)[1:])], "INVALID_ARGUMENT", "field 1"),
    ):
        with pytest.raises(DeviceError) as error:
            device.value_set_replace("all", members)
        assert (error.value.code, named in error.value.message) == (code, True), error.value.message
    with pytest.raises(DeviceError, match="zz"):
        device.value_set_replace("zz", [])
    assert device.value_set_members("all") == good
    assert found(device, 1) == 1


def test_a_set_that_no_transition_uses(make_device: MakeDevice) -> None:
    b = program()
    b.extra["parse_vsets"].append({"name": "idle", "id": 2, "compressed_bitwidth": 8, "max_size": 1})
    device = make_device(b.json())
    device.value_set_replace("idle", [(Masked(1, 3), Masked(0, 7))])
    assert device.value_set_members("idle") == [(Masked(1, 3), Masked(0, 7))]
    assert found(device, 1) == 0


def test_many_members(make_device: MakeDevice) -> None:
    b = program()
    b.extra["parse_vsets"][1]["max_size"] = 5000
    device = make_device(b.json())
    device.value_set_replace("one", [exactly(2 * i) for i in range(5000)])
    assert [found(device, a) for a in (0, 1, 9998, 9999, 10000)] == [3, 0, 3, 0, 0]


BAD: list[tuple[Callable[[Json], object], str]] = [
    (lambda p: p["transitions"][0].update(value="zz"), "there is no parser value set 'zz'"),
    (lambda p: p["transitions"][0].update(mask="0xff"), "mask"),
    (lambda p: p["transitions"][0].update(value="one"), "the value set has 16"),
    (lambda p: p["transition_key"].pop(), "the value set has 96"),
    (lambda p: p["transitions"][0].update(type="zz"), "zz"),
]


@pytest.mark.parametrize(("damage", "named"), BAD)
def test_bad_jsons_are_refused(damage: Callable[[Json], object], named: str) -> None:
    good = program().build()
    generate(load(json.dumps(good)))
    damage(good["parsers"][0]["parse_states"][0])
    with pytest.raises(JsonError) as error:
        generate(load(json.dumps(good)))
    assert named in str(error.value)
    assert "parse_states[0] 'start'" in str(error.value)
