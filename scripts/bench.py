# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.bench`: how fast the hot paths are, as a table and in build/bench.json.

switch, nic: frames through the compiled program in memory, on one core. veth: through the switch between two
veth pairs, beside a bare forwarder (root). transport: packets of the hosts' core. virtual: a fabric of 64
hosts on the simulated clock, beside htsim if it is on PATH. compile: nic.p4, beside p4c if it is on PATH.
Before that, the programs' counters must say that every frame is forwarded or answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from controller.device import Device, Operation
from controller.entities import Entity, Group, Value
from controller.errors import ControllerError
from controller.nic import Nic, StepPolicy
from controller.programs import P4C, REPOSITORY, Program, Programs, compile_programs
from controller.switch import Switch
from hosts import bench as transport
from hosts import wire
from hosts.build import BuildError
from profiles import Configuration, load
from scripts import bench_virtual
from target.api import DeviceError
from target.benchmark.state import install
from target.engine import Engine
from topologies import NIC_WIRE_PORT, Host, Topology, fat_tree, routes

OUT_OF_ORDER, TRIMMED = 0.10, 0.05
MOST_LATE, RETRANSMITTED_AFTER = 8.0, 12.0  # packets of the same flow
OWNERS = (0, 683, 1366)
"""Serial numbers of a slot's flows, modulo 2048: each is ahead of the one before it, and the first of the
last, so that frames sent in a circle are new flows for ever (p4src/nic/flows.p4)."""
EXPECTED_BYTES = 1 << 40  # of the step: more than a measurement sends, so its budget is never exhausted
PARTS = 5  # of which target.benchmark reports the best; each is whole rounds of the frames


class BenchError(Exception):
    """A measurement that can't be made or wouldn't mean anything, in one line."""


@dataclass(frozen=True, slots=True)
class Size:
    """packets: of a flow's message at the NIC; rounds: of all frames in each part."""

    flows: int
    packets: int
    rounds: int
    veth_seconds: float
    transport_divisor: int
    compilations: int
    virtual_flow_bytes: int
    virtual_sides: tuple[int, ...]
    """Ranks of the growing fabric, as the roots of their numbers."""


FULL = Size(1000, 48, 2, 3.0, 1, 3, 16 << 20, (8, 16, 32))
QUICK = Size(64, 16, 1, 0.3, 50, 1, 64 << 10, (2, 3))


class Load(Device):
    """Input of target.benchmark: frames for one port, and a device that keeps what a controller writes."""

    def __init__(self, name: str, program: Program, port: int) -> None:
        super().__init__(name, "", 1, program)
        self.port = port
        self.frames: list[bytes] = []
        self.state: dict[str, Any] = {"tables": [], "groups": {}}

    async def write(self, operation: Operation, entities: Iterable[Entity]) -> None:
        for entity in entities:
            if isinstance(entity, Group):
                self.state["groups"][entity.number] = entity.replicas
                continue
            table, action = self.schema.tables[entity.table], self.schema.actions[entity.action]
            key = [_match(entity.key[field.alias]) for field in table.match_fields] if entity.key else []
            args = [entity.args[param.name] for param in action.params]
            item = {"table": table.name, "key": key, "action": action.name, "args": args}
            self.state["tables"].append(item | {"priority": entity.priority})


def _match(value: Value) -> Sequence[int]:
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, int) else (int(value.network_address), value.prefixlen)


@dataclass(frozen=True, slots=True)
class Flow:
    """One message. Some flows are of the data class, the rest are gradients, as the workload shares them."""

    config: Configuration
    source: Host
    target: Host
    packets: int
    number: int
    owner: int = 0

    @property
    def is_gradient(self) -> bool:
        return self.number % 100 * 10_000 >= self.config.workload.tp_share_ppm

    def frame(self, index: int, psn: int, trimmed: bool = False) -> bytes:
        """Packet `index` of the message."""
        dscp, size = self.config.dscp, self.config.wire.payload_bytes
        gradient, data = (dscp.gradient, dscp.gradient_trimmed), (dscp.data, dscp.data_trimmed)
        full, cut = gradient if self.is_gradient else data
        qp = wire.QueuePair(0, self.owner, self.number).number
        bth = wire.Bth(wire.OPCODE_WRITE_ONLY, qp, psn, solicited=index == self.packets - 1)
        packet = wire.Data(bth, index * size, self.number, size, None if trimmed else bytes(size))
        ends = {"src_addr": int(self.source.ip), "dst_addr": int(self.target.ip)}
        return wire.frame(
            packet.encode(), **ends, dscp=cut if trimmed else full, src_port=0xC000 | self.number
        )

    def arrivals(self, rng: random.Random) -> list[bytes]:
        """All packets as a receiver sees them. Gradients' trimmed headers are forgiven (the profile's draws
        never fail), those of data are asked for again and come again.
        """
        found: list[tuple[float, int, bytes]] = []
        for index in range(self.packets):
            trimmed = index > self.packets // 4 and rng.random() < TRIMMED * 4 / 3  # none before some vested
            late = rng.uniform(1, MOST_LATE) if not trimmed and rng.random() < OUT_OF_ORDER else 0.0
            found.append((index + late, index, self.frame(index, index, trimmed)))
            if trimmed and not self.is_gradient:
                psn = self.packets + index
                found.append((index + RETRANSMITTED_AFTER, psn, self.frame(index, psn)))
        return [frame for _, _, frame in sorted(found)]


