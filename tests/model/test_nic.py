# SPDX-License-Identifier: Apache-2.0
"""Random traffic through nic.p4 and through the reference model: every packet, counter and byte is the
same."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.model import traffic
from tests.model.compare import Comparison
from tests.model.runs import runs
from tests.model.traffic import CONTROL_KINDS, ODD_KINDS, RECEIVER_KINDS, SENDER_KINDS, WAIT_KINDS
from tests.support import wire
from tests.support.dut import Dut

FAST = runs(50)

EVERYTHING = RECEIVER_KINDS * 3 + ODD_KINDS + CONTROL_KINDS + SENDER_KINDS


@given(plan=traffic.plans(RECEIVER_KINDS))
@FAST
def test_receiver(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Data, trims and repetitions, on steps of every policy."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@given(plan=traffic.tight_plans())
@FAST
def test_bounds_met_exactly(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Few blocks and small budgets: both sides of every inequality, and ranges that overlap."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@given(plan=traffic.plans(RECEIVER_KINDS * 3 + CONTROL_KINDS))
@FAST
def test_steps_and_owners(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Steps that close, end and begin again, and flow slots that are used again."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@given(plan=traffic.plans(RECEIVER_KINDS * 2 + ODD_KINDS + ("reuse",)))
@FAST
def test_packets_that_break_the_rules(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Stale owners, bad ranges and packets beyond the window between good ones."""
    Comparison(nic_dut).run(traffic.resolve(plan))


LAP = wire.WINDOW // wire.BLOCK + 64
"""Blocks of a flow's ring of words."""


@given(
    plan=traffic.plans(
        (*RECEIVER_KINDS, "window_edge", "reuse"),
        max_ops=45,
        prefixes=(LAP - 130, LAP - 17, LAP - 1, LAP, LAP + 64, 2 * LAP - 5),
    )
)
@runs(5)
def test_flows_that_went_round_their_ring(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Messages so long that every word of the ring has been used before."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@given(plan=traffic.plans(SENDER_KINDS))
@FAST
def test_sender(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Reports, requests and notifications for the flows of this NIC's own host."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@given(plan=traffic.plans(RECEIVER_KINDS + WAIT_KINDS, intervals=(0, 50, 200)))
@FAST
def test_notification_intervals(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Notifications by the device's clock."""
    Comparison(nic_dut).run(traffic.resolve(plan))


@pytest.mark.slow
@given(plan=traffic.plans(EVERYTHING, max_ops=200))
@runs(300)
def test_everything_at_length(nic_dut: Dut, plan: traffic.Plan) -> None:
    """Everything above, in long runs."""
    Comparison(nic_dut).run(traffic.resolve(plan))
