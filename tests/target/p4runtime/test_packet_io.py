# SPDX-License-Identifier: Apache-2.0
"""Packet-out and packet-in with controller metadata."""

from __future__ import annotations

import pytest
from finsy.proto import p4r, stratum
from hypothesis import given
from hypothesis import strategies as st

from target.p4runtime.p4info import ControllerHeader, Value
from target.p4runtime.packetio import decode_packet_in, encode_packet_out
from tests.target.p4runtime import entities as e
from tests.target.p4runtime import program
from tests.target.p4runtime.client import Client, Stream
from tests.target.p4runtime.fake import FakeDevice

PAYLOAD = bytes(range(64))


def packet_out(*metadata: tuple[int, bytes], payload: bytes = PAYLOAD) -> p4r.StreamMessageRequest:
    request = p4r.StreamMessageRequest()
    request.packet.payload = payload
    for number, value in metadata:
        request.packet.metadata.add(metadata_id=number, value=value)
    return request


def _error(stream: Stream) -> tuple[int, p4r.StreamError]:
    message = stream.receive()
    assert message.HasField("error"), message
    return message.error.canonical_code, message.error


def _sync(client: Client) -> None:
    """Messages of a stream come in order: what was sent before is done when this is answered."""
    client.streams[0].arbitrate(1)
    assert client.streams[0].status() == ("OK", 1)


def test_metadata_goes_in_front_bit_by_bit(primary: Client, fake: FakeDevice) -> None:
    stream = primary.streams[0]
    stream.send(packet_out((1, b"\x01\x55"), (2, b"\x2a")))
    stream.send(packet_out((2, b"\x00\x00\x00"), (1, b"\x00\x03"), payload=b""))
    _sync(primary)
    assert fake.sent == [bytes([0b10101010, 0b1_0101010]) + PAYLOAD, bytes([1, 0x80])]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (((1, b"\x02\x00"), (2, b"\x00")), 11),
        (((1, b""), (2, b"\x00")), 11),
        (((1, b"\x01"),), 3),
        (((1, b"\x01"), (2, b"\x00"), (3, b"\x00")), 3),
        (((1, b"\x01"), (1, b"\x01"), (2, b"\x00")), 3),
    ],
)
def test_wrong_metadata_is_answered_by_a_stream_error(
    primary: Client, fake: FakeDevice, metadata: tuple[tuple[int, bytes], ...], code: int
) -> None:
    request = packet_out(*metadata)
    primary.streams[0].send(request)
    got, error = _error(primary.streams[0])
    assert got == code
    assert error.packet_out.packet_out == request.packet
    assert error.message
    # The stream lives on.
    primary.streams[0].send(packet_out((1, b"\x01"), (2, b"\x00")))
    _sync(primary)
    assert len(fake.sent) == 1


def test_only_the_primary_may_send(primary: Client, fake: FakeDevice) -> None:
    backup = primary.stream()
    backup.arbitrate(0)
    assert backup.status() == ("ALREADY_EXISTS", 1)
    backup.send(packet_out((1, b"\x01"), (2, b"\x00")))
    assert _error(backup)[0] == 7
    assert fake.sent == []


def test_without_a_pipeline_there_is_nowhere_to_send(client: Client, fake: FakeDevice) -> None:
    stream = client.primary()
    stream.send(packet_out())
    assert _error(stream)[0] == 9


def test_a_digest_that_the_program_lacks_is_not_acknowledged(primary: Client) -> None:
    stream = primary.streams[0]
    stream.send(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=5)))
    code, error = _error(stream)
    assert (code, error.digest_list_ack.digest_list_ack.digest_id) == (3, 5)


def test_messages_that_are_not_supported_are_answered(primary: Client) -> None:
    stream = primary.streams[0]
    request = p4r.StreamMessageRequest()
    request.other.Pack(p4r.CounterData(byte_count=1))
    stream.send(request)
    code, error = _error(stream)
    assert (code, error.WhichOneof("details")) == (12, "other")
    stream.send(p4r.StreamMessageRequest())
    assert _error(stream)[1].WhichOneof("details") == "other"


def test_packets_come_in_with_their_metadata(primary: Client, fake: FakeDevice) -> None:
    fake.emit(bytes([0b10101010, 0b1_011_0001]) + PAYLOAD)
    message = primary.streams[0].receive().packet
    assert message.payload == PAYLOAD
    assert [(m.metadata_id, m.value) for m in message.metadata] == [
        (1, b"\x01\x55"),
        (2, b"\x03"),
        (3, b"\x01"),
    ]


