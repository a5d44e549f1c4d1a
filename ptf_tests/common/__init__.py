# SPDX-License-Identifier: Apache-2.0
"""Base classes of the packet tests."""
