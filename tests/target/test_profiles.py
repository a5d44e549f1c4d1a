# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors: who gets which packet, and what the control interface refuses."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from target.api import (
    ActionSet,
    DeviceError,
    Group,
    GroupMember,
    Member,
    TableEntry,
    Target,
    WeightedAction,
)
from target.bmjson import JsonError, load
from target.engine import Device
from tests.target.programs import Builder, assign, const, field, forward_to, param
from tests.target.resources import (
    check_damage,
    profile,
    selector_frame,
    selector_program,
    text,
    with_profiles,
)

Make = Callable[..., Device]


def entry(key: int, target: Target | None) -> TableEntry:
    return TableEntry(((key,),), "", (), target=target)


def run(device: Device, key: int, flow: int) -> tuple[int, int, int]:
    """(x.result, x.wide, x.seen) of the packet that comes out."""
    device.inject(1, selector_frame(key, flow))
    (out,) = device.collect(2)
    return int.from_bytes(out[5:9], "big"), int.from_bytes(out[9:25], "big"), out[25]


def group(device: Device, number: int, *members: tuple[int, int]) -> None:
    device.profile_group_insert("sel", number, [GroupMember(m, weight) for m, weight in members])


@pytest.fixture
def device(make_device: Make) -> Device:
    """Members 1..5 set 101..105."""
    device = make_device(text(selector_program()))
    for number in range(1, 6):
        device.profile_member_insert("sel", number, "set", (100 + number,))
    return device


@pytest.mark.parametrize("pipeline", ["ingress", "egress"])
def test_a_member_runs_its_action_and_leads_on(pipeline: str, make_device: Make) -> None:
    device = make_device(text(selector_program(pipeline=pipeline)))
    device.profile_member_insert("sel", 7, "set", (70,))
    device.profile_member_insert("sel", 2**32 - 1, "wide", (2**127 + 3, 9))
    device.table_insert("t", entry(1, Member(7)))
    device.table_insert("t", entry(2, Member(2**32 - 1)))
    assert run(device, 1, 0) == (70, 0, 1)
    assert run(device, 2, 0) == (0, 2**127 + 3, 2)
    assert run(device, 3, 0) == (0, 0, 3)  # a miss
    device.profile_member_modify("sel", 7, "wide", (5, 0))
    assert run(device, 1, 0) == (0, 5, 2)
    assert device.profile_members("sel") == {7: ("wide", (5, 0)), 2**32 - 1: ("wide", (2**127 + 3, 9))}
    assert device.table_entry("t", ((1,),)).target == Member(7)


def test_the_hash_picks_by_place(device: Device) -> None:
    group(device, 1, (2, 1), (5, 1), (3, 1))
    device.table_insert("t", entry(1, Group(1)))
    # Places are in the order in which the members were made, not in that of the group.
    assert [run(device, 1, flow)[0] for flow in range(6)] == [102, 103, 105, 102, 103, 105]
    assert run(device, 1, 2**32 - 1)[0] == [102, 103, 105][(2**32 - 1) % 3]


def test_weights_are_handles_behind_the_others(device: Device) -> None:
    # Members 1..5 have handles 0..4; member 2 gets 5 and 6, member 4 gets 7.
    group(device, 1, (2, 3), (4, 2), (5, 1))
    device.table_insert("t", entry(1, Group(1)))
    assert [run(device, 1, flow)[0] for flow in range(6)] == [102, 104, 105, 102, 102, 104]
    device.profile_member_modify("sel", 2, "set", (222,))
    assert [run(device, 1, flow)[0] for flow in range(6)] == [222, 104, 105, 222, 222, 104]
    # A smaller weight gives the handles 6 and 5 back; a new member takes the lowest.
    device.profile_group_modify("sel", 1, [GroupMember(2, 1), GroupMember(4, 2)])
    device.profile_member_insert("sel", 6, "set", (106,))
    device.profile_group_modify("sel", 1, [GroupMember(2), GroupMember(4, 2), GroupMember(6)])
    assert [run(device, 1, flow)[0] for flow in range(4)] == [222, 104, 106, 104]


