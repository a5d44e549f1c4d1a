# SPDX-License-Identifier: Apache-2.0
"""What a sender notes of the flags on its feedback: statistics, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hosts import wire
from hosts.endpoint import Endpoint, Sent
from tests.hosts.harness import config_for

PACKET = 1024


@dataclass
class Flow:
    endpoint: Endpoint
    message: int
    qp: int
    next: int = 0

    def report(
        self,
        now: int,
        *,
        eligible: bool = True,
        exhausted: bool = False,
        nak: bool = False,
        becn: bool = False,
    ) -> None:
        """Feedback on the flow's next packet; a NAK leaves it open."""
        bth = wire.Bth(
            wire.OPCODE_ACKNOWLEDGE,
            self.qp,
            0,
            becn=becn,
            exemption_eligible=eligible,
            budget_exhausted=exhausted,
        )
        start, end = self.next, self.next + PACKET
        self.next = start if nak else end
        self.endpoint.receive(now, wire.Feedback(bth, nak, self.next, start, PACKET).encode())


def start(endpoint: Endpoint, packets: int, now: int = 0) -> Flow:
    qp = endpoint.alloc_send_qp()
    message = endpoint.post_send(
        now, destination="10.0.0.2", dst_qp=1, src_qp=qp, length_bytes=PACKET * packets
    )
    sent = 0
    while sent < packets:
        wake = endpoint.next_wake()
        assert wake is not None
        now = max(now, wake)
        sent += endpoint.poll(now) is not None
    return Flow(endpoint, message, qp)


def test_modes_are_timed_from_report_to_report() -> None:
    with Endpoint(config_for(0)) as endpoint:
        flow = start(endpoint, 8)
        flow.report(1_000, eligible=False)
        flow.report(2_000)
        flow.report(3_500)
        flow.report(4_000, exhausted=True, nak=True)
        flow.report(4_700, exhausted=True)
        flow.report(5_000)
        stats = endpoint.flow_stats(6_000, flow.message)
        assert stats.first_exempt_ns == 2_000
        assert stats.flag_changes == 2
        assert stats.exempt_ns == 2_000 + 1_000  # the last mode still lasts
        assert stats.obeying_again_ns == 1_000
        sums = endpoint.stats()
        assert (sums.exempt_messages, sums.obeying_again_messages, sums.flag_changes) == (1, 1, 2)
        assert (sums.exempt_ns, sums.obeying_again_ns) == (2_000, 1_000)


def test_completion_ends_the_last_mode() -> None:
    with Endpoint(config_for(0)) as endpoint:
        flow = start(endpoint, 3)
        flow.report(1_000)
        flow.report(3_000, exhausted=True)
        flow.report(7_000, exhausted=True)
        (event,) = endpoint.events()
        assert isinstance(event, Sent)
        assert (event.stats.exempt_ns, event.stats.obeying_again_ns) == (2_000, 4_000)
        sums = endpoint.stats()
        assert (sums.exempt_ns, sums.obeying_again_ns) == (2_000, 4_000)


def test_flow_that_was_never_exempt_has_no_such_time() -> None:
    with Endpoint(config_for(0)) as endpoint:
        flow = start(endpoint, 3)
        flow.report(1_000, exhausted=True)
        flow.report(2_000, eligible=False, becn=True)
        stats = endpoint.flow_stats(9_000, flow.message)
        assert (stats.first_exempt_ns, stats.exempt_ns, stats.obeying_again_ns) == (0, 0, 0)
        assert stats.flag_changes == 2  # set, then cleared
        assert (stats.signals, stats.signals_before_exempt) == (1, 1)
        assert endpoint.stats().exempt_messages == 0


def test_signals_are_told_apart_by_the_first_exemption() -> None:
    """The signal of the packet that ends the obedience comes after its flags, as at the NIC."""
    with Endpoint(config_for(0)) as endpoint:
        flow = start(endpoint, 6)
        flow.report(1_000, eligible=False, becn=True)
        flow.report(2_000, eligible=False, becn=True)
        flow.report(3_000, becn=True)  # a NIC clears it; here it shows the order
        flow.report(4_000, exhausted=True, becn=True)
        stats = endpoint.flow_stats(5_000, flow.message)
        assert (stats.signals, stats.signals_before_exempt) == (4, 2)
        assert endpoint.stats().signals_after_exempt == 2


def test_sums_are_over_messages() -> None:
    with Endpoint(config_for(0)) as endpoint:
        flows = [start(endpoint, 2) for _ in range(3)]
        for flow in flows[:2]:
            flow.report(1_000)
        flows[2].report(1_000, eligible=False)
        for now, flow in enumerate(flows, 2_000):
            flow.report(now, eligible=flow is not flows[2])
        sums = endpoint.stats()
        assert sums.exempt_messages == 2
        assert sums.obeying_again_messages == 0
        assert sums.exempt_ns == 1_000 + 1_001


@pytest.mark.parametrize("exhausted", [False, True])
def test_flags_decide_nothing(exhausted: bool) -> None:
    """BECN is the NIC's word: a flow that looks exempt obeys it all the same."""
    with Endpoint(config_for(0)) as endpoint:
        flow = start(endpoint, 4)
        flow.report(1_000, exhausted=exhausted)
        flow.report(2_000, exhausted=exhausted, becn=True)
        assert endpoint.flow_stats(3_000, flow.message).signals == 1
