# SPDX-License-Identifier: Apache-2.0
"""Sender-side shedding, the baseline that gives up whole gradient messages at admission (paper, "Forgiveness
charges the loss budget only under congestion").

A shed message is replaced by a placeholder of 64 bytes, sent reliably and not as gradient traffic. The
receiver sees a message that ends before its posted length, and so learns that the bytes were given up."""

from __future__ import annotations

from dataclasses import dataclass

from hosts.config import check_int
from hosts.messages import MessageKey

PLACEHOLDER_BYTES = 64
MILLION = 1_000_000
_MASK = (1 << 64) - 1


def splitmix64(value: int) -> int:
    """One step of the splitmix64 generator (Steele, Lea, Flood, OOPSLA 2014) from state `value`."""
    z = (value + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def draw(seed: int, key: MessageKey) -> int:
    """Uniform over 0 to 999,999; the same for a message whatever the probability, so that what a low one
    sheds, a high one sheds as well."""
    state = splitmix64(seed & _MASK)
    for part in (key.step, key.source, key.destination, key.sequence):
        state = splitmix64(state ^ part)
    return state % MILLION


@dataclass(frozen=True, slots=True)
class Shedding:
    """Shed each gradient message with probability `p_ppm` / 1,000,000."""

    seed: int
    p_ppm: int

    def __post_init__(self) -> None:
        check_int("p_ppm", self.p_ppm, 0, MILLION)

    def sheds(self, key: MessageKey, length_bytes: int) -> bool:
        """A message that is no longer than a placeholder is never shed."""
        return length_bytes > PLACEHOLDER_BYTES and draw(self.seed, key) < self.p_ppm
