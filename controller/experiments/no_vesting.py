# SPDX-License-Identifier: Apache-2.0
"""What does the vesting rule buy? Without it the whole budget is there at the step's start; expect
the first burst to exhaust it, and more of the step to obey congestion control."""

from __future__ import annotations

import sys

from controller.experiments.arms import FORGIVE, NO_VESTING
from controller.experiments.session import main

if __name__ == "__main__":
    sys.exit(
        main(
            "no_vesting",
            __doc__,
            (
                FORGIVE,
                NO_VESTING,
            ),
        )
    )
