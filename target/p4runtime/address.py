# SPDX-License-Identifier: Apache-2.0
"""Addresses that a server listens on: checked before gRPC has them, which explains little."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

_OTHER_SCHEMES: Final = ("unix-abstract:", "vsock:", "ipv4:", "ipv6:", "dns:")


class BindError(Exception):
    """An address that can't be listened on. One line, naming it."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"can't listen on {address}: {reason}")


def unix_path(address: str) -> Path | None:
    """The socket file of a `unix:` address."""
    if not address.startswith("unix:"):
        return None
    path = address.removeprefix("unix:")
    return Path(path.removeprefix("//") if path.startswith("///") else path)


def check_free(address: str) -> None:
    """Raises BindError if the address is malformed, in use, or not this machine's."""
    path = unix_path(address)
    if path is not None:
        _check_socket_file(address, path)
    elif not address.startswith(_OTHER_SCHEMES):
        _check_host_and_port(address)


def _check_host_and_port(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise BindError(address, "expected host:port, [IPv6]:port or unix:PATH")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise BindError(address, f"there is no host {host!r}") from None
    for family, kind, protocol, _, where in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(where)
            except OSError as error:
                raise BindError(address, os.strerror(error.errno or 0).lower()) from None


def _check_socket_file(address: str, path: Path) -> None:
    """gRPC would take over the socket file of a server that is alive; a stale one it may have."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.absolute().parent.is_dir():
            raise BindError(address, f"there is no directory {path.parent}") from None
        return
    except OSError as error:
        raise BindError(address, os.strerror(error.errno or 0).lower()) from None
    if not stat.S_ISSOCK(mode):
        raise BindError(address, "the file exists and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
        else:
            raise BindError(address, "another server is listening on it")
