# SPDX-License-Identifier: Apache-2.0
"""The NIC's control plane in the tests: classes, groups, steps and the state query."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support import wire
from tests.support.control import Control

HOST, WIRE, CPU = 1, 2, 255
"""Ports."""

PAPER, NEVER, NEVER_ENDS = 0, 1, 2
"""Values of `exemption`."""

ALWAYS = 1 << 32
"""`forgive_threshold` of P = 1."""

SEED = 0x0FF1CE

CLASSES = {
    wire.DSCP_GRADIENT: (True, False),
    wire.DSCP_GRADIENT_TRIMMED: (True, True),
    wire.DSCP_DATA: (False, False),
    wire.DSCP_DATA_TRIMMED: (False, True),
}
"""dscp -> (gradient, trimmed): the table `traffic_class`."""

GROUPS = {
    1: ((HOST, 1), (WIRE, 2)),
    2: ((HOST, 1), (WIRE, 2), (WIRE, 3)),
    3: ((WIRE, 2), (WIRE, 3)),
}
"""Multicast groups: host copy, feedback and notification are told apart by the replica id."""

SLOT_MASK = 0xE00000
"""Of the table `steps`: the step slot in `dest_qp`."""

RECEIVER_COUNTERS = (
    "data_received",
    "data_duplicate",
    "data_late",
    "trimmed_received",
    "trimmed_settled",
    "forgiven",
    "refused_class",
    "refused_closed",
    "refused_vesting",
    "refused_draw",
    "echo_sent",
    "notification_sent",
    "exhausted_set",
    "exhausted_cleared",
    "beyond_window",
    "bad_range",
    "malformed",
    "stale",
    "unknown_flow",
)
SENDER_COUNTERS = (
    "notification_delivered",
    "notification_ignored",
    "request_obeyed",
    "request_exempt",
    "became_exempt",
    "became_obeying",
)
COUNTERS = RECEIVER_COUNTERS + SENDER_COUNTERS


@dataclass(frozen=True)
class Step:
    """An entry of the table `steps`: what the controller installs for one slot."""

    tag: int
    p_ppm: int
    budget: int
    open: bool = True
    packet_bytes: int = 4096
    forgive_threshold: int = ALWAYS
    vesting: bool = True
    exemption: int = PAPER
    eligible: bool = True
    notification_interval_us: int = 0
    forgiveness_echoes: bool = False
    trimmed_starts_flow: bool = True

    def params(self) -> dict[str, int]:
        """Parameters of `set_step`."""
        return {
            "step_tag": self.tag,
            "p_ppm": self.p_ppm,
            "budget": self.budget,
            "open": int(self.open),
            "packet_bytes": self.packet_bytes,
            "forgive_threshold": self.forgive_threshold,
            "vesting": int(self.vesting),
            "exemption": self.exemption,
            "eligible": int(self.eligible),
            "notification_interval_us": self.notification_interval_us,
            "forgiveness_echoes": int(self.forgiveness_echoes),
            "trimmed_starts_flow": int(self.trimmed_starts_flow),
        }


def configure(control: Control, seed: int = SEED, notification_interval_us: int = 0) -> None:
    """What every NIC needs once: configuration, traffic classes, the feedback groups."""
    control.set_default(
        "nic_config",
        "configure",
        seed=seed,
        control_dscp=wire.DSCP_CONTROL,
        notification_interval_us=notification_interval_us,
    )
    for dscp, (gradient, trimmed) in CLASSES.items():
        control.insert(
            "traffic_class", {"dscp": dscp}, "classify", gradient=int(gradient), trimmed=int(trimmed)
        )
    for group, replicas in GROUPS.items():
        control.set_group(group, replicas)


def _key(slot: int) -> dict[str, tuple[int, int]]:
    return {"dest_qp": (slot << 21, SLOT_MASK)}


def install(control: Control, slot: int, step: Step) -> None:
    control.insert("steps", _key(slot), "set_step", entry_priority=1, **step.params())


def modify(control: Control, slot: int, step: Step) -> None:
    control.modify("steps", _key(slot), "set_step", entry_priority=1, **step.params())


def remove(control: Control, slot: int) -> None:
    control.delete("steps", _key(slot), priority=1)


def query(control: Control, slot: int, nonce: int = 0xC0FFEE) -> dict[str, int]:
    """The state report of a slot. Raises TimeoutError."""
    control.packet_out(step_slot=slot, nonce=nonce)
    answer = control.packet_in()
    if answer is None:
        raise TimeoutError(f"no state report for slot {slot}")
    fields, payload = answer
    if payload.strip(b"\0"):
        raise ValueError(f"a state report with {len(payload)} bytes of payload: {payload[:32].hex()}")
    if (fields["step_slot"], fields["nonce"]) != (slot, nonce):
        raise ValueError(f"asked for slot {slot}, nonce {nonce:#x}; got {fields}")
    return fields
