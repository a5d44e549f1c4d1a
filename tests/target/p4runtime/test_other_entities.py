# SPDX-License-Identifier: Apache-2.0
"""Counters, registers, multicast groups, clone sessions, and the entities that are not there yet."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError
from tests.target.p4runtime.fake import FakeDevice
from tests.target.p4runtime.test_table_entries import refused

# --- indirect counters


def test_counters(primary: Client) -> None:
    primary.modify(e.counter(3, packets=7, octets=700))
    assert primary.read(e.counter(3)) == [e.counter(3, 7, 700)]
    everything = primary.read(e.counter())
    assert len(everything) == program.COUNTER_SIZE
    assert everything == primary.read(e.all_counters())
    assert [x.counter_entry.index.index for x in everything] == list(range(program.COUNTER_SIZE))
    # Without data nothing changes, without index everything does.
    primary.modify(e.counter(3))
    assert primary.read(e.counter(3)) == [e.counter(3, 7, 700)]
    primary.modify(e.counter(packets=1, octets=2))
    assert all(
        x.counter_entry.data == p4r.CounterData(packet_count=1, byte_count=2)
        for x in primary.read(e.counter())
    )


def test_counter_index_0_is_no_wildcard(primary: Client) -> None:
    assert len(primary.read(e.counter(0))) == 1


def test_what_counters_refuse(primary: Client) -> None:
    assert refused(primary.insert, e.counter(0, 1, 1))[0] == "INVALID_ARGUMENT"
    assert refused(primary.delete, e.counter(0, 1, 1))[0] == "INVALID_ARGUMENT"
    for call in (primary.modify, primary.read):
        assert refused(call, e.counter(-1, 1, 1))[0] == "INVALID_ARGUMENT"
        assert refused(call, e.counter(program.COUNTER_SIZE, 1, 1))[0] == "OUT_OF_RANGE"
        wrong = e.counter(0, 1, 1)
        wrong.counter_entry.counter_id = program.EXACT_COUNTER
        code, message = refused(call, wrong)
        assert (code, "direct counter" in message) == ("INVALID_ARGUMENT", True)
    assert refused(primary.modify, e.counter(0, -1, 1))[0] == "INVALID_ARGUMENT"
    indexed = e.all_counters()
    indexed.counter_entry.index.index = 3
    assert refused(primary.read, indexed)[0] == "INVALID_ARGUMENT"


# --- direct counters


def test_direct_counters(primary: Client) -> None:
    primary.insert(e.exact(1, counter=(3, 300)), e.exact(2))
    key = p4r.TableEntry(table_id=program.EXACT_T, match=e.exact(1).table_entry.match)
    assert primary.read(e.direct_counter(key)) == [e.direct_counter(key, 3, 300)]
    primary.modify(e.direct_counter(key, packets=4, octets=5))
    assert primary.read(e.direct_counter(key)) == [e.direct_counter(key, 4, 5)]
    primary.modify(e.direct_counter(key))
    assert primary.read(e.direct_counter(key)) == [e.direct_counter(key, 4, 5)]
    table = p4r.TableEntry(table_id=program.EXACT_T)
    assert len(primary.read(e.direct_counter(table))) == 2
    # All tables that have one: two entries here, two constant ones.
    everything = p4r.TableEntry()
    assert len(primary.read(e.direct_counter(everything))) == 4


def test_direct_counters_know_priorities(primary: Client) -> None:
    primary.insert(e.acl(1, port=1), e.acl(2, port=1))
    key = e.acl(2, port=1).table_entry
    key.ClearField("action")
    primary.modify(e.direct_counter(key, packets=9))
    first = e.acl(1, port=1).table_entry
    first.ClearField("action")
    assert primary.read(e.direct_counter(key)) == [e.direct_counter(key, 9)]
    assert primary.read(e.direct_counter(first)) == [e.direct_counter(first, 0)]


def test_what_direct_counters_refuse(primary: Client) -> None:
    key = e.exact(1).table_entry
    assert refused(primary.modify, e.direct_counter(key, 1))[0] == "NOT_FOUND"
    assert refused(primary.read, e.direct_counter(key))[0] == "NOT_FOUND"
    primary.insert(e.exact(1))
    assert refused(primary.insert, e.direct_counter(key, 1))[0] == "INVALID_ARGUMENT"
    assert refused(primary.delete, e.direct_counter(key, 1))[0] == "INVALID_ARGUMENT"
    primary.insert(e.lpm(1, 48))
    without = e.lpm(1, 48).table_entry
    assert refused(primary.modify, e.direct_counter(without, 1))[0] == "INVALID_ARGUMENT"
    assert refused(primary.read, e.direct_counter(without))[0] == "INVALID_ARGUMENT"
    assert refused(primary.modify, p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()))[0] == (
        "INVALID_ARGUMENT"
    )


# --- registers


def test_registers(primary: Client, fake: FakeDevice) -> None:
    primary.modify(e.register(program.REG32, 3, b"\xde\xad\xbe\xef"))
    assert fake.register_read("MyIngress.reg32", 3) == 0xDEADBEEF
    assert primary.read(e.register(program.REG32, 3)) == [e.register(program.REG32, 3, b"\xde\xad\xbe\xef")]
    primary.modify(e.register(program.REG32, 3, b"\x00\x00\x01"))
    assert primary.read(e.register(program.REG32, 3)) == [e.register(program.REG32, 3, b"\x01")]
    values = primary.read(e.register(program.REG32))
    assert len(values) == program.REG_SIZE
    assert values[0] == e.register(program.REG32, 0, b"\x00")
    primary.modify(e.register(program.REG32, None, b"\x09"))
    assert fake.register_read_all("MyIngress.reg32") == [9] * program.REG_SIZE
    assert len(primary.read(e.all_registers())) == 4 * program.REG_SIZE


def test_wide_registers(primary: Client) -> None:
    value = e.raw((1 << 300) - 1)
    primary.modify(e.register(program.REG_WIDE, 15, value))
    assert primary.read(e.register(program.REG_WIDE, 15)) == [e.register(program.REG_WIDE, 15, value)]
    assert refused(primary.modify, e.register(program.REG_WIDE, 15, e.raw(1 << 300)))[0] == "OUT_OF_RANGE"


@pytest.mark.parametrize(
    ("sent", "stored", "read"),
    [
        (b"\x7f", 0x7F, b"\x7f"),
        (b"\x80", 0x80, b"\x80"),
        (b"\xff\xff", 0xFF, b"\xff"),
        (b"\x00\x00", 0, b"\x00"),
        (b"\xff\x9d", 0x9D, b"\x9d"),
    ],
)
def test_signed_registers(primary: Client, fake: FakeDevice, sent: bytes, stored: int, read: bytes) -> None:
    primary.modify(e.register(program.REG_SIGNED, 0, sent))
    assert fake.register_read("MyIngress.reg_signed", 0) == stored
    assert primary.read(e.register(program.REG_SIGNED, 0)) == [e.register(program.REG_SIGNED, 0, read)]


def test_boolean_registers(primary: Client) -> None:
    entity = e.register(program.REG_BOOL, 1)
    entity.register_entry.data.bool = True
    primary.modify(entity)
    assert primary.read(e.register(program.REG_BOOL, 1)) == [entity]


def test_what_registers_refuse(primary: Client) -> None:
    value = b"\x01"
    assert refused(primary.insert, e.register(program.REG32, 0, value))[0] == "INVALID_ARGUMENT"
    assert refused(primary.delete, e.register(program.REG32, 0, value))[0] == "INVALID_ARGUMENT"
    assert refused(primary.modify, e.register(program.REG32, 0))[0] == "INVALID_ARGUMENT"
    assert refused(primary.modify, e.register(program.REG32, 0, b""))[0] == "OUT_OF_RANGE"
    assert refused(primary.modify, e.register(program.REG32, 0, b"\1" * 5))[0] == "OUT_OF_RANGE"
    assert refused(primary.modify, e.register(program.REG_SIGNED, 0, b"\0\x80"))[0] == "OUT_OF_RANGE"
    assert refused(primary.modify, e.register(program.REG_BOOL, 0, value))[0] == "INVALID_ARGUMENT"
    for call in (primary.modify, primary.read):
        assert refused(call, e.register(program.REG32, -1, value))[0] == "INVALID_ARGUMENT"
        assert refused(call, e.register(program.REG32, 16, value))[0] == "OUT_OF_RANGE"
        assert refused(call, e.register(0x16AAAAAA, 0, value))[0] == "INVALID_ARGUMENT"


# --- packet replication


@pytest.mark.parametrize("old_form", [False, True])
def test_multicast_groups(primary: Client, fake: FakeDevice, old_form: bool) -> None:
    entity = e.group(5, (1, 1), (2, 1), (1, 2), (0x1FF, 0xFFFF), old_form=old_form)
    entity.packet_replication_engine_entry.multicast_group_entry.metadata = b"note"
    primary.insert(entity)
    assert fake.mcast_groups() == {5: [(1, 1), (2, 1), (1, 2), (0x1FF, 0xFFFF)]}
    assert primary.read(e.group(5)) == [entity]
    primary.insert(e.group(0xFFFF, (3, 0)))
    assert primary.read(e.all_groups()) == [entity, e.group(0xFFFF, (3, 0))]
    changed = e.group(5, (7, 0), old_form=old_form)
    primary.modify(changed)
    assert primary.read(e.group(5)) == [changed]
    primary.modify(e.group(5))
    assert primary.read(e.group(5)) == [e.group(5)]
    primary.delete(e.group(5, (9, 9)))
    assert fake.mcast_groups() == {0xFFFF: [(3, 0)]}


def test_what_multicast_groups_refuse(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.group(5, (1, 1)))
    assert refused(primary.insert, e.group(5, (2, 1)))[0] == "ALREADY_EXISTS"
    assert refused(primary.modify, e.group(6, (2, 1)))[0] == "NOT_FOUND"
    assert refused(primary.delete, e.group(6))[0] == "NOT_FOUND"
    assert refused(primary.insert, e.group(0, (2, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.insert, e.group(0x10000, (2, 1)))[0] == "OUT_OF_RANGE"
    assert refused(primary.modify, e.group(5, (2, 1), (2, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.modify, e.group(5, (512, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.modify, e.group(5, (1, 0x10000)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.read, e.group(6))[0] == "NOT_FOUND"
    no_port = e.group(7)
    no_port.packet_replication_engine_entry.multicast_group_entry.replicas.add(instance=1)
    assert refused(primary.insert, no_port)[0] == "INVALID_ARGUMENT"
    backup = e.group(7, (1, 1))
    replica = backup.packet_replication_engine_entry.multicast_group_entry.replicas[0]
    replica.backup_replicas.add(port=b"\x02", instance=1)
    assert refused(primary.insert, backup)[0] == "UNIMPLEMENTED"
    assert refused(primary.insert, _neither())[0] == "INVALID_ARGUMENT"
    assert fake.mcast_groups() == {5: [(1, 1)]}


def _neither() -> p4r.Entity:
    entity = p4r.Entity()
    entity.packet_replication_engine_entry.SetInParent()
    return entity


def test_the_cpu_ports_sdn_number(primary: Client, fake: FakeDevice) -> None:
    entity = e.clone_session(3, (0xFFFFFFFD, 0))
    primary.insert(entity)
    assert fake.clone_sessions() == {3: ([(255, 0)], 0)}
    assert primary.read(e.clone_session(3)) == [entity]


@pytest.mark.parametrize("old_form", [False, True])
def test_clone_sessions(primary: Client, fake: FakeDevice, old_form: bool) -> None:
    entity = e.clone_session(9, (255, 1), (2, 0), length=128, old_form=old_form)
    primary.insert(entity)
    assert fake.clone_sessions() == {9: ([(255, 1), (2, 0)], 128)}
    assert primary.read(e.clone_session(9)) == [entity]
    primary.modify(e.clone_session(9, (3, 3)))
    assert primary.read(e.all_sessions()) == [e.clone_session(9, (3, 3))]
    primary.delete(e.clone_session(9))
    assert primary.read(e.all_sessions()) == []


def test_what_clone_sessions_refuse(primary: Client) -> None:
    primary.insert(e.clone_session(9, (1, 1)))
    assert refused(primary.insert, e.clone_session(9, (1, 1)))[0] == "ALREADY_EXISTS"
    assert refused(primary.modify, e.clone_session(8, (1, 1)))[0] == "NOT_FOUND"
    assert refused(primary.delete, e.clone_session(8))[0] == "NOT_FOUND"
    assert refused(primary.insert, e.clone_session(0, (1, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.insert, e.clone_session(0x8000, (1, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(primary.insert, e.clone_session(7, (1, 1), length=-1))[0] == "INVALID_ARGUMENT"
    assert refused(primary.read, e.clone_session(7))[0] == "NOT_FOUND"
    classed = e.clone_session(7, (1, 1))
    classed.packet_replication_engine_entry.clone_session_entry.class_of_service = 1
    assert refused(primary.insert, classed)[0] == "UNIMPLEMENTED"


# --- not there yet


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("extern_entry", "ExternEntry"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(primary: Client, kind: str, name: str) -> None:
    entity = p4r.Entity()
    getattr(entity, kind).SetInParent()
    code, message = refused(primary.insert, entity)
    assert (code, name in message) == ("UNIMPLEMENTED", True)
    # The program declares none of these, so reading all of them finds nothing.
    assert primary.read(entity) == []


def test_an_empty_entity_is_refused(primary: Client) -> None:
    assert refused(primary.insert, p4r.Entity())[0] == "INVALID_ARGUMENT"
    assert refused(primary.read, p4r.Entity())[0] == "INVALID_ARGUMENT"


def test_capabilities(client: Client) -> None:
    response = client.stub.Capabilities(p4r.CapabilitiesRequest())
    assert response.p4runtime_api_version.startswith("1.5")
    assert client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=1)) == response
    with pytest.raises(RpcError) as error:
        client._call(client.stub.Capabilities, p4r.CapabilitiesRequest(device_id=77))
    assert error.value.code == "NOT_FOUND"


def test_the_device_must_be_known(primary: Client) -> None:
    primary.device_id = 77
    for call in (
        lambda: primary.insert(e.exact(1)),
        lambda: primary.read(e.table(0)),
        lambda: primary.set_config(program.config()),
        lambda: primary.get_config(),
    ):
        with pytest.raises(RpcError) as error:
            call()
        assert (error.value.code, error.value.details) == ("NOT_FOUND", None)
