# SPDX-License-Identifier: Apache-2.0
"""What a NIC gets (`p4src/nic.p4`): settings, classes, feedback groups, and the loss budget of every step.

Tables, counters and the state query: docs/dataplane.md. Source of the budget: the paper, "The loss budget".
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, fields, replace

from finsy import P4PacketIn

from controller.device import Device
from controller.entities import Entity, Entry, Group
from controller.errors import ControllerError
from profiles import Configuration, Exemption
from topologies import NIC_HOST_PORT, NIC_WIRE_PORT

STEP_SLOTS = 8
SLOT_SHIFT = 21
SLOT_MASK = (STEP_SLOTS - 1) << SLOT_SHIFT
PPM = 1_000_000
MAXIMUM_TAG = 2**32 - 1

QUERY_SECONDS = 1.0
QUERY_TRIES = 10

EXEMPTION_CODES = {Exemption.PAPER: 0, Exemption.NEVER: 1, Exemption.NEVER_ENDS: 2}
"""Values of `set_step`'s parameter `exemption` (docs/dataplane.md)."""

# Replica ids (p4src/nic/metadata.p4): 1 host copy, 2 feedback, 3 notification.
GROUPS = (
    Group(1, ((NIC_HOST_PORT, 1), (NIC_WIRE_PORT, 2))),
    Group(2, ((NIC_HOST_PORT, 1), (NIC_WIRE_PORT, 2), (NIC_WIRE_PORT, 3))),
    Group(3, ((NIC_WIRE_PORT, 2), (NIC_WIRE_PORT, 3))),
)


@dataclass(frozen=True, slots=True)
class NicCounters:
    """Packets counted by one NIC since its program was loaded; docs/dataplane.md says what each means."""

    data_received: int
    data_duplicate: int
    data_late: int
    trimmed_received: int
    trimmed_settled: int
    forgiven: int
    refused_class: int
    refused_closed: int
    refused_vesting: int
    refused_draw: int
    echo_sent: int
    notification_sent: int
    exhausted_set: int
    exhausted_cleared: int
    beyond_window: int
    bad_range: int
    malformed: int
    stale: int
    unknown_flow: int
    notification_delivered: int
    notification_ignored: int
    request_obeyed: int
    request_exempt: int
    became_exempt: int
    became_obeying: int

    def __sub__(self, earlier: NicCounters) -> NicCounters:
        """What was counted since an earlier reading."""
        return NicCounters(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))


NIC_COUNTERS = tuple(f.name for f in fields(NicCounters))


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """The arms of an experiment, as parameters of a step's entry. packet_bytes: the paper's kPacketBytes."""

    packet_bytes: int
    forgive_threshold: int
    vesting: bool
    exemption: Exemption
    eligible: bool
    notification_interval_us: int
    forgiveness_echoes: bool
    trimmed_starts_flow: bool

    @classmethod
    def of(cls, configuration: Configuration) -> StepPolicy:
        """The policy that a configuration asks for."""
        budget = configuration.budget
        return cls(
            packet_bytes=configuration.wire.payload_bytes,
            forgive_threshold=budget.forgive_threshold,
            vesting=budget.vesting,
            exemption=budget.exemption,
            eligible=budget.eligible,
            notification_interval_us=budget.notification_interval_us,
            forgiveness_echoes=budget.forgiveness_echoes,
            trimmed_starts_flow=budget.trimmed_starts_flow,
        )


@dataclass(frozen=True, slots=True)
class InstalledStep:
    """A step with an entry in this NIC. budget = floor(p x expected), bytes."""

    step: int
    slot: int
    p_ppm: int
    expected_bytes: int
    budget: int
    open: bool
    policy: StepPolicy

    def entry(self) -> Entry:
        policy = self.policy
        args = {
            "step_tag": self.step + 1,
            "p_ppm": self.p_ppm,
            "budget": self.budget,
            "open": int(self.open),
            "packet_bytes": policy.packet_bytes,
            "forgive_threshold": policy.forgive_threshold,
            "vesting": int(policy.vesting),
            "exemption": EXEMPTION_CODES[policy.exemption],
            "eligible": int(policy.eligible),
            "notification_interval_us": policy.notification_interval_us,
            "forgiveness_echoes": int(policy.forgiveness_echoes),
            "trimmed_starts_flow": int(policy.trimmed_starts_flow),
        }
        return Entry("steps", "set_step", args, {"dest_qp": (self.slot << SLOT_SHIFT, SLOT_MASK)}, priority=1)


@dataclass(frozen=True, slots=True)
class StepState:
    """Byte state of a step slot, as the NIC reports it. step: None without an entry. Bytes are 0 while no
    packet has met the entry. trimmed: payload bytes of trimmed headers that arrived.
    """

    slot: int
    step: int | None
    installed: bool
    open: bool
    exhausted: bool
    received: int
    forgiven: int
    outstanding: int
    trimmed: int


def budget_bytes(p_ppm: int, expected_bytes: int) -> int:
    """floor(p x expected), exactly: the loss budget of a step (the paper, OnStepBegin)."""
    return p_ppm * expected_bytes // PPM