def test_algorithms_hash_the_selector_fields(make_device: Make) -> None:
    device = make_device(text(selector_program("crc32", fields=("flow", "key"))))
    for number in range(1, 8):
        device.profile_member_insert("sel", number, "set", (number,))
    group(device, 1, *((number, 1) for number in range(1, 8)))
    device.table_insert("t", entry(9, Group(1)))
    rng = random.Random(1)
    for _ in range(50):
        flow = rng.randrange(2**32)
        wanted = zlib.crc32(flow.to_bytes(4, "big") + b"\x09") % 7 + 1
        assert run(device, 9, flow)[0] == wanted


def test_members_come_and_go_from_a_group_in_use(device: Device) -> None:
    group(device, 1)
    device.table_insert("t", entry(1, Group(1)))
    assert run(device, 1, 5) == (0, 0, 3)  # empty: no action
    device.profile_group_modify("sel", 1, [GroupMember(4)])
    assert run(device, 1, 5) == (104, 0, 1)
    device.profile_group_modify("sel", 1, [])
    assert run(device, 1, 5) == (0, 0, 3)
    device.table_modify("t", entry(1, Member(2)))
    assert run(device, 1, 5)[0] == 102
    device.profile_group_delete("sel", 1)
    device.table_delete("t", ((1,),))
    assert run(device, 1, 5) == (0, 0, 3)


def test_action_sets(make_device: Make) -> None:
    device = make_device(text(selector_program(size=8)))
    actions = (WeightedAction("set", (1,), 2), WeightedAction("wide", (7, 7), 1), WeightedAction("set", (1,)))
    device.table_insert("t", entry(1, ActionSet(actions)))
    seen = [run(device, 1, flow) for flow in range(4)]
    assert seen == [(1, 0, 1), (1, 0, 1), (0, 7, 2), (1, 0, 1)]
    assert device.table_entry("t", ((1,),)).target == ActionSet(actions)
    assert device.profile_members("sel") == {}
    assert device.profile_groups("sel") == {}
    device.table_modify("t", entry(1, ActionSet((WeightedAction("set", (4,)),))))
    assert run(device, 1, 3)[0] == 4
    with pytest.raises(DeviceError, match="action sets"):
        device.profile_member_insert("sel", 1, "set", (1,))
    with pytest.raises(DeviceError, match="full") as full:
        device.table_insert("t", entry(2, ActionSet(actions * 3)))
    assert full.value.code == "RESOURCE_EXHAUSTED"
    device.table_insert("t", entry(2, ActionSet(())))
    assert run(device, 2, 3) == (0, 0, 3)
    device.table_delete("t", ((1,),))
    device.table_delete("t", ((2,),))
    device.profile_member_insert("sel", 1, "set", (1,))
    with pytest.raises(DeviceError, match="has members"):
        device.table_insert("t", entry(1, ActionSet(actions)))
    with pytest.raises(DeviceError, match="no such entry"):
        device.table_entry("t", ((1,),))


def test_ports_that_are_down_are_left_out(device: Device) -> None:
    watching = [GroupMember(1, 1, 3), GroupMember(2, 2, 4), GroupMember(3)]
    device.profile_group_insert("sel", 1, watching)
    device.table_insert("t", entry(1, Group(1)))

    def picks() -> list[int]:
        return [run(device, 1, flow)[0] for flow in range(12)]

    everybody = [101, 102, 103, 102] * 3
    assert picks() == everybody
    device.set_link(4, False)
    assert picks() == [101, 103] * 6
    device.set_link(3, False)
    assert picks() == [103] * 12
    device.profile_group_modify("sel", 1, watching[:2])
    assert run(device, 1, 1) == (0, 0, 3)  # nobody is left
    device.set_link(3, True)
    device.set_link(4, True)
    assert picks() == [101, 102, 102] * 4
    device.remove_port(4)
    assert picks() == [101] * 12
    assert device.profile_groups("sel") == {1: tuple(watching[:2])}


