# SPDX-License-Identifier: Apache-2.0
"""One arm on a running Mininet fabric: programs the devices, captures at the NICs,
starts a process per host, leads them through the steps."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controller import Fabric, FabricController, NicCounters, StepPolicy, SwitchCounters
from controller.experiments.coordinator import Coordinator, RunError, StepBytes, StepOutcome
from hosts.coordination import Bye, StepBegin, StepDone
from hosts.job import RunFile
from hosts.messages import STEP_SLOTS
from hosts.profile import dcqcn_settings, transport_settings
from hosts.training import Digits
from profiles import Configuration
from profiles.concrete import BudgetPolicy
from topologies import NIC_HOST_PORT, NIC_WIRE_PORT, Topology
from topologies.capture import capture
from topologies.mininet_net import MininetFabric
from topologies.model import Port

SILENCE_SECONDS = 150.0
END_SECONDS = 60.0
WATCH_SECONDS = 0.2

MLP_INPUT, MLP_CLASSES = 64, 10
LEARNING_RATE, MOMENTUM, BATCH = 0.05, 0.9, 64


def hidden_width(gradient_bytes: int) -> int:
    """Width of the two hidden layers whose float32 gradient comes nearest below gradient_bytes."""
    parameters = gradient_bytes // 4
    width = 1
    while (width + 1) ** 2 + (width + 1) * (MLP_INPUT + MLP_CLASSES + 2) + MLP_CLASSES <= parameters:
        width += 1
    return width


@dataclass(frozen=True, slots=True)
class Placement:
    """Which hosts train, and which carry traffic that is never eligible; names in order."""

    ranks: tuple[str, ...]
    ring: tuple[str, ...]

    @classmethod
    def of(cls, topology: Topology, configuration: Configuration) -> Placement:
        """Rank r on host 1 + r * rank_stride; the ring on the hosts between. Raises RunError."""
        workload = configuration.workload
        names = [host.name for host in topology.hosts]
        ranks = names[:: workload.rank_stride][: workload.ranks]
        if len(ranks) < workload.ranks:
            raise RunError(
                f"{workload.ranks} ranks at every {workload.rank_stride}. of {len(names)} hosts: "
                "lower workload.ranks or workload.rank_stride, or give a larger fabric.k"
            )
        ring = [name for name in names if name not in ranks] if workload.tp_share_ppm else []
        return cls(tuple(ranks), tuple(ring) if len(ring) > 1 else ())


class NicBudgets:
    """The coordinator's view of the NICs."""

    def __init__(self, controller: FabricController, configuration: Configuration) -> None:
        self._controller = controller
        self._budget = configuration.budget
        self._policy = StepPolicy.of(configuration)
        self._counted: dict[str, NicCounters] = {}

    async def start(self, hosts: Iterable[str]) -> None:
        """Read the counters that the first step's events are differences to."""
        for host in hosts:
            self._counted[host] = await self._controller.nic(host).counters()

    async def open_step(self, begin: StepBegin) -> tuple[int, int]:
        nic = self._controller.nic(begin.host)
        p_ppm = self._budget.p_ppm(begin.critical)
        installed = await nic.install_step(
            begin.step, p_ppm, begin.expected_bytes, self._policy, begin.step % STEP_SLOTS
        )
        return p_ppm, installed.budget

    async def close_step(self, host: str, step: int) -> None:
        await self._controller.nic(host).close_step(step)

    async def end_step(self, host: str, step: int) -> StepBytes:
        nic = self._controller.nic(host)
        state = await nic.step_state(step)
        counters = await nic.counters()
        events = asdict(counters - self._counted[host])
        self._counted[host] = counters
        await nic.remove_step(step)
        return StepBytes(state.received, state.forgiven, state.outstanding, state.trimmed, events)


class Watcher:
    """Progress as a callback: (step, steps, span of the step in ns)."""

    def __init__(self, report: Any) -> None:
        self._report = report

    def step_done(self, step: int, begins: Iterable[StepBegin], dones: Iterable[StepDone]) -> None:
        ranks = {b.host for b in begins if b.expected_bytes}
        times = [(d.start_ns, d.end_ns) for d in dones if d.host in ranks]
        self._report(step, max(e for _, e in times) - min(s for s, _ in times))


@dataclass(frozen=True)
class ArmRun:
    """What one arm left: outcomes, final words, counters, captures by interface."""

    outcomes: list[StepOutcome]
    byes: Mapping[str, Bye]
    switches: Mapping[str, SwitchCounters]
    captures: Mapping[str, Path]
    directory: Path
    placement: Placement


