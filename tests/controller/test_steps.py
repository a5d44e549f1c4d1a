# SPDX-License-Identifier: Apache-2.0
"""A NIC's loss budgets: entries, slots, and the state query."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from controller import STEP_SLOTS, ControllerError, Fabric, StepPolicy
from controller import nic as nic_module
from profiles import Exemption, load
from tests.controller.conftest import FakeFabric


def entry_of(fabric: Fabric, fakes: FakeFabric, nic: str = "nic1") -> dict[str, int]:
    """The only step entry of a NIC, arguments by name."""
    schema = fabric.controller.nic(nic).device.schema
    table = schema.tables["steps"]
    (entry,) = (
        e.table_entry for e in fakes.devices[nic].entities.values() if e.table_entry.table_id == table.id
    )
    action = schema.actions["set_step"]
    names = {param.id: param.name for param in action.params}
    found = {names[p.param_id]: int.from_bytes(p.value, "big") for p in entry.action.action.params}
    (key,) = entry.match
    found["key"] = int.from_bytes(key.ternary.value, "big")
    found["mask"] = int.from_bytes(key.ternary.mask, "big")
    return found


def test_life_of_a_step(fabric: Fabric, fakes: FakeFabric, policy: StepPolicy) -> None:
    installed = fabric.install_step("h1", 10, 5_000, 1_835_008, policy)
    assert installed.budget == 9_175  # floor(0.005 x 1,835,008)
    assert entry_of(fabric, fakes) == {
        "step_tag": 11,
        "p_ppm": 5_000,
        "budget": 9_175,
        "open": 1,
        "packet_bytes": 1_024,
        "forgive_threshold": 2**32,
        "vesting": 1,
        "exemption": 0,
        "eligible": 1,
        "notification_interval_us": 0,
        "forgiveness_echoes": 0,
        "trimmed_starts_flow": 1,
        "key": 2 << 21,
        "mask": 0xE00000,
    }
    fabric.verify()
    fabric.close_step("h1", 10)
    assert entry_of(fabric, fakes)["open"] == 0
    fabric.verify()
    fabric.remove_step("h1", 10)
    assert fabric.controller.nic("h1").steps == {}
    assert fabric.verify() == 0


@given(st.integers(0, 999_999), st.integers(0, 2**63))
@settings(deadline=None)
def test_budget_is_exact(p_ppm: int, expected: int) -> None:
    budget = nic_module.budget_bytes(p_ppm, expected)
    assert budget == floor(Fraction(p_ppm, 1_000_000) * expected)


def test_policy_arms(fabric: Fabric, fakes: FakeFabric) -> None:
    profile = load("mininet").override(
        {
            "budget.forgive_ppm": 250_000,
            "budget.vesting": False,
            "budget.exemption": "never_ends",
            "budget.eligible": False,
            "budget.forgiveness_echoes": True,
            "budget.trimmed_starts_flow": False,
            "budget.notification_interval_packets": 40,
        }
    )
    policy = StepPolicy.of(profile.at_rate(8_000_000))
    fabric.install_step("nic2", 0, 100_000, 1000, policy)
    entry = entry_of(fabric, fakes, "nic2")
    assert entry["forgive_threshold"] == 2**30
    assert {name: entry[name] for name in ("vesting", "exemption", "eligible")} == {
        "vesting": 0,
        "exemption": 2,
        "eligible": 0,
    }
    assert (entry["forgiveness_echoes"], entry["trimmed_starts_flow"]) == (1, 0)
    assert entry["notification_interval_us"] == 10_940  # 40 packet times of 1,094 us, a quarter of them
    never = replace(policy, exemption=Exemption.NEVER)
    fabric.remove_step("nic2", 0)
    fabric.install_step("nic2", 1, 100_000, 1000, never)
    assert entry_of(fabric, fakes, "nic2")["exemption"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((8, 5_000, 1_000, 0), "step 8: slot 0 is taken by step 0; remove that first"),
        ((8, 5_000, 1_000, None), "step 8: slot 0 is taken by step 0; remove that first"),
        ((0, 5_000, 1_000, 1), "step 0 is installed already; remove it first"),
        ((1, 5_000, 1_000, STEP_SLOTS), "step 1: slot 8; give 0 to 7"),
        ((1, 1_000_000, 1_000, None), "step 1: p 1000000 ppm of 1000 bytes; give 0 to 999999 ppm"),
        ((1, 5_000, -1, None), "step 1: p 5000 ppm of -1 bytes"),
        ((-1, 5_000, 1, None), "step -1; give 0 to"),
    ],
)
def test_bad_steps_get_one_line(
    fabric: Fabric, policy: StepPolicy, arguments: tuple[int, int, int, int | None], said: str
) -> None:
    fabric.install_step("h1", 0, 5_000, 1_000, policy)
    step, p_ppm, expected, slot = arguments
    with pytest.raises(ControllerError) as caught:
        fabric.install_step("h1", step, p_ppm, expected, policy, slot)
    assert str(caught.value).startswith(f"nic1: {said}")
    assert list(fabric.controller.nic("h1").steps) == [0]


@pytest.mark.parametrize("what", ["close_step", "remove_step", "step_state"])
def test_steps_that_are_not_there(fabric: Fabric, what: str) -> None:
    with pytest.raises(ControllerError, match=r"^nic1: step 3 isn't installed; installed are none$"):
        getattr(fabric, what)("h1", 3)


def test_a_refused_step_is_not_remembered(fabric: Fabric, fakes: FakeFabric, policy: StepPolicy) -> None:
    fakes.devices["nic1"].refuse = lambda update: "no room"
    with pytest.raises(ControllerError, match=r"^nic1: insert steps\[dest_qp=0x0&0xe00000\] .*: no room$"):
        fabric.install_step("h1", 0, 5_000, 1_000, policy)
    fakes.devices["nic1"].refuse = lambda update: None
    fabric.install_step("h1", 0, 5_000, 1_000, policy)


class Answers:
    """Answers state queries as the NIC does, after ignoring the first few."""

    def __init__(self, fabric: Fabric, ignore: int = 0) -> None:
        info = fabric.controller.nic("nic1").device.schema.p4info
        headers = {h.preamble.name: h for h in info.controller_packet_metadata}
        self._asked = {m.id: m.name for m in headers["packet_out"].metadata}
        self._told = {m.name: m.id for m in headers["packet_in"].metadata}
        self._ignore = ignore
        self.nonces: list[int] = []

    def __call__(self, packet: p4r.PacketOut) -> p4r.PacketIn | None:
        asked = {self._asked[m.metadata_id]: int.from_bytes(m.value, "big") for m in packet.metadata}
        self.nonces.append(asked["nonce"])
        if len(self.nonces) <= self._ignore:
            return None
        told = {
            **asked,
            "step_tag": 6,
            "installed": 1,
            "open": 1,
            "exhausted": 0,
            "received": 2**40,
            "forgiven": 3,
            "outstanding": 4,
            "trimmed": 7,
        }
        reply = p4r.PacketIn()
        for name, value in told.items():
            size = max(1, (value.bit_length() + 7) // 8)
            reply.metadata.add(metadata_id=self._told[name], value=value.to_bytes(size, "big"))
        return reply


def test_state_query(fabric: Fabric, fakes: FakeFabric, policy: StepPolicy) -> None:
    fabric.install_step("h1", 5, 5_000, 1_000, policy)
    fakes.devices["nic1"].answer = Answers(fabric)
    state = fabric.step_state("h1", 5)
    assert (state.slot, state.step, state.installed, state.open, state.exhausted) == (5, 5, True, True, False)
    assert (state.received, state.forgiven, state.outstanding, state.trimmed) == (2**40, 3, 4, 7)


def test_a_slot_that_holds_another_step(fabric: Fabric, fakes: FakeFabric, policy: StepPolicy) -> None:
    fabric.install_step("h1", 13, 5_000, 1_000, policy)
    fakes.devices["nic1"].answer = Answers(fabric)
    with pytest.raises(ControllerError, match=r"^nic1: state of step 13: slot 5 has step 5 instead$"):
        fabric.step_state("h1", 13)


def test_a_lost_query_is_asked_again(
    fabric: Fabric, fakes: FakeFabric, policy: StepPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic_module, "QUERY_SECONDS", 0.1)
    answers = Answers(fabric, ignore=2)
    fakes.devices["nic1"].answer = answers
    fabric.install_step("h1", 5, 5_000, 1_000, policy)
    assert fabric.step_state("h1", 5).trimmed == 7
    assert len(answers.nonces) == len(set(answers.nonces)) >= 3


def test_an_answer_that_never_comes(
    fabric: Fabric, policy: StepPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nic_module, "QUERY_SECONDS", 0.01)
    fabric.install_step("h1", 0, 5_000, 1_000, policy)
    with pytest.raises(ControllerError, match=r"^nic1: state of slot 0: no answer to 10 queries"):
        fabric.step_state("h1", 0)


def test_an_answer_to_nobody_is_ignored(fabric: Fabric, fakes: FakeFabric) -> None:
    nic = fabric.controller.nic("nic1")
    answers = Answers(fabric)

    def other_nonce(packet: p4r.PacketOut) -> Any:
        reply = answers(packet)
        assert reply is not None
        for item in reply.metadata:
            if item.metadata_id == answers._told["nonce"]:
                item.value = b"\x7f\xff\xff\xff"
        return reply

    fakes.devices["nic1"].answer = other_nonce
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nic_module, "QUERY_SECONDS", 0.05)
        with pytest.raises(ControllerError, match="no answer"):
            fabric.run(nic.state(0))
