# SPDX-License-Identifier: Apache-2.0
"""A fat-tree of P4 devices in Mininet, for real: boots, is programmed, packets cross, nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import controller
from topologies import fat_tree
from topologies.isolate import clean_stale
from topologies.mininet_path import MininetMissing, require_mininet
from topologies.targets import TargetError, find

ROOT = Path(__file__).resolve().parents[2]


def mininet_missing() -> str | None:
    try:
        require_mininet()
    except MininetMissing as error:
        return str(error)
    return None


NO_BMV2 = shutil.which("simple_switch_grpc") is None
MISSING = mininet_missing()
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.timeout(600),
]

FABRIC = """
import json, subprocess, sys, time
from pathlib import Path
from controller import Fabric, StepPolicy, compile_programs
from profiles import load
from topologies import fat_tree, veth
from topologies.capture import capture
from topologies.isolate import enter_private_namespace
from topologies.mininet_net import MininetFabric
programs = compile_programs()
run = enter_private_namespace()
name, k, profile, rate = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
topology, result = fat_tree(k), {}
configuration = load(profile).at_rate(rate)
net = MininetFabric(topology, target=name, directory=run.directory, configuration=configuration)
"""

WHOLE = """
first, last = topology.hosts[0].name, topology.hosts[-1].name
cores = [end.interface for link in topology.links for end in (link.a, link.b) if end.node.startswith("core")]
with net, Fabric(topology, net.devices, programs) as fabric:
    fabric.install(configuration)
    result["verified"] = fabric.verify()
    with capture(cores, run.directory / "pcap") as files:
        result["ping"] = net.ping(first, last, count=3)
        time.sleep(0.5)
    shown = [subprocess.run(["tcpdump", "-nr", f], capture_output=True, text=True) for f in files.values()]
    seen = "".join(done.stdout for done in shown)
    result["core"] = {
        what: seen.count(words)
        for what, words in (
            ("request", f"{topology.hosts[0].ip} > {topology.hosts[-1].ip}: ICMP echo request"),
            ("reply", f"{topology.hosts[-1].ip} > {topology.hosts[0].ip}: ICMP echo reply"),
            ("who-has", f"who-has {topology.hosts[-1].ip} tell"),
            ("is-at", f"{topology.hosts[-1].ip} is-at {topology.hosts[-1].mac}"),
        )
    }
    result["strange"] = [line for line in seen.splitlines() if "ICMP echo" not in line and "ARP" not in line]
    names = [host.name for host in topology.hosts]
    stride = max(1, len(names) // 5)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i % stride :: stride] if a != b]
    result["pairs"] = [len(pairs), sum(net.ping(*pair) for pair in pairs)]
    ends = [link.end(d.name).interface for d in topology.devices for link in topology.links_of(d.name)]
    result["offloads"] = sorted({name for end in ends for name in veth.offloads_on(end)})
    host = "import sys; from topologies import veth; print(veth.offloads_on(sys.argv[1]))"
    result["host offloads"] = net.run(first, [sys.executable, "-c", host, f"{first}-eth0"]).stdout.strip()
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True).stdout)
    result["mtu"] = sorted({link["mtu"] for link in links if link["ifname"] != "lo"})
    policy = StepPolicy.of(configuration)
    result["budget"] = fabric.install_step(first, 3, 5_000, 1_835_008, policy).budget
    state = fabric.step_state(first, 3)
    result["state"] = [state.slot, state.installed, state.open, state.received]
    fabric.close_step(first, 3)
    result["closed"] = fabric.step_state(first, 3).open
    fabric.verify()
    fabric.remove_step(first, 3)
    result["removed"] = fabric.run(fabric.controller.nic(first).state(3)).installed
    forwarded = {name: row.total.forwarded for name, row in fabric.switch_counters().items()}
    result["forwarded"] = forwarded
    result["trimmed"] = sum(row.total.trimmed for row in fabric.switch_counters().values())
    result["malformed"] = sum(row.malformed for row in fabric.nic_counters().values())
    net.check()
"""


def script(body: str, *arguments: object, timeout: float = 500) -> dict[str, Any]:
    """Run a program in a namespace of its own; what it put into `result`."""
    code = FABRIC + body + "\nprint(json.dumps(result))\n"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def check_whole(result: dict[str, Any], k: int) -> None:
    topology = fat_tree(k)
    assert result["ping"] == 3
    # Every ping crosses exactly one core switch, in by one port and out by another.
    assert result["core"]["request"] == 6
    assert result["core"]["reply"] == 6
    assert result["core"]["who-has"] >= 2
    assert result["core"]["is-at"] >= 2
    assert result["strange"] == []
    asked, answered = result["pairs"]
    assert asked == answered > 0
    assert result["offloads"] == []
    assert result["host offloads"] == "[]"
    assert result["mtu"] == [9500]
    assert result["budget"] == 9_175
    assert result["state"] == [3, True, True, 0]
    assert result["closed"] is False
    assert result["removed"] is False
    assert set(result["forwarded"]) == {device.name for device in topology.switches()}
    assert min(result["forwarded"][f"edge{i + 1}"] for i in range(k * k // 2)) > 0
    assert result["trimmed"] == 0
    assert result["malformed"] == 0


def test_a_fat_tree_of_36_devices() -> None:
    check_whole(script(WHOLE, "embedded", 4, "mininet", 100_000_000), 4)


@pytest.mark.bmv2
@pytest.mark.skipif(NO_BMV2, reason="simple_switch_grpc isn't on PATH")
def test_a_small_fat_tree_on_bmv2() -> None:
    check_whole(script(WHOLE, "bmv2", 2, "bmv2", 20_000_000), 2)


def test_rates_can_change() -> None:
    """After `configure` the devices are new: connect again, same interfaces."""
    result = script(
        """
