# SPDX-License-Identifier: Apache-2.0
"""Binary strings: the specification's examples, and properties over all widths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target.p4runtime import bytestrings
from target.p4runtime.status import P4Error, code_name

WIDTHS = st.integers(1, 2048)


@pytest.mark.parametrize(
    ("width", "data", "value"),
    [
        (8, b"\x63", 99),
        (16, b"\x00\x63", 99),
        (16, b"\x63", 99),
        (16, b"\x30\x64", 12388),
        (16, b"\x00\x30\x64", 12388),
        (12, b"\x00\x63", 99),
        (12, b"\x63", 99),
        (12, b"\x00\x00\x63", 99),
    ],
)
def test_valid_unsigned(width: int, data: bytes, value: int) -> None:
    assert bytestrings.decode(data, width, "x") == value


@pytest.mark.parametrize(
    ("width", "data", "value"),
    [
        (8, b"\x63", 99),
        (8, b"\x9d", -99),
        (8, b"\xff\x9d", -99),
        (12, b"\xfd\x1d", -739),
        (16, b"\x00\x00", 0),
        (16, b"\x00", 0),
    ],
)
def test_valid_signed(width: int, data: bytes, value: int) -> None:
    assert bytestrings.decode_signed(data, width, "x") == value


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
    ],
)
def test_invalid_unsigned(width: int, data: bytes) -> None:
    with pytest.raises(P4Error) as error:
        bytestrings.decode(data, width, "field 'x'")
    assert code_name(error.value.code) == "OUT_OF_RANGE"
    assert "field 'x'" in error.value.message


@pytest.mark.parametrize(("width", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")])
def test_invalid_signed(width: int, data: bytes) -> None:
    with pytest.raises(P4Error) as error:
        bytestrings.decode_signed(data, width, "field 'x'")
    assert code_name(error.value.code) == "OUT_OF_RANGE"


@given(st.data(), WIDTHS)
def test_unsigned_round_trip(data: st.DataObject, width: int) -> None:
    value = data.draw(st.integers(0, 2**width - 1))
    encoded = bytestrings.encode(value)
    assert bytestrings.decode(encoded, width, "x") == value
    # Canonical: nothing shorter holds the value, and leading zeros change nothing.
    assert len(encoded) == max(1, (value.bit_length() + 7) // 8)
    zeros = data.draw(st.integers(0, 5))
    assert bytestrings.decode(bytes(zeros) + encoded, width, "x") == value


@given(st.data(), WIDTHS)
def test_signed_round_trip(data: st.DataObject, width: int) -> None:
    value = data.draw(st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1))
    encoded = bytestrings.encode_signed(value)
    assert bytestrings.decode_signed(encoded, width, "x") == value
    if len(encoded) > 1:
        assert int.from_bytes(encoded[1:], "big", signed=True) != value
    sign = b"\xff" if value < 0 else b"\x00"
    assert bytestrings.decode_signed(sign * 3 + encoded, width, "x") == value


@given(st.binary(max_size=300), WIDTHS)
def test_any_bytes_either_fit_or_are_refused(data: bytes, width: int) -> None:
    value = int.from_bytes(data, "big")
    if data and value < 2**width:
        assert bytestrings.decode(data, width, "x") == value
    else:
        with pytest.raises(P4Error):
            bytestrings.decode(data, width, "x")
    signed = int.from_bytes(data, "big", signed=True)
    if data and -(2 ** (width - 1)) <= signed < 2 ** (width - 1):
        assert bytestrings.decode_signed(data, width, "x") == signed
    else:
        with pytest.raises(P4Error):
            bytestrings.decode_signed(data, width, "x")
