# SPDX-License-Identifier: Apache-2.0
"""P4_16 compiler for the v1model architecture: P4 source to BMv2 JSON and P4Info.

The command line is that of ``p4c-bm2-ss``; see :mod:`compiler.cli`. From Python, use
:func:`compiler.driver.compile_file`.
"""

__version__ = "0.1.0"
