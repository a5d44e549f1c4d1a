# SPDX-License-Identifier: Apache-2.0
"""What a written value means for a key field of some match kind."""

from __future__ import annotations

from tests.stf.dut import Match
from tests.stf.language import KeyValue, Masked, Number, Prefix, Span
from tests.stf.program import Key


class BadKey(Exception):
    """A value that the key field can't take. One line."""


def match_of(key: Key, value: KeyValue | None) -> Match:
    """None, a field that the line leaves out: don't care, or 0 for an exact field."""
    ones = (1 << key.width) - 1
    match key.match, value:
        case "exact" | "valid", None:
            return (0,)
        case "exact" | "valid" | "optional", Number(number, mask, text):
            if mask is not None and "*" in text:
                raise BadKey(f"key field {key.name!r}: {text} is not one value")
            return (number,)
        case "optional", None:
            return ()
        case "lpm" | "ternary", None:
            return 0, 0
        case "lpm", Number(number, mask, text):
            length = _prefix_length(key, mask, text)
            return number & ~(ones >> length), length
        case "lpm", Prefix(number, length):
            if length > key.width:
                raise BadKey(f"key field {key.name!r}: /{length} is longer than {key.width} bits")
            return number & ~(ones >> length), length
        case "ternary", Number(number, mask, _):
            # Digits that aren't written don't matter.
            return number, ones if mask is None else mask & ones
        case "ternary", Masked(number, mask):
            return number & mask, mask
        case "range", None:
            return 0, ones
        case "range", Number(number, _, text):
            if "*" in text:
                raise BadKey(f"key field {key.name!r}: {text} is not one value")
            return number, number
        case "range", Span(low, high):
            return low, high
    raise BadKey(f"key field {key.name!r}: {_form(value)} does not suit a match of kind {key.match!r}")


def _prefix_length(key: Key, mask: int | None, text: str) -> int:
    if mask is None:
        return key.width
    digits = text[2:]
    fixed = digits.rstrip("*")
    if "*" in fixed:
        raise BadKey(f"key field {key.name!r}: {text} is no prefix")
    per_digit = 4 if text[1] in "xX" else 1
    # A prefix of as many bits as there are digits; of leading zeros some may be missing in the field.
    return min(len(fixed) * per_digit - max(0, len(digits) * per_digit - key.width), key.width)


def _form(value: KeyValue | None) -> str:
    match value:
        case Prefix(number, length):
            return f"{number:#x}/{length}"
        case Masked(number, mask):
            return f"{number:#x}&&&{mask:#x}"
        case Span(low, high):
            return f"{low:#x}->{high:#x}"
        case Number(_, _, text):
            return text
    return "nothing"
