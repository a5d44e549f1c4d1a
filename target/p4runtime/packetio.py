# SPDX-License-Identifier: Apache-2.0
"""Packet I/O: controller metadata as the bit-packed header in front of the packet.

The header's fields follow each other without gaps, most significant bit first, padded with zero bits to whole
bytes at the end, as BMv2 has it (P4Runtime specification 1.5, "Packet I/O").
"""

from __future__ import annotations

from finsy.proto import p4r

from target.p4runtime import bytestrings
from target.p4runtime.match import decode_value
from target.p4runtime.p4info import ControllerHeader
from target.p4runtime.status import invalid_argument


def encode_packet_out(header: ControllerHeader | None, message: p4r.PacketOut) -> bytes:
    """The bytes that enter the pipeline on the CPU port.

    Raises INVALID_ARGUMENT unless there is exactly one metadata value for each field of the header, and
    OUT_OF_RANGE for a value that is too wide.
    """
    if header is None:
        if message.metadata:
            raise invalid_argument("packet-out has metadata, but P4Info has no 'packet_out' header")
        return message.payload
    given: dict[int, bytes] = {}
    for item in message.metadata:
        if item.metadata_id in given:
            raise invalid_argument(f"packet-out: metadata {item.metadata_id} is given twice")
        given[item.metadata_id] = item.value
    packed = 0
    for field in header.fields:
        what = f"packet-out, metadata {field.name!r}"
        data = given.pop(field.id, None)
        if data is None:
            raise invalid_argument(f"{what} (id {field.id}) is missing")
        packed = (packed << field.bitwidth) | decode_value(field, data, what)
    if given:
        unknown = ", ".join(str(i) for i in sorted(given))
        raise invalid_argument(f"packet-out: the header has no metadata with id {unknown}")
    length = (header.bitwidth + 7) // 8
    return (packed << (length * 8 - header.bitwidth)).to_bytes(length, "big") + message.payload


def decode_packet_in(header: ControllerHeader | None, packet: bytes) -> p4r.PacketIn | None:
    """The message for a packet that left on the CPU port; None if it is shorter than its header."""
    if header is None:
        return p4r.PacketIn(payload=packet)
    length = (header.bitwidth + 7) // 8
    if len(packet) < length:
        return None
    packed = int.from_bytes(packet[:length], "big")
    shift = length * 8
    message = p4r.PacketIn(payload=packet[length:])
    for field in header.fields:
        shift -= field.bitwidth
        value = (packed >> shift) & ((1 << field.bitwidth) - 1)
        message.metadata.add(metadata_id=field.id, value=bytestrings.encode(value))
    return message
