# SPDX-License-Identifier: Apache-2.0
"""Middle of the compiler: typed tree to a flat program without calls, and passes over that."""
