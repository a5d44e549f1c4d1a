# SPDX-License-Identifier: Apache-2.0
"""Batches: what is applied, what is undone, and what the client is told about each element."""

from __future__ import annotations

import pytest
from finsy.proto import p4r, rpc_code

from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError, updates
from tests.target.p4runtime.fake import FakeDevice


def _state(client: Client) -> list[p4r.Entity]:
    return client.read(
        e.table(0, counters=True),
        e.table(0, default=True),
        e.all_counters(),
        e.all_registers(),
        e.all_groups(),
        e.all_sessions(),
    )


def test_every_element_has_its_error(primary: Client) -> None:
    with pytest.raises(RpcError) as error:
        primary.insert(e.exact(1), e.exact(1), e.exact(2), e.exact(1 << 48), e.acl(0))
    assert error.value.code == "UNKNOWN"
    assert error.value.codes == ["OK", "ALREADY_EXISTS", "OK", "OUT_OF_RANGE", "INVALID_ARGUMENT"]
    assert error.value.messages[0] == "" == error.value.messages[2]
    status = error.value.status
    assert status is not None
    assert status.code == rpc_code.UNKNOWN
    assert status.message == error.value.message
    assert all(d.type_url == "type.googleapis.com/p4.v1.Error" for d in status.details)
    # Everything else is applied.
    assert primary.read(e.table(program.EXACT_T)) == [e.exact(1), e.exact(2)]


def test_an_empty_batch_is_fine(primary: Client) -> None:
    primary.write()
    primary.write(atomicity="ROLLBACK_ON_ERROR")
    primary.write(atomicity="DATAPLANE_ATOMIC")
    assert primary.read() == []


def test_the_type_of_an_update_must_be_set(primary: Client) -> None:
    with pytest.raises(RpcError) as error:
        primary.write(p4r.Update(entity=e.exact(1)))
    assert error.value.codes == ["INVALID_ARGUMENT"]


def test_a_large_batch(primary: Client) -> None:
    primary.insert(*(e.lpm(n, 48) for n in range(1024)))
    with pytest.raises(RpcError) as error:
        primary.insert(*(e.lpm(n, 47) for n in range(300)))
    assert error.value.codes == ["RESOURCE_EXHAUSTED"] * 300
    primary.delete(*(e.lpm(n, 48) for n in range(1024)))
    assert primary.read(e.table(program.LPM_T)) == []


def test_rollback_takes_everything_back(primary: Client, fake: FakeDevice) -> None:
    primary.insert(e.exact(1, port=1, counter=(1, 10), metadata=b"a"), e.exact(2, counter=(2, 20), cookie=3))
    primary.insert(
        e.group(1, (1, 1), old_form=True), e.group(2, (2, 2)), e.clone_session(1, (1, 1), length=9)
    )
    primary.modify(e.counter(1, 5, 6), e.register(program.REG32, 2, b"\x05"))
    primary.modify(e.default(program.LPM_T, program.FORWARD, b"\x04"))
    before = _state(primary)
    batch = [
        *updates(
            "INSERT", [e.exact(3, counter=(9, 9)), e.acl(4), e.group(3, (3, 3)), e.clone_session(2, (2, 2))]
        ),
        *updates(
            "MODIFY",
            [
                e.exact(1, port=7, counter=(100, 100), metadata=b"b"),
                e.group(1, (4, 4)),
                e.clone_session(1, (5, 5)),
                e.counter(1, 50, 60),
                e.counter(packets=1),
                e.register(program.REG32, 2, b"\x06"),
                e.register(program.REG32, None, b"\x07"),
                e.default(program.LPM_T),
                e.default(program.EXACT_T, program.FORWARD, b"\x01"),
                e.direct_counter(e.exact(2).table_entry, 77, 88),
            ],
        ),
        *updates("DELETE", [e.exact(2), e.group(2)]),
    ]
    with pytest.raises(RpcError) as error:
        primary.write(*batch, *updates("DELETE", [e.exact(99), e.exact(98)]), atomicity="ROLLBACK_ON_ERROR")
    assert error.value.codes == ["ABORTED"] * len(batch) + ["NOT_FOUND", "ABORTED"]
    after = _state(primary)
    # An entry that was deleted and came back may stand elsewhere in its table.
    assert sorted(after, key=str) == sorted(before, key=str)
    primary.write(*batch, atomicity="ROLLBACK_ON_ERROR")
    assert sorted(_state(primary), key=str) != sorted(before, key=str)


def test_dataplane_atomic_is_possible_for_one_update(primary: Client) -> None:
    primary.write(*updates("INSERT", [e.exact(1)]), atomicity="DATAPLANE_ATOMIC")
    with pytest.raises(RpcError) as error:
        primary.write(*updates("INSERT", [e.exact(2), e.exact(3)]), atomicity="DATAPLANE_ATOMIC")
    assert (error.value.code, error.value.details) == ("UNIMPLEMENTED", None)
    assert primary.read(e.table(program.EXACT_T)) == [e.exact(1)]


def test_a_read_gives_what_it_can_and_then_its_errors(primary: Client) -> None:
    primary.insert(e.exact(1))
    found: list[p4r.Entity] = []
    with pytest.raises(RpcError) as error:
        for response in primary.responses(
            e.table(program.EXACT_T), e.table(0x02AAAAAA), e.counter(0), e.counter(99)
        ):
            found += response.entities
    assert error.value.code == "UNKNOWN"
    assert error.value.codes == ["OK", "INVALID_ARGUMENT", "OK", "OUT_OF_RANGE"]
    assert found == [e.exact(1), e.counter(0, 0, 0)]


def test_many_errors_stay_readable(primary: Client) -> None:
    with pytest.raises(RpcError) as error:
        primary.delete(*(e.exact(n) for n in range(1000)))
    assert error.value.codes == ["NOT_FOUND"] * 1000
    assert len(error.value.message) < 1000
