# SPDX-License-Identifier: Apache-2.0
"""Digests and idle timeouts over P4Runtime: their configuration, and what comes on the stream."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4d, p4i, p4r, p4t, stratum

from target.api import DeviceApi, DigestConfig
from target.engine import Device
from target.p4runtime.digest_data import encoder
from target.p4runtime.status import P4Error
from tests.target.p4runtime.client import Client, RpcError, Stream, updates
from tests.target.p4runtime.describe import Described, raw
from tests.target.p4runtime.fake import FakeDevice
from tests.target.p4runtime.test_action_profiles import everything, refused
from tests.target.resources import digest_frame, digest_program, idle_program

DIGEST, IDLE = Described(digest_program()), Described(idle_program())
MAC, LEARN, TELL = DIGEST.id("digest", "mac"), DIGEST.id("table", "learn"), DIGEST.id("action", "tell")
T, PASS = IDLE.id("table", "t"), IDLE.id("action", "pass")
MS = 1_000_000


def digest(config: tuple[int, int, int] | None = None, digest_id: int = MAC) -> p4r.Entity:
    entity = p4r.Entity()
    entity.digest_entry.digest_id = digest_id
    if config is not None:
        message = entity.digest_entry.config
        message.max_timeout_ns, message.max_list_size, message.ack_timeout_ns = config
        message.SetInParent()
    return entity


def learn() -> p4r.Entity:
    entity = p4r.Entity()
    entity.table_entry.table_id = LEARN
    entity.table_entry.match.add(field_id=1).exact.value = b"\x01"
    entity.table_entry.action.action.action_id = TELL
    return entity


def entry(key: int, timeout_ns: int = 0, action: bool = True, **notes: Any) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.table_entry
    message.table_id = T
    message.match.add(field_id=1).exact.value = raw(key)
    if action:
        message.action.action.action_id = PASS
    message.idle_timeout_ns = timeout_ns
    message.metadata = notes.get("metadata", b"")
    message.controller_metadata = notes.get("cookie", 0)
    return entity


def ack(list_id: int, digest_id: int = MAC) -> p4r.StreamMessageRequest:
    return p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=digest_id, list_id=list_id))


def engine_of(device: DeviceApi) -> Device:
    if isinstance(device, FakeDevice):
        pytest.skip("the fake device forwards nothing")
    assert isinstance(device, Device)
    for port in (1, 2):
        device.add_port(port)
    return device


# --- digests


def test_digest_entries(client: Client, device: DeviceApi) -> None:
    client.primary(1)
    client.set_config(DIGEST.config())
    assert client.read(everything("digest_entry")) == []
    client.insert(digest((5, 6, 7)))
    assert device.digest_config("mac") == DigestConfig(5, 6, 7)
    assert client.read(digest()) == client.read(everything("digest_entry")) == [digest((5, 6, 7))]
    client.modify(digest((0, 1, 0)))
    assert client.read(digest()) == [digest((0, 1, 0))]
    assert refused(client.insert, digest((1, 1, 1)))[0] == "ALREADY_EXISTS"
    assert refused(client.modify, digest((-1, 1, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(client.modify, digest((1, -1, 1)))[0] == "INVALID_ARGUMENT"
    assert refused(client.modify, digest((1, 1, 1), LEARN))[0] == "INVALID_ARGUMENT"
    assert refused(client.insert, digest((1, 1, 1), 0))[0] == "INVALID_ARGUMENT"
    assert client.read(digest()) == [digest((0, 1, 0))]
    client.delete(digest())
    assert device.digest_config("mac") is None
    for call in (client.modify, client.delete, client.read):
        assert refused(call, digest((1, 1, 1)))[0] == "NOT_FOUND"
    with pytest.raises(RpcError):
        batch = updates("INSERT", [digest((1, 1, 1)), digest((2, 2, 2))])
        client.write(*batch, atomicity="ROLLBACK_ON_ERROR")
    assert client.read(everything("digest_entry")) == []


def test_digest_configs_survive(client: Client) -> None:
    client.primary(1)
    client.set_config(DIGEST.config(), "VERIFY_AND_SAVE")
    client.insert(digest((5, 6, 7)))
    client.set_config(None, "COMMIT")
    assert client.read(digest()) == [digest((5, 6, 7))]
    client.set_config(Described(digest_program(ingress=False)).config(), "RECONCILE_AND_COMMIT")
    assert client.read(digest()) == [digest((5, 6, 7))]


def learning(client: Client, config: tuple[int, int, int]) -> Stream:
    stream = client.primary(1)
    client.set_config(DIGEST.config())
    client.insert(learn(), digest(config))
    return stream


def sample(src: int, port: int = 0, big: int = 0) -> p4d.P4Data:
    data = p4d.P4Data()
    for value in (src, port, big):
        data.struct.members.add(bitstring=raw(value))
    return data


def test_lists_come_on_the_stream(client: Client, device: DeviceApi) -> None:
    switch = engine_of(device)
    stream = learning(client, (0, 0, 3_600_000 * MS))
    switch.inject(1, digest_frame(0xABCDEF, 7, 2**127))
    first = stream.receive().digest
    assert (first.digest_id, list(first.data)) == (MAC, [sample(0xABCDEF, 7, 2**127)])
    assert first.timestamp > 1_600_000_000 * 10**9  # since the epoch
    switch.inject(1, digest_frame(0xABCDEF, 7, 2**127))
    switch.inject(1, digest_frame(1))
    second = stream.receive().digest
    assert list(second.data) == [sample(1)]
    stream.send(ack(first.list_id))
    stream.send(ack(12345))  # of no list: ignored
    stream.send(ack(1, LEARN))
    error = stream.receive().error  # everything before was processed
    assert (error.canonical_code, error.digest_list_ack.digest_list_ack.digest_id) == (3, LEARN)
    switch.inject(1, digest_frame(1))
    switch.inject(1, digest_frame(0xABCDEF, 7, 2**127))
    assert list(stream.receive().digest.data) == [sample(0xABCDEF, 7, 2**127)]


def test_lists_are_filled(client: Client, device: DeviceApi) -> None:
    switch = engine_of(device)
    stream = learning(client, (20 * MS, 3, 0))
    for source in (1, 1, 2, 3, 4):
        switch.inject(1, digest_frame(source))
    assert list(stream.receive().digest.data) == [sample(n) for n in (1, 2, 3)]
    assert list(stream.receive().digest.data) == [sample(4)]


def test_acknowledgements_are_the_primarys(client: Client, device: DeviceApi) -> None:
    engine_of(device)
    learning(client, (0, 0, 0))
    backup = client.stream()
    backup.arbitrate(0)
    backup.receive()
    backup.send(ack(1))
    assert backup.receive().error.canonical_code == 7  # PERMISSION_DENIED


def test_roles_hear_of_what_is_theirs(client: Client, device: DeviceApi) -> None:
    switch = engine_of(device)
    learning(client, (0, 0, 0))
    other = Client(client.address)
    config = stratum.P4RoleConfig(exclusive_p4_ids=[0x77], receives_packet_ins=True)
    stranger = other.primary(1, "stranger", config)
    third = Client(client.address)
    friend = third.primary(1, "friend", stratum.P4RoleConfig(shared_p4_ids=[MAC]))
    switch.inject(1, digest_frame(5))
    assert list(friend.receive().digest.data) == [sample(5)]
    stranger.send(ack(1))  # its own error is all that it hears
    assert stranger.receive().error.canonical_code == 7  # PERMISSION_DENIED
    friend.send(ack(1))
    friend.send(ack(1, LEARN))
    assert friend.receive().error.canonical_code == 3
    other.close()
    third.close()


def test_samples_of_every_type() -> None:
    types = p4t.P4TypeInfo()
    inner = types.structs["inner"]
    inner.members.add(name="flag").type_spec.bool.SetInParent()
    inner.members.add(name="signed").type_spec.bitstring.int.bitwidth = 8
    outer = types.structs["outer"]
    outer.members.add(name="inner").type_spec.struct.name = "inner"
    outer.members.add(name="kind").type_spec.enum.name = "kinds"
    outer.members.add(name="error").type_spec.error.SetInParent()
    outer.members.add(name="header").type_spec.header.name = "h"
    pair = outer.members.add(name="pair").type_spec.tuple
    pair.members.add().bitstring.bit.bitwidth = 16
    pair.members.add().new_type.name = "port"
    types.enums["kinds"].members.add(name="A")
    types.enums["kinds"].members.add(name="B")
    types.error.members.extend(["NoError", "Bad"])
    types.headers["h"].members.add(name="x").type_spec.bit.bitwidth = 8
    types.new_types["port"].translated_type.sdn_bitwidth = 32
    spec = p4t.P4DataTypeSpec()
    spec.struct.name = "outer"
    encode, leaves = encoder(spec, types, "digest 'd'")
    assert leaves == 7
    data = encode(iter([1, 0xFF, 1, 0, 0x12, 0x300, 9]))
    members = data.struct.members
    assert [m.WhichOneof("data") for m in members[0].struct.members] == ["bool", "bitstring"]
    assert members[0].struct.members[1].bitstring == b"\xff"
    assert (members[1].enum, members[2].error) == ("B", "NoError")
    assert (members[3].header.is_valid, list(members[3].header.bitstrings)) == (True, [b"\x12"])
    assert [m.bitstring for m in members[4].tuple.members] == [b"\x03\x00", b"\x09"]
    spec.struct.name = "lost"
    with pytest.raises(P4Error, match="digest 'd'"):
        encoder(spec, types, "digest 'd'")


# --- idle timeouts


@pytest.fixture
def idle(client: Client) -> Client:
    client.primary(1)
    client.set_config(IDLE.config())
    return client


def test_timeouts_are_read_as_written(idle: Client, device: DeviceApi) -> None:
    idle.insert(entry(1, 5), entry(2), entry(3, 2**63 - 1))
    assert idle.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=T))) == [
        entry(1, 5),
        entry(2),
        entry(3, 2**63 - 1),
    ]
    assert device.entry_timeout("t", ((3,),)) == 2**63 - 1
    idle.modify(entry(2, 9, action=False), entry(1))
    assert idle.read(entry(1, action=False), entry(2, action=False)) == [entry(1), entry(2, 9)]
    wanted = entry(2, action=False)
    wanted.table_entry.time_since_last_hit.SetInParent()
    (found,) = idle.read(wanted)
    assert found.table_entry.HasField("time_since_last_hit")
    assert found.table_entry.time_since_last_hit.elapsed_ns >= 0
    idle.set_config(Described(idle_program((("exact", "key"),))).config(), "RECONCILE_AND_COMMIT")
    assert idle.read(entry(2, action=False)) == [entry(2, 9)]


def with_elapsed(entity: p4r.Entity) -> p4r.Entity:
    entity.table_entry.time_since_last_hit.SetInParent()
    return entity


def default(timeout_ns: int = 0) -> p4r.Entity:
    entity = entry(1, timeout_ns)
    entity.table_entry.ClearField("match")
    entity.table_entry.is_default_action = True
    return entity


BAD: list[tuple[str, p4r.Entity, str]] = [
    ("INSERT", entry(9, -1), "INVALID_ARGUMENT"),
    ("MODIFY", entry(1, -1), "INVALID_ARGUMENT"),
    ("INSERT", with_elapsed(entry(9, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", with_elapsed(entry(1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", default(1), "INVALID_ARGUMENT"),
    ("MODIFY", with_elapsed(default()), "INVALID_ARGUMENT"),
]


@pytest.mark.parametrize(("kind", "entity", "code"), BAD)
def test_what_is_refused(idle: Client, kind: str, entity: p4r.Entity, code: str) -> None:
    idle.insert(entry(1, 7))
    assert refused(idle.write, *updates(kind, [entity]))[0] == code
    assert idle.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=T))) == [entry(1, 7)]


def test_rollback_restores_timeouts(idle: Client) -> None:
    idle.insert(entry(1, 7), entry(2, 8))
    batch = [
        *updates("MODIFY", [entry(1, 9)]),
        *updates("DELETE", [entry(2)]),
        *updates("DELETE", [entry(3)]),
    ]
    with pytest.raises(RpcError):
        idle.write(*batch, atomicity="ROLLBACK_ON_ERROR")
    assert idle.read(entry(1, action=False), entry(2, action=False)) == [entry(1, 7), entry(2, 8)]


def test_a_table_without_timeouts(primary: Client) -> None:
    from tests.target.p4runtime import entities as e

    entity = e.exact(1)
    entity.table_entry.idle_timeout_ns = 5
    assert refused(primary.insert, entity)[0] == "INVALID_ARGUMENT"
    reading = e.exact(1)
    reading.table_entry.time_since_last_hit.SetInParent()
    assert refused(primary.read, reading)[0] == "INVALID_ARGUMENT"


def test_notifications_name_the_entry(client: Client, device: DeviceApi) -> None:
    engine_of(device)
    stream = client.primary(1)
    client.set_config(IDLE.config())
    idle_entry = entry(1, 20 * MS, metadata=b"note", cookie=77)
    client.insert(idle_entry, entry(2))
    for _ in range(2):  # again after another such time
        message = stream.receive().idle_timeout_notification
        expected = p4r.TableEntry()
        expected.CopyFrom(idle_entry.table_entry)
        expected.ClearField("action")
        assert list(message.table_entry) == [expected]
        assert message.timestamp > 1_600_000_000 * 10**9
    wanted = with_elapsed(entry(1, action=False))
    (found,) = client.read(wanted)
    assert found.table_entry.time_since_last_hit.elapsed_ns >= 40 * MS
    client.modify(entry(1))
    (found,) = client.read(entry(1, action=False))
    assert found == entry(1)


def test_a_digest_of_a_type_without_name(client: Client, device: DeviceApi) -> None:
    client.primary(1)
    other = Described(digest_program())
    other.info.digests[0].preamble.name = "digest_0"
    client.set_config(other.config())
    client.insert(digest((5, 6, 7)))
    assert device.digest_config("mac") == DigestConfig(5, 6, 7)
    assert client.read(digest()) == [digest((5, 6, 7))]


def test_p4info_and_json_must_agree(client: Client) -> None:
    client.primary(1)
    other = Described(idle_program())
    other.info.tables[0].idle_timeout_behavior = p4i.Table.NO_TIMEOUT
    assert refused(client.set_config, other.config())[0] == "INVALID_ARGUMENT"
    other = Described(digest_program())
    other.info.type_info.structs["mac"].members.add(name="more").type_spec.bitstring.bit.bitwidth = 4
    assert refused(client.set_config, other.config())[0] == "INVALID_ARGUMENT"
