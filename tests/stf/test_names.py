# SPDX-License-Identifier: Apache-2.0
"""How names and values of an STF file are found in a program."""

from __future__ import annotations

import re

import pytest

from tests.stf.dut import Match
from tests.stf.keys import BadKey, match_of
from tests.stf.language import KeyValue, Masked, Number, Place, Prefix, Span
from tests.stf.line import Line
from tests.stf.program import Array, Key, Table, UnknownName, find


def number(text: str) -> Number:
    return Line(Place("t.stf", 1), text).pattern("a number")


@pytest.mark.parametrize(
    ("kind", "width", "value", "match"),
    [
        ("exact", 8, number("0x12"), (0x12,)),
        ("exact", 8, None, (0,)),
        ("valid", 1, number("1"), (1,)),
        ("optional", 8, number("7"), (7,)),
        ("optional", 8, None, ()),
        ("lpm", 32, number("0x0a0b0c0d"), (0x0A0B0C0D, 32)),
        ("lpm", 32, number("0x0a0b****"), (0x0A0B0000, 16)),
        ("lpm", 7, number("0x7f"), (0x7F, 7)),
        ("lpm", 32, number("5"), (5, 32)),
        ("lpm", 32, Prefix(0x0A0BFFFF, 16), (0x0A0B0000, 16)),
        ("lpm", 32, Prefix(0x0A0BFFFF, 0), (0, 0)),
        ("lpm", 32, None, (0, 0)),
        # Digits that aren't written don't matter.
        ("ternary", 16, number("0x25"), (0x25, 0xFF)),
        ("ternary", 16, number("0x25**"), (0x2500, 0xFF00)),
        ("ternary", 16, number("0b1*1"), (5, 5)),
        ("ternary", 7, number("0x25"), (0x25, 0x7F)),
        ("ternary", 16, number("37"), (37, 0xFFFF)),
        ("ternary", 16, Masked(0x1234, 0xFF), (0x34, 0xFF)),
        ("ternary", 16, None, (0, 0)),
        ("range", 16, Span(1, 9), (1, 9)),
        ("range", 16, number("9"), (9, 9)),
        ("range", 16, None, (0, 0xFFFF)),
    ],
)
def test_values(kind: str, width: int, value: KeyValue | None, match: Match) -> None:
    assert match_of(Key("k", kind, width), value) == match


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("exact", number("0x1*"), "0x1\\* is not one value"),
        ("exact", Prefix(1, 8), "0x1/8 does not suit a match of kind 'exact'"),
        ("exact", Masked(1, 8), "does not suit"),
        ("lpm", number("0x1*2*"), "is no prefix"),
        ("lpm", Prefix(1, 17), "/17 is longer than 16 bits"),
        ("lpm", Span(1, 2), "does not suit"),
        ("ternary", Prefix(1, 8), "does not suit"),
        ("range", number("0x1*"), "is not one value"),
        ("range", Masked(1, 8), "does not suit"),
    ],
)
def test_values_that_do_not_suit(kind: str, value: KeyValue, message: str) -> None:
    with pytest.raises(BadKey, match=message):
        match_of(Key("k", kind, 16), value)


def arrays(*names: str) -> list[Array]:
    return [Array(name, None) for name in names]


@pytest.mark.parametrize(
    ("names", "wanted", "found"),
    [
        (["c.t", "c.inner.t"], "c.t", "c.t"),
        (["c.one", "c.two"], "two", "c.two"),
        (["c.d.one", "d.two"], "d.one", "c.d.one"),
        (["c.outer_t", "c.t"], "t", "c.t"),
        (["c.outer_t", "c.u"], "t", "c.outer_t"),
        (["c.t", "c.t"], "t", "c.t"),
    ],
)
def test_names_by_their_end(names: list[str], wanted: str, found: str) -> None:
    assert find(arrays(*names), wanted, "counter").name == found


def test_names_that_are_not_there_or_not_alone() -> None:
    with pytest.raises(UnknownName, match=re.escape("counter 't' may be 'a.t', 'b.t'")):
        find(arrays("a.t", "b.t"), "t", "counter")
    with pytest.raises(UnknownName, match=re.escape("there is no counter 'x', there are 'a.t', 'b.t'")):
        find(arrays("a.t", "b.t"), "x", "counter")
    with pytest.raises(UnknownName, match="there are none"):
        find(arrays(), "x", "counter")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("hdr.ipv4.dst", "hdr.ipv4.dst"),
        ("ipv4.dst", "hdr.ipv4.dst"),
        ("dst", "hdr.ipv4.dst"),
        ("hdr.x.valid", "hdr.x.$valid$"),
        ("hdr.x", "hdr.x.$valid$"),
        ("x.valid", "hdr.x.$valid$"),
        ("slice", "hdr.e.slice$"),
    ],
)
def test_key_fields(wanted: str, found: str) -> None:
    names = ("hdr.ipv4.dst", "hdr.x.$valid$", "hdr.e.slice$", "a.same", "b.same")
    table = Table("t", "exact", tuple(Key(name, "exact", 8) for name in names), ())
    assert table.find_key(wanted).name == found
    with pytest.raises(UnknownName, match=re.escape("'same' may be 'a.same', 'b.same'")):
        table.find_key("same")
    with pytest.raises(UnknownName, match="table 't' has no key field 'src'"):
        table.find_key("src")
