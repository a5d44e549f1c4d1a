# SPDX-License-Identifier: Apache-2.0
"""The state of what not every program has, without a dataplane: action profiles, meters, digests."""

from __future__ import annotations

from collections.abc import Sequence

from target.api import DeviceError, GroupMember, TableEntry
from target.bmjson.model import Program
from target.profile_places import profile_actions_by_name
from target.profiles import Held, NoPlaces, ProfileControl, action_check

_Place = tuple[str, object]
"""A table, and the key and priority of an entry."""


class ShadowResources:
    """Part of `target.p4runtime.shadow.ShadowDevice`."""

    def _reset_resources(self, program: Program) -> None:
        self._program = program
        self._profiles = {
            name: ProfileControl(
                profile, action_check(name, profile_actions_by_name(program, name)), NoPlaces()
            )
            for name, profile in program.profiles.items()
        }
        self._held: dict[_Place, Held] = {}

    # --- what table entries lead to

    def _profile_of(self, table: str) -> ProfileControl | None:
        name = self._program.tables[table].profile
        return None if name is None else self._profiles[name]

    def _hold(self, table: str, entry: TableEntry) -> None:
        """Take hold of what the entry leads to, in place of what it held before."""
        profile = self._profile_of(table)
        if profile is None:
            return
        if entry.target is None:
            raise DeviceError("INVALID_ARGUMENT", f"table {table!r} is indirect")
        place = (table, (entry.key, entry.priority))
        held = profile.hold(entry.target, self._held.get(place))
        self._release(*place)
        self._held[place] = held

    def _release(self, table: str, place: object) -> None:
        profile, held = self._profile_of(table), self._held.pop((table, place), None)
        if profile is not None and held is not None:
            profile.release(held)

    # --- action profiles

    def _profile(self, profile: str) -> ProfileControl:
        if profile not in self._profiles:
            raise DeviceError("NOT_FOUND", f"no action profile {profile!r} in the pipeline")
        return self._profiles[profile]

    def profile_members(self, profile: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        return self._profile(profile).members()

    def profile_groups(self, profile: str) -> dict[int, tuple[GroupMember, ...]]:
        return self._profile(profile).groups()

    def profile_usage(self, profile: str) -> tuple[int, int]:
        return self._profile(profile).usage()

    def profile_member_insert(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        self._profile(profile).member_insert(member, action, args)

    def profile_member_modify(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        self._profile(profile).member_modify(member, action, args)

    def profile_member_delete(self, profile: str, member: int) -> None:
        self._profile(profile).member_delete(member)

    def profile_group_insert(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        self._profile(profile).group_insert(group, members)

    def profile_group_modify(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        self._profile(profile).group_modify(group, members)

    def profile_group_delete(self, profile: str, group: int) -> None:
        self._profile(profile).group_delete(group)
