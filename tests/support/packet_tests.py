# SPDX-License-Identifier: Apache-2.0
"""The packet tests of ptf_tests/ run in this process, on a device in memory: same files, same assertions."""

from __future__ import annotations

import importlib
import logging
import unittest
import warnings
from types import ModuleType

import ptf
import ptf.ptfutils

from controller.programs import Program
from tests.support.dut import Dut
from tests.support.memory import MemoryDut
from tests.support.memory_dataplane import MemoryDataplane
from tests.support.programs import ROOT

PORTS = {"switch": (1, 2, 3, 4, 5), "nic": (1, 2)}
SLOW_PORT, SLOW_RATE_BPS = 5, 16_384
"""As `ptf_tests.run` has them."""


def device(program: Program) -> MemoryDut:
    """A device with the ports that the program's packet tests want."""
    rates = {SLOW_PORT: SLOW_RATE_BPS} if program.name == "switch" else {}
    return MemoryDut(program, PORTS[program.name], rates)


def names(suite: str) -> list[str]:
    """`module.Class` of every packet test of a suite."""
    found = []
    for path in sorted((ROOT / "ptf_tests" / suite).glob("*.py")):
        module = _module(suite, path.stem)
        found += [
            f"{path.stem}.{name}"
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "runTest")
        ]
    return found


def _module(suite: str, name: str) -> ModuleType:
    with warnings.catch_warnings():
        # ptf and scapy warn when they are imported.
        warnings.simplefilter("ignore")
        return importlib.import_module(f"ptf_tests.{suite}.{name}")


def run(suite: str, name: str, dut: Dut) -> str | None:
    """Run one packet test; None if it passed, else what it said."""
    module_name, _, class_name = name.partition(".")
    module = _module(suite, module_name)
    ptf.config.update({"log_dir": None, "log_file": "/dev/null", "relax": False})
    ptf.ptfutils.default_timeout, ptf.ptfutils.default_negative_timeout = 5.0, 0.1
    ptf.dataplane_instance = MemoryDataplane(dut)
    handlers, level = logging.root.handlers[:], logging.root.level
    result = unittest.TestResult()
    try:
        getattr(module, class_name)().run(result)
    finally:
        ptf.dataplane_instance = None
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    problems = [text for _, text in result.failures + result.errors]
    return "\n".join(problems) if problems else None