def test_packets_come_in_order_to_the_primary_only(primary: Client, fake: FakeDevice) -> None:
    backup = primary.stream()
    backup.arbitrate(0)
    assert backup.status() == ("ALREADY_EXISTS", 1)
    for number in range(200):
        fake.emit(bytes(2) + bytes([number]))
    fake.emit(b"\x00")
    fake.emit(bytes(2) + b"last")
    payloads = [primary.streams[0].receive().packet.payload for _ in range(201)]
    assert payloads == [bytes([n]) for n in range(200)] + [b"last"]
    backup.arbitrate(2)
    assert backup.status() == ("OK", 2)
    fake.emit(bytes(2) + b"mine")
    assert backup.receive().packet.payload == b"mine"


def test_a_role_gets_the_packets_that_its_filter_names(primary: Client, fake: FakeDevice) -> None:
    def role(name: str, config: stratum.P4RoleConfig) -> Stream:
        stream = primary.stream()
        stream.arbitrate(1, role=name, config=config)
        assert stream.status() == ("OK", 1)
        return stream

    deaf = role("deaf", stratum.P4RoleConfig(shared_p4_ids=[program.LPM_T]))
    picky = stratum.P4RoleConfig(receives_packet_ins=True)
    picky.packet_in_filter.metadata_id = 1
    picky.packet_in_filter.value = b"\x03"
    filtered = role("filtered", picky)
    fake.emit(bytes([0x02, 0x00]) + b"port 4")
    fake.emit(bytes([0x01, 0x80]) + b"port 3")
    assert primary.streams[0].receive().packet.payload == b"port 4"
    assert primary.streams[0].receive().packet.payload == b"port 3"
    assert filtered.receive().packet.payload == b"port 3"
    deaf.arbitrate(1, role="deaf", config=stratum.P4RoleConfig(shared_p4_ids=[program.LPM_T]))
    assert deaf.status() == ("OK", 1)


def test_a_slow_client_loses_packets_but_no_arbitration(primary: Client, fake: FakeDevice) -> None:
    # The client does not read: flow control stops the server, its queue fills, and the rest is dropped.
    total = 40_000
    for number in range(total):
        fake.emit(bytes(2) + number.to_bytes(4, "big") + bytes(1000))
    primary.streams[0].arbitrate(2)
    numbers = []
    while True:
        message = primary.streams[0].receive()
        if message.HasField("arbitration"):
            break
        numbers.append(int.from_bytes(message.packet.payload[:4], "big"))
    assert message.arbitration.election_id.low == 2
    assert numbers == sorted(numbers)
    assert len(numbers) < total


def test_without_controller_headers_packets_are_bare(client: Client, fake: FakeDevice) -> None:
    stream = client.primary()
    config = program.config()
    del config.p4info.controller_packet_metadata[:]
    client.set_config(config)
    stream.send(packet_out())
    stream.send(packet_out((1, b"\x01")))
    assert _error(stream)[0] == 3
    assert fake.sent == [PAYLOAD]
    fake.emit(b"x")
    assert stream.receive().packet == p4r.PacketIn(payload=b"x")


def test_packets_of_a_saved_pipeline_wait_for_its_commit(primary: Client, fake: FakeDevice) -> None:
    # The device still runs the committed pipeline, so packets have its headers.
    config = program.config()
    del config.p4info.controller_packet_metadata[:]
    primary.set_config(config, "VERIFY_AND_SAVE")
    fake.emit(bytes([0x01, 0x80]) + b"p")
    assert len(primary.streams[0].receive().packet.metadata) == 3
    primary.set_config(None, "COMMIT")
    fake.emit(b"pp")
    assert primary.streams[0].receive().packet == p4r.PacketIn(payload=b"pp")
    assert primary.read(e.table(program.EXACT_T)) == []


@given(
    st.lists(
        st.integers(1, 70).flatmap(lambda w: st.tuples(st.just(w), st.integers(0, 2**w - 1))), max_size=8
    ),
    st.binary(max_size=40),
)
def test_headers_are_packed_without_gaps(fields: list[tuple[int, int]], payload: bytes) -> None:
    header = ControllerHeader(
        1, "packet_out", tuple(Value(n, f"f{n}", w) for n, (w, _) in enumerate(fields, 1))
    )
    message = p4r.PacketOut(payload=payload)
    for number, (_, value) in reversed(list(enumerate(fields, 1))):
        message.metadata.add(metadata_id=number, value=e.raw(value))
    packet = encode_packet_out(header, message)
    bits = "".join(f"{value:0{width}b}" for width, value in fields)
    bits += "0" * (-len(bits) % 8)
    assert packet == bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)) + payload
    back = decode_packet_in(header, packet)
    assert back is not None
    assert back.payload == payload
    assert [int.from_bytes(m.value, "big") for m in back.metadata] == [value for _, value in fields]
