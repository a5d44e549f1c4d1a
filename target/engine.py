# SPDX-License-Identifier: Apache-2.0
"""Engines and devices: the Python side of the native runtime.

    engine = Engine()
    device = engine.add_device("s1", device_id=1, cpu_port=510)
    device.add_port(1, "s1-eth1")
    device.load_pipeline(Path("switch.json").read_text())
    engine.start()

Without `start`, ports without an interface and `run_until` give a device whose clock the caller moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from target import native
from target.api import DeviceError, Notice
from target.device import FRAME_LIMIT, Device
from target.notices import NoticeReader
from target.pipeline import Pipeline, check

__all__ = ["DROP_PORT", "Device", "Engine"]

DROP_PORT = 511


class Engine:
    """One packet loop and the devices that it runs. `start` gives it a thread and the wall clock."""

    def __init__(self) -> None:
        self.ffi, self.lib = native.load()
        self._open: Any = self.lib.sw_engine_create()
        if self._open == self.ffi.NULL:
            raise MemoryError("no memory for an engine")
        self.devices: list[Device] = []
        self._by_handle: dict[int, Device] = {}
        self._thread: threading.Thread | None = None
        self._reader: threading.Thread | None = None
        self._notice_reader: threading.Thread | None = None
        self._closing = False

    @property
    def _handle(self) -> Any:
        if self._open is None:
            raise DeviceError("FAILED_PRECONDITION", "the engine is closed")
        return self._open

    def add_device(
        self,
        name: str,
        device_id: int,
        cpu_port: int | None = None,
        drop_port: int = DROP_PORT,
        priority_queues: int = 1,
        seed: int = 0,
        buffer_bytes: int = 0,
    ) -> Device:
        """A device without ports and pipeline. `seed`: of the random() extern."""
        return Device(self, name, device_id, cpu_port, drop_port, priority_queues, seed, buffer_bytes)

    def start(self) -> None:
        """Run the packet loop on its own thread, by the wall clock."""
        if self._thread is not None:
            raise DeviceError("FAILED_PRECONDITION", "the engine is running already")
        check(self, self.lib.sw_engine_prepare(self._handle), "the packet loop can't start")
        self._thread = threading.Thread(target=self._run, name="packet-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.lib.sw_engine_run(self._handle)

    def stop(self) -> None:
        """End the packet loop, if it runs. The engine can be started again."""
        if self._thread is not None:
            self.lib.sw_engine_stop(self._handle)
            self._thread.join()
            self._thread = None

    def run_until(self, now_ns: int) -> None:
        """Manual clock: process all that is due until `now_ns`, in order of time."""
        if not 0 <= now_ns < 2**64 - 1:
            raise DeviceError("INVALID_ARGUMENT", f"time {now_ns}: expected 0..2^64-2 ns")
        check(self, self.lib.sw_engine_advance(self._handle, now_ns), "the clock can only move forward")

    def run_until_attention(self, until_ns: int) -> bool:
        """Like `run_until`, but stops after the first event for which an endpoint or an observer asks to.

        True: stopped; `now_ns` is the time of that event. False: `until_ns` was reached.
        """
        if not 0 <= until_ns < 2**64 - 1:
            raise DeviceError("INVALID_ARGUMENT", f"time {until_ns}: expected 0..2^64-2 ns")
        status = int(self.lib.sw_engine_run_until(self._handle, until_ns))
        check(self, status, "the clock can only move forward")
        return status == 1

    @property
    def now_ns(self) -> int:
        return int(self.lib.sw_engine_now(self._handle))

    @property
    def next_event_ns(self) -> int | None:
        """Nothing happens before this time unless it is caused from outside; None: nothing ever."""
        due = int(self.lib.sw_engine_next(self._handle))
        return None if due == 2**64 - 1 else due

    def error(self) -> str:
        return str(self.ffi.string(self.lib.sw_engine_error(self._handle)).decode("utf-8", "replace"))

    def close(self) -> None:
        """Stop and free everything. Devices can't be used afterwards."""
        if self._open is None:
            return
        self.stop()
        self._closing = True
        for reader in (self._reader, self._notice_reader):
            if reader is not None:
                self.lib.sw_engine_cancel_wait(self._handle)
                reader.join()
        for device in self.devices:
            device._forget()
        self.lib.sw_engine_destroy(self._open)
        self._open = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- packets for the CPU ports

    def _start_reader(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read_packets, name="packet-in", daemon=True)
            self._reader.start()

    def _start_notices(self) -> None:
        if self._notice_reader is None:
            self._notice_reader = threading.Thread(target=self._read_notices, name="notices", daemon=True)
            self._notice_reader.start()

    def _read_notices(self) -> None:
        def find(address: int) -> tuple[Pipeline, Callable[[Notice], None]] | None:
            device = self._by_handle.get(address)
            return None if device is None else device._notified()

        reader = NoticeReader(self, find)
        while not self._closing:
            reader.read(500)

    def _read_packets(self) -> None:
        ffi = self.ffi
        frame = ffi.new(f"uint8_t[{FRAME_LIMIT}]")
        source = ffi.new("sw_device **")
        while not self._closing:
            length = self.lib.sw_packet_in(self._handle, source, frame, FRAME_LIMIT, 500)
            if length <= 0:
                continue
            device = self._by_handle.get(int(ffi.cast("uintptr_t", source[0])))
            if device is not None:
                device._deliver(bytes(ffi.buffer(frame, length)))
