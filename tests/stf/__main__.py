# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import sys

from tests.stf.cli import main

if __name__ == "__main__":
    # What a case has started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
