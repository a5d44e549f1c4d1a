# SPDX-License-Identifier: Apache-2.0
"""How much does the probability P of forgiving matter? Expect the bytes forgiven to grow with P
and the time to change little: the exemption does most of the work, at P = 0 too."""

from __future__ import annotations

import sys

from controller.experiments.arms import forgiving_with
from controller.experiments.session import main

if __name__ == "__main__":
    sys.exit(main("forgive_probability", __doc__, (*(forgiving_with(p) for p in (0.0, 0.25, 1.0)),)))