BAD: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("profile_member_insert", ("sel", 1, "set", (1,)), "ALREADY_EXISTS", "member 1"),
    ("profile_member_insert", ("sel", 0, "set", (1,)), "INVALID_ARGUMENT", "member id 0"),
    ("profile_member_insert", ("sel", 2**32, "set", (1,)), "INVALID_ARGUMENT", "member id"),
    ("profile_member_insert", ("sel", 9, "fly", (1,)), "INVALID_ARGUMENT", "fly"),
    ("profile_member_insert", ("sel", 9, "one", ()), "INVALID_ARGUMENT", "one"),
    ("profile_member_insert", ("sel", 9, "set", ()), "INVALID_ARGUMENT", "set"),
    ("profile_member_insert", ("sel", 9, "set", (2**32,)), "INVALID_ARGUMENT", "value"),
    ("profile_member_insert", ("lost", 9, "set", (1,)), "NOT_FOUND", "lost"),
    ("profile_member_modify", ("sel", 9, "set", (1,)), "NOT_FOUND", "member 9"),
    ("profile_member_modify", ("sel", 1, "set", (-1,)), "INVALID_ARGUMENT", "value"),
    ("profile_member_delete", ("sel", 9), "NOT_FOUND", "member 9"),
    ("profile_member_delete", ("sel", 1), "FAILED_PRECONDITION", "group 1"),
    ("profile_member_delete", ("sel", 3), "FAILED_PRECONDITION", "entry"),
    ("profile_group_insert", ("sel", 1, []), "ALREADY_EXISTS", "group 1"),
    ("profile_group_insert", ("sel", 0, []), "INVALID_ARGUMENT", "group id 0"),
    ("profile_group_insert", ("sel", 2, [GroupMember(9)]), "NOT_FOUND", "member 9"),
    ("profile_group_insert", ("sel", 2, [GroupMember(1), GroupMember(1)]), "INVALID_ARGUMENT", "twice"),
    ("profile_group_insert", ("sel", 2, [GroupMember(1, 0)]), "INVALID_ARGUMENT", "weight 0"),
    ("profile_group_modify", ("sel", 2, []), "NOT_FOUND", "group 2"),
    ("profile_group_modify", ("sel", 1, [GroupMember(9)]), "NOT_FOUND", "member 9"),
    ("profile_group_delete", ("sel", 2), "NOT_FOUND", "group 2"),
    ("profile_group_delete", ("sel", 1), "FAILED_PRECONDITION", "entry"),
    ("table_insert", ("t", entry(9, None)), "INVALID_ARGUMENT", "indirect"),
    ("table_insert", ("t", entry(9, Member(9))), "NOT_FOUND", "member 9"),
    ("table_insert", ("t", entry(9, Group(9))), "NOT_FOUND", "group 9"),
    ("table_insert", ("t", entry(1, Group(1))), "ALREADY_EXISTS", "already"),
    ("table_modify", ("t", entry(1, Group(9))), "NOT_FOUND", "group 9"),
    ("table_insert", ("tbl_one", entry(1, Member(1))), "INVALID_ARGUMENT", "tbl_one"),
]


@pytest.mark.parametrize(("method", "args", "code", "named"), BAD)
def test_what_is_refused_changes_nothing(
    method: str, args: tuple[Any, ...], code: str, named: str, device: Device
) -> None:
    group(device, 1, (1, 2), (2, 1))
    device.table_insert("t", entry(1, Group(1)))
    device.table_insert("t", entry(2, Member(3)))

    def state() -> tuple[Any, ...]:
        picks = [run(device, key, flow) for key in (1, 2, 9) for flow in range(3)]
        return picks, device.profile_members("sel"), device.profile_groups("sel"), device.table_entries("t")

    before = state()
    with pytest.raises(DeviceError) as error:
        getattr(device, method)(*args)
    assert (error.value.code, named in error.value.message) == (code, True)
    assert state() == before


