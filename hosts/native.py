# SPDX-License-Identifier: Apache-2.0
"""Loads the native transport. Its declarations are read from its public headers: they can't drift apart."""

from __future__ import annotations

import functools
import re
from typing import Any, TypeAlias

from cffi import FFI

from hosts.build import CORE, library

HEADERS = ("include/transport.h", "include/udp_driver.h", "include/checker.h")

Native: TypeAlias = Any
"""The library's functions and enumerators: cffi types them at run time."""


def declarations() -> str:
    """What cffi can read of the public headers: no preprocessor lines but integer constants."""
    kept = []
    for name in HEADERS:
        for line in (CORE / name).read_text().splitlines():
            if line.startswith("#") and not re.match(r"#define \w+ \d+\b", line):
                continue
            kept.append(re.sub(r"//.*", "", line))
    return "\n".join(kept)


@functools.cache
def load() -> tuple[Native, Native]:
    """(ffi, library), built on first use. Raises hosts.build.BuildError."""
    ffi = FFI()
    ffi.cdef(declarations())
    return ffi, ffi.dlopen(str(library()))
