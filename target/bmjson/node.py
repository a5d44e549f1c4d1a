# SPDX-License-Identifier: Apache-2.0
"""A JSON value that knows where it stands, so that every complaint names the element."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn


class JsonError(ValueError):
    """A BMv2 JSON that can't be loaded. One line: the element, what is wrong with it, what is expected."""


class Node:
    """One JSON value with its path. Accessors check the type and raise JsonError."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self.path = path

    def fail(self, message: str) -> NoReturn:
        raise JsonError(f"{self.path}: {message}")

    def keys(self, required: str, optional: str = "") -> None:
        """Check an object's attributes: all of `required`, nothing beyond `required` and `optional`."""
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {_kind(self.value)}")
        need = required.split()
        known = {*need, *optional.split()}
        for key in need:
            if key not in self.value:
                self.fail(f"attribute {key!r} is missing")
        for key in self.value:
            if key not in known:
                self.fail(f"attribute {key!r} is not supported")

    def has(self, key: str) -> bool:
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {_kind(self.value)}")
        if key not in self.value:
            self.fail(f"attribute {key!r} is missing")
        return Node(self.value[key], f"{self.path}.{key}")

    def get(self, key: str, default: Any) -> Node:
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {_kind(self.value)}")
        return Node(self.value.get(key, default), f"{self.path}.{key}")

    def is_null(self) -> bool:
        return self.value is None

    def string(self) -> str:
        if not isinstance(self.value, str):
            self.fail(f"expected a string, got {_kind(self.value)}")
        return self.value

    def opt_str(self) -> str | None:
        return None if self.value is None else self.string()

    def integer(self, low: int | None = None, high: int | None = None) -> int:
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"expected an integer, got {_kind(value)}")
        if (low is not None and value < low) or (high is not None and value > high):
            self.fail(f"{value} is outside {low}..{high}")
        return int(value)

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {_kind(self.value)}")
        return self.value

    def flag(self) -> bool:
        """A boolean, for which a compiler may write 0 or 1."""
        return bool(self.integer(0, 1)) if type(self.value) is int else self.boolean()

    def hexstr(self) -> int:
        """A BMv2 hexstr: hexadecimal digits, an optional 0x, an optional leading minus."""
        text = self.string()
        body = text.removeprefix("-").removeprefix("0x")
        if not body or len(body) > 4096 or any(c not in "0123456789abcdefABCDEF" for c in body):
            self.fail(f"{text[:40]!r} is not a hexadecimal number")
        number = int(body, 16)
        return -number if text.startswith("-") else number

    def elements(self, length: int | None = None) -> list[Node]:
        if not isinstance(self.value, list):
            self.fail(f"expected an array, got {_kind(self.value)}")
        if length is not None and len(self.value) != length:
            self.fail(f"expected {length} elements, got {len(self.value)}")
        return list(self._items())

    def _items(self) -> Iterator[Node]:
        for index, value in enumerate(self.value):
            label = ""
            if isinstance(value, dict) and isinstance(value.get("name"), str):
                label = f" {value['name'][:80]!r}"
            yield Node(value, f"{self.path}[{index}]{label}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")


def parse(text: str) -> Node:
    """The root of a JSON text. Path names are relative to it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JsonError(f"not a JSON text: {error}") from None
    root = Node(value, "json")
    if not isinstance(value, dict):
        root.fail(f"expected an object, got {_kind(value)}")
    return root
