# SPDX-License-Identifier: Apache-2.0
"""`TableEntry`: keys, actions, default and constant entries, and reads with filters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from finsy.proto import p4r

from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError


def refused(call: Callable[[p4r.Entity], object], entity: p4r.Entity) -> tuple[str, str]:
    """The code and message of the one element that is refused."""
    with pytest.raises(RpcError) as error:
        call(entity)
    assert error.value.code == "UNKNOWN"
    (code,), (message,) = error.value.codes, error.value.messages
    return code, message


# --- read-write symmetry


@pytest.mark.parametrize(
    "entity",
    [
        e.exact(0),
        e.exact(0xFFFFFFFFFFFF, port=0x1FF),
        e.exact(1, metadata=b"\x00opaque", cookie=2**64 - 1),
        e.lpm(1, 1),
        e.lpm(0xFFFFFFFFFFFF, 48),
        e.lpm(0x0A0000, 24),
        e.lpm(0, 0),
        e.acl(1),
        e.acl(2**31 - 1, dst=(0x10, 0xF0), type_=(1, 0xFFFE), port=3),
        e.acl(7, type_=(0, 0)),
        e.acl(7, port=0),
        e.scope(1, program.MARK, b"\x01\x02", b"\x80" + bytes(15)),
    ],
)
def test_what_is_written_is_read_back(primary: Client, entity: p4r.Entity) -> None:
    primary.insert(entity)
    assert primary.read(e.table(entity.table_entry.table_id)) == [entity]
    key = p4r.Entity()
    key.table_entry.table_id = entity.table_entry.table_id
    key.table_entry.match.extend(entity.table_entry.match)
    key.table_entry.priority = entity.table_entry.priority
    assert primary.read(key) == [entity]
    primary.delete(key)
    assert primary.read(e.table(entity.table_entry.table_id)) == []


def test_longer_byte_strings_are_accepted_and_read_back_shortest(primary: Client) -> None:
    entity = e.acl(5, dst=(0x10, 0xF0), type_=(1, 2), port=3)
    long = p4r.Entity()
    long.CopyFrom(entity)
    ternary = long.table_entry.match[0].ternary
    ternary.value, ternary.mask = bytes(9) + b"\x10", bytes(4) + b"\xf0"
    long.table_entry.match[1].range.low = b"\x00\x00\x01"
    long.table_entry.match[2].optional.value = b"\x00\x03"
    primary.insert(long)
    assert primary.read(e.table(program.ACL_T)) == [entity]
    assert refused(primary.insert, entity)[0] == "ALREADY_EXISTS"


# --- insert, modify, delete


def test_insert_twice(primary: Client) -> None:
    primary.insert(e.exact(1, port=1))
    code, message = refused(primary.insert, e.exact(1, port=2))
    assert code == "ALREADY_EXISTS"
    assert "MyIngress.exact_t" in message
    assert primary.read(e.exact(1)) == [e.exact(1, port=1)]


def test_the_same_match_with_another_priority_is_another_entry(primary: Client) -> None:
    primary.insert(e.acl(1, port=1), e.acl(2, port=1))
    assert len(primary.read(e.table(program.ACL_T))) == 2
    assert primary.read(e.acl(2, port=1)) == [e.acl(2, port=1)]


def test_modify_and_delete_need_the_entry(primary: Client) -> None:
    assert refused(primary.modify, e.exact(1))[0] == "NOT_FOUND"
    assert refused(primary.delete, e.exact(1))[0] == "NOT_FOUND"
    primary.insert(e.acl(3, port=1))
    assert refused(primary.delete, e.acl(4, port=1))[0] == "NOT_FOUND"


def test_modify_replaces_action_and_notes(primary: Client) -> None:
    primary.insert(e.exact(1, port=1, metadata=b"a", cookie=1))
    primary.modify(e.exact(1, port=2, metadata=b"b"))
    assert primary.read(e.exact(1)) == [e.exact(1, port=2, metadata=b"b")]


def test_modify_without_action_keeps_it(primary: Client) -> None:
    primary.insert(e.exact(1, port=4))
    change = e.exact(1, counter=(5, 6))
    change.table_entry.ClearField("action")
    primary.modify(change)
    (entity,) = primary.read(e.table(program.EXACT_T, counters=True))
    assert entity == e.exact(1, port=4, counter=(5, 6))


def test_delete_looks_at_the_key_only(primary: Client) -> None:
    primary.insert(e.exact(1))
    key = e.exact(1, metadata=b"other", counter=(1, 1))
    key.table_entry.action.action.action_id = 0xDEAD
    key.table_entry.meter_config.cir = 1
    key.table_entry.idle_timeout_ns = 5
    primary.delete(key)
    assert primary.read(e.table(program.EXACT_T)) == []


def test_a_full_table(primary: Client) -> None:
    primary.insert(*(e.exact(n) for n in range(program.EXACT_SIZE)))
    code, message = refused(primary.insert, e.exact(program.EXACT_SIZE))
    assert code == "RESOURCE_EXHAUSTED"
    assert "MyIngress.exact_t" in message
    primary.delete(e.exact(3))
    primary.insert(e.exact(program.EXACT_SIZE))


def test_notes_die_with_the_entry(primary: Client) -> None:
    primary.insert(e.exact(1, metadata=b"a", cookie=1))
    primary.delete(e.exact(1))
    primary.insert(e.exact(1))
    assert primary.read(e.exact(1)) == [e.exact(1)]


# --- malformed keys


def _entity(table_id: int, priority: int = 0) -> p4r.Entity:
    entity = p4r.Entity()
    entity.table_entry.table_id = table_id
    entity.table_entry.priority = priority
    return entity


def _bad_keys() -> dict[str, tuple[p4r.Entity, str, str]]:
    cases: dict[str, tuple[p4r.Entity, str, str]] = {}

    def case(name: str, entity: p4r.Entity, code: str, named: str) -> p4r.TableEntry:
        cases[name] = (entity, code, named)
        return entity.table_entry

    case("table 0", _entity(0), "INVALID_ARGUMENT", "table id")
    case("no such table", _entity(0x02AAAAAA), "INVALID_ARGUMENT", "0x02aaaaaa")
    case("an action as table", _entity(program.DROP), "INVALID_ARGUMENT", "MyIngress.drop")
    case("exact field missing", _entity(program.EXACT_T), "INVALID_ARGUMENT", "hdr.ethernet.dst")
    case("unknown field", e.exact(1), "INVALID_ARGUMENT", "9").match.add(field_id=9).exact.value = b"\1"
    case("field twice", e.exact(1), "INVALID_ARGUMENT", "twice").match.add(field_id=1).exact.value = b"\1"
    case("wrong kind", _entity(program.EXACT_T), "INVALID_ARGUMENT", "exact").match.add(
        field_id=1
    ).ternary.value = b"\1"
    case("no kind", _entity(program.EXACT_T), "INVALID_ARGUMENT", "exact").match.add(field_id=1)
    case("too wide", e.exact(1 << 48), "OUT_OF_RANGE", "48 bits")
    case("empty value", _entity(program.EXACT_T), "OUT_OF_RANGE", "empty").match.add(
        field_id=1
    ).exact.value = b""
    case("priority on exact", e.exact(1), "INVALID_ARGUMENT", "priority").priority = 1
    case("no priority", e.acl(0, port=1), "INVALID_ARGUMENT", "priority")
    case("negative priority", e.acl(-1, port=1), "INVALID_ARGUMENT", "priority")
    case("prefix 0", e.lpm(1, 48), "INVALID_ARGUMENT", "leave the field out").match[1].lpm.prefix_len = 0
    case("prefix 49", e.lpm(1, 48), "INVALID_ARGUMENT", "49").match[1].lpm.prefix_len = 49
    case("prefix -1", e.lpm(1, 48), "INVALID_ARGUMENT", "-1").match[1].lpm.prefix_len = -1
    case("bits beyond prefix", e.lpm(1, 48), "INVALID_ARGUMENT", "prefix").match[1].lpm.prefix_len = 47
    case("mask 0", e.acl(1, dst=(0, 0)), "INVALID_ARGUMENT", "leave the field out")
    case("bits outside mask", e.acl(1, dst=(3, 2)), "INVALID_ARGUMENT", "mask")
    case("range upside down", e.acl(1, type_=(2, 1)), "INVALID_ARGUMENT", "above")
    case("whole range", e.acl(1, type_=(0, 0xFFFF)), "INVALID_ARGUMENT", "leave the field out")
    case("optional too wide", e.acl(1, port=512), "OUT_OF_RANGE", "9 bits")
    case("is_const", e.exact(1), "INVALID_ARGUMENT", "is_const").is_const = True
    case("idle timeout", e.exact(1), "INVALID_ARGUMENT", "idle timeout").idle_timeout_ns = 1
    case("last hit", e.exact(1), "INVALID_ARGUMENT", "time_since_last_hit").time_since_last_hit.SetInParent()
    case("no counter", e.lpm(1, 48), "INVALID_ARGUMENT", "direct counter").counter_data.SetInParent()
    case("no meter", e.exact(1), "INVALID_ARGUMENT", "direct meter").meter_config.cir = 1
    case("negative count", e.exact(1, counter=(-1, 0)), "INVALID_ARGUMENT", "negative")
    case("keyless", _entity(program.KEYLESS_T), "INVALID_ARGUMENT", "no key")
    return cases


@pytest.mark.parametrize("name", _bad_keys())
def test_a_malformed_entry_is_refused(primary: Client, name: str) -> None:
    entity, code, named = _bad_keys()[name]
    got, message = refused(primary.insert, entity)
    assert (got, named in message) == (code, True), message
    assert "\n" not in message
    assert all(not found.table_entry.match for found in primary.read(e.table(program.EXACT_T)))


# --- actions


def test_an_action_must_be_the_tables(primary: Client) -> None:
    entity = e.exact(1)
    entity.table_entry.action.action.action_id = program.MARK
    code, message = refused(primary.insert, entity)
    assert (code, "MyIngress.mark" in message) == ("INVALID_ARGUMENT", True)
    entity.table_entry.action.action.action_id = 0x01AAAAAA
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    entity.table_entry.action.action.action_id = 0
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    entity.table_entry.ClearField("action")
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    entity.table_entry.action.action_profile_member_id = 1
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"


def test_parameters_must_be_exactly_the_actions(primary: Client) -> None:
    entity = e.exact(1)
    params = entity.table_entry.action.action.params
    params[0].value = b"\x02\x00"
    assert refused(primary.insert, entity) == (
        "OUT_OF_RANGE",
        "action 'MyIngress.forward', parameter 'port': value 0x200 does not fit within 9 bits",
    )
    params[0].value = b""
    assert refused(primary.insert, entity)[0] == "OUT_OF_RANGE"
    params[0].value = b"\x01"
    params.add(param_id=2, value=b"\x01")
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    params[1].param_id = 1
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    del params[:]
    code, message = refused(primary.insert, entity)
    assert (code, "'port' is missing" in message) == ("INVALID_ARGUMENT", True)


def test_an_actions_scope(primary: Client) -> None:
    assert refused(primary.insert, e.scope(1, program.NO_ACTION))[0] == "PERMISSION_DENIED"
    primary.insert(e.scope(1, program.DROP))
    denied = e.default(program.SCOPE_T, program.DROP)
    assert refused(primary.modify, denied)[0] == "PERMISSION_DENIED"
    primary.modify(e.default(program.SCOPE_T, program.NO_ACTION))


# --- default entries


def test_default_entries_are_the_programs_until_set(primary: Client) -> None:
    assert primary.read(e.table(program.EXACT_T, default=True)) == [e.default(program.EXACT_T, program.DROP)]
    mark = e.default(program.KEYLESS_T, program.MARK, b"\x07", b"\x09")
    assert primary.read(e.table(program.KEYLESS_T, default=True)) == [mark]
    new = e.default(program.EXACT_T, program.FORWARD, b"\x05")
    new.table_entry.metadata = b"note"
    primary.modify(new)
    assert primary.read(e.table(program.EXACT_T, default=True)) == [new]
    # Without an action: back to the program's, and the note is gone.
    primary.modify(e.default(program.EXACT_T))
    assert primary.read(e.table(program.EXACT_T, default=True)) == [e.default(program.EXACT_T, program.DROP)]


def test_a_default_entry_is_no_entry(primary: Client) -> None:
    assert primary.read(e.table(program.KEYLESS_T)) == []
    assert len(primary.read(e.table(0, default=True))) == 6


def test_default_entries_cannot_be_inserted_or_deleted(primary: Client) -> None:
    entity = e.default(program.EXACT_T, program.DROP)
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    assert refused(primary.delete, entity)[0] == "INVALID_ARGUMENT"
    keyed = e.exact(1)
    keyed.table_entry.is_default_action = True
    assert refused(primary.modify, keyed)[0] == "INVALID_ARGUMENT"
    entity.table_entry.priority = 1
    assert refused(primary.modify, entity)[0] == "INVALID_ARGUMENT"
    timed = e.default(program.EXACT_T, program.DROP)
    timed.table_entry.idle_timeout_ns = 1
    assert refused(primary.modify, timed)[0] == "INVALID_ARGUMENT"


def test_a_constant_default_cannot_be_changed(primary: Client) -> None:
    for entity in (e.default(program.CONST_T, program.NO_ACTION), e.default(program.CONST_T)):
        assert refused(primary.modify, entity)[0] == "PERMISSION_DENIED"


# --- constant tables


def test_constant_entries_can_be_read(primary: Client) -> None:
    first, second = primary.read(e.table(program.CONST_T))
    assert first.table_entry.is_const and second.table_entry.is_const
    assert first.table_entry.match[0].exact.value == b"\x08\x00"
    assert first.table_entry.action.action.action_id == program.MARK
    assert [p.value for p in first.table_entry.action.action.params] == [b"\x01", b"\x02"]
    assert second.table_entry.action.action.action_id == program.NO_ACTION


def test_constant_entries_cannot_be_written_but_their_counters_can(primary: Client) -> None:
    entry = p4r.Entity(table_entry=e.const_key(0x0800))
    other = p4r.Entity(table_entry=e.const_key(0x1234))
    other.table_entry.action.action.action_id = program.NO_ACTION
    assert refused(primary.insert, other)[0] == "PERMISSION_DENIED"
    assert refused(primary.delete, entry)[0] == "PERMISSION_DENIED"
    entry.table_entry.action.action.action_id = program.NO_ACTION
    assert refused(primary.modify, entry)[0] == "PERMISSION_DENIED"
    entry.table_entry.ClearField("action")
    entry.table_entry.counter_data.packet_count = 9
    primary.modify(entry)
    first, second = primary.read(e.table(program.CONST_T, counters=True))
    assert first.table_entry.counter_data.packet_count == 9
    assert second.table_entry.HasField("counter_data")
    assert second.table_entry.counter_data.packet_count == 0


# --- reads


def test_wildcard_reads(primary: Client) -> None:
    entries = [e.exact(1), e.exact(2), e.lpm(1, 48), e.acl(1), e.acl(2)]
    primary.insert(*entries)
    everything = primary.read(e.table(0))
    assert [x for x in everything if not x.table_entry.is_const] == entries
    assert sum(x.table_entry.is_const for x in everything) == 2
    assert primary.read(e.table(program.EXACT_T)) == entries[:2]


def test_reads_can_be_filtered(primary: Client) -> None:
    drop = e.exact(3, metadata=b"x")
    drop.table_entry.action.Clear()
    drop.table_entry.action.action.action_id = program.DROP
    primary.insert(e.exact(1, cookie=4), e.exact(2, metadata=b"x", cookie=5), drop)
    by_action = e.table(program.EXACT_T)
    by_action.table_entry.action.action.action_id = program.DROP
    assert primary.read(by_action) == [drop]
    by_metadata = e.table(program.EXACT_T)
    by_metadata.table_entry.metadata = b"x"
    assert primary.read(by_metadata) == [e.exact(2, metadata=b"x", cookie=5), drop]
    by_cookie = e.table(program.EXACT_T)
    by_cookie.table_entry.controller_metadata = 4
    assert primary.read(by_cookie) == [e.exact(1, cookie=4)]
    primary.insert(e.acl(5, port=1), e.acl(6, port=1), e.acl(6, port=2), e.acl(6))
    assert primary.read(e.table(program.ACL_T, priority=6)) == [
        e.acl(6, port=1),
        e.acl(6, port=2),
        e.acl(6),
    ]
    # Without a priority a match selects by the match alone.
    by_match = p4r.Entity()
    by_match.table_entry.table_id = program.ACL_T
    by_match.table_entry.match.add(field_id=3).optional.value = b"\x01"
    assert primary.read(by_match) == [e.acl(5, port=1), e.acl(6, port=1)]


def test_a_read_of_what_is_not_there_is_empty(primary: Client) -> None:
    key = e.exact(1)
    key.table_entry.ClearField("action")
    assert primary.read(key) == []


def test_counters_are_read_only_when_asked_for(primary: Client) -> None:
    primary.insert(e.exact(1, counter=(10, 2000)))
    assert primary.read(e.table(program.EXACT_T)) == [e.exact(1)]
    assert primary.read(e.table(program.EXACT_T, counters=True)) == [e.exact(1, counter=(10, 2000))]
    # A table without counter has none to show.
    primary.insert(e.lpm(1, 48))
    assert primary.read(e.table(program.LPM_T, counters=True)) == [e.lpm(1, 48)]


def test_reads_that_are_refused(primary: Client) -> None:
    assert refused(primary.read, e.table(0x02AAAAAA))[0] == "INVALID_ARGUMENT"
    all_with_match = e.exact(1)
    all_with_match.table_entry.table_id = 0
    assert refused(primary.read, all_with_match)[0] == "INVALID_ARGUMENT"
    timed = e.table(program.EXACT_T)
    timed.table_entry.time_since_last_hit.SetInParent()
    assert refused(primary.read, timed)[0] == "INVALID_ARGUMENT"


def test_a_large_read_comes_in_pieces(primary: Client) -> None:
    primary.insert(*(e.lpm(n, 48) for n in range(1000)))
    entities: list[p4r.Entity] = []
    note = b"n" * 3000
    primary.modify(*(_noted(e.lpm(n, 48), note) for n in range(1000)))
    sizes = []
    for response in primary.responses(e.table(program.LPM_T)):
        sizes.append(response.ByteSize())
        entities += response.entities
    assert len(entities) == 1000
    assert len(sizes) >= 3
    assert max(sizes) < 4 << 20


def _noted(entity: p4r.Entity, note: bytes) -> p4r.Entity:
    entity.table_entry.metadata = note
    return entity