def test_a_full_profile(make_device: Make) -> None:
    device = make_device(text(selector_program(size=2)))
    device.profile_member_insert("sel", 1, "set", (1,))
    device.profile_member_insert("sel", 2, "set", (2,))
    with pytest.raises(DeviceError, match="full") as error:
        device.profile_member_insert("sel", 3, "set", (3,))
    assert error.value.code == "RESOURCE_EXHAUSTED"
    device.profile_member_delete("sel", 1)
    device.profile_member_insert("sel", 3, "set", (3,))


def shared_program(second: list[tuple[str, int]] | None = None) -> dict[str, Any]:
    """Two tables on one profile without selector. Their actions have the same names and other ids, as p4c
    makes them. Header x: a, b (8), out (16); actions add to x.out."""
    b = Builder()
    b.header("x", [("a", 8), ("b", 8), ("out", 16)])
    b.run("first", [forward_to(2)])
    for _ in range(2):
        params = second if second is not None and _ else [("value", 16)]
        b.action("put", params, [assign(field("x", "out"), param(0))])
        b.action("clear", [], [assign(field("x", "out"), const(0xFFFF))])
    kind: dict[str, Any] = {"type": "indirect", "action_profile": "ap", "with_counters": True}
    b.table("t1", [("exact", "x", "a")], ["put", "clear"], **kind)
    b.table("t2", [("ternary", "x", "b")], ["put", "clear"], **kind)
    built = with_profiles(b, profile("ap"))
    t1, t2 = built["pipelines"][0]["tables"][1:]
    ids = [a["id"] for a in built["actions"] if a["name"] in ("put", "clear")]
    t1["action_ids"], t2["action_ids"] = ids[:2], ids[2:]
    t2["default_entry"] = {"action_id": ids[3], "action_data": []}
    return built


def test_tables_share_a_profile(make_device: Make) -> None:
    device = make_device(text(shared_program()))

    def out(a: int, b: int) -> int:
        device.inject(1, bytes([a, b, 0, 0]))
        (frame,) = device.collect(2)
        return int.from_bytes(frame[2:], "big")

    device.profile_member_insert("ap", 1, "put", (11,))
    device.profile_member_insert("ap", 2, "put", (22,))
    assert out(1, 1) == 0xFFFF  # the program's own default of t2
    device.table_insert("t1", TableEntry(((1,),), "", (), target=Member(1)))
    device.table_insert("t2", TableEntry(((0x80, 0x80),), "", (), 1, target=Member(2)))
    assert out(1, 0x80) == 22
    assert out(1, 1) == 0xFFFF
    assert device.table_default("t2") == ("clear", ())
    assert device.direct_counter_read("t1", ((1,),)) == (2, 8)
    assert device.direct_counter_read("t2", ((0x80, 0x80),), 1) == (1, 4)
    device.profile_member_modify("ap", 2, "clear", ())
    assert out(9, 0xFF) == 0xFFFF
    for wrong in (Group(1), ActionSet(())):
        with pytest.raises(DeviceError, match="no selector"):
            device.table_insert("t1", TableEntry(((2,),), "", (), target=wrong))
    with pytest.raises(DeviceError, match="no selector"):
        device.profile_group_insert("ap", 1, [])
    with pytest.raises(DeviceError, match="entry"):
        device.profile_member_delete("ap", 2)


def test_a_pipeline_swap_forgets_members(device: Device) -> None:
    group(device, 1, (1, 40))
    device.table_insert("t", entry(1, Group(1)))
    device.load_pipeline(text(selector_program()))
    assert device.profile_members("sel") == {}
    assert device.profile_groups("sel") == {}
    assert run(device, 1, 1) == (0, 0, 3)


