# SPDX-License-Identifier: Apache-2.0
"""The names of a BMv2 JSON that STF files speak of: tables, keys, actions, counters, registers, meters.

Read apart from the target's own reader, since the JSON may hold what one target or the other refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class UnknownName(Exception):
    """A name that the program does not have, or has more than once. One line."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    match: str
    """exact, lpm, ternary, range, optional or valid"""
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    params: tuple[tuple[str, int], ...]
    """(name, bits)"""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    match: str
    """Of the whole table, by which BMv2 wants a priority or none."""
    key: tuple[Key, ...]
    actions: tuple[Action, ...]

    def find_action(self, name: str) -> Action:
        return find(self.actions, name, f"action of table {self.name!r}")

    def find_key(self, name: str) -> Key:
        """`valid` may be said for a header's validity, `$valid$`."""
        forms = [name, f"{name}$", f"{name}.$valid$"]
        if name == "valid" or name.endswith(".valid"):
            forms.append(f"{name.removesuffix('valid')}$valid$")
        for form in forms:
            for key in self.key:
                if key.name == form:
                    return key
        for form in forms:
            found = [key for key in self.key if key.name.endswith(f".{form}")]
            if len(found) == 1:
                return found[0]
            if found:
                raise UnknownName(f"table {self.name!r}: key field {name!r} may be {_names(found)}")
        raise UnknownName(f"table {self.name!r} has no key field {name!r}, it has {_names(self.key)}")


@dataclass(frozen=True, slots=True)
class Array:
    """A counter, meter or register. `table`: of a direct one."""

    name: str
    table: str | None


class Program:
    """The named objects of one BMv2 JSON."""

    def __init__(self, json: Mapping[str, Any]) -> None:
        types = {t["name"]: t["fields"] for t in json["header_types"]}
        self._widths = {h["name"]: {f[0]: f[1] for f in types[h["header_type"]]} for h in json["headers"]}
        actions = {a["id"]: self._action(a) for a in json["actions"]}
        self.tables = [
            self._table(table, actions) for pipeline in json["pipelines"] for table in pipeline["tables"]
        ]
        self.counters = [Array(c["name"], c.get("binding")) for c in json.get("counter_arrays", ())]
        self.meters = [Array(m["name"], m.get("binding")) for m in json.get("meter_arrays", ())]
        self.registers = [Array(r["name"], None) for r in json.get("register_arrays", ())]

    @staticmethod
    def _action(json: Mapping[str, Any]) -> Action:
        return Action(json["name"], tuple((p["name"], p["bitwidth"]) for p in json["runtime_data"]))

    def _table(self, json: Mapping[str, Any], actions: Mapping[int, Action]) -> Table:
        return Table(
            json["name"],
            json["match_type"],
            tuple(self._key(key) for key in json["key"]),
            tuple(actions[number] for number in json["action_ids"]),
        )

    def _key(self, json: Mapping[str, Any]) -> Key:
        target = json["target"]
        if isinstance(target, str):
            return Key(json.get("name") or target, json["match_type"], 1)
        header, field = target
        width = self._widths.get(header, {}).get(field, 1)
        return Key(json.get("name") or f"{header}.{field}", json["match_type"], width)

    def table(self, name: str) -> Table:
        return find(self.tables, name, "table")

    def counter(self, name: str) -> Array:
        return find(self.counters, name, "counter")

    def register(self, name: str) -> Array:
        return find(self.registers, name, "register")

    def meter(self, name: str) -> Array:
        return find(self.meters, name, "meter")


def find(among: Iterable[_T], name: str, what: str) -> _T:
    """By the whole name, else by its last parts (`t` for `ingress.t`), else by how it ends."""
    listed = list({item.name: item for item in among}.values())
    for tail in (None, f".{name}", name):
        found = [i for i in listed if (i.name == name if tail is None else i.name.endswith(tail))]
        if len(found) == 1:
            return found[0]
        if found:
            raise UnknownName(f"{what} {name!r} may be {_names(found)}")
    raise UnknownName(f"there is no {what} {name!r}, there are {_names(listed)}")


def _names(items: Iterable[_Named]) -> str:
    return ", ".join(repr(item.name) for item in items) or "none"
