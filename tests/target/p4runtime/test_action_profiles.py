# SPDX-License-Identifier: Apache-2.0
"""Action profiles over P4Runtime: members, groups, one-shot action sets, and every refusal with its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4r

from target.api import ActionSet, DeviceApi, GroupMember, WeightedAction
from target.engine import Device
from tests.target.p4runtime.client import Client, RpcError, updates
from tests.target.p4runtime.describe import Described, raw
from tests.target.p4runtime.fake import FakeDevice
from tests.target.resources import selector_frame, selector_program
from tests.target.test_profiles import shared_program

SELECTOR = Described(selector_program(size=20))
T, SEL = SELECTOR.id("table", "t"), SELECTOR.id("profile", "sel")
SET, WIDE, NOTHING = (SELECTOR.id("action", name) for name in ("set", "wide", "nothing"))
SetAction = p4r.ActionProfileActionSet


def action(id_: int, *args: int) -> p4r.Action:
    message = p4r.Action(action_id=id_)
    for number, value in enumerate(args, 1):
        message.params.add(param_id=number, value=raw(value))
    return message


def member(number: int, value: int = 7, profile: int = SEL) -> p4r.Entity:
    entity = p4r.Entity()
    entity.action_profile_member.action_profile_id = profile
    entity.action_profile_member.member_id = number
    entity.action_profile_member.action.CopyFrom(action(SET, value))
    return entity


def group(number: int, *members: tuple[int, int], max_size: int = 0, profile: int = SEL) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.action_profile_group
    message.action_profile_id, message.group_id, message.max_size = profile, number, max_size
    for member_id, weight in members:
        message.members.add(member_id=member_id, weight=weight)
    return entity


def entry(key: int, **target: Any) -> p4r.Entity:
    """`target`: member, group, or actions = [(action, weight), ...]."""
    entity = p4r.Entity()
    message = entity.table_entry
    message.table_id = T
    message.match.add(field_id=1).exact.value = raw(key)
    if "member" in target:
        message.action.action_profile_member_id = target["member"]
    if "group" in target:
        message.action.action_profile_group_id = target["group"]
    for call, weight in target.get("actions", ()):
        message.action.action_profile_action_set.action_profile_actions.add(action=call, weight=weight)
    return entity


def everything(kind: str) -> p4r.Entity:
    entity = p4r.Entity()
    getattr(entity, kind).SetInParent()
    return entity


def refused(call: Callable[..., object], *args: object) -> tuple[str, str]:
    with pytest.raises(RpcError) as error:
        call(*args)
    if error.value.details is None:
        return error.value.code, error.value.message
    failed = [d for d in error.value.details if d.canonical_code]
    assert len(failed) == 1
    return error.value.codes[error.value.details.index(failed[0])], failed[0].message


@pytest.fixture
def selector(client: Client) -> Client:
    client.primary(1)
    client.set_config(SELECTOR.config())
    return client


def test_members_are_read_as_written(selector: Client) -> None:
    members = [member(5), member(2**32 - 1, 0), member(1, 2**32 - 1)]
    selector.insert(*members)
    assert selector.read(everything("action_profile_member")) == members
    assert selector.read(member(5)) == [members[0]]
    one_profile = everything("action_profile_member")
    one_profile.action_profile_member.action_profile_id = SEL
    assert selector.read(one_profile) == members
    selector.modify(member(5, 9))
    assert selector.read(member(5)) == [member(5, 9)]
    long = member(5, 9)
    long.action_profile_member.action.params[0].value = b"\0\0\0\0\x0a"
    selector.modify(long)
    assert selector.read(member(5)) == [member(5, 10)]
    without_action = member(5)
    without_action.action_profile_member.ClearField("action")
    selector.delete(without_action)
    assert selector.read(everything("action_profile_member")) == members[1:]


def test_groups_are_read_as_written(selector: Client, device: DeviceApi) -> None:
    selector.insert(member(1), member(2), member(3))
    wanted = group(9, (3, 1), (1, 2))
    watching = group(8, (2, 1), (3, 1), max_size=2)
    selector.insert(wanted, watching)
    assert selector.read(everything("action_profile_group")) == [wanted, watching]
    assert selector.read(group(8)) == [watching]
    assert device.profile_groups("sel")[9] == (GroupMember(3), GroupMember(1, 2))
    changed = group(9, (2, 5))
    selector.modify(changed)
    assert selector.read(group(9)) == [changed]
    selector.modify(group(9))
    assert selector.read(group(9)) == [group(9)]
    selector.delete(group(9, (77, 0)))
    assert selector.read(everything("action_profile_group")) == [watching]


def test_entries_lead_to_members_and_groups(selector: Client) -> None:
    selector.insert(member(1), group(1, (1, 1)))
    entries = [entry(1, member=1), entry(2, group=1)]
    selector.insert(*entries)
    whole = p4r.Entity(table_entry=p4r.TableEntry(table_id=T))
    assert selector.read(whole) == entries
    selector.modify(entry(1, group=1))
    assert selector.read(entry(1)) == [entry(1, group=1)]
    note = entry(1)
    note.table_entry.metadata = b"note"
    selector.modify(note)
    (found,) = selector.read(entry(1))
    assert (found.table_entry.metadata, found.table_entry.action) == (
        b"note",
        entry(1, group=1).table_entry.action,
    )
    everywhere = p4r.Entity(table_entry=p4r.TableEntry())
    assert len(selector.read(everywhere)) == 2


def test_one_shots_are_read_as_written(selector: Client, device: DeviceApi) -> None:
    wanted = entry(1, actions=[(action(SET, 1), 2), (action(WIDE, 3, 4), 1), (action(SET, 1), 2)])
    selector.insert(wanted)
    assert selector.read(entry(1)) == [wanted]
    assert selector.read(everything("action_profile_member")) == []
    assert selector.read(everything("action_profile_group")) == []
    (inside,) = device.table_entries("t")
    set1 = WeightedAction("set", (1,), 2)
    assert inside.target == ActionSet((set1, WeightedAction("wide", (3, 4), 1), set1))
    chosen = entry(1, actions=[(action(SET, 5), 20)])
    chosen_set = chosen.table_entry.action.action_profile_action_set
    chosen_set.action_selection_mode = SetAction.HASH
    chosen_set.size_semantics = SetAction.SUM_OF_WEIGHTS
    selector.modify(chosen)
    assert selector.read(entry(1)) == [chosen]
    loose = entry(1, actions=[(action(SET, 5), 1)])
    loose.table_entry.action.action_profile_action_set.action_profile_actions[0].action.params[
        0
    ].value = b"\0\0\x07"
    selector.modify(loose)
    assert selector.read(entry(1)) == [entry(1, actions=[(action(SET, 7), 1)])]
    assert refused(selector.insert, member(1))[0] == "INVALID_ARGUMENT"
    selector.delete(entry(1))
    selector.insert(member(1))
    assert refused(selector.insert, wanted)[0] == "INVALID_ARGUMENT"


def watch(entity: p4r.Entity, port: bytes) -> p4r.Entity:
    if entity.WhichOneof("entity") == "table_entry":
        items = entity.table_entry.action.action_profile_action_set.action_profile_actions
        items[0].watch_port = port
    else:
        entity.action_profile_group.members[0].watch_port = port
    return entity


def add_port(device: DeviceApi, port: int) -> None:
    if isinstance(device, FakeDevice):
        device._ports[port] = ""
    else:
        assert isinstance(device, Device)
        device.add_port(port)


def test_watch_ports_must_exist(selector: Client, device: DeviceApi) -> None:
    add_port(device, 3)
    selector.insert(member(1))
    for number, (port, stored) in enumerate(
        [(b"\0\x03", b"\x03"), (b"", b""), (b"\xff\xff\xff\xfd",) * 2], 1
    ):
        selector.insert(watch(group(number, (1, 1)), port))
        assert selector.read(group(number)) == [watch(group(number, (1, 1)), stored)]
    assert device.profile_groups("sel")[1] == (GroupMember(1, 1, 3),)
    code, message = refused(selector.insert, watch(group(9, (1, 1)), b"\x04"))
    assert (code, "port 4" in message) == ("INVALID_ARGUMENT", True)
    selector.delete(group(1), group(2), group(3), member(1))
    code, _ = refused(selector.insert, watch(entry(1, actions=[(action(SET, 1), 1)]), b"\x04"))
    assert code == "INVALID_ARGUMENT"
    selector.insert(watch(entry(1, actions=[(action(SET, 1), 1)]), b"\x03"))
    assert selector.read(entry(1)) == [watch(entry(1, actions=[(action(SET, 1), 1)]), b"\x03")]


def no_action(entity: p4r.Entity) -> p4r.Entity:
    entity.action_profile_member.ClearField("action")
    return entity


def with_mode(entity: p4r.Entity, mode: int = 0, size: int = 0) -> p4r.Entity:
    message = entity.table_entry.action.action_profile_action_set
    message.action_selection_mode = mode  # type: ignore[assignment]
    message.size_semantics = size  # type: ignore[assignment]
    return entity


def direct(entity: p4r.Entity) -> p4r.Entity:
    entity.table_entry.action.action.CopyFrom(action(SET, 1))
    return entity


def default(entity: p4r.Entity) -> p4r.Entity:
    entity.table_entry.ClearField("match")
    entity.table_entry.is_default_action = True
    return entity


BAD: list[tuple[str, p4r.Entity, str]] = [
    ("INSERT", member(1), "ALREADY_EXISTS"),
    ("INSERT", member(0), "INVALID_ARGUMENT"),
    ("INSERT", member(9, profile=0), "INVALID_ARGUMENT"),
    ("INSERT", member(9, profile=T), "INVALID_ARGUMENT"),
    ("INSERT", member(9, 2**32), "OUT_OF_RANGE"),
    ("INSERT", no_action(member(9)), "INVALID_ARGUMENT"),
    ("MODIFY", no_action(member(1)), "INVALID_ARGUMENT"),
    ("MODIFY", member(9), "NOT_FOUND"),
    ("DELETE", member(9), "NOT_FOUND"),
    ("DELETE", member(1), "FAILED_PRECONDITION"),
    ("DELETE", member(2), "FAILED_PRECONDITION"),
    ("INSERT", group(1, (1, 1)), "ALREADY_EXISTS"),
    ("INSERT", group(0, (1, 1)), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (1, 1), profile=0), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (9, 1)), "NOT_FOUND"),
    ("INSERT", group(9, (1, 1), (1, 1)), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (1, 0)), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (1, -1)), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (1, 1), max_size=-1), "INVALID_ARGUMENT"),
    ("INSERT", group(9, (1, 4), max_size=3), "RESOURCE_EXHAUSTED"),
    ("INSERT", group(9, (1, 18)), "RESOURCE_EXHAUSTED"),
    ("MODIFY", group(9, (1, 1)), "NOT_FOUND"),
    ("MODIFY", group(1, (9, 1)), "NOT_FOUND"),
    ("MODIFY", group(1, (1, 1), max_size=5), "INVALID_ARGUMENT"),
    ("MODIFY", group(1, (1, 21)), "RESOURCE_EXHAUSTED"),
    ("DELETE", group(9), "NOT_FOUND"),
    ("DELETE", group(1), "FAILED_PRECONDITION"),
    ("INSERT", entry(9, member=9), "NOT_FOUND"),
    ("INSERT", entry(9, group=9), "NOT_FOUND"),
    ("MODIFY", entry(1, group=9), "NOT_FOUND"),
    ("INSERT", entry(9), "INVALID_ARGUMENT"),
    ("INSERT", direct(entry(9)), "INVALID_ARGUMENT"),
    ("MODIFY", default(direct(entry(9))), "PERMISSION_DENIED"),
    ("INSERT", entry(9, actions=[(action(SET, 1), 1)]), "INVALID_ARGUMENT"),
    ("INSERT", entry(9, actions=[(action(SET, 1), 0)]), "INVALID_ARGUMENT"),
    ("INSERT", entry(9, actions=[(action(SET, 1), 30)]), "RESOURCE_EXHAUSTED"),
    ("INSERT", with_mode(entry(9, actions=[(action(SET, 1), 1)]), SetAction.RANDOM), "UNIMPLEMENTED"),
    ("INSERT", with_mode(entry(9, actions=[(action(SET, 1), 1)]), 9), "INVALID_ARGUMENT"),
    (
        "INSERT",
        with_mode(entry(9, actions=[(action(SET, 1), 1)]), 0, SetAction.SUM_OF_MEMBERS),
        "UNIMPLEMENTED",
    ),
]


@pytest.mark.parametrize(("kind", "entity", "code"), BAD)
def test_what_is_refused_changes_nothing(selector: Client, kind: str, entity: p4r.Entity, code: str) -> None:
    selector.insert(member(1), member(2), group(1, (1, 3)), entry(1, group=1), entry(2, member=2))
    reads = [everything(k) for k in ("action_profile_member", "action_profile_group", "table_entry")]
    before = selector.read(*reads)
    assert refused(selector.write, *updates(kind, [entity]))[0] == code
    assert selector.read(*reads) == before


def test_reads_of_what_is_not_there(selector: Client) -> None:
    assert refused(selector.read, member(1))[0] == "NOT_FOUND"
    assert refused(selector.read, group(1))[0] == "NOT_FOUND"
    assert refused(selector.read, member(1, profile=0))[0] == "INVALID_ARGUMENT"
    assert refused(selector.read, group(1, profile=0))[0] == "INVALID_ARGUMENT"
    assert refused(selector.read, group(1, profile=77))[0] == "INVALID_ARGUMENT"


def test_rollback_restores_members_groups_and_one_shots(selector: Client) -> None:
    selector.insert(member(1), member(2), group(1, (1, 3)), entry(1, group=1))
    reads = [everything(k) for k in ("action_profile_member", "action_profile_group", "table_entry")]
    before = selector.read(*reads)
    batch = [
        *updates("MODIFY", [member(1, 99), group(1, (2, 1), (1, 1)), entry(1, member=2)]),
        *updates("DELETE", [group(1)]),
        *updates("INSERT", [member(3), group(2, (3, 2))]),
        *updates("DELETE", [entry(1), member(2), group(2), member(3)]),
        *updates("INSERT", [member(1)]),
    ]
    with pytest.raises(RpcError) as error:
        selector.write(*batch, atomicity="ROLLBACK_ON_ERROR")
    assert error.value.codes[-1] == "ALREADY_EXISTS"
    assert selector.read(*reads) == before


def test_commit_and_reconcile_keep_them(selector: Client, device: DeviceApi) -> None:
    selector.set_config(SELECTOR.config(), "VERIFY_AND_SAVE")
    selector.insert(member(1), member(2), group(1, (2, 3), max_size=4), entry(1, group=1))
    reads = [everything(k) for k in ("action_profile_member", "action_profile_group", "table_entry")]
    saved = selector.read(*reads)
    assert device.profile_members("sel") == {}
    selector.set_config(None, "COMMIT")
    assert selector.read(*reads) == saved
    assert device.profile_members("sel") == {1: ("set", (7,)), 2: ("set", (7,))}
    other = Described(selector_program("crc16", size=20))
    selector.set_config(other.config(), "RECONCILE_AND_COMMIT")
    assert selector.read(*reads) == saved
    selector.delete(entry(1), group(1), member(1), member(2))
    selector.insert(entry(4, actions=[(action(SET, 1), 1)]))
    one_shot = selector.read(*reads)
    selector.set_config(SELECTOR.config(), "RECONCILE_AND_COMMIT")
    assert selector.read(*reads) == one_shot


def limited(**sizes: Any) -> Described:
    described = Described(selector_program(size=20))
    (profile,) = described.info.action_profiles
    for name, value in sizes.items():
        if name == "max_member_weight":
            profile.sum_of_members.max_member_weight = value
        else:
            setattr(profile, name, value)
    return described


def test_limits_of_groups(client: Client) -> None:
    client.primary(1)
    client.set_config(limited(max_group_size=5).config())
    client.insert(member(1), member(2))
    for size, code in ((0, "INVALID_ARGUMENT"), (6, "INVALID_ARGUMENT")):
        assert refused(client.insert, group(1, (1, 1), max_size=size))[0] == code
    client.insert(group(1, (1, 5), max_size=5))
    client.delete(group(1), member(1), member(2))
    assert refused(client.insert, entry(1, actions=[(action(SET, 1), 6)]))[0] == "INVALID_ARGUMENT"
    client.insert(entry(1, actions=[(action(SET, 1), 5)]))


def test_sizes_that_count_members(client: Client) -> None:
    client.primary(1)
    client.set_config(limited(max_group_size=2, max_member_weight=10).config())
    client.insert(member(1), member(2), member(3))
    client.insert(group(1, (1, 10), (2, 10), max_size=2))
    assert refused(client.insert, group(2, (1, 11), max_size=2))[0] == "INVALID_ARGUMENT"
    three = group(2, (1, 1), (2, 1), (3, 1), max_size=2)
    assert refused(client.insert, three)[0] == "RESOURCE_EXHAUSTED"
    client.delete(group(1), member(1), member(2), member(3))
    actions = [(action(SET, 1), 1)] * 3
    assert refused(client.insert, entry(1, actions=actions))[0] == "INVALID_ARGUMENT"
    client.insert(entry(1, actions=[(action(SET, 1), 10)] * 2))


def test_weights_that_the_switch_determines(client: Client, device: DeviceApi) -> None:
    client.primary(1)
    client.set_config(limited(weights_disallowed=True).config())
    client.insert(member(1))
    assert refused(client.insert, group(1, (1, 1)))[0] == "INVALID_ARGUMENT"
    client.insert(group(1, (1, 0)))
    assert device.profile_groups("sel") == {1: (GroupMember(1, 1),)}
    assert client.read(group(1)) == [group(1, (1, 0))]


def test_a_profile_without_selector(client: Client) -> None:
    program = shared_program()
    program["counter_arrays"] = [
        {"name": f"c{t}", "id": i, "is_direct": True, "binding": t} for i, t in enumerate(("t1", "t2"))
    ]
    described = Described(program)
    ap, put, t1 = described.id("profile", "ap"), described.id("action", "put"), described.id("table", "t1")
    client.primary(1)
    client.set_config(described.config())
    one = member(1, profile=ap)
    one.action_profile_member.action.action_id = put
    client.insert(one)
    leads = entry(1, member=1)
    leads.table_entry.table_id = t1
    client.insert(leads)
    key = entry(1)
    key.table_entry.table_id = t1
    assert client.read(key) == [leads]
    assert client.read(leads) == [leads]  # a member is no filter
    assert refused(client.insert, group(1, (1, 1), profile=ap))[0] == "INVALID_ARGUMENT"
    for bad in (entry(2, group=1), entry(2, actions=[(action(put, 1), 1)])):
        bad.table_entry.table_id = t1
        assert refused(client.insert, bad)[0] == "INVALID_ARGUMENT"
    assert refused(client.delete, one)[0] == "FAILED_PRECONDITION"


def test_p4info_and_json_must_agree(client: Client) -> None:
    client.primary(1)
    described = limited(size=21)
    assert refused(client.set_config, described.config())[0] == "INVALID_ARGUMENT"
    assert refused(client.set_config, limited(with_selector=False).config())[0] == "INVALID_ARGUMENT"
    assert refused(client.set_config, limited(max_group_size=21).config())[0] == "INVALID_ARGUMENT"


def test_packets_take_what_the_controller_chose(client: Client, device: DeviceApi) -> None:
    if isinstance(device, FakeDevice):
        pytest.skip("the fake device forwards nothing")
    assert isinstance(device, Device)
    device.add_port(1)
    device.add_port(2)
    client.primary(1)
    client.set_config(SELECTOR.config())
    client.insert(member(1, 11), member(2, 22), group(1, (1, 1), (2, 2)), entry(1, group=1))
    seen = []
    for flow in range(6):
        device.inject(1, selector_frame(1, flow))
        (frame,) = device.collect(2)
        seen.append(int.from_bytes(frame[5:9], "big"))
    assert seen == [11, 22, 22] * 2
