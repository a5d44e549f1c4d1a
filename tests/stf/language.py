# SPDX-License-Identifier: Apache-2.0
"""What the lines of an STF file say.

The language is that of p4c's `.stf` files. Added to it: `check_register`, and of the keys the forms
`value&&&mask` and `low->high` of simple_switch's command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Place:
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class StfError(Exception):
    """A line that can't be read. One line of text, with file and line."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place = place


# --- values of a key


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written. `mask` has the bits of all digits but `*`; None for a decimal number."""

    value: int
    mask: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Prefix:
    value: int
    length: int


@dataclass(frozen=True, slots=True)
class Masked:
    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Span:
    low: int
    high: int


KeyValue: TypeAlias = Number | Prefix | Masked | Span


@dataclass(frozen=True, slots=True)
class ActionCall:
    name: str
    args: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Expected bytes: hexadecimal digits, `*` for any. `exact`: nothing may follow."""

    digits: str
    exact: bool

    def mismatch(self, packet: bytes) -> str | None:
        """What differs, or None."""
        got = packet.hex()
        if len(got) < len(self.digits):
            return f"{len(packet)} bytes, expected {(len(self.digits) + 1) // 2}: got {got}"
        if self.exact and len(got) > len(self.digits):
            return f"{len(packet)} bytes, expected exactly {len(self.digits) // 2}: got {got}"
        for position, (want, have) in enumerate(zip(self.digits, got, strict=False)):
            if want not in ("*", have):
                return f"byte {position // 2} differs: expected {self.digits}, got {got}"
        return None


# --- commands


@dataclass(frozen=True, slots=True)
class Command:
    place: Place


@dataclass(frozen=True, slots=True)
class Add(Command):
    table: str
    priority: int | None
    """The larger wins."""
    key: tuple[tuple[str, KeyValue], ...]
    action: ActionCall
    label: str | None


@dataclass(frozen=True, slots=True)
class SetDefault(Command):
    table: str
    action: ActionCall


@dataclass(frozen=True, slots=True)
class RemoveAll(Command):
    """Every entry of every table that a line of the file added."""


@dataclass(frozen=True, slots=True)
class Packet(Command):
    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Expect(Command):
    port: int
    pattern: Pattern | None
    """None: a packet, whatever it holds."""


@dataclass(frozen=True, slots=True)
class NoPacket(Command):
    """No port has sent more than the lines before expect."""


@dataclass(frozen=True, slots=True)
class Wait(Command):
    """A second passes."""


Relation: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class CheckCounter(Command):
    name: str
    index: int | str
    """A cell, or the label of an entry for a direct counter."""
    unit: Literal["packets", "bytes"]
    relation: Relation
    value: int


@dataclass(frozen=True, slots=True)
class CheckRegister(Command):
    name: str
    index: int
    relation: Relation
    value: int


@dataclass(frozen=True, slots=True)
class MirrorToPort(Command):
    session: int
    port: int


@dataclass(frozen=True, slots=True)
class MirrorToGroup(Command):
    session: int
    group: int


@dataclass(frozen=True, slots=True)
class MirrorDelete(Command):
    session: int


@dataclass(frozen=True, slots=True)
class MirrorGet(Command):
    """The session must exist."""

    session: int


@dataclass(frozen=True, slots=True)
class GroupCreate(Command):
    group: int


@dataclass(frozen=True, slots=True)
class NodeCreate(Command):
    """Nodes have handles 0, 1, ... in the order of their creation."""

    rid: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeUpdate(Command):
    node: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeAssociate(Command):
    group: int
    node: int


@dataclass(frozen=True, slots=True)
class CounterRead(Command):
    """The cell must be there."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class CounterWrite(Command):
    name: str
    index: int
    packets: int
    octets: int


@dataclass(frozen=True, slots=True)
class RegisterRead(Command):
    """The element must be there."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class RegisterWrite(Command):
    name: str
    index: int
    value: int


@dataclass(frozen=True, slots=True)
class RegisterReset(Command):
    name: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Of a meter: packets or bytes a microsecond, as a decimal fraction, and a burst of them."""

    per_microsecond: str
    burst: int


@dataclass(frozen=True, slots=True)
class MeterGet(Command):
    """The meter must be there."""

    name: str
    index: int


@dataclass(frozen=True, slots=True)
class MeterSet(Command):
    name: str
    index: int
    rates: tuple[Rate, ...]


@dataclass(frozen=True, slots=True)
class MeterSetAll(Command):
    name: str
    rates: tuple[Rate, ...]
