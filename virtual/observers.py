# SPDX-License-Identifier: Apache-2.0
"""Who sees the frames at the ports of a fabric's devices: native observers, captures among them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from virtual.errors import VirtualError


class Observers:
    """native: as loaded by `virtual.native`. port_of: an interface's native device and port; raises
    VirtualError. `VirtualFabric` says what the methods do.
    """

    def __init__(self, native: tuple[Any, Any], port_of: Callable[[str], tuple[Any, int]]) -> None:
        self._ffi, self._lib = native
        self._port_of = port_of
        self._watches: dict[str, Any] = {}
        self._captures: list[tuple[str, Path, int]] = []

    def add(self, interface: str, function: int, context: int) -> None:
        ffi, lib = self._ffi, self._lib
        observer = ffi.new("struct sw_observer *")
        observer.context = ffi.cast("void *", context)
        observer.frame = ffi.cast(ffi.typeof(observer.frame), function)
        status = lib.watch_add(self._watch(interface), observer)
        if status == lib.ATTACH_ENGINE:
            raise VirtualError(f"no interface {interface}: the device has no such port")
        if status:
            raise VirtualError(
                f"{interface}: one observer more than its {lib.WATCH_OBSERVERS}, or no function"
            )

    def remove(self, interface: str, context: int) -> None:
        if self._lib.watch_remove(self._watch(interface), self._ffi.cast("void *", context)):
            raise VirtualError(f"{interface}: nobody observes it with this context")

    def _watch(self, interface: str) -> Any:
        watch = self._watches.get(interface)
        if watch is None:
            watch = self._lib.watch_create(*self._port_of(interface))
            if watch == self._ffi.NULL:
                raise MemoryError(f"observers of {interface}")
            self._watches[interface] = watch
        return watch

    def capture(self, interface: str, directory: Path, snap_bytes: int) -> Path:
        ffi, lib = self._ffi, self._lib
        self._watch(interface)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{interface}.pcap"
        out = ffi.new("capture_t **")
        if status := lib.capture_open(str(path).encode(), snap_bytes, out):
            raise VirtualError(f"{path}: {os.strerror(-status)}; give another directory")
        observer = lib.capture_observer(out[0])
        function, context = (int(ffi.cast("uintptr_t", p)) for p in (observer.frame, observer.context))
        try:
            self.add(interface, function, context)
        except VirtualError:
            lib.capture_close(out[0])
            raise
        self._captures.append((interface, path, context))
        return path

    def end_captures(self) -> None:
        problem = None
        while self._captures:
            interface, path, context = self._captures.pop()
            self.remove(interface, context)
            if status := self._lib.capture_close(self._ffi.cast("capture_t *", context)):
                problem = f"{path}: {os.strerror(-status)}; the capture is not whole"
        if problem:
            raise VirtualError(problem)

    def end(self) -> None:
        """Before the engine is destroyed. Nothing is observed any more."""
        with contextlib.suppress(VirtualError):
            self.end_captures()
        while self._watches:
            _, watch = self._watches.popitem()
            self._lib.watch_destroy(watch)
