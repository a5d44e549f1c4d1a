# SPDX-License-Identifier: Apache-2.0
"""Meters: colours against token buckets worked out by hand, on the engine's clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from target.api import DeviceError, MeterConfig, MeterState, TableEntry
from target.engine import Device
from tests.target.resources import check_damage, meter_program, text

Make = Callable[..., Device]
GREEN, YELLOW, RED = range(3)
MS = 1_000_000


def send(device: Device, at_ns: int, key: int = 0, index: int = 0, size: int = 5) -> tuple[int, int]:
    """(x.colour, x.direct) of a frame of `size` bytes; both start as 0xA0."""
    device.engine.run_until(at_ns)
    device.inject(1, bytes([key, index, 0xA0, 0xA0, 0]).ljust(size, b"\0"))
    (frame,) = device.collect(2)
    return frame[2], frame[3]


@pytest.mark.parametrize("pipeline", ["ingress", "egress"])
def test_an_unset_meter_is_green(pipeline: str, make_device: Make) -> None:
    device = make_device(text(meter_program(pipeline=pipeline)))
    for at in range(5):
        assert send(device, at, index=3) == (GREEN, 0xA0)
    assert device.meter_read("m", 3) == MeterState(None, ((5, 25), (0, 0), (0, 0)))
    assert device.meter_read("m", 0) == MeterState()


def test_packets_two_rates(make_device: Make) -> None:
    device = make_device(text(meter_program("packets")))
    # 100 packets/s committed (one per 10 ms), burst 2; 200/s peak (one per 5 ms), burst 4.
    device.meter_write("m", 1, MeterConfig(100, 2, 200, 4))
    burst = [send(device, 1 * MS, index=1)[0] for _ in range(6)]
    assert burst == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    # 5 ms later: one peak token (1.2 since time 0, of which 0.2 came before), half a committed one.
    assert [send(device, 6 * MS, index=1)[0] for _ in range(2)] == [YELLOW, RED]
    # 11 ms: 1.1 tokens have come into the committed bucket since the clock's start, 0.1 of them before.
    assert [send(device, 11 * MS, index=1)[0] for _ in range(2)] == [GREEN, RED]
    # A second later both are full again, and no more than full.
    burst = [send(device, 1011 * MS, index=1)[0] for _ in range(6)]
    assert burst == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    assert device.meter_read("m", 1).marked == ((5, 25), (5, 25), (6, 30))
    assert send(device, 1011 * MS, index=2)[0] == GREEN  # another cell


def test_bytes_count_the_frame_as_it_came(make_device: Make) -> None:
    device = make_device(text(meter_program("bytes")))
    device.meter_write("m", 0, MeterConfig(0, 100, 0, 250))
    assert [send(device, 0, size=60)[0] for _ in range(5)] == [GREEN, YELLOW, YELLOW, YELLOW, RED]
    assert send(device, 0, size=10)[0] == GREEN  # 40 of the committed bytes and 10 of the peak ones were left
    assert send(device, 0, size=5)[0] == RED
    assert device.meter_read("m", 0) == MeterState(MeterConfig(0, 100, 0, 250), ((2, 70), (3, 180), (2, 65)))


def test_no_token_is_lost_to_rounding(make_device: Make) -> None:
    """Nearly three tokens in seven microseconds, asked for every microsecond."""
    device = make_device(text(meter_program("packets")))
    device.meter_write("m", 1, MeterConfig(428_571, 1, 428_571, 1))
    green = sum(send(device, us * 1000, index=1)[0] == GREEN for us in range(1, 701))
    # 0.7 ms bring 299.9997 tokens; the first packet finds the bucket full.
    assert green == 300


def test_large_rates_and_late_clocks(make_device: Make) -> None:
    device = make_device(text(meter_program("bytes")))
    top = 2**63 - 1
    device.meter_write("m", 0, MeterConfig(top, top, top, top))
    device.meter_write("m", 1, MeterConfig(8_000_000_000, 1000, 8_000_000_000, 1000))
    year = 365 * 86_400 * 10**9
    for at in (1, MS, year, 2 * year):
        assert send(device, at)[0] == GREEN
        assert [send(device, at, index=1, size=600)[0] for _ in range(2)] == [GREEN, RED]


def test_one_rate_three_colours(make_device: Make) -> None:
    device = make_device(text(meter_program("packets")))
    # One packet per 10 ms; bursts: 2 committed, 3 in excess.
    device.meter_write("m", 0, MeterConfig(100, 2, 100, 2, 3, True))
    burst = [send(device, 0)[0] for _ in range(7)]
    assert burst == [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED]
    assert [send(device, 10 * MS)[0] for _ in range(2)] == [GREEN, RED]
    # 40 ms bring 4 tokens: 2 fill the committed bucket, what is over goes to the excess.
    assert [send(device, 50 * MS)[0] for _ in range(5)] == [GREEN, GREEN, YELLOW, YELLOW, RED]
    assert device.meter_read("m", 0).config == MeterConfig(100, 2, 100, 2, 3, True)


def test_a_burst_of_nothing_is_red(make_device: Make) -> None:
    device = make_device(text(meter_program("packets")))
    device.meter_write("m", 0, MeterConfig(10**9, 0, 10**9, 0))
    assert [send(device, MS * i)[0] for i in range(3)] == [RED] * 3
    device.meter_write("m", 0, MeterConfig(10**9, 0, 10**9, 1))
    assert [send(device, MS * i)[0] for i in range(3, 5)] == [YELLOW] * 2
    device.meter_write("m", 0, None)
    assert send(device, 6 * MS)[0] == GREEN
    device.meter_write_marked("m", 0, MeterState())
    assert device.meter_read("m", 0) == MeterState()


def test_an_index_beyond_the_array_leaves_the_field(make_device: Make) -> None:
    device = make_device(text(meter_program()))
    assert send(device, 0, index=4)[0] == 0xA0
    assert device.stats()["index_errors"] == 1


def entry(key: int, action: str = "mark") -> TableEntry:
    return TableEntry(((key,),), action, ())


@pytest.mark.parametrize("pipeline", ["ingress", "egress"])
def test_direct_meters(pipeline: str, make_device: Make) -> None:
    device = make_device(text(meter_program("packets", pipeline)))
    device.table_insert("t", entry(1))
    device.table_insert("t", entry(2, "pass"))
    assert send(device, 0, 1)[1] == 0x10 | GREEN  # unset
    assert send(device, 0, 3)[1] == 0xA0  # a miss executes no meter
    device.direct_meter_write("t", ((1,),), 0, MeterConfig(1, 1, 1, 2))
    # The colour is there before the action runs.
    assert [send(device, 0, 1)[1] for _ in range(3)] == [0x10 | GREEN, 0x10 | YELLOW, 0x10 | RED]
    assert send(device, 0, 2)[1] == GREEN
    device.table_modify("t", entry(1, "pass"))
    assert send(device, 0, 1)[1] == RED  # a modified entry keeps its meter
    state = device.direct_meter_read("t", ((1,),))
    assert state == MeterState(MeterConfig(1, 1, 1, 2), ((2, 10), (1, 5), (2, 10)))
    assert send(device, 1000 * MS, 1)[1] == GREEN
    device.table_delete("t", ((1,),))
    device.table_insert("t", entry(1))
    assert device.direct_meter_read("t", ((1,),)) == MeterState()
    assert send(device, 1000 * MS, 1)[1] == 0x10 | GREEN


@pytest.mark.parametrize("target", ["one", "unread"])
def test_the_target_may_be_small_or_unread(target: str, make_device: Make) -> None:
    device = make_device(text(meter_program("packets", target=target)))
    device.table_insert("t", entry(1, "pass"))
    device.direct_meter_write("t", ((1,),), 0, MeterConfig(1, 0, 1, 1))
    ones = []
    for _ in range(2):
        device.inject(1, bytes([1, 0, 0, 0, 0]))
        ones.append(device.collect(2)[0][4] >> 7)
    assert ones == ([YELLOW & 1, RED & 1] if target == "one" else [0, 0])
    assert device.direct_meter_read("t", ((1,),)).marked == ((0, 0), (1, 5), (1, 5))


BAD: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("meter_read", ("m", 4), "INVALID_ARGUMENT", "index 4"),
    ("meter_read", ("d", 0), "NOT_FOUND", "'d'"),
    ("meter_size", ("zz",), "NOT_FOUND", "'zz'"),
    ("meter_write", ("m", -1, None), "INVALID_ARGUMENT", "index -1"),
    ("meter_write", ("m", 0, MeterConfig(2, 1, 1, 1)), "INVALID_ARGUMENT", "committed rate"),
    ("meter_write", ("m", 0, MeterConfig(1, -1, 1, 1)), "INVALID_ARGUMENT", "cburst"),
    ("meter_write", ("m", 0, MeterConfig(1, 1, 2**63, 1)), "INVALID_ARGUMENT", "pir"),
    ("meter_write", ("m", 0, MeterConfig(1, 1, 1, 1, 1)), "INVALID_ARGUMENT", "excess"),
    ("direct_meter_read", ("t", ((9,),)), "NOT_FOUND", "'t'"),
    ("direct_meter_read", ("tbl_first", ((9,),)), "FAILED_PRECONDITION", "tbl_first"),
    ("direct_meter_write", ("t", ((9,),), 0, None), "NOT_FOUND", "'t'"),
    ("direct_meter_write", ("t", ((1,),), 0, MeterConfig(2, 1, 1, 1)), "INVALID_ARGUMENT", "committed"),
]


@pytest.mark.parametrize(("method", "args", "code", "named"), BAD)
def test_what_is_refused(
    method: str, args: tuple[Any, ...], code: str, named: str, make_device: Make
) -> None:
    device = make_device(text(meter_program()))
    device.table_insert("t", entry(1))
    with pytest.raises(DeviceError) as error:
        getattr(device, method)(*args)
    assert (error.value.code, named in error.value.message) == (code, True)
    assert device.meter_read("m", 0) == device.direct_meter_read("t", ((1,),)) == MeterState()


BAD_JSON: list[tuple[tuple[Any, ...], Any, str]] = [
    (("meter_arrays", 0, "type"), "frames", "frames"),
    (("meter_arrays", 0, "rate_count"), 3, "rate_count"),
    (("meter_arrays", 0, "surprise"), 3, "surprise"),
    (("meter_arrays", 1, "binding"), "zz", "'d'"),
    (("meter_arrays", 1, "binding"), "tbl_first", "'d'"),
    (("meter_arrays", 1, "result_target"), ["x", "zz"], "zz"),
    (("meter_arrays", 1, "result_target"), None, "result_target"),
    (("pipelines", 0, "tables", 2, "direct_meters"), "m", "'m'"),
    (("pipelines", 0, "tables", 2, "direct_meters"), "zz", "'zz'"),
    (("actions", 3, "primitives", 0, "parameters", 0, "value"), "zz", "zz"),
    (("actions", 3, "primitives", 0, "parameters", 0, "value"), "d", "direct meter"),
    (("actions", 3, "primitives", 0, "parameters"), [], "execute_meter"),
]


@pytest.mark.parametrize(("path", "value", "named"), BAD_JSON)
def test_bad_jsons_name_the_element(path: tuple[Any, ...], value: Any, named: str) -> None:
    check_damage(meter_program(), path, value, named)
