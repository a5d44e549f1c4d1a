# SPDX-License-Identifier: Apache-2.0
"""A native switch for BMv2 JSON: JSON -> C -> shared object, with ports, queues and a clock."""
