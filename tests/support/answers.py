# SPDX-License-Identifier: Apache-2.0
"""What a device makes of a packet, field by field, as docs/dataplane.md has it: expected frames of every
suite."""

from __future__ import annotations

from typing import Any

from tests.support import wire
from tests.support.wire import Roce


def _answer(packet: Roce, dscp: int, **fields: Any) -> Roce:
    """What every packet that goes back to the sender of `packet` has in common: the rest stays as it was."""
    assert packet.reth is not None
    return packet.but(
        dest_qp=packet.reth.source_qp,
        dscp=dscp,
        ecn=wire.NOT_ECT,
        ttl=64,
        eth_dst=packet.eth_src,
        eth_src=packet.eth_dst,
        src_ip=packet.dst_ip,
        dst_ip=packet.src_ip,
        solicited=0,
        pad_count=0,
        fecn=0,
        exemption_eligible=0,
        budget_exhausted=0,
        ack_req=0,
        reth=None,
        payload=b"",
    ).but(**fields)


def feedback(
    packet: Roce,
    syndrome: int,
    rcv_nxt: int,
    *,
    eligible: int = 0,
    exhausted: int = 0,
    becn: int = 0,
    dscp: int = wire.DSCP_CONTROL,
) -> Roce:
    """ACK or NAK of a data packet or trimmed header."""
    assert packet.reth is not None
    return _answer(
        packet,
        dscp,
        opcode=wire.ACKNOWLEDGE,
        becn=becn,
        exemption_eligible=eligible,
        budget_exhausted=exhausted,
        feedback=wire.Feedback(syndrome, rcv_nxt, packet.reth.virtual_addr, packet.reth.dma_len),
    )


def notification(packet: Roce, dscp: int = wire.DSCP_CONTROL) -> Roce:
    """The congestion notification packet that a CE-marked packet causes where an interval is set."""
    return _answer(packet, dscp, opcode=wire.CNP, becn=1)


def delivered(packet: Roce, accept: int) -> Roce:
    """Data as the host gets it; `accept`: bit i stands for the packet's i-th block."""
    return packet.but(delivery=wire.Delivery(wire.EVENT_DATA, accept))


def forgiven(header: Roce, accept: int) -> Roce:
    """What the host is told of a forgiven range."""
    return header.but(delivery=wire.Delivery(wire.EVENT_FORGIVEN, accept))
