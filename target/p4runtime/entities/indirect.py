# SPDX-License-Identifier: Apache-2.0
"""The action of an indirect table's entry: a member, a group, or a one-shot action set.

P4Runtime specification 1.5, "Action Specification" and "One Shot Action Selector Programming".
"""

from __future__ import annotations

from finsy.proto import p4r

from target.api import ActionSet, Group, Member, Target, WeightedAction
from target.p4runtime.entities.profile import canonical_watch
from target.p4runtime.entities.weights import check_total, check_weights, decode_weight, watched_port
from target.p4runtime.match import decode_action, encode_action
from target.p4runtime.p4info import ActionProfile, Table
from target.p4runtime.pipeline import EntryNotes, Pipeline
from target.p4runtime.status import invalid_argument, unimplemented

_Set = p4r.ActionProfileActionSet


def decode_target(
    pipeline: Pipeline, table: Table, action: p4r.TableAction, former: Target | None
) -> tuple[Target, _Set | None]:
    """What the entry leads to, and the canonical form of its action set. Raises P4Error."""
    match action.WhichOneof("type"):
        case "action_profile_member_id":
            return Member(action.action_profile_member_id), None
        case "action_profile_group_id":
            return Group(action.action_profile_group_id), None
        case "action_profile_action_set":
            return _decode_set(pipeline, table, action.action_profile_action_set, former)
        case given:
            raise invalid_argument(
                f"table {table.name!r} is indirect: give a member, a group or an action set, "
                f"not {given or 'none'}"
            )


def _decode_set(
    pipeline: Pipeline, table: Table, request: _Set, former: Target | None
) -> tuple[Target, _Set]:
    profile = pipeline.index.profiles[table.implementation_id]
    what = f"table {table.name!r}, action set"
    if not profile.with_selector:
        raise invalid_argument(f"{what}: {profile.what} has no selector")
    _check_modes(profile, request, what)
    canonical = _Set()
    canonical.CopyFrom(request)
    actions: list[WeightedAction] = []
    for item, copy in zip(request.action_profile_actions, canonical.action_profile_actions, strict=True):
        name, args = decode_action(pipeline.index, table, item.action, default=False)
        weight = decode_weight(profile, item.weight, what)
        actions.append(WeightedAction(name, args, weight, watched_port(pipeline, item, what)))
        copy.action.Clear()
        encode_action(pipeline.index, name, args, copy.action)
    canonical_watch(canonical.action_profile_actions)
    weights = [a.weight for a in actions]
    check_weights(profile, weights, profile.max_group_size, what, invalid_argument)
    before = [a.weight for a in former.actions] if isinstance(former, ActionSet) else []
    check_total(pipeline, profile, weights, before)
    return ActionSet(tuple(actions)), canonical


def _check_modes(profile: ActionProfile, request: _Set, what: str) -> None:
    """Only what the selector itself does is there: its hash, and its way to count."""
    if request.action_selection_mode == _Set.RANDOM:
        raise unimplemented(f"{what}: the selector picks by a hash, RANDOM is not supported")
    if request.action_selection_mode not in _Set.ActionSelectionMode.values():
        raise invalid_argument(f"{what}: action selection mode {request.action_selection_mode} is unknown")
    same = _Set.SUM_OF_MEMBERS if profile.sum_of_members else _Set.SUM_OF_WEIGHTS
    if request.size_semantics not in _Set.SizeSemantics.values():
        raise invalid_argument(f"{what}: size semantics {request.size_semantics} is unknown")
    if request.size_semantics not in (_Set.DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR, same):
        raise unimplemented(f"{what}: size semantics other than the selector's are not supported")


def encode_target(target: Target, notes: EntryNotes, out: p4r.TableAction) -> None:
    """As it was written."""
    if isinstance(target, Member):
        out.action_profile_member_id = target.id
    elif isinstance(target, Group):
        out.action_profile_group_id = target.id
    else:
        assert notes.action_set is not None
        out.action_profile_action_set.CopyFrom(notes.action_set)
