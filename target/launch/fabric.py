# SPDX-License-Identifier: Apache-2.0
"""The fabric file: every device of one process, as JSON.

    [
      {
        "name": "s1",                    required, unique
        "device_id": 1,                  required
        "grpc_addr": "127.0.0.1:9559",   required; devices with the same address share a server
        "cpu_port": 255,                 optional, none by default
        "drop_port": 511,                optional
        "priority_queues": 3,            optional, 1 by default
        "ports": [
          {
            "port": 1,                   required
            "interface": "s1-eth1",      required, unique
            "rate_bps": 100000000,       optional, bits per second on the wire; 0: not limited (default)
            "queue_bytes": [65536, 8192, 8192],
                                         optional, capacity of each priority queue in bytes, index = priority;
                                         or one number for all of them; 1048576 by default
            "delay_ns": 0,               optional, added to every packet that leaves, in nanoseconds
            "share_ppm": [750000, 250000, 0]
                                         optional, of each priority: the part of the rate, in millionths,
                                         that it gets at least while others with a share wait; 0: strict
          }
        ]
      }
    ]

Anything else is refused, naming the place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from target.launch.settings import (
    DEFAULT_DROP_PORT,
    DeviceSettings,
    PortSettings,
    SettingsError,
    check_devices,
)

_DEVICE_KEYS = ("name", "device_id", "grpc_addr", "cpu_port", "drop_port", "priority_queues", "ports")
_PORT_KEYS = ("port", "interface", "rate_bps", "queue_bytes", "delay_ns", "share_ppm")


def load_fabric(path: Path) -> list[DeviceSettings]:
    """Read and check a fabric file. Raises SettingsError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"{path}: can't read the fabric file: {reason}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not a JSON text: {error}") from None
    try:
        devices = parse_fabric(value)
        check_devices(devices)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    return devices


def parse_fabric(value: Any) -> list[DeviceSettings]:
    """The devices of a fabric file's content. Raises SettingsError."""
    if not isinstance(value, list):
        raise SettingsError(f"expected an array of devices, got {_kind(value)}")
    if not value:
        raise SettingsError("there is no device in the array")
    return [_device(item, f"[{number}]") for number, item in enumerate(value)]


def _device(value: Any, where: str) -> DeviceSettings:
    _keys(value, where, _DEVICE_KEYS, required=("name", "device_id", "grpc_addr"))
    name = _text(value["name"], f"{where}.name")
    where = f"{where} {name!r}"
    queues = _integer(value.get("priority_queues", 1), f"{where}.priority_queues", low=1)
    cpu_port = value.get("cpu_port")
    ports = value.get("ports", [])
    if not isinstance(ports, list):
        raise SettingsError(f"{where}.ports: expected an array, got {_kind(ports)}")
    return DeviceSettings(
        name=name,
        device_id=_integer(value["device_id"], f"{where}.device_id"),
        grpc_addr=_text(value["grpc_addr"], f"{where}.grpc_addr"),
        cpu_port=None if cpu_port is None else _integer(cpu_port, f"{where}.cpu_port"),
        drop_port=_integer(value.get("drop_port", DEFAULT_DROP_PORT), f"{where}.drop_port"),
        priority_queues=queues,
        ports=tuple(_port(item, f"{where}.ports[{n}]", queues) for n, item in enumerate(ports)),
    )


def _port(value: Any, where: str, queues: int) -> PortSettings:
    _keys(value, where, _PORT_KEYS, required=("port", "interface"))
    capacity = value.get("queue_bytes", [])
    if isinstance(capacity, list):
        capacities = tuple(
            _integer(item, f"{where}.queue_bytes[{n}]", low=1) for n, item in enumerate(capacity)
        )
    else:
        capacities = (_integer(capacity, f"{where}.queue_bytes", low=1),) * queues
    shares = value.get("share_ppm", [])
    if not isinstance(shares, list):
        raise SettingsError(f"{where}.share_ppm: expected an array, got {_kind(shares)}")
    return PortSettings(
        port=_integer(value["port"], f"{where}.port"),
        interface=_text(value["interface"], f"{where}.interface"),
        rate_bps=_integer(value.get("rate_bps", 0), f"{where}.rate_bps"),
        queue_bytes=capacities,
        delay_ns=_integer(value.get("delay_ns", 0), f"{where}.delay_ns"),
        share_ppm=tuple(_integer(item, f"{where}.share_ppm[{n}]") for n, item in enumerate(shares)),
    )


def _keys(value: Any, where: str, known: tuple[str, ...], required: tuple[str, ...]) -> None:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: expected an object, got {_kind(value)}")
    for key in required:
        if key not in value:
            raise SettingsError(f"{where}: {key!r} is missing")
    for key in value:
        if key not in known:
            raise SettingsError(f"{where}: {key!r} is unknown; known are {', '.join(known)}")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{where}: expected a text, got {_kind(value)}")
    return value


def _integer(value: Any, where: str, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{where}: expected an integer, got {_kind(value)}")
    if value < low:
        raise SettingsError(f"{where}: {value} is below {low}")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = {dict: "an object", list: "an array", str: "a text", float: "a number with a fraction"}
    return kinds.get(type(value), "a number")