def test_many_members_and_groups_at_random(make_device: Make) -> None:
    """Against a model: handles, groups and references after many writes."""
    device = make_device(text(selector_program(size=1000)))
    rng = random.Random(3)
    values: dict[int, int] = {}
    groups: dict[int, dict[int, int]] = {}
    entries: dict[int, Target] = {}
    for _ in range(2500):
        kind, number = rng.randrange(8), rng.randrange(1, 12)
        members = {m: rng.choice((1, 1, 2, 5)) for m in rng.sample(range(1, 12), rng.randrange(5))}
        listed = [GroupMember(m, w) for m, w in members.items()]
        known = all(m in values for m in members)
        held = any(number in g for g in groups.values()) or Member(number) in entries.values()
        try:
            if kind == 0:
                device.profile_member_insert("sel", number, "set", (number * 1000,))
                assert number not in values
                values[number] = number * 1000
            elif kind == 1:
                value = rng.randrange(2**32)
                device.profile_member_modify("sel", number, "set", (value,))
                values[number] = value
            elif kind == 2:
                device.profile_member_delete("sel", number)
                assert not held
                del values[number]
            elif kind == 3:
                device.profile_group_insert("sel", number, listed)
                assert known and number not in groups
                groups[number] = members
            elif kind == 4:
                device.profile_group_modify("sel", number, listed)
                assert known
                groups[number] = members
            elif kind == 5:
                device.profile_group_delete("sel", number)
                assert Group(number) not in entries.values()
                del groups[number]
            elif kind == 6:
                target: Target = rng.choice((Member(number), Group(number)))
                key = rng.randrange(4)
                change = device.table_modify if key in entries else device.table_insert
                change("t", entry(key, target))
                entries[key] = target
            else:
                key = rng.randrange(4)
                device.table_delete("t", ((key,),))
                del entries[key]
        except DeviceError:
            pass
        for key, target in entries.items():
            if isinstance(target, Member):
                assert run(device, key, rng.randrange(2**32))[0] == values[target.id]
                continue
            assert isinstance(target, Group)
            wanted = sorted(values[m] for m, w in groups[target.id].items() for _ in range(w))
            if len(wanted) < 9:
                assert sorted(run(device, key, f)[0] for f in range(len(wanted))) == wanted
    assert device.profile_members("sel") == {n: ("set", (v,)) for n, v in values.items()}


BAD_JSON: list[tuple[tuple[Any, ...], Any, str]] = [
    (("pipelines", 0, "action_profiles", 0, "surprise"), 1, "surprise"),
    (("pipelines", 0, "action_profiles", 0, "max_size"), -1, "max_size"),
    (("pipelines", 0, "action_profiles", 0, "selector", "algo"), "md5", "md5"),
    (("pipelines", 0, "action_profiles", 0, "selector", "input", 0, "value"), ["x", "zz"], "zz"),
    (("pipelines", 0, "action_profiles", 0, "selector", "more"), 1, "more"),
    (("pipelines", 0, "tables", 1, "action_profile"), "zz", "zz"),
    (("pipelines", 0, "tables", 1, "type"), "indirect", "selector"),
    (("pipelines", 0, "tables", 1, "type"), "simple", "action_profile"),
    (("pipelines", 0, "tables", 1, "entries"), [], "entries"),
    (
        ("pipelines", 0, "tables", 1, "default_entry"),
        {"action_id": 2, "action_data": [], "action_const": True},
        "constant default",
    ),
]


@pytest.mark.parametrize(("path", "value", "named"), BAD_JSON)
def test_bad_jsons_name_the_element(path: tuple[Any, ...], value: Any, named: str) -> None:
    assert "pipelines[0]" in check_damage(selector_program(), path, value, named)


def test_one_name_is_one_action_to_a_profile() -> None:
    with pytest.raises(JsonError, match="'put' has other parameters"):
        load(text(shared_program([("value", 17)])))
