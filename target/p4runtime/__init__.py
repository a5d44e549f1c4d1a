# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime v1 service of the target, on any `target.api.DeviceApi`."""

from target.p4runtime.address import BindError
from target.p4runtime.server import DEFAULT_ADDRESS, Endpoint, P4RuntimeServer, ServerThread, TlsConfig

__all__ = ["DEFAULT_ADDRESS", "BindError", "Endpoint", "P4RuntimeServer", "ServerThread", "TlsConfig"]
