# SPDX-License-Identifier: Apache-2.0
"""Action profiles: members, groups and action sets, who refers to whom, and their places natively.

A group picks the member at place `hash % size` of its members in the order of their handles, as BMv2 does.
Handles are given as BMv2 and the P4Runtime server in front of it give them: the lowest free number, one for
each time that the largest weight counts a member. After the same writes a packet picks the same member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from target.api import ActionSet, DeviceError, Group, GroupMember, Member, Target
from target.bmjson.model import Action, ActionProfile

MAX_HANDLES = 1 << 24
"""As in BMv2, whose handles have so many values."""


class Places(Protocol):
    """The native side: members and groups by handle."""

    def set_member(self, handle: int, action: str, args: tuple[int, ...]) -> None: ...
    def delete_member(self, handle: int) -> None: ...
    def set_group(self, handle: int, members: Sequence[int], watched: Sequence[int | None]) -> None: ...
    def delete_group(self, handle: int) -> None: ...


class NoPlaces:
    """For a device without a dataplane."""

    def set_member(self, handle: int, action: str, args: tuple[int, ...]) -> None:
        """Nothing to do."""

    def delete_member(self, handle: int) -> None:
        """Nothing to do."""

    def set_group(self, handle: int, members: Sequence[int], watched: Sequence[int | None]) -> None:
        """Nothing to do."""

    def delete_group(self, handle: int) -> None:
        """Nothing to do."""


class _Handles:
    """The lowest free number."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        if self._free:
            return heappop(self._free)
        if self._next == MAX_HANDLES:
            raise DeviceError("RESOURCE_EXHAUSTED", f"an action profile holds {MAX_HANDLES} members at most")
        self._next += 1
        return self._next - 1

    def give(self, handle: int) -> None:
        heappush(self._free, handle)


@dataclass(slots=True)
class _Member:
    action: str
    args: tuple[int, ...]
    handles: list[int]
    entries: int = 0
    """Table entries that have it."""
    groups: dict[int, int] = field(default_factory=dict)
    """Weight by group."""


@dataclass(slots=True)
class _Group:
    handle: int
    members: tuple[GroupMember, ...]
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """What a table entry holds of a profile. `group`: whether `handle` is that of a group."""

    target: Target
    handle: int
    group: bool
    members: tuple[int, ...] = ()
    """Handles of an action set."""