def switch_load(program: Program, topology: Topology, config: Configuration, flows: int) -> Load:
    """edge1 of the fat-tree; from its first host to all others, eight packets of each flow in turn."""
    source, *others = topology.hosts
    device = Load("edge1", program, topology.port_to("edge1", source.nic))
    ports = [link.end(device.name).number for link in topology.links_of(device.name)]
    asyncio.run(Switch(device, ports).install(topology, routes(topology)[device.name], config))
    sent = [Flow(config, source, others[~i % len(others)], 8, i) for i in range(flows)]
    device.frames = [flow.frame(index, index) for index in range(8) for flow in sent]
    return device


def nic_load(program: Program, topology: Topology, config: Configuration, flows: int, packets: int) -> Load:
    """nic1 receives three messages in each flow slot, one after the other; flows interleave at random."""
    device = Load("nic1", program, NIC_WIRE_PORT)
    nic = Nic(device)
    asyncio.run(nic.install(config, 1))
    asyncio.run(nic.install_step(0, config.budget.p_high_ppm, EXPECTED_BYTES, StepPolicy.of(config)))
    target, *others = topology.hosts
    rng = random.Random(1)
    for owner in OWNERS:
        sent = [Flow(config, others[i % len(others)], target, packets, i, owner) for i in range(flows)]
        messages = [flow.arrivals(rng)[::-1] for flow in sent]
        turns = [message for message in messages for _ in message]
        rng.shuffle(turns)
        device.frames += [message.pop() for message in turns]
    return device


def count(load: Load, frames: Sequence[bytes], rounds: int) -> dict[str, dict[int, int]]:
    """What the program counts over so many rounds of frames: counter -> cell -> packets, without zeros."""
    found = {}
    with Engine() as engine:
        device = engine.add_device("bench", 1, priority_queues=8)
        device.add_port(load.port)
        device.load_pipeline(load.program.json.read_text())
        install(device, load.state)
        device.benchmark(load.port, frames, rounds * len(frames))
        for counter in load.schema.counters:
            cells = ((i, device.counter_read(counter.name, i)[0]) for i in range(counter.size))
            if packets := {i: number for i, number in cells if number}:
                found[counter.alias] = packets
    return found


def check(load: Load, wanted: Sequence[str], details: Sequence[str] = ()) -> dict[str, int]:
    """Packets by counter. Raises BenchError unless the wanted counters have all frames, and but for the
    details nothing else was counted. The second round shows that frames can be sent in a circle.
    """
    counts = {name: sum(cells.values()) for name, cells in count(load, load.frames, 2).items()}
    sent = 2 * len(load.frames)
    if sum(counts.get(name, 0) for name in wanted) != sent or counts.keys() - {*wanted, *details}:
        raise BenchError(f"{load.program.name}: of {sent} frames sent, the program counted {counts}")
    return {"frames": sent, **counts}


