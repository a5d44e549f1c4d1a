# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m compiler``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
