# SPDX-License-Identifier: Apache-2.0
"""veth pairs and captures, in a namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]

PAIR = """
import json, sys
from pathlib import Path
from topologies import veth
from topologies.isolate import enter_private_namespace
run = enter_private_namespace()
result = {}
"""


def inside(code: str, **environment: str) -> dict[str, Any]:
    """Run code in a private namespace; what it put into `result`."""
    program = PAIR + code + "\nprint(json.dumps(result))\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_a_pair_is_fit_for_a_switch() -> None:
    result = inside("""
veth.run_ip(["link add name x0 type veth peer name x1"])
result["before"] = veth.offloads_on("x0")
veth.create_pair("a0", "a1", mac_a="02:00:00:00:00:01")
result["after"] = veth.offloads_on("a0") + veth.offloads_on("a1")
import subprocess
shown = subprocess.run(["ip", "-j", "link", "show", "a0"], capture_output=True, text=True, check=True).stdout
result["link"] = json.loads(shown)[0]
path = Path("/proc/sys/net/ipv6/conf/a1/disable_ipv6")
result["ipv6"] = path.read_text().strip() if path.exists() else "1"
""")
    assert "tx-checksum-ip-generic" in result["before"]
    assert result["after"] == []
    assert result["link"]["mtu"] == 9500
    assert result["link"]["address"] == "02:00:00:00:00:01"
    assert result["ipv6"] == "1"


def test_errors_are_one_line() -> None:
    result = inside("""
veth.create_pair("a0", "a1")
for name, call in {
    "twice": lambda: veth.create_pair("a0", "a2"),
    "none": lambda: veth.disable_offloads("nothing"),
}.items():
    try:
        call()
    except veth.VethError as error:
        result[name] = str(error)
""")
    assert result["twice"].startswith("ip: ")
    assert "File exists" in result["twice"]
    assert result["none"] == "nothing: offload settings: No such device"
    assert all("\n" not in text for text in result.values())


needs_tcpdump = pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump isn't on PATH")

SEND = """
import socket, struct
from topologies.capture import CaptureError, capture
veth.create_pair("a0", "a1")
veth.run_ip(["link set a0 up", "link set a1 up"])
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("a0", 0))
def send(count, size):
    for number in range(count):
        head = b"\\2" * 12 + b"\\x88\\xb5" + struct.pack(">I", number)
        sender.send(head + bytes(size - len(head)))
def read(path):
    data = Path(path).read_bytes()
    magic, = struct.unpack_from("<I", data, 0)
    packets, at = [], 24
    while at < len(data):
        _, _, kept, length = struct.unpack_from("<IIII", data, at)
        packets.append((kept, length))
        at += 16 + kept
    return magic, packets
"""


@needs_tcpdump
def test_a_capture_has_every_packet(tmp_path: Path) -> None:
    code = (
        SEND
        + f"""
with capture(["a0", "a1"], Path({str(tmp_path)!r})) as files:
    send(20000, 1094)
for interface, file in files.items():
    magic, packets = read(file)
    result[interface] = [hex(magic), len(packets), sorted(set(packets))]
with capture(["a1"], Path({str(tmp_path)!r}), snap_bytes=0) as files:
    send(10, 9000)
result["whole"] = sorted(set(read(files["a1"])[1]))
"""
    )
    result = inside(code)
    assert result["a0"] == ["0xa1b23c4d", 20000, [[128, 1094]]]  # nanosecond magic
    assert result["a1"] == ["0xa1b23c4d", 20000, [[128, 1094]]]
    assert result["whole"] == [[9000, 9000]]


@needs_tcpdump
def test_a_capture_that_lost_packets_raises(tmp_path: Path) -> None:
    """tcpdump is stopped while more arrives than its buffer holds."""
    code = (
        SEND
        + f"""
import os, signal, subprocess
said = None
try:
    with capture(["a1"], Path({str(tmp_path)!r}), buffer_kib=16):
        found = subprocess.run(["pgrep", "tcpdump"], capture_output=True, text=True)
        pids = [int(pid) for pid in found.stdout.split()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        send(20000, 1094)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
except CaptureError as error:
    said = str(error)
result["said"] = said
"""
    )
    said = inside(code)["said"]
    assert said is not None
    assert said.startswith("a1: ")
    assert "packets are missing from the capture; give it a larger buffer" in said


@needs_tcpdump
def test_a_capture_of_nothing(tmp_path: Path) -> None:
    code = (
        SEND
        + f"""
for name, interface, expression in (("interface", "nosuch", ""), ("filter", "a0", "host")):
    try:
        with capture([interface], Path({str(tmp_path)!r}), filter_expression=expression):
            pass
    except CaptureError as error:
        result[name] = str(error)
"""
    )
    result = inside(code)
    assert result["interface"].startswith("nosuch: tcpdump: ")
    assert result["filter"].startswith("a0: tcpdump: ")


def test_no_tcpdump(tmp_path: Path) -> None:
    code = f"""
from topologies.capture import CaptureError, capture
try:
    with capture(["lo"], Path({str(tmp_path)!r})):
        pass
except CaptureError as error:
    result["said"] = str(error)
"""
    said = inside(code, PATH=str(tmp_path))["said"]
    assert said == "tcpdump isn't on PATH; install it: apt-get install tcpdump"