class ProfileControl:
    """One action profile. `check_action` raises INVALID_ARGUMENT for what does not fit."""

    def __init__(
        self,
        profile: ActionProfile,
        check_action: Callable[[str, tuple[int, ...]], object],
        places: Places,
    ) -> None:
        self.profile = profile
        self._check_action = check_action
        self._places = places
        self._member_handles, self._group_handles = _Handles(), _Handles()
        self._members: dict[int, _Member] = {}
        self._groups: dict[int, _Group] = {}
        self._usage = [0, 0]
        self._one_shots = 0
        self._one_shot_members = 0

    @property
    def name(self) -> str:
        return self.profile.name

    def usage(self) -> tuple[int, int]:
        return self._usage[0], self._usage[1]

    def _count(self, weights: Iterable[int], sign: int) -> None:
        for weight in weights:
            self._usage[0] += sign
            self._usage[1] += sign * weight

    # --- members

    def members(self) -> dict[int, tuple[str, tuple[int, ...]]]:
        return {number: (m.action, m.args) for number, m in self._members.items()}

    def _member(self, number: int) -> _Member:
        found = self._members.get(number)
        if found is None:
            raise DeviceError("NOT_FOUND", f"action profile {self.name!r} has no member {number}")
        return found

    def _not_one_shot(self) -> None:
        if self._one_shots:
            raise DeviceError(
                "INVALID_ARGUMENT",
                f"action profile {self.name!r} is used by action sets; members and groups can't be added",
            )

    def _check_number(self, number: int, what: str) -> None:
        if not 0 < number < 2**32:
            raise DeviceError("INVALID_ARGUMENT", f"{what} id {number}: expected 1..2^32-1")

    def _check_room(self, more: int) -> None:
        size = self.profile.size
        if size and len(self._members) + self._one_shot_members + more > size:
            raise DeviceError("RESOURCE_EXHAUSTED", f"action profile {self.name!r} is full ({size})")

    def member_insert(self, number: int, action: str, args: tuple[int, ...]) -> None:
        self._check_number(number, "member")
        self._not_one_shot()
        self._check_action(action, args)
        if number in self._members:
            raise DeviceError("ALREADY_EXISTS", f"action profile {self.name!r} has a member {number} already")
        self._check_room(1)
        (handle,) = self._make_members([(action, args)])
        self._members[number] = _Member(action, args, [handle])

    def _make_members(self, actions: Iterable[tuple[str, tuple[int, ...]]]) -> list[int]:
        """All of them or none."""
        made: list[int] = []
        try:
            for action, args in actions:
                handle = self._member_handles.take()
                made.append(handle)
                self._places.set_member(handle, action, args)
        except DeviceError:
            for handle in made:
                self._member_handles.give(handle)
            raise
        return made

    def _drop_members(self, handles: Iterable[int]) -> None:
        for handle in handles:
            self._places.delete_member(handle)
            self._member_handles.give(handle)

    def member_modify(self, number: int, action: str, args: tuple[int, ...]) -> None:
        member = self._member(number)
        self._check_action(action, args)
        for handle in member.handles:
            self._places.set_member(handle, action, args)
        member.action, member.args = action, args

    def member_delete(self, number: int) -> None:
        member = self._member(number)
        if member.groups:
            raise DeviceError(
                "FAILED_PRECONDITION",
                f"member {number} of {self.name!r} is in group {next(iter(member.groups))}",
            )
        if member.entries:
            raise DeviceError(
                "FAILED_PRECONDITION", f"member {number} of {self.name!r} is used by a table entry"
            )
        self._drop_members(member.handles)
        del self._members[number]

    # --- groups

    def groups(self) -> dict[int, tuple[GroupMember, ...]]:
        return {number: g.members for number, g in self._groups.items()}

    def _group(self, number: int) -> _Group:
        found = self._groups.get(number)
        if found is None:
            raise DeviceError("NOT_FOUND", f"action profile {self.name!r} has no group {number}")
        return found

    def _check_group(self, number: int, members: Sequence[GroupMember]) -> None:
        self._with_selector()
        self._check_number(number, "group")
        seen: set[int] = set()
        for item in members:
            self._member(item.member)
            if item.member in seen:
                raise DeviceError(
                    "INVALID_ARGUMENT", f"group {number} of {self.name!r} has member {item.member} twice"
                )
            seen.add(item.member)
            _check_weight(item.weight, f"group {number} of {self.name!r}")

    def _with_selector(self) -> None:
        if self.profile.calculation is None:
            raise DeviceError(
                "INVALID_ARGUMENT", f"action profile {self.name!r} has no selector, and so no groups"
            )

    def group_insert(self, number: int, members: Sequence[GroupMember]) -> None:
        self._not_one_shot()
        self._check_group(number, members)
        if number in self._groups:
            raise DeviceError("ALREADY_EXISTS", f"action profile {self.name!r} has a group {number} already")
        handle = self._group_handles.take()
        group = _Group(handle, ())
        try:
            self._set_members(number, group, members)
        except DeviceError:
            self._group_handles.give(handle)
            raise
        self._groups[number] = group

    def group_modify(self, number: int, members: Sequence[GroupMember]) -> None:
        group = self._group(number)
        self._check_group(number, members)
        self._set_members(number, group, members)

    def _set_members(self, number: int, group: _Group, members: Sequence[GroupMember]) -> None:
        """Handles for larger weights are made before, and those of no use any more dropped after."""
        ordered = sorted(members, key=lambda m: m.member)
        made: list[tuple[_Member, list[int]]] = []
        try:
            for item in ordered:
                member = self._members[item.member]
                missing = item.weight - len(member.handles)
                if missing > 0:
                    new = self._make_members([(member.action, member.args)] * missing)
                    member.handles += new
                    made.append((member, new))
            self._place_group(group.handle, self._group_places(ordered))
        except DeviceError:
            for member, new in made:
                del member.handles[-len(new) :]
                self._drop_members(new)
            raise
        self._count((m.weight for m in group.members), -1)
        self._count((m.weight for m in members), 1)
        before = {m.member for m in group.members}
        for item in group.members:
            self._members[item.member].groups.pop(number, None)
        for item in members:
            self._members[item.member].groups[number] = item.weight
        group.members = tuple(members)
        for item_id in sorted(before | {m.member for m in members}):
            self._shrink(self._members[item_id])

    def _group_places(self, members: Iterable[GroupMember]) -> list[tuple[int, int | None]]:
        return [(h, m.watch_port) for m in members for h in self._members[m.member].handles[: m.weight]]

    def _place_group(self, handle: int, places: list[tuple[int, int | None]]) -> None:
        places.sort(key=lambda place: place[0])
        self._places.set_group(handle, [h for h, _ in places], [port for _, port in places])

    def _shrink(self, member: _Member) -> None:
        wanted = max([1, *member.groups.values()])
        self._drop_members(reversed(member.handles[wanted:]))
        del member.handles[wanted:]

    def group_delete(self, number: int) -> None:
        group = self._group(number)
        if group.entries:
            raise DeviceError(
                "FAILED_PRECONDITION", f"group {number} of {self.name!r} is used by a table entry"
            )
        self._places.delete_group(group.handle)
        self._group_handles.give(group.handle)
        del self._groups[number]
        self._count((m.weight for m in group.members), -1)
        for item in group.members:
            member = self._members[item.member]
            del member.groups[number]
            self._shrink(member)

    # --- table entries

    def hold(self, target: Target, former: Held | None = None) -> Held:
        """Where an entry is to point. It counts as a reference until `release`.

        former: what the entry holds now and is released next; its room counts as free.
        """
        if isinstance(target, Member):
            member = self._member(target.id)
            member.entries += 1
            return Held(target, member.handles[0], False)
        self._with_selector()
        if isinstance(target, Group):
            group = self._group(target.id)
            group.entries += 1
            return Held(target, group.handle, True)
        return self._hold_set(target, _room(former))

    def _hold_set(self, target: ActionSet, free: int) -> Held:
        if self._members or self._groups:
            raise DeviceError(
                "INVALID_ARGUMENT", f"action profile {self.name!r} has members; action sets can't be added"
            )
        for item in target.actions:
            self._check_action(item.action, item.args)
            _check_weight(item.weight, f"an action set for {self.name!r}")
        self._check_room(len(target.actions) - free)
        copies = [item for item in target.actions for _ in range(item.weight)]
        handles = self._make_members((item.action, item.args) for item in copies)
        group = self._group_handles.take()
        try:
            ports = [item.watch_port for item in copies]
            self._place_group(group, list(zip(handles, ports, strict=True)))
        except DeviceError:
            self._group_handles.give(group)
            self._drop_members(handles)
            raise
        self._count((a.weight for a in target.actions), 1)
        self._one_shots += 1
        self._one_shot_members += len(target.actions)
        return Held(target, group, True, tuple(handles))

    def release(self, held: Held) -> None:
        """The entry points there no longer."""
        if isinstance(held.target, Member):
            self._members[held.target.id].entries -= 1
        elif isinstance(held.target, Group):
            self._groups[held.target.id].entries -= 1
        else:
            self._places.delete_group(held.handle)
            self._group_handles.give(held.handle)
            self._drop_members(held.members)
            self._count((a.weight for a in held.target.actions), -1)
            self._one_shots -= 1
            self._one_shot_members -= len(held.target.actions)


