# SPDX-License-Identifier: Apache-2.0
"""The engine's C interface, read from its public header."""

from __future__ import annotations

import functools
import re
from typing import Any

import cffi

from target import build

NO_PORT = 2**32 - 1
NO_ACTION = 2**32 - 1
TO_MEMBER, TO_GROUP = 2**32 - 2, 2**32 - 3
MAX_QUEUES = 8

OK = 0
NOT_FOUND = -1
EXISTS = -2
INVALID = -3
FULL = -4
STATE = -5
MEMORY = -6
SYSTEM = -7


def _declarations() -> str:
    text = (build.RUNTIME / "include" / "sw_engine.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.S)
    text = text.replace("[SW_MAX_QUEUES]", f"[{MAX_QUEUES}]")
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


@functools.cache
def load() -> tuple[Any, Any]:
    """(ffi, library). Builds the library if need be."""
    ffi: Any = cffi.FFI()
    ffi.cdef(_declarations())
    return ffi, ffi.dlopen(str(build.runtime_library()))
