# SPDX-License-Identifier: Apache-2.0
"""The fabric itself: as the controller sees it at a standing clock, by its parts, in captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller import Fabric, StepPolicy, compile_programs
from controller.experiments.captures import Data, Feedback, read_frames, read_roce
from hosts.messages import MessageKey
from tests.virtual.scenes import PACKET, TWO_LEAVES, Mailbox, configuration, ranks_of, running
from topologies import CPU_PORT, fat_tree, leaf_spine, targets
from virtual import Exchange, StepBudgets, VirtualError, VirtualFabric


def test_the_controller_programs_it_as_any_other_fabric(tmp_path: Path) -> None:
    chosen = configuration()
    with running(TWO_LEAVES, chosen, tmp_path) as (net, controller):
        assert controller.verify() > 0 and net.clock.now_ns == 0
        budgets = StepBudgets(controller, StepPolicy.of(chosen))
        budgets.open(net.host_names, 3, 100_000, 12_345_678)
        state = controller.step_state("h1", 3)
        assert (state.installed, state.open, state.received, state.exhausted) == (True, True, 0, False)
        budgets.close(["h1"], 3)
        assert not controller.step_state("h1", 3).open and controller.step_state("h2", 3).open
        reports = budgets.finish(net.host_names, 3)
        assert {r.installed.budget for r in reports.values()} == {1_234_567}
        assert not controller.controller.nic("h1").steps and net.clock.now_ns == 0


def test_names_ids_and_ports_are_mininets(tmp_path: Path) -> None:
    topology = fat_tree(2)
    chosen = configuration()
    known = {device.name: device for device in targets.settings(topology, chosen)}
    with VirtualFabric(topology, chosen, directory=tmp_path) as net:
        for device in net.devices:
            twin = known[device.name]
            assert (device.device_id, device.cpu_port) == (twin.device_id, CPU_PORT)
            assert [p.interface for p in device.ports] == [p.interface for p in twin.ports]
            assert set(net.device(device.name).ports()) == {p.port for p in twin.ports}
        # By the wall clock a NIC's line has room for what piled up; here it is exactly the link's.
        rates = {p.rate_bps for d in net.devices if d.name.startswith("nic") for p in d.ports}
        assert rates == {0, 400_000_000_000}


def test_a_long_directory_is_no_obstacle_for_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    with running(leaf_spine(1, 1, 2), configuration(), deep) as (net, controller):
        assert controller.verify() > 0
        socket = Path(net.devices[0].grpc_address.removeprefix("unix:"))
        assert socket.exists()
    assert not socket.exists()


def test_fabrics_follow_one_another_in_a_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    programs = compile_programs()
    for number in range(3):
        with running(leaf_spine(1, 1, 2), configuration(), tmp_path / str(number), programs=programs):
            pass
    with (
        running(leaf_spine(1, 1, 2), configuration(), tmp_path / "a") as (_, one),
        running(leaf_spine(1, 1, 2), configuration(), tmp_path / "b") as (_, other),
    ):
        assert one.verify() == other.verify() > 0
    assert caplog.text == ""


def test_an_observer_that_stops_the_engine_loses_no_time(tmp_path: Path) -> None:
    """A violation ends the engine's turn early: the clock must not take that for its end."""

    def finished(name: str, watched: bool) -> tuple[int, int]:
        with running(leaf_spine(1, 1, 2), configuration(), tmp_path / name) as (net, _):
            ffi, seen = net.native[0], []

            def frame(*_: object) -> int:
                seen.append(net.clock.now_ns)
                return 1

            callback = ffi.callback("int(void *, uint64_t, int, const uint8_t *, uint32_t, uint32_t)", frame)
            if watched:
                net.observe("nic1-eth2", int(ffi.cast("uintptr_t", callback)), 0)
            mailbox = Mailbox(Exchange(net, ranks_of(net.topology), eager=True), 1)
            mailbox.send(MessageKey(1, 1, 2, 0), 3 * PACKET)
            net.clock.at(50_000, net.clock.stop)
            net.clock.run()
            return net.stats("h1").sent_messages, len(seen)

    assert finished("alone", False) == (1, 0)
    assert finished("watched", True) == (1, 6)


def test_a_capture_has_every_frame_of_a_port_in_both_directions(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as (net, _):
        wire = net.capture("nic1-eth2", tmp_path)
        short = net.capture("nic2-eth1", tmp_path, snap_bytes=60)
        sender = Mailbox(Exchange(net, ranks_of(net.topology), eager=True), 1)
        sender.send(MessageKey(1, 1, 2, 0), 3 * PACKET)
        net.clock.run()
        net.end_captures()
    packets = list(read_roce(wire))
    assert [type(p) for p in packets] == [Data] * 3 + [Feedback] * 3
    assert [p.time_ns for p in packets][:3] == [0, 83, 166] and packets[3].time_ns == 20_164
    assert {len(frame) for _, frame in read_frames(short)} == {60}


def test_a_port_has_several_observers(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as (net, _):
        sender = Mailbox(Exchange(net, ranks_of(net.topology), eager=True), 1)
        first = net.capture("nic1-eth2", tmp_path / "a")
        sender.send(MessageKey(1, 1, 2, 0), PACKET)
        net.clock.run()
        second, third = (net.capture("nic1-eth2", tmp_path / name) for name in "bc")
        sender.send(MessageKey(1, 1, 2, 1), PACKET)
        net.clock.run()
        net.end_captures()
        sender.send(MessageKey(1, 1, 2, 2), PACKET)
        net.clock.run()
    counts = [len(list(read_frames(path))) for path in (first, second, third)]
    assert counts == [4, 2, 2] and second.read_bytes() == third.read_bytes()


def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    with running(leaf_spine(1, 1, 2), configuration(), tmp_path) as (net, _):
        for call, words in (
            (lambda: net.device("leaf9"), "no device leaf9; devices are nic1"),
            (lambda: net.stats("h3"), "no host h3; hosts are h1 to h2"),
            (lambda: net.set_link("leaf1-spine9", False), "no link leaf1-spine9"),
            (lambda: net.capture("leaf1", tmp_path), "no interface leaf1"),
            (lambda: net.capture("leaf1-eth9", tmp_path), "no interface leaf1-eth9: "),
            (lambda: net.capture("h1-eth0", tmp_path), "no interface h1-eth0"),
        ):
            with pytest.raises(VirtualError, match=words):
                call()
    with pytest.raises(VirtualError, match="rto_ns"):
        VirtualFabric(leaf_spine(1, 1, 2), configuration(), directory=tmp_path, transport={"rto_ns": 0})
    with pytest.raises(VirtualError, match="colour"):
        VirtualFabric(leaf_spine(1, 1, 2), configuration(), directory=tmp_path, transport={"colour": 1})


def test_a_controller_may_leave_and_another_come(tmp_path: Path) -> None:
    topology, chosen, programs = leaf_spine(1, 1, 2), configuration(), compile_programs()
    with VirtualFabric(topology, chosen, directory=tmp_path) as net:
        for _ in range(2):
            with Fabric(topology, net.devices, programs) as controller:
                controller.install(chosen)
                assert controller.verify() > 0
