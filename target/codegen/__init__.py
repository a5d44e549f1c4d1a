# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON model -> C. See `program.generate`."""

from target.codegen.program import Generated, generate

__all__ = ["Generated", "generate"]
