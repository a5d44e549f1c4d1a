# SPDX-License-Identifier: Apache-2.0
"""Fields of headers, which are in network order and packed: how to load and store them."""

from __future__ import annotations

from dataclasses import dataclass

from target.codegen.emitter import c_u64


@dataclass(frozen=True, slots=True)
class _Unit:
    """A word of 1, 2, 4 or 8 bytes that holds a field."""

    first: int
    size: int
    shift: int
    """Bits of the word below the field."""

    def address(self, place: str) -> str:
        return f"{place} + {self.first}" if self.first else place


def _unit(bit: int, width: int, slot: int, writing: bool) -> _Unit | None:
    """The word that is cheapest to load or store the field by, within a header's room of `slot` bytes."""
    best: tuple[tuple[int, int, int], _Unit] | None = None
    for size in (1, 2, 4, 8):
        for first in range(max(0, (bit + width + 7) // 8 - size), bit // 8 + 1):
            if first + size > slot:
                continue
            shift = 8 * (first + size) - bit - width
            masked = 8 * first != bit
            # Stores leave as little as they can to be read and written back.
            cost = (size if writing else 0, (shift > 0) + masked, size)
            if best is None or cost < best[0]:
                best = cost, _Unit(first, size, shift)
    return best[1] if best is not None else None


def load(place: str, bit: int, width: int, slot: int) -> str:
    """C expression, a uint64_t, of a field of 1..64 bits, `bit` bits into the header at `place`."""
    unit = _unit(bit, width, slot, False)
    if unit is None:
        return f"sw_get_bits({place}, {bit}, {width})"
    code = f"sw_load_be{8 * unit.size}({unit.address(place)})"
    if unit.shift:
        code = f"({code} >> {unit.shift})"
    if width < 64 and 8 * unit.first != bit:
        code = f"({code} & {c_u64((1 << width) - 1)})"
    return code


def store(place: str, bit: int, width: int, slot: int, value: str) -> list[str]:
    """C statements that store the low `width` bits (1..64) of a uint64_t that has no others."""
    if bit % 8 == 0 and width % 8 == 0:
        # Whole bytes: in pieces of 8, 4, 2 and 1, the first the highest.
        lines = []
        first, left = bit // 8, width
        while left:
            size = next(s for s in (8, 4, 2, 1) if 8 * s <= left)
            left -= 8 * size
            at = f"{place} + {first}" if first else place
            lines.append(f"sw_store_be{8 * size}({at}, {f'({value}) >> {left}' if left else value});")
            first += size
        return lines
    unit = _unit(bit, width, slot, True)
    if unit is None:
        return [f"sw_put_bits({place}, {bit}, {width}, {value});"]
    bits = 8 * unit.size
    rest = (1 << bits) - 1 & ~(((1 << width) - 1) << unit.shift)
    at = unit.address(place)
    moved = f"({value}) << {unit.shift}" if unit.shift else f"({value})"
    return [f"sw_store_be{bits}({at}, (sw_load_be{bits}({at}) & {c_u64(rest)}) | {moved});"]
