# SPDX-License-Identifier: Apache-2.0
"""`python -m target`: see `target.cli`."""

import sys

from target.cli import main

if __name__ == "__main__":
    sys.exit(main())
