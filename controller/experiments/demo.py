# SPDX-License-Identifier: Apache-2.0
"""Trains a real model over a fat-tree of P4 switches and NICs, twice with the same seed: with
FORGIVE, and with DCQCN and no loss tolerance. Expect fewer obeyed notifications and shorter
steps with FORGIVE, bytes forgiven within the budget, and the same accuracy."""

from __future__ import annotations

import sys

from controller.experiments.arms import DCQCN, FORGIVE
from controller.experiments.session import main

if __name__ == "__main__":
    sys.exit(
        main(
            "demo",
            __doc__,
            (
                FORGIVE,
                DCQCN,
            ),
        )
    )
