# SPDX-License-Identifier: Apache-2.0
"""Meters over P4Runtime: indexed and direct ones, in entries of their own and within table entries."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4i, p4r

from target.api import DeviceApi, MeterConfig, MeterState
from target.engine import Device
from tests.target.p4runtime.client import Client, RpcError, updates
from tests.target.p4runtime.describe import Described, raw
from tests.target.p4runtime.fake import FakeDevice
from tests.target.p4runtime.test_action_profiles import everything, refused
from tests.target.resources import meter_program

METERS = Described(meter_program())
M, D, T = METERS.id("meter", "m"), METERS.id("direct meter", "d"), METERS.id("table", "t")
MARK = METERS.id("action", "mark")
Config = tuple[int, int, int, int]


@pytest.fixture
def metered(client: Client) -> Client:
    client.primary(1)
    client.set_config(METERS.config())
    return client


def config(values: Config, eburst: int = 0) -> p4r.MeterConfig:
    cir, cburst, pir, pburst = values
    return p4r.MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst, eburst=eburst)


def meter(
    index: int | None = None, values: Config | None = None, meter_id: int = M, eburst: int = 0
) -> p4r.Entity:
    entity = p4r.Entity()
    entity.meter_entry.meter_id = meter_id
    if index is not None:
        entity.meter_entry.index.index = index
    if values is not None:
        entity.meter_entry.config.CopyFrom(config(values, eburst))
    return entity


def entry(key: int, values: Config | None = None, table: int = T, action: bool = True) -> p4r.Entity:
    entity = p4r.Entity()
    entity.table_entry.table_id = table
    entity.table_entry.match.add(field_id=1).exact.value = raw(key)
    if action:
        entity.table_entry.action.action.action_id = MARK
    if values is not None:
        entity.table_entry.meter_config.CopyFrom(config(values))
    return entity


def direct(key: int | None, values: Config | None = None, table: int = T) -> p4r.Entity:
    entity = p4r.Entity()
    target = entity.direct_meter_entry.table_entry
    target.table_id = table
    if key is not None:
        target.match.add(field_id=1).exact.value = raw(key)
    if values is not None:
        entity.direct_meter_entry.config.CopyFrom(config(values))
    return entity


def asking(entity: p4r.Entity, *names: str) -> p4r.Entity:
    copy = p4r.Entity()
    copy.CopyFrom(entity)
    message = getattr(copy, copy.WhichOneof("entity") or "")
    for name in names:
        getattr(message, name).SetInParent()
    return copy


TWO: Config = (100, 10, 200, 20)


def test_indexed_meters(metered: Client, device: DeviceApi) -> None:
    assert metered.read(meter()) == [meter(i) for i in range(4)]
    metered.modify(meter(2, TWO))
    assert metered.read(meter(2)) == [meter(2, TWO)]
    assert device.meter_read("m", 2) == MeterState(MeterConfig(*TWO))
    metered.modify(meter(None, (1, 2, 3, 4)))
    assert metered.read(meter()) == [meter(i, (1, 2, 3, 4)) for i in range(4)]
    assert metered.read(everything("meter_entry")) == metered.read(meter())
    metered.modify(meter(1))
    assert metered.read(meter(1)) == [meter(1)]
    metered.modify(meter())
    assert metered.read(meter()) == [meter(i) for i in range(4)]


def test_direct_meters(metered: Client, device: DeviceApi) -> None:
    metered.insert(entry(1), entry(2, TWO))
    assert metered.read(direct(1), direct(2)) == [direct(1), direct(2, TWO)]
    metered.modify(direct(1, (1, 2, 3, 4)))
    assert device.direct_meter_read("t", ((1,),)).config == MeterConfig(1, 2, 3, 4)
    assert metered.read(direct(None)) == [direct(1, (1, 2, 3, 4)), direct(2, TWO)]
    assert metered.read(everything("direct_meter_entry")) == metered.read(direct(None))
    metered.modify(direct(1))
    assert metered.read(direct(1)) == [direct(1)]


def test_meters_within_table_entries(metered: Client) -> None:
    metered.insert(entry(1, TWO), entry(2))
    assert metered.read(entry(1, action=False)) == [entry(1)]  # not asked for
    assert metered.read(asking(entry(1, action=False), "meter_config")) == [entry(1, TWO)]
    assert metered.read(asking(entry(2, action=False), "meter_config")) == [entry(2)]
    metered.modify(entry(2, (1, 1, 1, 1), action=False))
    assert metered.read(asking(entry(2, action=False), "meter_config")) == [entry(2, (1, 1, 1, 1))]
    metered.modify(entry(1))  # a MODIFY without config resets it
    assert metered.read(direct(1)) == [direct(1)]
    metered.delete(entry(2))
    metered.insert(entry(2))
    assert metered.read(direct(2)) == [direct(2)]


def marked(entity: p4r.Entity, name: str, *counts: tuple[int, int]) -> p4r.Entity:
    message = getattr(getattr(entity, entity.WhichOneof("entity") or ""), name)
    for colour, (packets, octets) in zip(("green", "yellow", "red"), counts, strict=True):
        data = getattr(message, colour)
        data.packet_count, data.byte_count = packets, octets
        data.SetInParent()
    return entity


ZERO = ((0, 0),) * 3


def test_counts_by_colour(metered: Client, device: DeviceApi) -> None:
    metered.insert(entry(1))
    counts = ((1, 10), (2, 20), (3, 30))
    state = MeterState(None, counts)
    device.meter_write_marked("m", 0, state)
    device.direct_meter_write_marked("t", ((1,),), 0, state)
    assert metered.read(meter(0)) == [meter(0)]
    assert metered.read(asking(meter(0), "counter_data")) == [marked(meter(0), "counter_data", *counts)]
    assert metered.read(asking(direct(1), "counter_data")) == [marked(direct(1), "counter_data", *counts)]
    key = entry(1, action=False)
    assert metered.read(asking(key, "meter_counter_data")) == [
        marked(entry(1), "meter_counter_data", *counts)
    ]
    metered.modify(meter(0, TWO), direct(1, TWO))
    assert device.meter_read("m", 0) == MeterState(MeterConfig(*TWO), counts)
    for bad in (
        marked(meter(0), "counter_data", (1, 0), (0, 0), (0, 0)),
        marked(direct(1), "counter_data", (0, 0), (0, 0), (0, 1)),
        marked(entry(1), "meter_counter_data", (0, 0), (0, 5), (0, 0)),
    ):
        assert refused(metered.modify, bad)[0] == "INVALID_ARGUMENT"
    assert device.meter_read("m", 0).marked == device.direct_meter_read("t", ((1,),)).marked == counts
    metered.modify(asking(meter(0), "counter_data"), asking(direct(1), "counter_data"))
    assert device.meter_read("m", 0) == device.direct_meter_read("t", ((1,),)) == MeterState()
    device.direct_meter_write_marked("t", ((1,),), 0, state)
    metered.modify(marked(entry(1), "meter_counter_data", *ZERO))
    assert device.direct_meter_read("t", ((1,),)) == MeterState()


def with_default(entity: p4r.Entity) -> p4r.Entity:
    entity.table_entry.ClearField("match")
    entity.table_entry.is_default_action = True
    return entity


BAD: list[tuple[str, p4r.Entity, str]] = [
    ("INSERT", meter(0, TWO), "INVALID_ARGUMENT"),
    ("DELETE", meter(0), "INVALID_ARGUMENT"),
    ("MODIFY", meter(-1, TWO), "INVALID_ARGUMENT"),
    ("MODIFY", meter(4, TWO), "OUT_OF_RANGE"),
    ("MODIFY", meter(0, TWO, D), "INVALID_ARGUMENT"),
    ("MODIFY", meter(0, TWO, 0), "INVALID_ARGUMENT"),
    ("MODIFY", meter(0, TWO, eburst=1), "INVALID_ARGUMENT"),
    ("MODIFY", meter(0, (2, 1, 1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", meter(0, (-1, 1, 1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", meter(0, (1, 1, 1, -1)), "INVALID_ARGUMENT"),
    ("INSERT", direct(1, TWO), "INVALID_ARGUMENT"),
    ("DELETE", direct(1), "INVALID_ARGUMENT"),
    ("MODIFY", direct(9, TWO), "NOT_FOUND"),
    ("MODIFY", direct(1, TWO, 77), "INVALID_ARGUMENT"),
    ("MODIFY", direct(1, (2, 1, 1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry()), "INVALID_ARGUMENT"),
    ("INSERT", entry(9, (2, 1, 1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", entry(1, (2, 1, 1, 1)), "INVALID_ARGUMENT"),
    ("MODIFY", with_default(entry(1, TWO)), "UNIMPLEMENTED"),
]


@pytest.mark.parametrize(("kind", "entity", "code"), BAD)
def test_what_is_refused_changes_nothing(metered: Client, kind: str, entity: p4r.Entity, code: str) -> None:
    metered.insert(entry(1, TWO))
    metered.modify(meter(0, TWO))
    reads = [meter(), direct(None), asking(p4r.Entity(table_entry=p4r.TableEntry()), "meter_config")]
    before = metered.read(*reads)
    assert refused(metered.write, *updates(kind, [entity]))[0] == code
    assert metered.read(*reads) == before


def test_reads_that_are_refused(metered: Client) -> None:
    metered.insert(entry(1))
    assert refused(metered.read, meter(-1))[0] == "INVALID_ARGUMENT"
    assert refused(metered.read, meter(4))[0] == "OUT_OF_RANGE"
    assert refused(metered.read, meter(0, meter_id=0))[0] == "INVALID_ARGUMENT"
    assert refused(metered.read, direct(9))[0] == "NOT_FOUND"
    assert refused(metered.read, direct(1, table=0))[0] == "INVALID_ARGUMENT"


def typed(kind: Any) -> Described:
    described = Described(meter_program())
    for spec in (described.info.meters[0].spec, described.info.direct_meters[0].spec):
        spec.type = kind
    return described


def test_meters_of_one_rate(client: Client, device: DeviceApi) -> None:
    client.primary(1)
    client.set_config(typed(p4i.MeterSpec.SINGLE_RATE_THREE_COLOR).config())
    assert refused(client.modify, meter(0, TWO))[0] == "INVALID_ARGUMENT"
    client.modify(meter(0, (5, 6, 5, 6), eburst=7))
    assert client.read(meter(0)) == [meter(0, (5, 6, 5, 6), eburst=7)]
    assert device.meter_read("m", 0).config == MeterConfig(5, 6, 5, 6, 7, True)


def test_meters_of_two_colours(client: Client, device: DeviceApi) -> None:
    client.primary(1)
    client.set_config(typed(p4i.MeterSpec.SINGLE_RATE_TWO_COLOR).config())
    for bad in (meter(0, TWO), meter(0, (5, 6, 5, 6), eburst=1)):
        assert refused(client.modify, bad)[0] == "INVALID_ARGUMENT"
    client.modify(meter(0, (5, 6, 5, 6)))
    assert device.meter_read("m", 0).config == MeterConfig(5, 6, 5, 6)


def test_rollback_and_commit(metered: Client) -> None:
    metered.insert(entry(1, TWO), entry(2, TWO))
    metered.modify(meter(0, TWO))
    reads = [meter(), direct(None)]
    before = metered.read(*reads)
    batch = [
        *updates("MODIFY", [meter(None, (1, 1, 1, 1)), direct(1), entry(2)]),
        *updates("DELETE", [entry(1)]),
        *updates("MODIFY", [meter(9)]),
    ]
    with pytest.raises(RpcError) as error:
        metered.write(*batch, atomicity="ROLLBACK_ON_ERROR")
    assert error.value.codes[-1] == "OUT_OF_RANGE"
    assert sorted(map(str, metered.read(*reads))) == sorted(map(str, before))
    metered.set_config(Described(meter_program(pipeline="egress")).config(), "RECONCILE_AND_COMMIT")
    assert sorted(map(str, metered.read(*reads))) == sorted(map(str, before))
    metered.set_config(METERS.config(), "VERIFY_AND_SAVE")
    metered.insert(entry(3, TWO))
    metered.modify(meter(3, TWO))
    saved = metered.read(*reads)
    metered.set_config(None, "COMMIT")
    assert metered.read(*reads) == saved


def test_p4info_and_json_must_agree(client: Client) -> None:
    client.primary(1)
    other = Described(meter_program())
    other.info.meters[0].spec.unit = p4i.MeterSpec.BYTES
    assert refused(client.set_config, other.config())[0] == "INVALID_ARGUMENT"
    other = Described(meter_program())
    other.info.meters[0].size = 5
    assert refused(client.set_config, other.config())[0] == "INVALID_ARGUMENT"


def test_packets_take_their_colour(metered: Client, device: DeviceApi) -> None:
    if isinstance(device, FakeDevice):
        pytest.skip("the fake device forwards nothing")
    assert isinstance(device, Device)
    device.add_port(1)
    device.add_port(2)
    metered.insert(entry(1, (0, 1, 0, 2)))
    seen = []
    for _ in range(4):
        device.inject(1, bytes([1, 0, 0, 0, 0]))
        seen.append(device.collect(2)[0][3])
    assert seen == [0x10, 0x11, 0x12, 0x12]
    (found,) = metered.read(asking(direct(1), "counter_data"))
    assert found.direct_meter_entry.counter_data.red.packet_count == 2