class Nic:
    """One NIC."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.name = device.name
        self._steps: dict[int, InstalledStep] = {}
        self.restarts = 0
        """How often its counters started over."""
        self._nonces = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[StepState]] = {}
        device.on_packet(self._on_packet)

    async def install(self, configuration: Configuration, seed: int) -> None:
        """Settings, traffic classes and feedback groups. seed: of the draws P."""
        dscp = configuration.dscp
        settings = {
            "seed": seed,
            "control_dscp": dscp.control,
            "notification_interval_us": configuration.budget.notification_interval_us,
        }
        classes = (
            (dscp.gradient, 1, 0),
            (dscp.gradient_trimmed, 1, 1),
            (dscp.data, 0, 0),
            (dscp.data_trimmed, 0, 1),
        )
        entities: list[Entity] = [Entry("nic_config", "configure", settings), *GROUPS]
        entities += [
            Entry("traffic_class", "classify", {"gradient": gradient, "trimmed": trimmed}, {"dscp": value})
            for value, gradient, trimmed in classes
        ]
        await self.device.write("insert", entities)

    async def restart(self, configuration: Configuration, seed: int) -> None:
        """The program anew, then `install`, then the steps that were installed, closed: the NIC has forgotten
        what it forgave, so nothing more may be.
        """
        await self.device.push()
        self.restarts += 1
        await self.install(configuration, seed)
        self._steps = {number: replace(step, open=False) for number, step in self._steps.items()}
        await self.device.write("insert", [step.entry() for step in self._steps.values()])

    # --- steps
    @property
    def steps(self) -> dict[int, InstalledStep]:
        """Installed steps by number."""
        return dict(self._steps)

    async def install_step(
        self, step: int, p_ppm: int, expected_bytes: int, policy: StepPolicy, slot: int | None = None
    ) -> InstalledStep:
        """Open a loss budget of floor(p x expected_bytes) bytes for a step; peers may send once this returns.

        slot: where flows' queue pairs point; step modulo 8 unless given. Raises ControllerError if it is
        taken.
        """
        slot = step % STEP_SLOTS if slot is None else slot
        if not 0 <= slot < STEP_SLOTS:
            raise self._error(f"step {step}: slot {slot}; give 0 to {STEP_SLOTS - 1}")
        if not 0 <= step < MAXIMUM_TAG:
            raise self._error(f"step {step}; give 0 to {MAXIMUM_TAG - 1}")
        if not 0 <= p_ppm < PPM or expected_bytes < 0:
            raise self._error(
                f"step {step}: p {p_ppm} ppm of {expected_bytes} bytes; give 0 to {PPM - 1} ppm of 0 or more"
            )
        if step in self._steps:
            raise self._error(f"step {step} is installed already; remove it first")
        for other in self._steps.values():
            if other.slot == slot:
                raise self._error(
                    f"step {step}: slot {slot} is taken by step {other.step}; remove that first"
                )
        budget = budget_bytes(p_ppm, expected_bytes)
        installed = InstalledStep(step, slot, p_ppm, expected_bytes, budget, True, policy)
        await self.device.write("insert", [installed.entry()])
        self._steps[step] = installed
        return installed

    async def close_step(self, step: int) -> InstalledStep:
        """The rank's all-reduce is complete: nothing more is forgiven; flags and `outstanding` go on."""
        closed = replace(self._installed(step), open=False)
        await self.device.write("modify", [closed.entry()])
        self._steps[step] = closed
        return closed

    async def remove_step(self, step: int) -> None:
        """The step's last flow has ended: free its slot."""
        await self.device.write("delete", [self._installed(step).entry()])
        del self._steps[step]

    def _installed(self, step: int) -> InstalledStep:
        if step not in self._steps:
            raise self._error(f"step {step} isn't installed; installed are {sorted(self._steps) or 'none'}")
        return self._steps[step]

    # --- state and counters
    async def state(self, slot: int) -> StepState:
        """Byte state of a step slot: asked by PacketOut, answered by PacketIn, asked again if one is lost."""
        loop = asyncio.get_running_loop()
        for _ in range(QUERY_TRIES):
            nonce = next(self._nonces) & 0xFFFFFFFF
            answer: asyncio.Future[StepState] = loop.create_future()
            self._waiting[nonce] = answer
            try:
                await self.device.send_packet({"step_slot": slot, "nonce": nonce})
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(QUERY_SECONDS):
                        return await answer
            finally:
                del self._waiting[nonce]
        raise self._error(
            f"state of slot {slot}: no answer to {QUERY_TRIES} queries; does the target have a CPU port?"
        )

    async def step_state(self, step: int) -> StepState:
        """Byte state of an installed step."""
        state = await self.state(self._installed(step).slot)
        if state.step != step:
            raise self._error(f"state of step {step}: slot {state.slot} has step {state.step} instead")
        return state

    def _on_packet(self, packet: P4PacketIn) -> None:
        values = {name: int(value) for name, value in packet.metadata.items()}
        waiting = self._waiting.get(values.get("nonce", 0))
        if waiting is None or waiting.done():
            return
        tag = values["step_tag"]
        waiting.set_result(
            StepState(
                slot=values["step_slot"],
                step=tag - 1 if tag else None,
                installed=bool(values["installed"]),
                open=bool(values["open"]),
                exhausted=bool(values["exhausted"]),
                received=values["received"],
                forgiven=values["forgiven"],
                outstanding=values["outstanding"],
                trimmed=values["trimmed"],
            )
        )

    async def counters(self) -> NicCounters:
        """All event counters, by one read."""
        return NicCounters(*await self.device.counters([(name, 0) for name in NIC_COUNTERS]))

    def _error(self, text: str) -> ControllerError:
        return ControllerError(f"{self.name}: {text}")
