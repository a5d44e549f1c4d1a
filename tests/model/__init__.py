# SPDX-License-Identifier: Apache-2.0
"""The reference model of the dataplane, its own properties, and the programs compared with it."""
