# SPDX-License-Identifier: Apache-2.0
"""Measurements of the engine: `python -m target.benchmark --help`."""
