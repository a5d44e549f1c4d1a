# SPDX-License-Identifier: Apache-2.0
"""`ValueSetEntry`: written as a whole, read back as it was written, every kind of match."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from finsy.proto import p4i, p4r

from target.api import DeviceApi, InRange, Masked
from tests.target.p4runtime.client import Client, RpcError
from tests.target.programs import Builder, default_case, extract, field, forward_to

SET, IDLE, UNKNOWN = 0x03000001, 0x03000002, 0x03000077

FIELDS = [
    ("exact", 16, p4i.MatchField.EXACT),
    ("lpm", 32, p4i.MatchField.LPM),
    ("ternary", 8, p4i.MatchField.TERNARY),
    ("range", 72, p4i.MatchField.RANGE),
    ("optional", 8, p4i.MatchField.OPTIONAL),
]


def config(size: int = 3) -> p4r.ForwardingPipelineConfig:
    b = Builder()
    b.header("x", [(name, width) for name, width, _ in FIELDS])
    b.extra["parse_vsets"] = [
        {"name": "P.set", "id": 0, "compressed_bitwidth": 136, "max_size": size},
        {"name": "P.idle", "id": 1, "compressed_bitwidth": 8, "max_size": 1},
    ]
    member = {"type": "parse_vset", "value": "P.set", "mask": None, "next_state": "in"}
    b.state("start", [extract("x")], [field("x", name) for name, _, _ in FIELDS], member, default_case(None))
    b.state("in", [])
    b.run("go", [forward_to(2)])
    info = p4i.P4Info()
    vset = info.value_sets.add(size=3)
    vset.preamble.id, vset.preamble.name = SET, "P.set"
    for number, (name, width, kind) in enumerate(FIELDS):
        vset.match.add(id=number + 1, name=name, bitwidth=width, match_type=kind)
    idle = info.value_sets.add(size=1)
    idle.preamble.id, idle.preamble.name = IDLE, "P.idle"
    idle.match.add(id=1, bitwidth=8, match_type=p4i.MatchField.EXACT)
    return p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=b.json().encode())


@pytest.fixture
def sets(client: Client) -> Client:
    client.primary(1)
    client.set_config(config())
    return client


def full(exact: int = 1) -> p4r.ValueSetMember:
    member = p4r.ValueSetMember()
    member.match.add(field_id=1).exact.value = bytes([exact])
    lpm = member.match.add(field_id=2).lpm
    lpm.value, lpm.prefix_len = b"\x0a\x01\x00\x00", 16
    ternary = member.match.add(field_id=3).ternary
    ternary.value, ternary.mask = b"\x10", b"\xf0"
    bounds = member.match.add(field_id=4).range
    bounds.low, bounds.high = b"\x05", b"\x01" + bytes(8)
    member.match.add(field_id=5).optional.value = b"\x07"
    return member


def least(exact: int = 2) -> p4r.ValueSetMember:
    member = p4r.ValueSetMember()
    member.match.add(field_id=1).exact.value = bytes([exact])
    return member


def entry(*members: p4r.ValueSetMember, set_id: int = SET) -> p4r.Entity:
    return p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=set_id, members=members))


def refused(call: Callable[..., object], *args: object) -> tuple[str, str]:
    with pytest.raises(RpcError) as error:
        call(*args)
    if error.value.details is None:
        return error.value.code, error.value.message
    return error.value.codes[-1], error.value.messages[-1]


def test_members_are_written_and_read(sets: Client, device: DeviceApi) -> None:
    assert sets.read(entry()) == [entry()]
    sets.modify(entry(full(), least()))
    assert sets.read(entry()) == [entry(full(), least())]
    assert device.value_set_members("P.set") == [
        (
            Masked(1, 0xFFFF),
            Masked(0x0A010000, 0xFFFF0000),
            Masked(0x10, 0xF0),
            InRange(5, 1 << 64),
            Masked(7, 0xFF),
        ),
        (Masked(2, 0xFFFF), Masked(0, 0), Masked(0, 0), InRange(0, (1 << 72) - 1), Masked(0, 0)),
    ]
    sets.modify(entry(least()))
    assert sets.read(entry()) == [entry(least())]
    sets.modify(entry())
    assert sets.read(entry()) == [entry()]


def test_all_sets_are_read_by_the_wildcard(sets: Client) -> None:
    sets.modify(entry(full()))
    found = sets.read(entry(set_id=0))
    assert sorted(found, key=lambda e: e.value_set_entry.value_set_id) == [entry(full()), entry(set_id=IDLE)]


def test_a_set_that_no_transition_uses(sets: Client) -> None:
    sets.modify(entry(least(9), set_id=IDLE))
    assert sets.read(entry(set_id=IDLE)) == [entry(least(9), set_id=IDLE)]


def test_what_is_refused(sets: Client) -> None:
    sets.modify(entry(full()))
    no_exact = p4r.ValueSetMember()
    no_exact.match.add(field_id=5).optional.value = b"\x07"
    twice = least()
    twice.match.add(field_id=1).exact.value = b"\x01"
    wrong_kind = p4r.ValueSetMember()
    wrong_kind.match.add(field_id=1).optional.value = b"\x01"
    wide = p4r.ValueSetMember()
    wide.match.add(field_id=1).exact.value = b"\x01\x00\x00"
    stranger = least()
    stranger.match.add(field_id=9).exact.value = b"\x01"
    for call, bad, code, named in (
        (sets.insert, entry(least()), "INVALID_ARGUMENT", "use MODIFY"),
        (sets.delete, entry(), "INVALID_ARGUMENT", "use MODIFY"),
        (sets.modify, entry(*(least(i) for i in range(4))), "RESOURCE_EXHAUSTED", "takes 3 members"),
        (sets.modify, entry(set_id=UNKNOWN), "INVALID_ARGUMENT", "no value set"),
        (sets.modify, entry(set_id=0), "INVALID_ARGUMENT", "0 or unset"),
        (sets.modify, entry(no_exact), "INVALID_ARGUMENT", "match field 'exact' is missing"),
        (sets.modify, entry(twice), "INVALID_ARGUMENT", "given twice"),
        (sets.modify, entry(wrong_kind), "INVALID_ARGUMENT", "is exact"),
        (sets.modify, entry(wide), "OUT_OF_RANGE", "exact"),
        (sets.modify, entry(stranger), "INVALID_ARGUMENT", "id 9"),
        (sets.read, entry(set_id=UNKNOWN), "INVALID_ARGUMENT", "no value set"),
    ):
        found, message = refused(call, bad)
        assert (found, named in message) == (code, True), message
    assert sets.read(entry()) == [entry(full())]


def test_a_batch_is_rolled_back(sets: Client) -> None:
    sets.modify(entry(full()))
    changes = [
        p4r.Update(type=p4r.Update.MODIFY, entity=entry(least())),
        p4r.Update(type=p4r.Update.MODIFY, entity=entry(set_id=UNKNOWN)),
    ]
    with pytest.raises(RpcError):
        sets.write(*changes, atomicity="ROLLBACK_ON_ERROR")
    assert sets.read(entry()) == [entry(full())]


def test_members_survive_reconciliation(sets: Client) -> None:
    sets.modify(entry(full(), least()))
    sets.set_config(config(), "RECONCILE_AND_COMMIT")
    assert sets.read(entry()) == [entry(full(), least())]


def test_p4info_and_json_must_agree(client: Client) -> None:
    client.primary(1)
    code, message = refused(client.set_config, config(size=4))
    assert code == "INVALID_ARGUMENT"
    assert "value set 'P.set': size" in message
    other = config()
    other.p4info.value_sets[0].match[0].bitwidth = 8
    code, message = refused(client.set_config, other)
    assert "bitwidth" in message
