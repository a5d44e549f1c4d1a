# SPDX-License-Identifier: Apache-2.0
"""A device without packets: state as the engine keeps it, packet-out recorded, packet-in made by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable

from target.api import DeviceError, TableEntry
from target.bmjson import Program, load
from target.p4runtime.shadow import ShadowDevice


class FakeDevice(ShadowDevice):
    """`refuse` makes the next loads fail, `fail_inserts` the next inserts into a table of that name."""

    def __init__(self, device_id: int = 1, cpu_port: int | None = 255) -> None:
        super().__init__(Program(), f"device{device_id}", device_id, cpu_port)
        self.loads = 0
        self.refuse: DeviceError | None = None
        self.fail_inserts: str | None = None
        self.sent: list[bytes] = []
        self.block: threading.Event | None = None
        self.blocked = threading.Event()
        self._handler: Callable[[bytes], None] | None = None

    def load_pipeline(self, bmv2_json: str) -> None:
        self.verify_pipeline(bmv2_json)
        self.reset(load(bmv2_json))

    def reset(self, program: Program) -> None:
        self._reset(program)
        self.loads += 1

    def verify_pipeline(self, bmv2_json: str) -> None:
        if self.block is not None:
            self.blocked.set()
            self.block.wait(10)
        load(bmv2_json)
        if self.refuse is not None:
            raise self.refuse

    def has_pipeline(self) -> bool:
        return self.loads > 0

    def table_insert(self, table: str, entry: TableEntry) -> None:
        if table == self.fail_inserts:
            raise DeviceError("RESOURCE_EXHAUSTED", "no memory")
        super().table_insert(table, entry)

    def packet_out(self, packet: bytes) -> None:
        self.sent.append(packet)

    def set_packet_in(self, handler: Callable[[bytes], None] | None) -> None:
        self._handler = handler

    def emit(self, packet: bytes) -> None:
        """A packet leaves on the CPU port."""
        assert self._handler is not None
        self._handler(packet)
