# SPDX-License-Identifier: Apache-2.0
"""Arms on a Mininet network in a private namespace, by the wall clock."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from rich.console import Console

from controller import Fabric, Programs
from controller.experiments.calibration import Calibration, calibrate
from controller.experiments.coordinator import RunError
from controller.experiments.place import Job
from controller.experiments.training_run import ArmRun, run_arm
from profiles import Profile
from topologies import Topology
from topologies.mininet_net import MininetFabric
from topologies.targets import find


class InMininet:
    """target: the name of an adapter. directory: of the run, in the namespace that we are in."""

    name = "mininet"

    def __init__(self, target: str, directory: Path, console: Console) -> None:
        self._target_name = target
        self._directory = directory
        self._console = console
        self.calibration: Calibration | None = None

    def __enter__(self) -> InMininet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_net"):
            self._net.stop()

    def check(self, profile: Profile) -> None:
        if profile.faults:
            raise RunError(f"{profile.name}: faults happen in simulated time; add --where virtual")

    def boot(self, topology: Topology, programs: Programs) -> str:
        self._programs = programs
        target = find(self._target_name)
        target.prepare((programs.switch.json, programs.nic.json))
        # Static ARP: the job must not stall because a probe met a full queue.
        net = MininetFabric(topology, target=target, directory=self._directory, static_arp=True)
        net.start()
        self._net = net
        first = topology.links_of(topology.hosts[0].nic)[-1].b.interface
        return (
            f"{len(topology.hosts)} hosts, {len(topology.devices)} P4 devices ({self._target_name}), "
            f"{len(topology.links)} links in a private namespace. "
            f"To look inside meanwhile: python -m topologies.attach -- tcpdump -i {first}"
        )

    def link_rate(self, profile: Profile, share: float) -> int:
        with self._console.status("calibrating: how much can this machine forward?"):
            found = calibrate(self._net, self._programs, profile, self._directory / "calibration", share)
        self.calibration = found
        self._console.print(
            f"capacity {found.hops_per_second:,.0f} packet-hops/s; at {found.share:.0%} of it "
            f"links run at {found.link_rate_bps / 1e6:.2f} Mb/s"
        )
        return found.link_rate_bps

    def run(self, job: Job) -> ArmRun:
        net = self._net
        net.configure(job.configuration)
        with Fabric(net.topology, net.devices, self._programs) as fabric:
            fabric.install(job.configuration, seed=job.seed)
            agreed = fabric.verify()
            if net.ping(net.topology.hosts[0].name, net.topology.hosts[-1].name) < 1:
                raise RunError("the first host can't reach the last: no answer to a ping")
            job.said(f"{agreed} entities installed and read back")
            return run_arm(
                net, fabric, job.configuration, job.directory,
                seed=job.seed, steps=job.steps, sheds=job.sheds, report=job.report,
            )  # fmt: skip
