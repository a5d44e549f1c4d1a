# SPDX-License-Identifier: Apache-2.0
"""Packet tests of the dataplane, run by the ptf runner against either target: `python -m ptf_tests.run`."""