def _room(held: Held | None) -> int:
    return len(held.target.actions) if held is not None and isinstance(held.target, ActionSet) else 0


def _check_weight(weight: int, what: str) -> None:
    if not 1 <= weight < MAX_HANDLES:
        raise DeviceError("INVALID_ARGUMENT", f"{what}: weight {weight} is not possible, expected 1 or more")


def action_check(profile: str, actions: dict[str, Action]) -> Callable[[str, tuple[int, ...]], None]:
    """The check of a member's action against those of the tables that use the profile, by name."""

    def check(name: str, args: tuple[int, ...]) -> None:
        action = actions.get(name)
        if action is None:
            raise DeviceError("INVALID_ARGUMENT", f"{name!r} is not an action of action profile {profile!r}")
        check_arguments(action, args)

    return check


def check_arguments(action: Action, args: tuple[int, ...]) -> None:
    """Raises INVALID_ARGUMENT."""
    if len(args) != len(action.params):
        raise DeviceError(
            "INVALID_ARGUMENT",
            f"action {action.name!r} takes {len(action.params)} arguments, got {len(args)}",
        )
    for value, param in zip(args, action.params, strict=True):
        if value < 0 or value >> param.width:
            raise DeviceError(
                "INVALID_ARGUMENT",
                f"argument {param.name!r} of {action.name!r}: {value} does not fit {param.width} bits",
            )