def run_target(command: str, load: Load, frames: Sequence[bytes], *options: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        sent, entries = Path(scratch, "frames.hex"), Path(scratch, "entries.json")
        sent.write_text("\n".join(frame.hex() for frame in frames))
        entries.write_text(json.dumps(load.state))
        program = [sys.executable, "-m", "target.benchmark", command, str(load.program.json)]
        inputs = ["--frames", str(sent), "--entries", str(entries), "--port", str(load.port)]
        return dict(json.loads(_run([*program, *inputs, *options])))


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command[:4])}: status {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


def pipeline_figures(load: Load, rounds: int) -> dict[str, float]:
    found = run_target("pipeline", load, load.frames, "--count", str(PARTS * rounds * len(load.frames)))
    return {f"{load.program.name}_pipeline_{name}": value for name, value in found.items()}


def veth_figures(load: Load, seconds: float) -> dict[str, float]:
    """One frame all the time, hence one port that it leaves by."""
    one = load.frames[:1]
    (egress,) = count(load, one, 1)["forwarded"]
    found = run_target("veth", load, one, "--egress", str(egress), "--seconds", str(seconds))
    return {f"veth_switch_{name}": value for name, value in found.items()}


def transport_figures(divisor: int) -> dict[str, float]:
    figures = {}
    for scenario in transport.SCENARIOS:
        found = transport.run(replace(scenario, messages=max(1, scenario.messages // divisor)))
        name = f"transport_{re.sub(r'[^a-z0-9]+', '_', scenario.name)}_mpackets_per_cpu_s"
        figures[name] = round(found["packets"] / found["cpu_s"] / 1e6, 3)
    return figures


def compiler_figures(times: int) -> dict[str, float]:
    """The best of so many; the compilers take turns, so that a busy machine is so for both."""
    commands = {"own": [sys.executable, "-m", "compiler"]} | ({"p4c": [P4C]} if shutil.which(P4C) else {})
    best = dict.fromkeys(commands, float("inf"))
    with tempfile.TemporaryDirectory() as out:
        options = ["-o", f"{out}/nic.json", "--p4runtime-files", f"{out}/nic.p4info.txtpb", "p4src/nic.p4"]
        for name in [*commands] * times:
            before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
            _run([*commands[name], *options])
            best[name] = min(best[name], sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before)
    figures = {f"compile_nic_{name}_cpu_s": round(seconds, 3) for name, seconds in best.items()}
    if "p4c" in best:
        figures["compile_nic_own_to_p4c_ratio"] = round(best["own"] / best["p4c"], 2)
    return figures


def measure(programs: Programs, size: Size) -> dict[str, Any]:
    """What build/bench.json holds. counted: the check of the inputs, packets by counter."""
    topology, config = fat_tree(4), load("mininet").at_rate(10_000_000_000)
    switch = switch_load(programs.switch, topology, config, size.flows)
    nic = nic_load(programs.nic, topology, config, size.flows, size.packets)
    counted = {
        "switch": check(switch, ["forwarded"]),
        "nic": check(nic, ["data_received", "trimmed_received"], ["forgiven", "refused_class"]),
    }
    figures = pipeline_figures(switch, 50 * size.rounds) | pipeline_figures(nic, size.rounds)
    if os.geteuid() == 0:
        figures |= veth_figures(switch, size.veth_seconds)
    figures |= transport_figures(size.transport_divisor) | compiler_figures(size.compilations)
    figures |= bench_virtual.virtual_figures(programs, size.virtual_flow_bytes)
    figures |= bench_virtual.growth_figures(programs, size.virtual_sides, size.virtual_flow_bytes // 4)
    lacking = {
        "veth: needs root": os.geteuid() != 0,
        f"p4c's time: no {P4C} on PATH": not shutil.which(P4C),
        f"htsim: no {bench_virtual.HTSIM} on PATH": not shutil.which(bench_virtual.HTSIM),
    }
    return {
        "figures": figures,
        "skipped": [what for what, is_so in lacking.items() if is_so],
        "programs_compiled_by": programs.compiler,
        "counted": counted,
        "machine": {"cores": os.cpu_count(), "load_average_1min": round(os.getloadavg()[0], 2)},
    }


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m scripts.bench", description=__doc__.split("\n")[0])
    options.add_argument("--quick", action="store_true", help="tiny counts: do the benchmarks run?")
    options.add_argument("--out", type=Path, default=REPOSITORY / "build" / "bench.json")
    args = options.parse_args(argv)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        result = measure(compile_programs(), QUICK if args.quick else FULL)
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    except (
        BenchError,
        bench_virtual.VirtualBenchError,
        BuildError,
        ControllerError,
        DeviceError,
        OSError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    table = Table("figure", title=f"programs compiled by {result['programs_compiled_by']}")
    table.add_column("value", justify="right")
    for name, value in result["figures"].items():
        table.add_row(name, f"{value:,}")
    Console().print(table)
    sys.stdout.writelines(f"skipped {line}\n" for line in result["skipped"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
