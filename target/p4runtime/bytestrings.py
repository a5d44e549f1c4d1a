# SPDX-License-Identifier: Apache-2.0
"""P4Runtime binary strings (specification 1.5, "Bytestrings"): big-endian, canonical when shortest.

A server accepts any length as long as the value fits the width, and always answers with the shortest form.
"""

from __future__ import annotations

from target.p4runtime.status import out_of_range


def encode(value: int) -> bytes:
    """The shortest binary string of an unsigned value; zero is one zero byte."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def decode(data: bytes, bitwidth: int, what: str) -> int:
    """The value of a binary string as `bit<bitwidth>`. Raises OUT_OF_RANGE, naming `what`."""
    if not data:
        raise out_of_range(f"{what}: empty byte string; send at least one byte")
    value = int.from_bytes(data, "big")
    if value.bit_length() > bitwidth:
        raise out_of_range(f"{what}: value {value:#x} does not fit within {bitwidth} bits")
    return value


def encode_signed(value: int) -> bytes:
    """The shortest two's complement binary string of a signed value."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(data: bytes, bitwidth: int, what: str) -> int:
    """The value of a binary string as `int<bitwidth>`. Raises OUT_OF_RANGE, naming `what`."""
    if not data:
        raise out_of_range(f"{what}: empty byte string; send at least one byte")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (bitwidth - 1)) <= value < 1 << (bitwidth - 1):
        raise out_of_range(f"{what}: value {value} does not fit within a signed {bitwidth} bits")
    return value
