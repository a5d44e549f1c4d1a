# SPDX-License-Identifier: Apache-2.0
"""The decisions are those of the P4 programs: another program decides otherwise on the same engine, and the
reference model decides alike."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from controller import compile_programs
from controller.experiments.captures import read_frames
from controller.programs import REPOSITORY, Programs
from target import build as target_build
from tests.model.reference import NicModel
from tests.support.nic import COUNTERS, HOST, WIRE, Step
from tests.virtual.scenes import TWO_LEAVES, Job, crowded, running
from virtual import VirtualFabric, native


def forgiven(directory: Path, programs: Programs | None = None) -> int:
    with running(TWO_LEAVES, crowded(), directory, programs=programs) as (net, controller):
        job = Job(net, controller)
        job.begin()
        return sum(host["forgiven_bytes"] for host in job.end()["hosts"].values())


def test_a_changed_nic_program_changes_the_result_with_the_same_engine(tmp_path: Path) -> None:
    libraries = (target_build.runtime_library(), native.library())
    sources = tmp_path / "p4src"
    shutil.copytree(REPOSITORY / "p4src", sources)
    path = sources / "nic" / "forgiveness.p4"
    text = path.read_text()
    assert text.count("if (!vested)") == 1, "the rule is written otherwise now; mend this test"
    path.write_text(text.replace("if (!vested)", "if (true)"))
    programs = compile_programs(sources=sources, build=tmp_path / "build")
    assert forgiven(tmp_path / "a") > 0
    assert forgiven(tmp_path / "b", programs) == 0
    assert (target_build.runtime_library(), native.library()) == libraries


class Replay:
    """One NIC's inputs, as captured at both of its ports, given to the reference model."""

    def __init__(self, net: VirtualFabric, host: str, directory: Path, seed: int) -> None:
        dscp = net.configuration.dscp
        classes = {
            dscp.gradient: (True, False),
            dscp.gradient_trimmed: (True, True),
            dscp.data: (False, False),
            dscp.data_trimmed: (False, True),
        }
        self.model = NicModel(classes, seed=seed, control_dscp=dscp.control)
        self._address = net.topology.host(host).ip.packed
        self._files = {
            port: net.capture(f"{net.topology.host(host).nic}-eth{port}", directory) for port in (HOST, WIRE)
        }

    def run(self, net: VirtualFabric, until: list[int], changes: list[dict[int, Step]]) -> int:
        """until[i]: when changes[i] were made to the model's steps. Returns how many frames agreed."""
        events = []
        for port, path in self._files.items():
            for time_ns, frame in read_frames(path):
                whole = frame.ljust(int.from_bytes(frame[16:18], "big") + 14, b"\0")
                ours = whole[26:30] == self._address
                events.append((time_ns, port, ours == (port == HOST), whole))
        found: defaultdict[int, list[bytes]] = defaultdict(list)
        due: defaultdict[int, list[bytes]] = defaultdict(list)
        pending = list(zip(until, changes, strict=True))
        for time_ns, port, inward, frame in sorted(events, key=lambda event: event[0]):
            while pending and time_ns > pending[0][0]:
                self.model.steps = pending.pop(0)[1]
            if not inward:
                found[port].append(frame)
                continue
            for out, sent in self.model.receive(port, frame, time_ns // 1000):
                due[out].append(sent)
        for port in (HOST, WIRE):
            assert sorted(found[port]) == sorted(due[port]), f"port {port}"
        return sum(len(each) for each in found.values())


@pytest.mark.parametrize("host", ["h1", "h5"])
def test_the_reference_model_in_a_nics_place_would_have_sent_the_same(tmp_path: Path, host: str) -> None:
    seed = 3
    chosen = crowded(budget__forgive_ppm=700_000, fabric__seed=seed)
    with running(TWO_LEAVES, chosen, tmp_path, seed=seed) as (net, controller):
        number = net.number(host)
        replay = Replay(net, host, tmp_path, seed + number)
        job = Job(net, controller)
        job.begin()
        installed = controller.controller.nic(host).steps[1]
        middle = 180_001
        net.clock.run(middle)
        job.budgets.close([host], 1)
        net.clock.run()
        assert all(collective.finished for collective in job.collectives)
        net.end_captures()
        counters = controller.counters(host)
        state = controller.step_state(host, 1)
    budget = chosen.budget
    step = Step(
        tag=2,
        p_ppm=installed.p_ppm,
        budget=installed.budget,
        open=True,
        packet_bytes=chosen.wire.payload_bytes,
        forgive_threshold=budget.forgive_threshold,
        vesting=budget.vesting,
        exemption=0,
        eligible=budget.eligible,
        notification_interval_us=0,
        forgiveness_echoes=budget.forgiveness_echoes,
        trimmed_starts_flow=budget.trimmed_starts_flow,
    )
    closed = Step(**{**vars(step), "open": False})
    agreed = replay.run(net, [-1, middle], [{1: step}, {1: closed}])
    assert agreed > 1000
    model = replay.model
    assert {name: model.counters[name] for name in COUNTERS} == {n: getattr(counters, n) for n in COUNTERS}
    told = model.query(1)
    for name in ("received", "forgiven", "outstanding", "trimmed", "open", "exhausted"):
        assert getattr(told, name) == getattr(state, name), name
    for name in ("forgiven", "refused_draw", "refused_closed", "became_exempt", "request_exempt"):
        assert model.counters[name] > 0, f"{name}: the scene shows too little"
