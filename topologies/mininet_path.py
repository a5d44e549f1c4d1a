# SPDX-License-Identifier: Apache-2.0
"""Mininet's Python package is the distribution's, outside a virtual environment: find it, and nothing else
there.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import shutil
import sys
import warnings
from pathlib import Path

SYSTEM_PACKAGES = (Path("/usr/lib/python3/dist-packages"), Path("/usr/local/lib/python3/dist-packages"))
PROGRAMS = {"mnexec": "mininet", "ip": "iproute2", "ifconfig": "net-tools"}


class MininetMissing(RuntimeError):
    """Mininet isn't installed. One line with the mend."""


class _MininetFinder:
    """Finds `mininet` and its modules in one directory; other packages of that directory stay invisible."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "mininet":
            return None
        return importlib.machinery.PathFinder.find_spec(name, [self._directory])


def require_mininet() -> None:
    """Make `import mininet` work in a virtual environment. Raises MininetMissing."""
    if importlib.util.find_spec("mininet") is None:
        for directory in SYSTEM_PACKAGES:
            if (directory / "mininet" / "net.py").exists():
                sys.meta_path.append(_MininetFinder(directory))
                break
        else:
            raise MininetMissing("Mininet isn't installed; install it: apt-get install mininet")
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise MininetMissing(f"{program} isn't on PATH; install it: apt-get install {package}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Mininet 2.3.0 uses distutils
        try:
            importlib.import_module("mininet.net")
        except ModuleNotFoundError as error:
            if error.name != "distutils":
                raise
            try:
                importlib.import_module("setuptools")  # brings its own distutils
                importlib.import_module("mininet.net")
            except ModuleNotFoundError:
                raise MininetMissing("Mininet needs distutils; install it: pip install setuptools") from None