def run_file(
    topology: Topology,
    configuration: Configuration,
    placement: Placement,
    directory: Path,
    seed: int,
    steps: int,
    sheds: BudgetPolicy | None,
    keep_arrays: bool,
    socket: Path = Path("coordinator.sock"),
) -> RunFile:
    """What the host processes are told. sheds: the schedule by which senders shed, if they do. socket: the
    coordinator's; its path must be short (a Unix socket's holds 107 bytes).
    """
    workload = configuration.workload
    ranks = len(placement.ranks)
    data_bytes = 2 * (ranks - 1) * workload.gradient_bytes
    tp_bytes = data_bytes * workload.tp_share_ppm // (1_000_000 - workload.tp_share_ppm)
    messages = max(1, len(placement.ring) * 2 * (len(placement.ring) - 1))
    payload = configuration.wire.payload_bytes
    return RunFile(
        hosts={h.name: (n, str(h.ip)) for n, h in enumerate(topology.hosts, 1)},
        group=list(placement.ranks),
        ring=list(placement.ring),
        ring_bytes=max(payload, tp_bytes // messages // payload * payload),
        steps=steps,
        seed=seed,
        hidden=hidden_width(workload.gradient_bytes),
        batch=BATCH,
        learning_rate=LEARNING_RATE,
        momentum=MOMENTUM,
        detector_threshold=workload.detector_threshold,
        detector_window=workload.detector_window,
        reduce_scatter_fill="rescale",
        all_gather_fill="own",
        shed_low_ppm=sheds.p_low_ppm if sheds else 0,
        shed_high_ppm=sheds.p_high_ppm if sheds else 0,
        transport=transport_settings(configuration),
        dcqcn=dcqcn_settings(configuration),
        data=str(directory / "digits.npz"),
        socket=str(socket),
        directory=str(directory),
        keep_arrays=keep_arrays,
    )


def nic_interfaces(topology: Topology, hosts: Sequence[str]) -> list[tuple[str, str, str]]:
    """(host, interface of its NIC towards the wire, towards the host)."""
    found = []
    for name in hosts:
        nic = topology.host(name).nic
        found.append((name, Port(nic, NIC_WIRE_PORT).interface, Port(nic, NIC_HOST_PORT).interface))
    return found


def capture_filters(topology: Topology, hosts: Sequence[str]) -> dict[str, str]:
    """By interface, what a recount needs: on the wire, data of both directions and this NIC's answers;
    towards the host, what it is given of messages."""
    found = {}
    for name, wire, host in nic_interfaces(topology, hosts):
        address, roce = topology.host(name).ip, "udp dst port 4791"
        found[wire] = f"{roce} and not (dst host {address} and udp[8] = 0x11)"
        found[host] = f"{roce} and dst host {address} and udp[8] = 0x0a"
    return found


@contextlib.contextmanager
def _processes(net: MininetFabric, hosts: Sequence[str], told: Path, directory: Path) -> Iterator[Any]:
    """One process per host; yields them by name, ends them all on the way out."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    logs = []
    try:
        for name in hosts:
            log = (directory / f"{name}.log").open("wb")
            logs.append(log)
            running[name] = net.popen(
                name, [sys.executable, "-m", "hosts.rank", str(told), name],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=Path(__file__).parents[2],
                start_new_session=True,  # Ctrl-C is for us; we end them
            )  # fmt: skip
        yield running
        for name, process in running.items():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                raise RunError(
                    f"{name}: its process doesn't end; its log is {directory}/{name}.log"
                ) from None
            if process.returncode:
                raise RunError(f"{name}: {_last_words(directory, name, process.returncode)}")
    finally:
        for process in running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        for log in logs:
            log.close()


def _last_words(directory: Path, name: str, status: int) -> str:
    """What a host process wrote at its end, in one line."""
    if status < 0:
        return f"its process was ended by signal {-status}"
    lines = (directory / f"{name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("rank: ") if lines else f"its process ended with status {status}"


@contextlib.contextmanager
def _watched(
    running: Mapping[str, subprocess.Popen[bytes]], directory: Path, lead: Coordinator, loop: Any
) -> Iterator[None]:
    """Meanwhile, report a host process that ends without having said why."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_SECONDS):
            for name, process in running.items():
                if status := process.poll():
                    why = _last_words(directory, name, status)
                    loop.call_soon_threadsafe(lead.failed, f"{name}: {why}")
                    return

    watcher = threading.Thread(target=watch, name="watcher", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def run_arm(
    net: MininetFabric,
    fabric: Fabric,
    configuration: Configuration,
    directory: Path,
    *,
    seed: int,
    steps: int,
    report: Any,
    sheds: BudgetPolicy | None = None,
    capturing: bool = True,
) -> ArmRun:
    """Run the job once. fabric: connected and installed, its state fresh. report(step, span_ns): progress.

    Raises RunError, CaptureError, ControllerError.
    """
    topology = net.topology
    placement = Placement.of(topology, configuration)
    hosts = [*placement.ranks, *placement.ring]
    directory.mkdir(parents=True, exist_ok=True)
    told = directory / "run.json"
    socket = net.directory / "coordinator.sock"
    plan = run_file(topology, configuration, placement, directory, seed, steps, sheds, capturing, socket)
    plan.save(told)
    Digits.load(seed).save(Path(plan.data))
    budgets = NicBudgets(fabric.controller, configuration)
    lead = Coordinator(frozenset(hosts), frozenset(placement.ranks), budgets, Watcher(report))
    filters = capture_filters(topology, hosts)
    captures: contextlib.AbstractContextManager[Mapping[str, Path]] = (
        capture(list(filters), directory / "pcaps", snap_bytes=128, filter_expression=filters)
        if capturing
        else contextlib.nullcontext({})
    )
    with captures as files:
        fabric.run(budgets.start(placement.ranks))
        server = fabric.run(lead.serve(socket))
        try:
            with _processes(net, hosts, told, directory) as running:
                with _watched(running, directory, lead, server.get_loop()):
                    fabric.run(lead.run(SILENCE_SECONDS))
                fabric.run(lead.close())
            net.check()
        finally:
            fabric.run(_close(server))
            socket.unlink(missing_ok=True)
    return ArmRun(lead.outcomes, lead.byes, fabric.switch_counters(), dict(files), directory, placement)


async def _close(server: asyncio.Server) -> None:
    server.close()
