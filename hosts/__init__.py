# SPDX-License-Identifier: Apache-2.0
"""What runs on a rank: the transport, the collectives, the training step."""
