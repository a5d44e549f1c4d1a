# SPDX-License-Identifier: Apache-2.0
"""The controller's one exception."""

from __future__ import annotations


class ControllerError(RuntimeError):
    """Something that a device refused, lost or never answered. One line naming the device and the entity."""
