# SPDX-License-Identifier: Apache-2.0
"""What several test suites share: the wire format, the P4Runtime client, the device under test."""
