# SPDX-License-Identifier: Apache-2.0
"""Starting devices: what they are, from a command line or a fabric file, and their life in one process."""