with net:
    for rate in (10_000_000, 50_000_000):
        changed = load(profile).at_rate(rate)
        net.configure(changed)
        assert net.devices[0].ports[1].rate_bps == rate * 5 // 4
        with Fabric(topology, net.devices, programs) as fabric:
            fabric.install(changed)
            fabric.verify()
            result[str(rate)] = net.ping("h1", "h2")
    net.configure(None)
    result["unlimited"] = max(port.rate_bps for device in net.devices for port in device.ports)
""",
        "embedded",
        2,
        "mininet",
        1_000_000,
    )
    assert result == {"10000000": 1, "50000000": 1, "unlimited": 0}


def test_static_arp() -> None:
    result = script(
        """
net = MininetFabric(topology, target=name, directory=run.directory, static_arp=True)
with net, Fabric(topology, net.devices, programs) as fabric:
    fabric.install(None)
    with capture(["nic1-eth2"], run.directory / "pcap", filter_expression="arp") as files:
        result["ping"] = net.ping("h1", "h2")
        time.sleep(0.3)
    result["arp"] = Path(files["nic1-eth2"]).stat().st_size - 24
""",
        "embedded",
        2,
        "mininet",
        1_000_000,
    )
    assert result == {"ping": 1, "arp": 0}


def test_the_script_of_ten_lines() -> None:
    """The one in the controller's docstring, word for word."""
    assert controller.__doc__ is not None
    block = re.search(r"\n\n((?:    .*\n)+)", controller.__doc__)
    assert block is not None
    text = textwrap.dedent(block.group(1))
    assert len([line for line in text.splitlines() if not line.startswith("from ")]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", text + "print(agreed, answers, step.budget)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].split()[1:] == ["1", "183500"]


def test_killed_without_warning() -> None:
    """kill -9 of the whole program while packets cross: no process, no interface, no namespace is left."""
    before = set(os.listdir("/sys/class/net"))
    code = (
        FABRIC
        + """
with net, Fabric(topology, net.devices, programs) as fabric:
    fabric.install(configuration)
    net.popen("h1", ["ping", "-q", "-i", "0.01", str(topology.host("h2").ip)], stdout=subprocess.DEVNULL)
    print("up", run.directory, flush=True)
    time.sleep(600)
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "embedded", "2", "mininet", "1000000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline().split()
    assert line[:1] == ["up"]
    directory = Path(line[1])
    namespaces = _inside(directory)
    assert len(namespaces) >= 8  # init, program, target, two hosts' shells, ping ...
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in namespaces):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(0.05)
    assert set(os.listdir("/sys/class/net")) == before
    # Every run clears away what killed ones left: one beside this test may have been first.
    clean_stale()
    while directory.exists():
        assert time.monotonic() < deadline, f"{directory} is left"
        time.sleep(0.05)


def _inside(directory: Path) -> list[int]:
    """Processes in the run's process namespace."""
    init = json.loads((directory / "run.json").read_text())["init"]
    wanted = os.stat(f"/proc/{init}/ns/pid").st_ino
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.stat(entry / "ns" / "pid").st_ino == wanted:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_attach_to_a_host() -> None:
    code = FABRIC + "net.start()\nprint('up', flush=True)\ntime.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "embedded", "2", "mininet", "1000000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        attach = [sys.executable, "-m", "topologies.attach", "--run", str(process.pid)]
        for node, wanted in (("h2", "10.1.0.2/8"), (None, "edge1-eth1")):
            where = ["--node", node] if node else []
            shown = subprocess.run(
                [*attach, *where, "--", "ip", "-br", "address"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            ).stdout
            assert wanted in shown
    finally:
        process.terminate()
        process.wait(60)


def test_a_target_that_fails_leaves_nothing() -> None:
    result = script(
        """
from topologies.targets import Embedded, TargetError
bad = MininetFabric(topology, target=Embedded(options=["--nonsense"]), directory=run.directory)
try:
    bad.start()
except TargetError as error:
    result["said"] = str(error)
links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True).stdout)
result["links"] = [link["ifname"] for link in links]
""",
        "embedded",
        2,
        "mininet",
        1_000_000,
    )
    assert result["said"].startswith("the target ended with status 2: target: error: ")
    assert result["links"] == ["lo"]


@pytest.mark.skipif(not NO_BMV2, reason="simple_switch_grpc is on PATH")
def test_bmv2_is_missing() -> None:
    with pytest.raises(
        TargetError, match=r"^simple_switch_grpc isn't on PATH; install BMv2 with Thrift, or use"
    ):
        find("bmv2")


def test_no_such_target() -> None:
    with pytest.raises(TargetError, match=r"^no target tofino; give embedded or bmv2$"):
        find("tofino")


@pytest.mark.skipif(shutil.which("mn") is None, reason="Mininet's mn isn't on PATH")
def test_mininet_s_own_command() -> None:
    """`mn --custom`, in namespaces of its own: on an error mn cleans up by name, on the whole machine."""
    # A /tmp of its own; the repository itself may lie in the old one.
    mn = 'mount -t tmpfs tmpfs /tmp && mkdir -p "$0" && mount --no-canonicalize --bind . "$0"'
    mn += ' && cd "$0" && ip link set lo up && exec mn "$@"'
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", mn]
    command += [str(ROOT)]
    command += ["--custom", "topologies/mininet_topo.py", "--topo", "fattree,2", "--test", "pingall"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert "entities written, read back and equal" in said
    assert "0% dropped (2/2 received)" in said
