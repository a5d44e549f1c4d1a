# SPDX-License-Identifier: Apache-2.0
"""Digest lists and idle entries: from the runtime's words to names, keys and fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from target import native
from target.api import DeviceError, DigestConfig, DigestList, Notice
from target.bmjson.model import FieldList
from target.codegen.bounds import limbs

if TYPE_CHECKING:
    from target.engine import Engine
    from target.pipeline import Pipeline

SW_NOTICE_DIGEST = 1
"""enum sw_notice_kind; the other one is of idle entries."""
_FIRST_WORDS = 1 << 16


def check_digest_config(config: DigestConfig | None, what: str) -> None:
    """Raises INVALID_ARGUMENT."""
    if config is None:
        return
    for name, limit in (("max_timeout_ns", 2**63), ("max_list_size", 2**31), ("ack_timeout_ns", 2**63)):
        value = getattr(config, name)
        if not 0 <= value < limit:
            raise DeviceError("INVALID_ARGUMENT", f"{what}: {name} {value} is outside 0..{limit - 1}")


class DigestControl:
    """The digests of a loaded program. Lists of one name are configured together."""

    def __init__(
        self, engine: Engine, pipeline: Any, lists: list[FieldList], widths: list[list[int]]
    ) -> None:
        self._engine, self._ffi, self._lib, self._pipeline = engine, engine.ffi, engine.lib, pipeline
        self._lists, self._widths = lists, widths
        self._configs: dict[str, DigestConfig] = {}

    def _numbers(self, name: str) -> list[int]:
        found = [i for i, item in enumerate(self._lists) if item.name == name]
        if not found:
            raise DeviceError("NOT_FOUND", f"there is no digest {name!r}")
        return found

    def config(self, name: str) -> DigestConfig | None:
        self._numbers(name)
        return self._configs.get(name)

    def set(self, name: str, config: DigestConfig | None) -> None:
        from target.pipeline import check

        check_digest_config(config, f"digest {name!r}")
        given = self._ffi.NULL
        if config is not None:
            values = (config.max_timeout_ns, config.ack_timeout_ns, config.max_list_size)
            given = self._ffi.new("struct sw_digest_config *", values)
        for number in self._numbers(name):
            check(self._engine, self._lib.sw_digest_set(self._pipeline, number, given), name)
        if config is None:
            self._configs.pop(name, None)
        else:
            self._configs[name] = config

    def acknowledge(self, name: str, list_id: int) -> None:
        for number in self._numbers(name):
            self._lib.sw_digest_acknowledge(self._pipeline, number, list_id)

    def decode(self, number: int, list_id: int, time_ns: int, words: list[int]) -> DigestList:
        widths = self._widths[number]
        size = sum(map(limbs, widths))
        samples = []
        for start in range(0, len(words), size) if size else ():
            at, values = start, []
            for width in widths:
                n = limbs(width)
                values.append(sum(words[at + i] << 64 * i for i in range(n)))
                at += n
            samples.append(tuple(values))
        return DigestList(self._lists[number].name, list_id, tuple(samples), time_ns)


class NoticeReader:
    """Reads an engine's notices. `find`: from a device's address to its pipeline and its handler, or None."""

    def __init__(
        self, engine: Engine, find: Callable[[int], tuple[Pipeline, Callable[[Notice], None]] | None]
    ) -> None:
        self._engine, self._ffi, self._lib, self._find = engine, engine.ffi, engine.lib, find
        self._notice = self._ffi.new("struct sw_notice *")
        self._resize(_FIRST_WORDS)

    def _resize(self, words: int) -> None:
        self._capacity = words
        self._words = self._ffi.new("uint64_t[]", words)

    def read(self, timeout_ms: int) -> None:
        """Wait for one notice and deliver it."""
        notice = self._notice
        status = self._lib.sw_next_notice(
            self._engine._handle, notice, self._words, self._capacity, timeout_ms
        )
        if status == native.FULL:
            self._resize(2 * int(notice.words))
            return
        if status != 1:
            return
        found = self._find(int(self._ffi.cast("uintptr_t", notice.device)))
        if found is None:
            return
        pipeline, handler = found
        if notice.pipeline != pipeline.serial:
            return  # of a program that is gone
        words = list(self._words[0 : notice.words])
        decoded = pipeline.notice(notice.kind, notice.object, notice.id, notice.time_ns, words)
        if decoded is not None:
            handler(decoded)
