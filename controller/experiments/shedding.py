# SPDX-License-Identifier: Apache-2.0
"""Who should give up bytes: the receiver after a trim, or the sender beforehand on the same
schedule? Expect shedding to lose about as many bytes and to save less time."""

from __future__ import annotations

import sys

from controller.experiments.arms import DCQCN, FORGIVE, SHEDDING
from controller.experiments.session import main

if __name__ == "__main__":
    sys.exit(
        main(
            "shedding",
            __doc__,
            (
                FORGIVE,
                SHEDDING,
                DCQCN,
            ),
        )
    )
