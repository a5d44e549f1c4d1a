# SPDX-License-Identifier: Apache-2.0
"""`p4_device_config` for BMv2: the JSON itself, or the JSON in the wrapper that older clients still send.

The wrapper is the protobuf message `p4.tmp.P4DeviceConfig { bool reassign = 1; Extras extras = 2; bytes
device_data = 3; }`. It is deprecated and in nobody's stubs, so its three fields are read here by hand.
"""

from __future__ import annotations

from target.p4runtime.status import invalid_argument

_DEVICE_DATA = 3


def unwrap(device_config: bytes) -> str:
    """The BMv2 JSON as text. Raises INVALID_ARGUMENT if it is neither form or not UTF-8."""
    data = device_config
    if data.lstrip()[:1] != b"{":
        data = _device_data(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid_argument(f"p4_device_config: not UTF-8 at byte {error.start}") from None


def _device_data(data: bytes) -> bytes:
    found: bytes | None = None
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            _, position = _varint(data, position)
        elif wire_type == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise _not_json()
            if field == _DEVICE_DATA:
                found = data[position : position + length]
            position += length
        else:
            raise _not_json()
    if not found:
        raise _not_json()
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise _not_json()


def _not_json() -> Exception:
    return invalid_argument("p4_device_config is no BMv2 JSON: it must be the text of a JSON object")
