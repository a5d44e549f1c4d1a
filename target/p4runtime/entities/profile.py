# SPDX-License-Identifier: Apache-2.0
"""`ActionProfileMember` and `ActionProfileGroup` (P4Runtime specification 1.5, section of these names)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from finsy.proto import p4r

from target.api import GroupMember
from target.p4runtime import bytestrings
from target.p4runtime.entities.base import Undo
from target.p4runtime.entities.weights import check_total, check_weights, decode_weight, watched_port
from target.p4runtime.match import decode_action, encode_action
from target.p4runtime.p4info import ActionProfile
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import invalid_argument, not_found, resource_exhausted


def profile_of(pipeline: Pipeline, profile_id: int) -> ActionProfile:
    profile = pipeline.index.profiles.get(profile_id)
    if profile is None:
        raise pipeline.index.no_such("action profile", profile_id)
    return profile


def _profiles(pipeline: Pipeline, profile_id: int, other: int, what: str) -> list[ActionProfile]:
    """Those that a read asks for."""
    if profile_id:
        return [profile_of(pipeline, profile_id)]
    if other:
        raise invalid_argument(f"a read of all action profiles (action_profile_id 0) can't give a {what}")
    return list(pipeline.index.profiles.values())


class MemberHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.action_profile_member.action_profile_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.action_profile_member
        profile = profile_of(pipeline, request.action_profile_id)
        number, device = request.member_id, pipeline.device
        if number == 0:
            raise invalid_argument(f"{profile.what}: member id 0 is no member")
        if operation == p4r.Update.DELETE:
            before = device.profile_members(profile.name).get(number)
            device.profile_member_delete(profile.name, number)
            assert before is not None
            return lambda: device.profile_member_insert(profile.name, number, *before)
        if not request.HasField("action"):
            raise invalid_argument(f"{profile.what}, member {number}: action is unset")
        action = decode_action(pipeline.index, profile, request.action, default=False)
        if operation == p4r.Update.INSERT:
            device.profile_member_insert(profile.name, number, *action)
            return lambda: device.profile_member_delete(profile.name, number)
        former = device.profile_members(profile.name).get(number)
        device.profile_member_modify(profile.name, number, *action)
        assert former is not None
        return lambda: device.profile_member_modify(profile.name, number, *former)

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.action_profile_member
        for profile in _profiles(pipeline, request.action_profile_id, request.member_id, "member"):
            members = pipeline.device.profile_members(profile.name)
            if request.member_id and request.member_id not in members:
                raise not_found(f"{profile.what} has no member {request.member_id}")
            for number, (name, args) in members.items():
                if request.member_id in (0, number):
                    out = p4r.Entity()
                    member = out.action_profile_member
                    member.action_profile_id, member.member_id = profile.id, number
                    encode_action(pipeline.index, name, args, member.action)
                    yield out


class GroupHandler:
    def p4_id(self, entity: p4r.Entity) -> int:
        return entity.action_profile_group.action_profile_id

    def write(self, pipeline: Pipeline, operation: p4r.Update.Type.ValueType, entity: p4r.Entity) -> Undo:
        request = entity.action_profile_group
        profile = profile_of(pipeline, request.action_profile_id)
        number, device, key = request.group_id, pipeline.device, (profile.id, request.group_id)
        what = f"{profile.what}, group {number}"
        if not profile.with_selector:
            raise invalid_argument(f"{profile.what} has no selector, and so no groups")
        if number == 0:
            raise invalid_argument(f"{profile.what}: group id 0 is no group")
        before = device.profile_groups(profile.name).get(number)
        form = pipeline.profile_groups.get(key)

        def undo() -> None:
            if before is None:
                device.profile_group_delete(profile.name, number)
            elif operation == p4r.Update.DELETE:
                device.profile_group_insert(profile.name, number, before)
            else:
                device.profile_group_modify(profile.name, number, before)
            if form is None:
                pipeline.profile_groups.pop(key, None)
            else:
                pipeline.profile_groups[key] = form

        if operation == p4r.Update.DELETE:
            device.profile_group_delete(profile.name, number)
            pipeline.profile_groups.pop(key, None)
            return undo
        if operation == p4r.Update.MODIFY and before is None:
            raise not_found(f"{what} does not exist")
        former = form if operation == p4r.Update.MODIFY else None
        _check_max_size(profile, request, former, what)
        members = [
            GroupMember(m.member_id, decode_weight(profile, m.weight, what), watched_port(pipeline, m, what))
            for m in request.members
        ]
        weights = [m.weight for m in members]
        check_weights(profile, weights, request.max_size, what, resource_exhausted)
        check_total(pipeline, profile, weights, [m.weight for m in before or ()])
        if operation == p4r.Update.INSERT:
            device.profile_group_insert(profile.name, number, members)
        else:
            device.profile_group_modify(profile.name, number, members)
        pipeline.profile_groups[key] = _canonical(request)
        return undo

    def read(self, pipeline: Pipeline, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        request = entity.action_profile_group
        for profile in _profiles(pipeline, request.action_profile_id, request.group_id, "group"):
            groups = pipeline.device.profile_groups(profile.name)
            if request.group_id and request.group_id not in groups:
                raise not_found(f"{profile.what} has no group {request.group_id}")
            for number in groups:
                if request.group_id in (0, number):
                    form = pipeline.profile_groups[(profile.id, number)]
                    yield p4r.Entity(action_profile_group=form)


def _check_max_size(
    profile: ActionProfile, request: p4r.ActionProfileGroup, former: p4r.ActionProfileGroup | None, what: str
) -> None:
    size, largest = request.max_size, profile.max_group_size
    if former is not None and size != former.max_size:
        raise invalid_argument(f"{what}: max_size is {former.max_size}, it can't change to {size}")
    if largest and not 0 < size <= largest:
        raise invalid_argument(f"{what}: max_size {size} is outside 1..{largest}")
    if size < 0:
        raise invalid_argument(f"{what}: max_size {size} is negative")


def _canonical(request: p4r.ActionProfileGroup) -> p4r.ActionProfileGroup:
    copy = p4r.ActionProfileGroup()
    copy.CopyFrom(request)
    canonical_watch(copy.members)
    return copy


def canonical_watch(items: Iterable[p4r.ActionProfileGroup.Member | p4r.ActionProfileAction]) -> None:
    """Bring the byte strings of ports into their canonical form."""
    for item in items:
        if item.WhichOneof("watch_kind") == "watch_port" and item.watch_port:
            item.watch_port = bytestrings.encode(int.from_bytes(item.watch_port, "big"))
