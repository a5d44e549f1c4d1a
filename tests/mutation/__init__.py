# SPDX-License-Identifier: Apache-2.0
"""Seeded faults in the P4 programs, and the packet tests that must see them."""
