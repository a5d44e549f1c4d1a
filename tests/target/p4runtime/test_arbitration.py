# SPDX-License-Identifier: Apache-2.0
"""Client arbitration: primary, backup, roles, and what ends a stream."""

from __future__ import annotations

import threading

import pytest
from finsy.proto import p4r, stratum

from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, RpcError, Stream
from tests.target.p4runtime.fake import FakeDevice


def _ends(stream: Stream) -> str:
    with pytest.raises(RpcError) as error:
        stream.receive()
    return error.value.code


def test_the_first_client_becomes_primary(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(5)
    message = stream.receive().arbitration
    assert message.device_id == 1
    assert not message.HasField("role")
    assert message.election_id == p4r.Uint128(low=5)
    assert message.status.code == 0


def test_a_lower_election_id_is_backup_and_only_it_is_told(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(10)
    assert first.status() == ("OK", 10)
    second.arbitrate(9)
    assert second.status() == ("ALREADY_EXISTS", 10)
    # Had the primary been told of the backup, this answer would be its second message.
    first.arbitrate(11)
    assert first.status() == ("OK", 11)
    assert second.status() == ("ALREADY_EXISTS", 11)


def test_a_higher_election_id_takes_over(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(10)
    assert first.status() == ("OK", 10)
    client.election_id = 10
    client.set_config(program.config())
    second.arbitrate(11)
    assert first.status() == ("ALREADY_EXISTS", 11)
    assert second.status() == ("OK", 11)
    with pytest.raises(RpcError) as error:
        client.insert(e.exact(1))
    assert error.value.code == "PERMISSION_DENIED"
    client.election_id = 11
    client.insert(e.exact(1))


def test_election_ids_have_128_bits(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(2**64)
    assert first.status() == ("OK", 2**64)
    second.arbitrate(2**64 - 1)
    assert second.status() == ("ALREADY_EXISTS", 2**64)
    second.arbitrate(2**128 - 1)
    assert first.status() == ("ALREADY_EXISTS", 2**128 - 1)
    assert second.status() == ("OK", 2**128 - 1)


def test_zero_is_an_election_id(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(0)
    assert stream.status() == ("OK", 0)
    client.election_id = 0
    client.set_config(program.config())


def test_an_unset_election_id_never_becomes_primary(client: Client) -> None:
    standby, other = client.stream(), client.stream()
    standby.arbitrate(None)
    assert standby.status() == ("NOT_FOUND", None)
    # Any number of clients may have none.
    other.arbitrate(None)
    assert other.status() == ("NOT_FOUND", None)
    client.election_id = None
    with pytest.raises(RpcError) as error:
        client.set_config(program.config())
    assert error.value.code == "PERMISSION_DENIED"
    other.arbitrate(3)
    assert standby.status() == ("ALREADY_EXISTS", 3)
    assert other.status() == ("OK", 3)


def test_a_used_election_id_ends_the_stream(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(10)
    assert first.status() == ("OK", 10)
    second.arbitrate(10)
    with pytest.raises(RpcError) as error:
        second.receive()
    assert error.value.code == "INVALID_ARGUMENT"
    assert "Election id already exists" in error.value.message
    third = client.stream()
    third.arbitrate(9)
    assert third.status() == ("ALREADY_EXISTS", 10)
    third.arbitrate(10)
    assert _ends(third) == "INVALID_ARGUMENT"


def test_when_the_primary_leaves_there_is_none_until_somebody_asks(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(10)
    assert first.status() == ("OK", 10)
    second.arbitrate(9)
    assert second.status() == ("ALREADY_EXISTS", 10)
    first.close()
    assert second.status() == ("NOT_FOUND", 10)
    # The highest id ever seen stays: 9 is not enough, 10 is.
    second.arbitrate(9)
    assert second.status() == ("NOT_FOUND", 10)
    client.election_id = 9
    with pytest.raises(RpcError) as error:
        client.set_config(program.config())
    assert error.value.code == "PERMISSION_DENIED"
    second.arbitrate(10)
    assert second.status() == ("OK", 10)


def test_a_primary_may_step_down(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(10)
    assert first.status() == ("OK", 10)
    second.arbitrate(9)
    assert second.status() == ("ALREADY_EXISTS", 10)
    first.arbitrate(8)
    assert first.status() == ("NOT_FOUND", 10)
    assert second.status() == ("NOT_FOUND", 10)
    second.arbitrate(12)
    assert first.status() == ("ALREADY_EXISTS", 12)
    assert second.status() == ("OK", 12)


def test_a_primary_may_ask_again(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(10)
    assert stream.status() == ("OK", 10)
    stream.arbitrate(10)
    assert stream.status() == ("OK", 10)


def test_an_unknown_device_ends_the_stream(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(1, device_id=77)
    assert _ends(stream) == "NOT_FOUND"


def test_device_and_role_of_a_stream_are_fixed(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(1)
    assert stream.status() == ("OK", 1)
    stream.arbitrate(1, device_id=77)
    assert _ends(stream) == "FAILED_PRECONDITION"
    other = client.stream()
    other.arbitrate(2)
    assert other.status() == ("OK", 2)
    other.arbitrate(2, role="routing")
    assert _ends(other) == "FAILED_PRECONDITION"


def test_there_is_a_limit_of_streams(client: Client) -> None:
    streams = [client.stream() for _ in range(17)]
    for number, stream in enumerate(streams[:16]):
        stream.arbitrate(100 - number)
        stream.receive()
    streams[16].arbitrate(1)
    assert _ends(streams[16]) == "RESOURCE_EXHAUSTED"
    streams[3].close()
    late = client.stream()
    for _ in range(100):
        late.arbitrate(1)
        try:
            assert late.status() == ("ALREADY_EXISTS", 100)
            break
        except RpcError as error:
            # The server has not noticed the closed stream yet.
            assert error.code == "RESOURCE_EXHAUSTED"
            late = client.stream()
    else:
        pytest.fail("a closed stream still counts")


# --- roles


def test_roles_are_arbitrated_apart(client: Client) -> None:
    default, routing = client.stream(), client.stream()
    default.arbitrate(10)
    assert default.status() == ("OK", 10)
    routing.arbitrate(10, role="routing")
    message = routing.receive().arbitration
    assert (message.role.name, message.status.code, message.election_id.low) == ("routing", 0, 10)
    client.election_id, client.role = 10, "routing"
    client.set_config(program.config())
    client.insert(e.exact(1))


def test_an_unknown_role_is_not_found(primary: Client) -> None:
    primary.role = "nobody"
    for call in (
        lambda: primary.insert(e.exact(1)),
        lambda: primary.set_config(program.config()),
        lambda: primary.read(e.table(0)),
    ):
        with pytest.raises(RpcError) as error:
            call()
        assert error.value.code == "NOT_FOUND"


def test_a_role_config_is_remembered_and_limits_the_role(primary: Client, address: str) -> None:
    primary.insert(e.exact(1), e.lpm(1, 48))
    config = stratum.P4RoleConfig(exclusive_p4_ids=[program.LPM_T], shared_p4_ids=[program.COUNTER])
    routing = Client(address)
    stream = routing.stream()
    stream.arbitrate(3, role="routing", config=config)
    message = stream.receive().arbitration
    sent = stratum.P4RoleConfig()
    assert message.role.config.Unpack(sent) and sent == config
    # A backup is told the primary's config, not its own.
    backup = routing.stream()
    backup.arbitrate(2, role="routing")
    message = backup.receive().arbitration
    assert message.role.config.Unpack(sent) and sent == config

    routing.election_id, routing.role = 3, "routing"
    routing.insert(e.lpm(2, 48))
    routing.modify(e.counter(0, 1, 1))
    with pytest.raises(RpcError) as error:
        routing.insert(e.exact(2), e.group(1, (1, 1)))
    assert error.value.codes == ["PERMISSION_DENIED", "PERMISSION_DENIED"]
    assert "MyIngress.exact_t" in error.value.messages[0]
    with pytest.raises(RpcError) as error:
        routing.set_config(program.config())
    assert error.value.code == "PERMISSION_DENIED"
    # A read shows what belongs to the role.
    tables = {entity.table_entry.table_id for entity in routing.read(e.table(0))}
    assert tables == {program.LPM_T}
    routing.close()


def test_roles_may_not_share_what_is_exclusive(client: Client) -> None:
    first, second = client.stream(), client.stream()
    first.arbitrate(1, role="a", config=stratum.P4RoleConfig(exclusive_p4_ids=[program.LPM_T]))
    assert first.status() == ("OK", 1)
    second.arbitrate(1, role="b", config=stratum.P4RoleConfig(shared_p4_ids=[program.LPM_T]))
    assert _ends(second) == "INVALID_ARGUMENT"


def test_a_role_config_of_another_scheme_is_refused(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(1, role="a", config=p4r.CounterData(byte_count=1))
    assert _ends(stream) == "INVALID_ARGUMENT"


def test_a_refused_message_changes_nothing(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(5)
    assert stream.status() == ("OK", 5)
    other = client.stream()
    other.arbitrate(9, config=p4r.CounterData(byte_count=1), role="")
    assert _ends(other) == "INVALID_ARGUMENT"
    stream.arbitrate(6)
    assert stream.status() == ("OK", 6)


# --- writes under way while the primary changes


def test_a_new_primary_waits_for_what_the_former_one_started(
    primary: Client, fake: FakeDevice, address: str
) -> None:
    fake.block = threading.Event()
    slow = threading.Thread(target=primary.set_config, args=(program.config(cookie=7),))
    slow.start()
    assert fake.blocked.wait(10)
    successor = Client(address)
    stream = successor.stream()
    stream.arbitrate(2)
    # The former primary is told at once ...
    assert primary.streams[0].status() == ("ALREADY_EXISTS", 2)
    # ... and may start nothing more, while the config that it sent is still being set.
    with pytest.raises(RpcError) as error:
        primary.insert(e.exact(1))
    assert error.value.code == "PERMISSION_DENIED"
    assert slow.is_alive()
    fake.block.set()
    assert stream.status() == ("OK", 2)
    slow.join()
    assert successor.get_config("COOKIE_ONLY").config.cookie.cookie == 7
    successor.close()
