# SPDX-License-Identifier: Apache-2.0
"""Random traffic for a NIC: what a controller, the other senders and its own host may do, in any order.

A script is a list of small operations that name flows and steps by index, so that hypothesis can shrink it;
`resolve` turns it into events with whole packets. Flows keep the rules that the contract asks of hosts (a
flow slot is used again under the next owner, a step's slot gets a new tag only with new flows); operations
that break them on purpose (stale owners, bad ranges, packets beyond the window) say so by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hypothesis import strategies as st

from tests.support import wire
from tests.support.nic import ALWAYS, NEVER, NEVER_ENDS, PAPER, Step
from tests.support.wire import BLOCK, Roce

# --- events


@dataclass(frozen=True)
class Install:
    slot: int
    step: Step


@dataclass(frozen=True)
class Remove:
    slot: int


@dataclass(frozen=True)
class FromWire:
    packet: Roce


@dataclass(frozen=True)
class FromHost:
    packet: Roce


@dataclass(frozen=True)
class Query:
    slot: int


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    microseconds: int


Event: TypeAlias = Install | Remove | FromWire | FromHost | Query | Wait


MAX_PAYLOAD_BLOCKS = 18
"""What fits an interface with an MTU of 9,500 bytes. A trimmed header may report up to 32."""


# --- operations


@dataclass(frozen=True)
class Op:
    """One operation of a script. Numbers are reduced to what exists when it is resolved."""

    kind: str
    flow: int = 0
    start: int = 0
    blocks: int = 1
    ecn: int = wire.ECT0
    flags: int = 0
    step: Step | None = None


RECEIVER_KINDS = ("data", "data", "run", "trim", "trim", "trim", "repair", "repair", "trim_again", "repeat")
"""`repair` and `trim_again` are about a range that was trimmed before, or a part of it."""
ODD_KINDS = ("stale", "beyond", "bad_range", "window_edge", "contradiction")
CONTROL_KINDS = ("step", "close", "remove", "reuse", "query")
WAIT_KINDS = ("wait",)
SENDER_KINDS = ("report", "request", "notification", "send")


@dataclass(frozen=True)
class Plan:
    """Flows and first steps of one run, and what happens."""

    lengths: tuple[int, ...]
    """Message bytes of each flow; flow i uses flow slot i (and step slot i mod `slots`)."""
    gradient: tuple[bool, ...]
    slots: int
    first: tuple[Step | None, ...]
    """One for each slot; None: nothing installed at first."""
    ops: tuple[Op, ...]
    prefix: int = 0
    """Blocks at the start of each message that have arrived in order before the first operation."""


def steps(intervals: tuple[int, ...] = (0,)) -> st.SearchStrategy[Step]:
    """Entries of every policy; budgets need not fit the bytes that come."""
    return st.builds(
        Step,
        tag=st.just(1),
        p_ppm=st.sampled_from((0, 5_000, 100_000, 250_000, 500_000, 900_000)),
        budget=st.sampled_from((0, 4096, 5 * BLOCK, 20_000, 60_000)),
        open=st.sampled_from((True, True, True, False)),
        packet_bytes=st.sampled_from((BLOCK, 1024, 4096)),
        forgive_threshold=st.sampled_from((0, ALWAYS // 4, ALWAYS, ALWAYS)),
        vesting=st.sampled_from((True, True, True, False)),
        exemption=st.sampled_from((PAPER, PAPER, NEVER, NEVER_ENDS)),
        eligible=st.sampled_from((True, True, True, False)),
        notification_interval_us=st.sampled_from(intervals),
        forgiveness_echoes=st.booleans(),
        trimmed_starts_flow=st.sampled_from((True, True, False)),
    )


def ops(kinds: tuple[str, ...], intervals: tuple[int, ...] = (0,)) -> st.SearchStrategy[Op]:
    return st.builds(
        Op,
        kind=st.sampled_from(kinds),
        flow=st.integers(0, 3),
        start=st.integers(0, 63) | st.integers(0, 1023),
        blocks=st.sampled_from((1, 1, 2, 3, 8, 16, 32)),
        ecn=st.sampled_from((wire.ECT0, wire.ECT0, wire.CE)),
        flags=st.integers(0, 7),
        step=steps(intervals),
    )


def plans(
    kinds: tuple[str, ...],
    max_ops: int = 60,
    intervals: tuple[int, ...] = (0,),
    prefixes: tuple[int, ...] = (0,),
) -> st.SearchStrategy[Plan]:
    """`intervals`: notification intervals to choose from, microseconds."""
    lengths = st.integers(1, 40 * BLOCK) | st.integers(1, 400 * BLOCK)
    step = steps(intervals)
    return st.integers(1, 3).flatmap(
        lambda flows: st.builds(
            Plan,
            lengths=st.tuples(*[lengths] * flows),
            gradient=st.tuples(*[st.sampled_from((True, True, True, False))] * flows),
            slots=st.integers(1, 2),
            first=st.tuples(*[st.none() | step | step | step] * 2),
            ops=st.lists(ops(kinds, intervals), min_size=max_ops // 3, max_size=max_ops).map(tuple),
            prefix=st.sampled_from(prefixes),
        )
    )


def tight_plans(max_ops: int = 60) -> st.SearchStrategy[Plan]:
    """One step of few blocks whose budget is some of them: sums meet their bounds exactly, and ranges
    overlap."""
    step = st.builds(
        Step,
        tag=st.just(1),
        p_ppm=st.sampled_from((200_000, 250_000, 500_000)),
        budget=st.integers(1, 12).map(lambda blocks: blocks * BLOCK),
        packet_bytes=st.just(BLOCK),
        forgive_threshold=st.sampled_from((ALWAYS, ALWAYS, ALWAYS // 2)),
        vesting=st.booleans(),
        trimmed_starts_flow=st.sampled_from((True, True, True, False)),
    )
    small = st.builds(
        Op,
        kind=st.sampled_from(RECEIVER_KINDS),
        flow=st.integers(0, 1),
        start=st.integers(0, 23),
        blocks=st.integers(1, 4),
        flags=st.integers(0, 7),
    )
    length = st.integers(4, 24).map(lambda blocks: blocks * BLOCK)
    return st.builds(
        Plan,
        lengths=st.lists(length, min_size=1, max_size=2).map(tuple),
        gradient=st.just((True, True)),
        slots=st.just(1),
        first=st.tuples(step, st.none()),
        ops=st.lists(small, min_size=max_ops // 3, max_size=max_ops).map(tuple),
    )


# --- operations to events


@dataclass
class _Flow:
    slot: int
    flow_slot: int
    length: int
    gradient: bool
    owner: int = 1
    psn: int = 0
    fresh: bool = True
    """No packet has started it."""
    last: Roce | None = None
    trimmed: list[tuple[int, int]] = field(default_factory=list)
    """First block and number of blocks of ranges that were trimmed."""


@dataclass
class _Resolver:
    plan: Plan
    installed: dict[int, Step] = field(default_factory=dict)
    tags: int = 0
    flows: list[_Flow] = field(default_factory=list)

    def run(self) -> Iterator[Event]:
        for slot in range(self.plan.slots):
            first = self.plan.first[slot]
            if first is not None:
                yield self._install(slot, first)
        for index, (length, gradient) in enumerate(zip(self.plan.lengths, self.plan.gradient, strict=False)):
            length += self.plan.prefix * BLOCK
            self.flows.append(_Flow(index % self.plan.slots, index, length, gradient))
        for flow in self.flows:
            yield from self._in_order(flow, 0, self.plan.prefix)
        for op in self.plan.ops:
            yield from self._resolve(op)
        yield from (Query(slot) for slot in range(self.plan.slots))

    def _install(self, slot: int, step: Step) -> Install:
        self.tags += 1
        self.installed[slot] = replace(step, tag=self.tags)
        return Install(slot, self.installed[slot])

    def _resolve(self, op: Op) -> Iterator[Event]:
        flow = self.flows[op.flow % len(self.flows)]
        if op.kind == "step":
            # The step in the slot has ended: its flows come again under new owners.
            assert op.step is not None
            yield self._install(flow.slot, op.step)
            for other in self.flows:
                # Sometimes a flow outlives its step.
                if other.slot == flow.slot and not other.fresh and not op.flags & 1:
                    self._reuse(other)
        elif op.kind in ("close", "remove"):
            if flow.slot not in self.installed:
                return
            if op.kind == "close":
                self.installed[flow.slot] = replace(self.installed[flow.slot], open=False)
                yield Install(flow.slot, self.installed[flow.slot])
            else:
                del self.installed[flow.slot]
                yield Remove(flow.slot)
        elif op.kind == "reuse":
            self._reuse(flow)
        elif op.kind == "wait":
            yield Wait(op.start * 10)
        elif op.kind == "query":
            yield Query(flow.slot)
        elif op.kind in SENDER_KINDS:
            yield self._sender(op, flow)
        elif op.kind == "run":
            first, blocks = self._first(op, flow), min(op.blocks, 16)
            yield from self._in_order(flow, first, min(first + 8 * blocks, -(-flow.length // BLOCK)), blocks)
        else:
            packet = self._receiver(op, flow)
            if packet is not None:
                yield FromWire(packet)

    def _in_order(self, flow: _Flow, first: int, end: int, blocks: int = 16) -> Iterator[Event]:
        """Data for the blocks from `first` up to `end`, `blocks` at a time."""
        flow.fresh = flow.fresh and first >= end
        for block in range(first, end, blocks):
            length = min(blocks, end - block) * BLOCK
            length = min(length, flow.length - block * BLOCK)
            packet = self._packet(
                flow,
                flow.owner,
                block * BLOCK,
                length,
                block * BLOCK + length == flow.length,
                False,
                wire.ECT0,
            )
            yield FromWire(packet)

    def _first(self, op: Op, flow: _Flow) -> int:
        """The block where an operation's range starts: often at a multiple of its length, from the prefix
        on."""
        prefix = self.plan.prefix if not op.flags & 4 else 0
        total = -(-flow.length // BLOCK) - prefix
        if total <= 0:
            return 0
        if op.flags & 2:
            return prefix + op.start * op.blocks % total
        return prefix + op.start % total

    @staticmethod
    def _reuse(flow: _Flow) -> None:
        flow.owner = (flow.owner + 1) % wire.OWNERS
        flow.fresh = True
        flow.last = None
        flow.trimmed = []

    def _qp(self, flow: _Flow, owner: int | None = None) -> int:
        return wire.queue_pair(flow.slot, flow.owner if owner is None else owner, flow.flow_slot)

    def _receiver(self, op: Op, flow: _Flow) -> Roce | None:
        if op.kind == "repeat":
            return flow.last
        owner = flow.owner
        total = -(-flow.length // BLOCK)
        first = self._first(op, flow)
        wanted = op.blocks
        if op.kind in ("repair", "trim_again"):
            if not flow.trimmed:
                return None
            first, wanted = flow.trimmed[op.start % len(flow.trimmed)]
            if op.flags & 1:
                # A part of it, from its start or from its middle.
                first, wanted = first + (op.flags >> 1 & 1) * (wanted // 2), max(1, wanted // 2)
        offset = first * BLOCK
        trim = op.kind in ("trim", "trim_again") or (op.kind in ODD_KINDS and bool(op.flags & 1))
        blocks = wanted if trim else min(wanted, MAX_PAYLOAD_BLOCKS)
        length = min(blocks * BLOCK, flow.length - offset)
        end = offset + length == flow.length
        if op.kind == "stale":
            if flow.fresh:
                return None
            owner = (owner - 1 - op.start) % wire.OWNERS
        elif op.kind == "beyond":
            offset, length, end = wire.WINDOW + (total + op.start) * BLOCK, BLOCK, False
        elif op.kind == "window_edge":
            # The last block of a fresh flow's window, or the first one after it.
            offset, length, end = wire.WINDOW - BLOCK + (op.flags >> 1 & 1) * BLOCK, BLOCK, False
        elif op.kind == "contradiction":
            # Says that the message ends here, in the middle of a block.
            length, end = max(1, length - 1 - op.start % BLOCK), True
        elif op.kind == "bad_range":
            offset, length, end = (
                (offset + 1, length, end),
                (offset, BLOCK + 1, False),
                (offset, wire.MAX_RANGE + BLOCK, False) if trim else (offset + 7, BLOCK, False),
                (offset, BLOCK - 1, False),
            )[op.flags >> 1]
        packet = self._packet(flow, owner, offset, length, end, trim, op.ecn)
        if op.kind == "trim":
            flow.trimmed.append((first, -(-length // BLOCK)))
        if op.kind in ("data", "trim", "repair", "trim_again"):
            step = self.installed.get(flow.slot)
            flow.fresh = flow.fresh and trim and step is not None and not step.trimmed_starts_flow
            flow.last = packet
        return packet

    def _packet(
        self, flow: _Flow, owner: int, offset: int, length: int, end: bool, trim: bool, ecn: int
    ) -> Roce:
        flow.psn = (flow.psn + 1) & 0xFFFFFF
        packet = wire.data(
            self._qp(flow, owner),
            offset,
            length,
            source_qp=wire.queue_pair(0, 5, flow.flow_slot),
            psn=flow.psn,
            end=end,
            ecn=ecn,
            udp_src=0xC000 + flow.flow_slot,
            dscp=wire.DSCP_GRADIENT if flow.gradient else wire.DSCP_DATA,
            # Fields that mean nothing here, so that lengths and checksums are right whatever they are.
            identification=flow.psn * 7919 & 0xFFFF,
            ttl=1 + flow.psn % 255,
            ip_flags=2 * (flow.psn & 1),
            ack_req=flow.psn >> 1 & 1,
            reserved7=flow.psn & 0x7F,
            fecn=flow.psn >> 2 & 1,
        )
        if not trim:
            return packet
        return packet.trimmed(wire.DSCP_GRADIENT_TRIMMED if flow.gradient else wire.DSCP_DATA_TRIMMED)

    def _sender(self, op: Op, flow: _Flow) -> Event:
        """Feedback for a flow that this NIC's own host sends."""
        owner = 1 + (op.start & 1) if op.flags & 4 else 2
        qp = wire.queue_pair(0, owner, flow.flow_slot)
        if op.kind == "send":
            return FromHost(wire.data(0x123456 + flow.flow_slot, 0, BLOCK, source_qp=qp, udp_src=40000))
        common = Roce(
            opcode=wire.CNP,
            dest_qp=qp,
            dscp=wire.DSCP_CONTROL,
            ecn=wire.NOT_ECT,
            psn=op.start,
            becn=1,
        )
        if op.kind == "notification":
            return FromWire(common)
        return FromWire(
            common.but(
                opcode=wire.ACKNOWLEDGE,
                becn=int(op.ecn == wire.CE and op.kind == "report"),
                exemption_eligible=op.flags & 1,
                budget_exhausted=op.flags >> 1 & 1,
                feedback=wire.Feedback(
                    wire.ACK if op.kind == "report" else wire.NAK, op.start * BLOCK, op.start * BLOCK, BLOCK
                ),
            )
        )


def resolve(plan: Plan) -> list[Event]:
    """The events of a plan, the same each time."""
    return list(_Resolver(plan).run())
