# SPDX-License-Identifier: Apache-2.0
"""The draws of docs/dataplane.md, "Draws", computed by the tests' own code."""

from __future__ import annotations

from tests.support.wire import Roce


def forgive_draw(seed: int, packet: Roce, trims: int) -> int:
    """Draw(P): 32 bits, compared with `forgive_threshold`. `trims`: the flow's draws so far, this one
    included."""
    raise NotImplementedError


def path_entropy(dest_qp: int, source_qp: int) -> int:
    """The UDP source port that the sender's NIC writes."""
    raise NotImplementedError
