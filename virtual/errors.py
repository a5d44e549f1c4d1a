# SPDX-License-Identifier: Apache-2.0
"""What this package raises by itself."""

from __future__ import annotations


class VirtualError(RuntimeError):
    """A fabric, a message or a fault that is not possible. One line with the mend."""
