# SPDX-License-Identifier: Apache-2.0
"""The typed model of a BMv2 JSON and its strict reader."""

from target.bmjson.loader import load
from target.bmjson.model import Program
from target.bmjson.node import JsonError

__all__ = ["JsonError", "Program", "load"]
