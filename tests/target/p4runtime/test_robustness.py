# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody meant: random ones, broken ones, cancelled ones. No crash, nothing half-applied."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

import pytest
from finsy.proto import p4i, p4r, rpc_code
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from target.p4runtime.arbitration import Arbiter
from target.p4runtime.arbitration import Client as ArbiterClient
from target.p4runtime.batch import read_batch, write_batch
from target.p4runtime.config import ConfigStore, ParsedConfig, parse_config
from target.p4runtime.packetio import decode_packet_in, encode_packet_out
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import BatchError, P4Error
from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError
from tests.target.p4runtime.fake import FakeDevice

EXPECTED = {
    rpc_code.INVALID_ARGUMENT,
    rpc_code.OUT_OF_RANGE,
    rpc_code.NOT_FOUND,
    rpc_code.ALREADY_EXISTS,
    rpc_code.PERMISSION_DENIED,
    rpc_code.RESOURCE_EXHAUSTED,
    rpc_code.UNIMPLEMENTED,
    rpc_code.ABORTED,
}
COMMIT = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
EVERYTHING = [
    e.table(0, counters=True),
    e.table(0, default=True),
    e.all_counters(),
    e.all_registers(),
    e.all_groups(),
    e.all_sessions(),
]


@functools.cache
def parsed() -> ParsedConfig:
    return parse_config(program.config())


def pipeline() -> Pipeline:
    """A fresh pipeline, without the parsing."""
    device = FakeDevice()
    device.reset(parsed().program)
    return Pipeline(parsed().message, parsed().index, device)


def store() -> ConfigStore:
    configs = ConfigStore(FakeDevice())
    configs.set(COMMIT, program.config())
    return configs


def state(target: Pipeline) -> list[str]:
    entities, error = read_batch(target, EVERYTHING)
    assert error is None
    return sorted(str(entity) for entity in entities)


small = st.integers(0, 4)
updates = st.builds(
    lambda kind, entity: p4r.Update(type=kind, entity=entity),
    st.sampled_from([p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE]),
    st.one_of(
        st.builds(
            e.exact,
            small,
            st.integers(1, 3),
            st.none() | st.tuples(small, small),
            st.sampled_from([b"", b"n"]),
            small,
        ),
        st.builds(e.lpm, small, st.sampled_from([0, 8, 47, 48])),
        st.builds(e.acl, st.integers(1, 3), st.none() | st.just((2, 2)), st.none(), st.none() | small),
        st.builds(e.default, st.just(program.EXACT_T), st.sampled_from([None, program.DROP])),
        st.builds(e.default, st.just(program.CONST_T), st.just(program.NO_ACTION)),
        st.builds(e.counter, st.none() | small, st.none() | small),
        st.builds(e.register, st.just(program.REG32), st.none() | small, st.sampled_from([b"\1", b"\2"])),
        st.builds(e.group, small, st.tuples(small, small)),
        st.builds(e.clone_session, small, st.tuples(small, small)),
        st.builds(lambda n: e.direct_counter(e.exact(n).table_entry, n, n), small),
    ),
)


