# SPDX-License-Identifier: Apache-2.0
"""Name resolution and type checking: syntax tree to typed tree."""

from .program import check_program, const_expr

__all__ = ["check_program", "const_expr"]
