# SPDX-License-Identifier: Apache-2.0
"""One script per experiment, thin over one library."""