@given(st.lists(updates, max_size=12), st.lists(updates, max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_batch_is_rolled_back_to_the_last_bit(before: list[p4r.Update], batch: list[p4r.Update]) -> None:
    target = pipeline()
    for update in before:
        try:
            write_batch(target, [update])
        except BatchError as error:
            (only,) = error.errors
            assert only is not None and only.code in EXPECTED
    was = state(target)
    try:
        write_batch(target, batch, p4r.WriteRequest.ROLLBACK_ON_ERROR)
    except BatchError as error:
        assert state(target) == was
        # The same batch without rollback fails at the same element first.
        first = next(n for n, x in enumerate(error.errors) if x is not None and x.code != rpc_code.ABORTED)
        with pytest.raises(BatchError) as again:
            write_batch(target, batch)
        assert [x is None for x in again.value.errors[: first + 1]] == [True] * first + [False]


@given(st.lists(updates, max_size=20))
@settings(max_examples=30, deadline=None)
def test_reconciling_keeps_any_state(batch: list[p4r.Update]) -> None:
    configs = store()
    with contextlib.suppress(BatchError):
        write_batch(configs.require(), batch)
    was = state(configs.require())
    config = program.config(cookie=9)
    config.p4_device_config += b" "
    configs.set(p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT, config)
    device = configs.device
    assert isinstance(device, FakeDevice)
    assert device.loads == 2
    assert state(configs.require()) == was


@given(st.lists(updates, max_size=20))
@settings(max_examples=30, deadline=None)
def test_saving_and_committing_is_as_committing_and_writing(batch: list[p4r.Update]) -> None:
    saved, direct = store(), store()
    saved.set(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_SAVE, program.config(cookie=5))
    results: list[list[Any]] = []
    for configs in (saved, direct):
        try:
            write_batch(configs.require(), batch, log=configs.write_log)
            results.append([])
        except BatchError as error:
            results.append([None if x is None else x.code for x in error.errors])
    assert results[0] == results[1]
    saved.set(p4r.SetForwardingPipelineConfigRequest.COMMIT, None)
    assert state(saved.require()) == state(direct.require())


# --- bytes that happen to be a message


def _seeds() -> list[bytes]:
    entities = [
        e.exact(5, counter=(1, 2), metadata=b"m", cookie=9),
        e.lpm(1, 24),
        e.acl(3, dst=(1, 1), type_=(1, 2), port=3),
        e.scope(1, program.MARK, b"\1", b"\2"),
        e.default(program.EXACT_T, program.DROP),
        e.counter(1, 2, 3),
        e.register(program.REG_SIGNED, 1, b"\xff"),
        e.group(4, (1, 2), (3, 4)),
        e.clone_session(4, (1, 2), length=6),
        e.direct_counter(e.exact(5).table_entry, 1),
    ]
    return [p4r.Update(type=p4r.Update.INSERT, entity=x).SerializeToString() for x in entities]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid update with bytes changed, dropped, doubled or put in."""
    data = bytearray(draw(st.sampled_from(_seeds())))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 3)):
            case 0 if data:
                data[place] = draw(st.integers(0, 255))
            case 1:
                data[place:place] = draw(st.binary(min_size=1, max_size=3))
            case 2:
                del data[place]
            case _:
                data += data[place:]
    return bytes(data)


@given(st.lists(mutated(), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_mutated_updates_are_applied_or_refused(items: list[bytes]) -> None:
    batch = []
    for item in items:
        update = p4r.Update()
        try:
            update.ParseFromString(item)
        except Exception:
            # No message at all: gRPC refuses it before this code.
            continue
        batch.append(update)
    target = pipeline()
    was = state(target)
    try:
        write_batch(target, batch, p4r.WriteRequest.ROLLBACK_ON_ERROR)
    except BatchError as error:
        assert {x.code for x in error.errors if x is not None} <= EXPECTED
        assert all("\n" not in x.message for x in error.errors if x is not None)
        assert state(target) == was
    found, error_ = read_batch(target, [update.entity for update in batch])
    assert error_ is None or {x.code for x in error_.errors if x is not None} <= EXPECTED
    assert isinstance(found, list)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_mutated_p4info_is_accepted_or_refused(data: st.DataObject) -> None:
    raw = bytearray(program.p4info().SerializeToString())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    config = program.config()
    try:
        config.p4info.ParseFromString(bytes(raw))
    except Exception:
        return
    configs = ConfigStore(FakeDevice())
    try:
        configs.set(COMMIT, config)
    except P4Error as error:
        assert error.code in EXPECTED
        assert "\n" not in error.message
        assert configs.current is None
    else:
        # What is accepted can be read whole.
        entities, failure = read_batch(configs.require(), [e.table(0), e.all_counters()])
        assert failure is None or {x.code for x in failure.errors if x is not None} <= EXPECTED
        assert entities or failure


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=4)), max_size=4))
@settings(deadline=None)
def test_any_packet_is_sent_or_refused(payload: bytes, metadata: list[tuple[int, bytes]]) -> None:
    index = parsed().index
    message = p4r.PacketOut(payload=payload)
    for number, value in metadata:
        message.metadata.add(metadata_id=number, value=value)
    try:
        assert encode_packet_out(index.packet_out, message).endswith(payload)
    except P4Error as error:
        assert error.code in EXPECTED
    packet_in = decode_packet_in(index.packet_in, payload)
    assert (packet_in is None) == (len(payload) < 2)


# --- arbitration, against the specification's definition of a primary


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["ask", "leave"]), st.none() | st.integers(0, 4)),
        max_size=40,
    )
)
def test_there_is_at_most_one_primary_and_it_has_the_highest_id(
    steps: list[tuple[int, str, int | None]],
) -> None:
    arbiter = Arbiter(1)
    clients = [ArbiterClient() for _ in range(4)]
    live: dict[int, int | None] = {}
    highest: int | None = None
    for number, action, election_id in steps:
        client = clients[number]
        if action == "leave":
            arbiter.remove(client)
            clients[number] = ArbiterClient()
            live.pop(number, None)
        else:
            message = p4r.MasterArbitrationUpdate(device_id=1)
            if election_id is not None:
                message.election_id.low = election_id
                message.election_id.SetInParent()
            taken = election_id is not None and any(
                other != number and used == election_id for other, used in live.items()
            )
            try:
                outcome = arbiter.update(client, message)
            except P4Error as error:
                assert taken
                assert error.code == rpc_code.INVALID_ARGUMENT
                continue
            assert not taken
            live[number] = election_id
            if election_id is not None:
                highest = election_id if highest is None else max(highest, election_id)
            assert client in (*outcome.inform, outcome.then)
        primaries = [n for n in live if arbiter.is_primary(clients[n])]
        assert primaries == [n for n, used in live.items() if used is not None and used == highest]
        for n in live:
            told = arbiter.notification(clients[n])
            expected = (
                rpc_code.OK
                if n in primaries
                else rpc_code.ALREADY_EXISTS
                if primaries
                else rpc_code.NOT_FOUND
            )
            assert told.status.code == expected
            assert told.HasField("election_id") == (highest is not None)
            assert highest is None or told.election_id.low == highest


# --- over the wire


def test_parallel_writes_all_arrive(primary: Client) -> None:
    def work(number: int) -> None:
        for n in range(40):
            primary.insert(e.lpm(number * 1000 + n, 48))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(primary.read(e.table(program.LPM_T))) == 320


def test_a_cancelled_write_is_applied_whole_or_not_at_all(primary: Client) -> None:
    for attempt in range(10):
        batch = [p4r.Update(type=p4r.Update.INSERT, entity=e.lpm(n, 48)) for n in range(1000)]
        request = p4r.WriteRequest(device_id=1, updates=batch)
        request.election_id.low = 1
        call = primary.stub.Write.future(request)
        threading.Event().wait(0.002 * attempt)
        call.cancel()
        # Writes come one after the other: when this is answered the cancelled one is through.
        primary.modify(e.register(program.REG32, 0, b"\1"))
        count = len(primary.read(e.table(program.LPM_T)))
        assert count in (0, 1000)
        primary.delete(*(e.lpm(n, 48) for n in range(count)))


def test_a_fault_of_the_server_is_internal_and_the_server_lives_on(
    primary: Client, fake: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(fake, "table_insert", broken)
        with pytest.raises(RpcError) as error:
            primary.insert(e.exact(1))
    assert error.value.code == "INTERNAL"
    assert "a bug" not in error.value.message
    primary.insert(e.exact(1))


def test_an_endless_name_does_not_make_an_endless_message(primary: Client) -> None:
    config = program.config()
    config.p4info.tables[0].preamble.name = "x" * 100_000 + "\n"
    # A client that takes 8 kB of status, as clients do unless told otherwise.
    client = Client(primary.address, options=())
    with pytest.raises(RpcError) as error:
        client.set_config(config)
    assert error.value.code == "INVALID_ARGUMENT"
    assert "xxx" in error.value.message
    client.close()


def test_a_p4info_alone_is_no_program() -> None:
    configs = ConfigStore(FakeDevice())
    with pytest.raises(P4Error):
        configs.set(COMMIT, p4r.ForwardingPipelineConfig(p4info=p4i.P4Info()))
    assert configs.current is None
