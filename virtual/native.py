# SPDX-License-Identifier: Apache-2.0
"""Loads what joins transports to the engine. Declarations are read from the headers: nothing drifts apart."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from cffi import FFI

from hosts import build
from target import build as target_build
from target import native as target_native

CORE = Path(__file__).resolve().parent / "core"
ENGINE_HEADERS = target_build.RUNTIME / "include"

_ENGINE = """
typedef struct sw_engine sw_engine;
typedef struct sw_device sw_device;
struct sw_observer {
    void *context;
    int (*frame)(void *, uint64_t, int, const uint8_t *, uint32_t, uint32_t);
};
"""
"""What of the engine our headers mention."""
_OPTIMISE = ("-O3", "-g", "-flto=auto", "-fno-semantic-interposition")


def _declarations(path: Path) -> str:
    """What cffi can read: no preprocessor lines but integer constants, no comments."""
    kept = [
        re.sub(r"//.*", "", line)
        for line in path.read_text().splitlines()
        if not line.startswith("#") or re.match(r"#define \w+ \d+\b", line)
    ]
    return "\n".join(kept)


def library() -> Path:
    """The transport core and what attaches it, as one shared object; with sanitizers if the target is built
    with them. Raises hosts.build.BuildError.
    """
    core = (path for path in build.sources() if path.name.split("_")[0] not in ("udp", "checker"))
    sources = [path for path in core if path.stem != "checker"]
    return build.build(
        "virtual",
        [*sources, *sorted(CORE.glob("*.c"))],
        flags=[*(build.SANITIZE if target_build.sanitizing() else _OPTIMISE), f"-I{ENGINE_HEADERS}"],
        headers=[*sorted(CORE.glob("*.h")), *sorted(ENGINE_HEADERS.glob("*.h"))],
    )


@functools.cache
def load() -> tuple[Any, Any]:
    """(ffi, library), built on first use. Raises hosts.build.BuildError."""
    target_native.load()
    ffi: Any = FFI()
    # Its symbols are what our library calls.
    ffi.dlopen(str(target_build.runtime_library()), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)
    ffi.cdef(_declarations(build.CORE / "include" / "transport.h"))
    ffi.cdef(_ENGINE + _declarations(CORE / "attach.h"))
    return ffi, ffi.dlopen(str(library()))
