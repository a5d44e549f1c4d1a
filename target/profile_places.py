# SPDX-License-Identifier: Apache-2.0
"""Members and groups of action profiles in the native runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from target import native
from target.bmjson import Program
from target.bmjson.model import Action
from target.codegen.control import arg_words
from target.codegen.profiles import all_actions
from target.profiles import ProfileControl, action_check

if TYPE_CHECKING:
    from target.engine import Engine


class NativePlaces:
    """One profile of a loaded program. `numbers`: of its actions, by name."""

    def __init__(
        self,
        engine: Engine,
        pipeline: Any,
        number: int,
        name: str,
        actions: dict[str, Action],
        numbers: dict[str, int],
    ) -> None:
        self._engine, self._ffi, self._lib = engine, engine.ffi, engine.lib
        self._pipeline, self._number, self._name = pipeline, number, name
        self._actions, self._numbers = actions, numbers

    def _check(self, status: int) -> None:
        from target.pipeline import check

        check(self._engine, status, f"action profile {self._name!r}")

    def set_member(self, handle: int, action: str, args: tuple[int, ...]) -> None:
        words = arg_words(self._actions[action].params, args)
        data = self._ffi.new("uint64_t[]", words) if words else self._ffi.NULL
        number = self._numbers[action]
        self._check(self._lib.sw_member_set(self._pipeline, self._number, handle, number, data, len(words)))

    def delete_member(self, handle: int) -> None:
        self._check(self._lib.sw_member_delete(self._pipeline, self._number, handle))

    def set_group(self, handle: int, members: Sequence[int], watched: Sequence[int | None]) -> None:
        ffi = self._ffi
        list_ = ffi.new("uint32_t[]", list(members) or [0])
        watch = ffi.NULL
        if any(port is not None for port in watched):
            watch = ffi.new("uint32_t[]", [native.NO_PORT if port is None else port for port in watched])
        self._check(self._lib.sw_group_set(self._pipeline, self._number, handle, list_, watch, len(members)))

    def delete_group(self, handle: int) -> None:
        self._check(self._lib.sw_group_delete(self._pipeline, self._number, handle))


def profile_actions_by_name(program: Program, profile: str) -> dict[str, Action]:
    """The actions of all tables that use a profile."""
    tables = [t for t in program.tables.values() if t.profile == profile]
    actions = [program.actions[i] for t in tables for i in all_actions(t)]
    return {a.name: a for a in reversed(actions)}


def native_profile(
    engine: Engine, pipeline: Any, program: Program, number: int, numbers: dict[str, int]
) -> ProfileControl:
    profile = list(program.profiles.values())[number]
    actions = profile_actions_by_name(program, profile.name)
    places = NativePlaces(engine, pipeline, number, profile.name, actions, numbers)
    return ProfileControl(profile, action_check(profile.name, actions), places)
