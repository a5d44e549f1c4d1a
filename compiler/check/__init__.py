# SPDX-License-Identifier: Apache-2.0
"""Name resolution and type checking: syntax tree to typed tree."""

from .program import check_program

__all__ = ["check_program"]
