# SPDX-License-Identifier: Apache-2.0
"""veth pairs fit for a software switch: long frames, no offloads, no IPv6 chatter.

Checksum and segmentation offloads let a kernel send half-made packets that a switch then sees; so they are
off on both ends, and read back. Offload settings survive a move to another namespace.
"""

from __future__ import annotations

import array
import fcntl
import re
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

MTU = 9500

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSSET_INFO, _GFEATURES, _SFEATURES = 0x1B, 0x37, 0x3A, 0x3B  # linux/ethtool.h
_SS_FEATURES = 4
_NAME_BYTES = 32
_OFFLOADS = re.compile(
    r"[rt]x-checksum.*|tx-scatter-gather.*|.*-segmentation|tx-gso-.*|rx-gro.*|rx-lro|.*-vlan-.*"
)
"""The kernel's names of what ethtool calls tx, rx, sg, tso, gso, gro, lro, and VLAN tags kept beside the
frame.
"""


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
    """All of them off, and checked. Raises VethError if one stays on."""
    with _Ethtool(interface) as ethtool:
        ethtool.turn_off([name for name in ethtool.names if _OFFLOADS.fullmatch(name)])
    on = offloads_on(interface)
    if on:
        raise VethError(
            f"{interface}: {', '.join(on)} can't be turned off; use a kernel whose veth allows it"
        )


def offloads_on(interface: str) -> list[str]:
    """Which offloads of an interface are on, by the kernel's names."""
    with _Ethtool(interface) as ethtool:
        return [name for name in ethtool.active() if _OFFLOADS.fullmatch(name)]


class _Ethtool:
    """Features of an interface by name."""

    def __init__(self, interface: str) -> None:
        self._interface = interface

    def __enter__(self) -> _Ethtool:
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            info = self._call(struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0))
            count = struct.unpack_from("=I", info, 16)[0]
            head = struct.pack("=III", _GSTRINGS, _SS_FEATURES, count)
            text = self._call(head + bytes(count * _NAME_BYTES))[len(head) :]
        except BaseException:
            self._control.close()
            raise
        chunks = (text[i : i + _NAME_BYTES] for i in range(0, len(text), _NAME_BYTES))
        self.names = [chunk.split(b"\0")[0].decode() for chunk in chunks]
        self._words = (count + 31) // 32
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()

    def active(self) -> list[str]:
        """Names of features that are on."""
        blocks = self._call(struct.pack("=II", _GFEATURES, self._words) + bytes(16 * self._words))
        bits = [struct.unpack_from("=IIII", blocks, 8 + 16 * w)[2] for w in range(self._words)]
        return [name for i, name in enumerate(self.names) if bits[i // 32] >> (i % 32) & 1]

    def turn_off(self, names: Sequence[str]) -> None:
        """Features that can't be changed stay as they are."""
        blocks = self._call(struct.pack("=II", _GFEATURES, self._words) + bytes(16 * self._words))
        valid = [0] * self._words
        for name in names:
            i = self.names.index(name)
            available, _, _, never = struct.unpack_from("=IIII", blocks, 8 + 16 * (i // 32))
            if (available & ~never) >> (i % 32) & 1:
                valid[i // 32] |= 1 << (i % 32)
        body = b"".join(struct.pack("=II", word, 0) for word in valid)
        self._call(struct.pack("=II", _SFEATURES, self._words) + body)

    def _call(self, request: bytes) -> bytes:
        data = array.array("B", request)
        ifreq = struct.pack("16sP16x", self._interface.encode(), data.buffer_info()[0])
        try:
            fcntl.ioctl(self._control, _SIOCETHTOOL, ifreq)
        except OSError as error:
            raise VethError(f"{self._interface}: offload settings: {error.strerror}") from None
        return data.tobytes()
