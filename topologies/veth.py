# SPDX-License-Identifier: Apache-2.0
"""veth pairs fit for a software switch: long frames, no offloads, no IPv6 chatter.

Checksum and segmentation offloads let a kernel send half-made packets that a switch then sees; so they are
off on both ends, and read back. Offload settings survive a move to another namespace.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

MTU = 9500

_SIOCETHTOOL = 0x8946
_OFFLOADS = {  # name: (ethtool's get command, set command), linux/ethtool.h
    "rx": (0x14, 0x15),
    "tx": (0x16, 0x17),
    "sg": (0x18, 0x19),
    "tso": (0x1E, 0x1F),
    "gso": (0x23, 0x24),
    "gro": (0x2B, 0x2C),
}


class VethError(RuntimeError):
    """An interface that can't be made. One line."""


_NO_IPV6 = (
    "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do [ -e $f ] && echo 1 > $f; done; exec ip -batch -"
)


def run_ip(lines: Sequence[str], namespace_of: int | None = None) -> None:
    """One `ip -batch`, here or in the network namespace of a process, where IPv6 goes off first.

    Raises VethError with what it said.
    """
    command = ["ip", "-batch", "-"]
    if namespace_of is not None:
        command = ["nsenter", f"--target={namespace_of}", "--net", "--", "sh", "-c", _NO_IPV6]
    text = "\n".join(lines) + "\n"
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        mend = {"ip": "iproute2", "nsenter": "util-linux"}[command[0]]
        raise VethError(f"{command[0]} isn't on PATH; install it: apt-get install {mend}") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or "no reason given"
        raise VethError(f"ip: {said} (in: {'; '.join(lines)[:120]})")


def create_pair(a: str, b: str, mac_a: str | None = None, mac_b: str | None = None) -> None:
    """A pair in this namespace, both ends down. Raises VethError if a name is taken."""
    words = [f"link add name {a} mtu {MTU}", f"address {mac_a}" if mac_a else "", "type veth peer name", b]
    words += [f"mtu {MTU}", f"address {mac_b}" if mac_b else ""]
    run_ip([" ".join(word for word in words if word)])
    for interface in (a, b):
        disable_ipv6(interface)
        disable_offloads(interface)


def disable_ipv6(interface: str) -> None:
    """No router solicitations or multicast listener reports from the kernel."""
    switch = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if switch.exists():
        switch.write_text("1")


def disable_offloads(interface: str) -> None:
    """tx rx sg tso gso gro off, and checked. Raises VethError if one stays on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, command in _OFFLOADS.values():
            _ethtool(control, interface, command, 0)
        on = [name for name, (command, _) in _OFFLOADS.items() if _ethtool(control, interface, command, 0)]
    if on:
        raise VethError(
            f"{interface}: {', '.join(on)} offload can't be turned off; use a kernel whose veth allows it"
        )


def offloads_on(interface: str) -> list[str]:
    """Which of them are on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        return [name for name, (command, _) in _OFFLOADS.items() if _ethtool(control, interface, command, 0)]


def _ethtool(control: socket.socket, interface: str, command: int, value: int) -> int:
    data = array.array("B", struct.pack("II", command, value))
    request = struct.pack("16sP16x", interface.encode(), data.buffer_info()[0])
    try:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
    except OSError as error:
        raise VethError(f"{interface}: ethtool command {command:#x}: {error.strerror}") from None
    return int(struct.unpack("II", data.tobytes())[1])
