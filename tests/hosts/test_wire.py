# SPDX-License-Identifier: Apache-2.0
"""The packets in Python, in C and in P4 are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import wire
from hosts.build import CORE
from hosts.config import SCOREBOARD_SPAN_BYTES
from hosts.endpoint import Endpoint, TrafficClass
from tests.hosts.harness import config_for

P4 = Path(__file__).parents[2] / "p4src" / "include"
NAMES = [name for name in vars(wire) if re.fullmatch(r"[A-Z][A-Z0-9_]+", name)]


def p4_constants() -> dict[str, int]:
    text = (P4 / "headers.p4").read_text() + (P4 / "sizes.p4").read_text()
    found = dict(re.findall(r"const bit<\d+> (\w+) = (\w+);", text))
    found |= dict(re.findall(r"#define (\w+) (\d+)\b", text))
    return {name: int(value, 0) for name, value in found.items()}


@pytest.mark.parametrize("name", NAMES)
def test_constant_is_that_of_the_p4_program(name: str) -> None:
    assert getattr(wire, name) == p4_constants()[name]


def test_constants_in_c_are_those_of_the_p4_program() -> None:
    p4 = p4_constants()
    text = (CORE / "wire.h").read_text().split("// Byte offsets")[0]
    constants = {name: int(value, 0) for name, value in re.findall(r"^  (\w+) = (\w+),", text, re.MULTILINE)}
    assert len(constants) > 20
    assert {name: p4.get(name) for name in constants} == constants


def test_scoreboard_span_is_that_of_the_p4_program() -> None:
    p4 = p4_constants()
    # The window is one word less than the ring, and rcv_nxt may be anywhere in its first word.
    assert (p4["RING_WORDS"] - 2) * 64 * p4["BLOCK_BYTES"] == SCOREBOARD_SPAN_BYTES


def header_bytes(name: str) -> int:
    text = (P4 / "headers.p4").read_text()
    body = re.search(rf"header {name} \{{(.*?)\n\}}", text, re.DOTALL)
    assert body
    widths = {"qp_t": 24, "offset_t": 32}
    bits = 0
    for kind in re.findall(r"^\s+(bit<\d+>|\w+_t) \w+;", body[1], re.MULTILINE):
        bits += widths[kind] if kind in widths else int(kind[4:-1])
    assert bits % 8 == 0
    return bits // 8


@pytest.mark.parametrize("name", ["bth", "reth", "aeth", "feedback", "delivery", "cnp_pad"])
def test_header_size_is_that_of_the_p4_header(name: str) -> None:
    assert header_bytes(f"{name}_t") == getattr(wire, f"{name.upper()}_BYTES")


def test_bth_bits_stand_where_the_p4_header_has_them() -> None:
    text = (P4 / "headers.p4").read_text()
    body = re.search(r"header bth_t \{(.*?)\n\}", text, re.DOTALL)
    assert body
    position = {}
    bit = 0
    for kind, name in re.findall(r"^\s+(bit<\d+>|\w+_t) (\w+);", body[1], re.MULTILINE):
        width = 24 if kind == "qp_t" else int(kind[4:-1])
        position[name] = (bit, width)
        bit += width

    def field(encoded: bytes, name: str) -> int:
        at, width = position[name]
        return int.from_bytes(encoded, "big") >> (96 - at - width) & ((1 << width) - 1)

    fields = ("solicited", "fecn", "becn", "exemption_eligible", "budget_exhausted")
    for chosen in fields:
        encoded = wire.Bth(0x11, 0xABCDEF, 0x123456, **{chosen: True}).encode()
        assert [field(encoded, name) for name in fields] == [int(name == chosen) for name in fields]
        assert field(encoded, "opcode") == 0x11
        assert field(encoded, "dest_qp") == 0xABCDEF
        assert field(encoded, "psn") == 0x123456


QPS = st.integers(0, 0xFFFFFF)
U32 = st.integers(0, 0xFFFFFFFF)
BTHS = st.builds(
    wire.Bth,
    st.just(0x0A),
    QPS,
    QPS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
DATA = st.builds(wire.Data, BTHS, U32, QPS, U32, st.none() | st.binary(min_size=1, max_size=64))


@settings(deadline=None)
@given(DATA, st.integers(1, 2), U32)
def test_data_and_delivery_decode_to_what_was_encoded(data: wire.Data, event: int, accept: int) -> None:
    assert wire.decode(data.encode(), from_nic=False) == data
    delivery = wire.Delivery(data, event, accept)
    assert wire.decode(delivery.encode(), from_nic=True) == delivery


@settings(deadline=None)
@given(QPS, QPS, st.booleans(), st.booleans(), U32, U32, U32)
def test_feedback_decodes_to_what_was_encoded(
    qp: int, psn: int, becn: bool, nak: bool, rcv_nxt: int, start: int, length: int
) -> None:
    feedback = wire.Feedback(
        wire.Bth(wire.OPCODE_ACKNOWLEDGE, qp, psn, becn=becn), nak, rcv_nxt, start, length
    )
    assert wire.decode(feedback.encode(), from_nic=True) == feedback


def test_notification_decodes_to_what_was_encoded() -> None:
    notification = wire.Notification(wire.Bth(wire.OPCODE_CNP, 5, 0, becn=True))
    assert wire.decode(notification.encode(), from_nic=False) == notification


@settings(deadline=None)
@given(st.integers(0, 7), st.integers(0, 2047), st.integers(0, 1023))
def test_queue_pair_number_round_trips(step: int, owner: int, slot: int) -> None:
    pair = wire.QueuePair(step, owner, slot)
    assert wire.QueuePair.from_number(pair.number) == pair
    assert pair.number < 1 << 24


@pytest.mark.parametrize("size", range(28))
def test_short_packet_is_refused_with_its_size(size: int) -> None:
    packet = wire.Data(wire.Bth(wire.OPCODE_WRITE_ONLY, 1, 2), 0, 3, 512).encode()[:size]
    with pytest.raises(wire.WireError, match=f"^{size} bytes: shorter than"):
        wire.decode(packet, from_nic=False)


@settings(deadline=None)
@given(
    st.integers(1, 5000) | st.sampled_from([1024, 1025, 1536, 2047, 2049]),
    st.booleans(),
    st.binary(min_size=6, max_size=6),
)
def test_the_transport_writes_the_frames_that_python_writes(length: int, gradient: bool, mac: bytes) -> None:
    """Every header of every packet, checksums included."""
    config = config_for(0, payload_bytes=1024, gradient_dscp=8, data_dscp=10, ttl=33, mac=0x020000000001)
    payload = bytes(i * 7 & 0xFF for i in range(length))
    with Endpoint(config) as endpoint:
        qp = endpoint.alloc_send_qp()
        endpoint.post_send(
            0,
            destination="10.1.2.3",
            dst_qp=0xABCDEF,
            src_qp=qp,
            data=payload,
            traffic_class=TrafficClass.GRADIENT if gradient else TrafficClass.DATA,
            dst_mac=int.from_bytes(mac, "big"),
        )
        offset = psn = now = 0
        while offset < length:
            packet = endpoint.poll(now)
            if packet is None:
                wake = endpoint.next_wake()
                assert wake is not None and wake > now
                now = wake
                continue
            size = min(1024, length - offset)
            bth = wire.Bth(wire.OPCODE_WRITE_ONLY, 0xABCDEF, psn, solicited=offset + size == length)
            data = wire.Data(bth, offset, qp, size, payload[offset : offset + size])
            expected = wire.frame(
                data.encode(),
                src_addr=0x0A000001,
                dst_addr=0x0A010203,
                dscp=8 if gradient else 10,
                src_mac=0x020000000001,
                dst_mac=int.from_bytes(mac, "big"),
                ttl=33,
            )
            assert packet.frame_header + (packet.payload or b"") == expected
            assert wire.ipv4_checksum(expected[14:34]) == 0
            offset += size
            psn += 1
