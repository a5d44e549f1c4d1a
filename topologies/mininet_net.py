# SPDX-License-Identifier: Apache-2.0
"""A Mininet network of a topology: hosts in namespaces of their own, P4 devices around them, veth pairs
between.

    run = enter_private_namespace()
    with MininetFabric(fat_tree(4), target="embedded", directory=run.directory) as net:
        net.configure(configuration)            # link rates, queue capacities, delays
        net.devices                             # P4Runtime address of every device, for a controller
        net.ping("h1", "h16")                   # once a controller has programmed the switches

Interfaces are named as Mininet names them: `edge1-eth3`, `nic1-eth2`, `h1-eth0`; tcpdump works on each.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from profiles import Configuration
from topologies import targets
from topologies.isolate import inside
from topologies.mininet_path import require_mininet
from topologies.model import Topology
from topologies.targets import DeviceSettings, Target, TargetError

LOGGER = logging.getLogger("forgive.mininet")


def _stop(net: Any) -> None:
    """As Mininet does it, but all links at once."""
    from topologies.mininet_nodes import delete_links

    delete_links(net.links)
    net.stop()


class MininetFabric:
    """One running network.

    topology: what to build. target: an adapter or its name, "embedded" or "bmv2". directory: for logs and
    files. configuration: rates, capacities and delays; None = not limited, for a calibration; `configure`
    changes it later. static_arp: enter every host's MAC address at every other; else ARP crosses the fabric
    as any packet does.

    Raises TargetError, MininetMissing or VethError, each one line.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        target: Target | str = "embedded",
        directory: Path,
        configuration: Configuration | None = None,
        static_arp: bool = False,
    ) -> None:
        self.topology = topology
        self.directory = directory
        self.target = targets.find(target) if isinstance(target, str) else target
        self._settings = targets.settings(topology, configuration)
        self._static_arp = static_arp
        self._net: Any = None

    # --- life
    def start(self) -> None:
        """Build the network and start the devices. On failure nothing is left."""
        require_mininet()
        from mininet.net import Mininet

        from topologies.mininet_nodes import FabricTopo, PlainIntf

        os.environ.pop("DISPLAY", None)  # Mininet looks for terminals to close
        Mininet.inited = True  # its sysctl changes are the machine's business, not ours
        starters = {"starter": self._start_target, "stopper": self.target.stop}
        net = Mininet(topo=None, controller=None, intf=PlainIntf, build=False)
        try:
            net.topo = FabricTopo(topology=self.topology, static_arp=self._static_arp, device_params=starters)
            net.build()
            self._net = net
            net.start()
        except BaseException:
            self.target.stop()
            self._net = None
            _stop(net)
            raise
        run = inside()
        if run is not None:
            run.record_nodes({host.name: host.pid for host in net.hosts})

    def _start_target(self) -> None:
        self.target.start(self._settings, self.directory)

    def stop(self) -> None:
        """Stop devices and hosts, remove links. Safe to call twice."""
        if self._net is not None:
            net, self._net = self._net, None
            self.target.stop()
            _stop(net)

    def __enter__(self) -> MininetFabric:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def configure(self, configuration: Configuration | None) -> None:
        """New rates, capacities and delays. Devices start again, without programs: connect a controller
        anew.
        """
        self.target.stop()
        self._settings = targets.settings(self.topology, configuration)
        self._start_target()

    def check(self) -> None:
        """Raises TargetError if a device has ended by itself."""
        failure = self.target.failure()
        if failure is not None:
            raise TargetError(failure)

    # --- use
    @property
    def mininet(self) -> Any:
        """Mininet's own object, for its CLI and everything else it can do."""
        if self._net is None:
            raise TargetError("the network isn't running; start it first")
        return self._net

    @property
    def devices(self) -> tuple[DeviceSettings, ...]:
        """Every device with its id and P4Runtime address."""
        return self._settings

    def host_pid(self, host: str) -> int:
        """A process in the host's namespace (`nsenter --target`)."""
        self.topology.host(host)
        return int(self.mininet[host].pid)

    def host_command(self, host: str, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` on a host."""
        return ["nsenter", f"--target={self.host_pid(host)}", "--net", "--", *command]

    def popen(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on a host; `options` as for subprocess.Popen."""
        return subprocess.Popen(self.host_command(host, command), **options)

    def run(
        self, host: str, command: Sequence[str], timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on a host to its end; output captured as text."""
        return subprocess.run(
            self.host_command(host, command), capture_output=True, text=True, timeout=timeout, check=False
        )

    def ping(self, source: str, target: str, count: int = 1, wait_seconds: int = 5) -> int:
        """Answers received. ARP crosses the fabric first, unless it is static."""
        command = ["ping", "-n", "-q", "-i", "0.2", "-c", str(count), "-W", str(wait_seconds)]
        command.append(str(self.topology.host(target).ip))
        done = self.run(source, command, timeout=30.0 + count * wait_seconds)
        for line in done.stdout.splitlines():
            if " received" in line:
                return int(line.split(",")[1].split()[0])
        raise TargetError(f"{source}: ping {target}: {(done.stderr or done.stdout).strip()}")
