# SPDX-License-Identifier: Apache-2.0
"""Strict reading of frozen dataclasses from TOML or JSON mappings, and back.

A dataclass is its own schema: field types are int, float, bool, str, an enum of strings, `tuple[T, ...]`,
another dataclass, or one of these `| None`. `field(metadata=limits(low, high))` adds a range. Every error is
one `ProfileError` line: file, section and key, what is there, what belongs there.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import functools
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class ProfileError(ValueError):
    """A profile that can't be used. One line: the file, the key and the mend."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Inclusive range of a number; `why` says in a few words where the limits come from."""

    low: float | None = None
    high: float | None = None
    why: str = ""


def limits(low: float | None = None, high: float | None = None, why: str = "") -> dict[str, Any]:
    """Metadata for `dataclasses.field`: an inclusive range."""
    return {"limits": Limits(low, high, why)}


@functools.cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _fail(where: str, text: str) -> typing.NoReturn:
    raise ProfileError(f"{where}: {text}")


def read(cls: type[T], value: object, where: str, path: str = "") -> T:
    """Build `cls` from a mapping. `where` names the file, `path` the section, for errors.

    Raises ProfileError for a missing, unknown, ill-typed or out-of-range key.
    """
    if not isinstance(value, Mapping):
        _fail(where, f"{path or 'the file'} is {_shown(value)}; give a table of keys")
    schema = typing.cast(Hashable, cls)
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            mend = f"did you mean {near[0]}?" if near else f"remove it; known: {', '.join(known)}"
            _fail(where, f"{_join(path, str(key))} is not known; {mend}")
    arguments: dict[str, Any] = {}
    for name, field in known.items():
        here = _join(path, name)
        if name in value:
            arguments[name] = _convert(_hints(schema)[name], value[name], where, here)
            _check(field.metadata.get("limits"), arguments[name], where, here)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            _fail(where, f"{here} is missing; add it ({_described(_hints(schema)[name])})")
    try:
        return cls(**arguments)
    except ProfileError as error:  # a rule across keys, raised by __post_init__
        raise ProfileError(f"{where}: {_join(path, str(error))}") from None


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    return f"{value!r}"


def _described(hint: Any) -> str:
    if dataclasses.is_dataclass(hint):
        return "a table"
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return "one of " + ", ".join(f'"{member}"' for member in hint)
    if typing.get_origin(hint) is tuple:
        return f"a list, each element {_described(typing.get_args(hint)[0])}"
    if typing.get_origin(hint) is types.UnionType:
        return _described(next(a for a in typing.get_args(hint) if a is not types.NoneType))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[hint]


def _convert(hint: Any, value: object, where: str, path: str) -> Any:
    if typing.get_origin(hint) is types.UnionType:
        if value is None:
            return None
        hint = next(a for a in typing.get_args(hint) if a is not types.NoneType)
    if dataclasses.is_dataclass(hint):
        return read(typing.cast(type, hint), value, where, path)
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            _fail(where, f"{path} is {_shown(value)}; give {_described(hint)}")
        element = typing.get_args(hint)[0]
        return tuple(_convert(element, v, where, f"{path}[{i}]") for i, v in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        if isinstance(value, str) and value in list(hint):
            return hint(value)
        _fail(where, f"{path} is {_shown(value)}; give {_described(hint)}")
    accepted = {int: (int,), float: (int, float), bool: (bool,), str: (str,)}[hint]
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        _fail(where, f"{path} is {_shown(value)}; give {_described(hint)}")
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        _fail(where, f"{path} is {value}; give a finite number")
    return value


def _check(bound: Limits | None, value: Any, where: str, path: str) -> None:
    if bound is None or value is None:
        return
    for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
        here = f"{path}[{index}]" if isinstance(value, tuple) else path
        why = f" ({bound.why})" if bound.why else ""
        if bound.low is not None and item < bound.low:
            _fail(where, f"{here} is {item}; give {bound.low:g} or more{why}")
        if bound.high is not None and item > bound.high:
            _fail(where, f"{here} is {item}; give {bound.high:g} or less{why}")


def plain(value: Any) -> Any:
    """The mapping that `read` takes back: dataclasses as dicts, tuples as lists, enums as their text."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    if isinstance(value, enum.StrEnum):
        return str(value)
    return value
