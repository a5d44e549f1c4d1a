# SPDX-License-Identifier: Apache-2.0
"""The reference model of the NIC: the paper's handlers in dictionaries of blocks.

Written from the paper's pseudo-code, docs/dataplane.md and headers.p4 alone, never from nic.p4: where the two
differ, one of them is wrong. Handlers carry the paper's names. `NicModel.receive` predicts every frame byte
for byte, every counter and the state report.

The two corners that the paper leaves open, as DESIGN.md settles them:

1. A range requested while no budget was open is charged to `outstanding` at its next trim under an open one.
So a block is marked *charged* by itself, beside Requested, and `outstanding` never underflows.
2. A packet's flags are applied before its congestion signal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.model import ranges
from tests.model.draws import forgive_draw, path_entropy
from tests.model.ranges import Blocks, count
from tests.support import wire
from tests.support.wire import Roce

HOST, WIRE, CPU = 1, 2, 255

PAPER, NEVER, NEVER_ENDS = 0, 1, 2
"""Values of `exemption`."""

ALWAYS = 1 << 32
"""`forgive_threshold` of P = 1."""


class State(Enum):
    """A block's value on the scoreboard; a block that is absent has none."""

    REQUESTED = auto()
    FORGIVEN = auto()
    RECEIVED = auto()


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


@dataclass
class StepState:
    """The paper's `entry`: bytes of one step, under the tag they belong to."""

    tag: int = 0
    received: int = 0
    forgiven: int = 0
    outstanding: int = 0
    trimmed: int = 0
    exhausted_sent: bool = False


@dataclass
class ReceiverFlow:
    """The receiver's state of the flow in a slot, for one owner."""

    owner: int
    eligible: bool
    rcv_nxt: int = 0
    """In blocks: the lowest one not settled."""
    scoreboard: dict[int, State] = field(default_factory=dict)
    charged: set[int] = field(default_factory=set)
    """Blocks that are in the step's `outstanding`."""
    trims: int = 0
    last_notification_us: int | None = None


@dataclass
class SenderFlow:
    """The sender's state of the flow in a slot: its mode."""

    owner: int
    exempt: bool = False


@dataclass(frozen=True)
class StateReport:
    """`state_report_t` but for slot and nonce."""

    step_tag: int = 0
    installed: bool = False
    open: bool = False
    exhausted: bool = False
    received: int = 0
    forgiven: int = 0
    outstanding: int = 0
    trimmed: int = 0


Output = tuple[int, bytes]
"""(port, frame)"""


def is_behind(owner: int, current: int) -> bool:
    """Serial-number comparison (RFC 1982) of two owner tags."""
    return (owner - current) % wire.OWNERS > wire.OWNERS // 2


class NicModel:
    """One NIC: receiver of what comes from the wire, sender of what its host sends."""

    def __init__(
        self,
        classes: dict[int, tuple[bool, bool]],
        seed: int = 0,
        control_dscp: int = wire.DSCP_CONTROL,
        notification_interval_us: int = 0,
        draw: Callable[[int, Roce, int], int] = forgive_draw,
    ) -> None:
        """`classes`: dscp -> (gradient, trimmed), the table `traffic_class`. `draw`: Draw(P), 32 bits."""
        self.classes = classes
        self.seed = seed
        self.control_dscp = control_dscp
        self.notification_interval_us = notification_interval_us
        self.draw = draw
        self.steps: dict[int, Step] = {}
        self.step_states: dict[int, StepState] = {}
        self.receivers: dict[int, ReceiverFlow] = {}
        self.senders: dict[int, SenderFlow] = {}
        self.counters: Counter[str] = Counter()
        self.on_settled: Callable[[int, int, int, bool], None] | None = None
        """Called with (flow slot, block, bytes, received?) whenever a block becomes settled."""

    # --- what the controller does

    def install(self, slot: int, step: Step) -> None:
        """OnStepBegin, or a change of the entry (OnAllReduceComplete sets `open` to 0)."""
        assert step.tag > 0
        self.steps[slot] = step

    def remove(self, slot: int) -> None:
        del self.steps[slot]

    def query(self, slot: int) -> StateReport:
        """What a PacketOut asks. All 0 when no packet of the installed step came."""
        step = self.steps.get(slot)
        if step is None:
            return StateReport()
        state = self.step_states.get(slot, StepState())
        if state.tag != step.tag:
            state = StepState()
        return StateReport(
            step.tag,
            True,
            step.open,
            state.exhausted_sent,
            state.received,
            state.forgiven,
            state.outstanding,
            state.trimmed,
        )

    def _entry(self, slot: int) -> tuple[Step, StepState] | None:
        """steps[StepOf(flow)], with the byte state reset by a new tag."""
        step = self.steps.get(slot)
        if step is None:
            return None
        state = self.step_states.get(slot)
        if state is None or state.tag != step.tag:
            state = self.step_states[slot] = StepState(step.tag)
        return step, state

    # --- packets

    def receive(self, port: int, frame: bytes, now_us: int = 0) -> list[Output]:
        """Every frame that leaves because `frame` came in at `port`."""
        try:
            packet = wire.decode(frame)
        except wire.WireError:
            return self._other(port, frame)
        if port == HOST:
            return self._from_host(packet)
        if packet.opcode == wire.WRITE_ONLY:
            return self._from_sender(packet, now_us)
        if packet.opcode == wire.ACKNOWLEDGE:
            return self._report(packet)
        if packet.opcode == wire.CNP:
            return self._notification(packet)
        raise NotImplementedError(f"opcode {packet.opcode:#x}")

    def _other(self, port: int, frame: bytes) -> list[Output]:
        """Everything that is not RoCE just crosses."""
        assert frame[36:38] != wire.UDP_PORT_ROCE.to_bytes(2), "malformed RoCE is not modelled"
        return [(HOST + WIRE - port, frame)]

    def _from_host(self, packet: Roce) -> list[Output]:
        assert packet.opcode == wire.WRITE_ONLY and packet.reth is not None
        return [(WIRE, packet.but(udp_src=path_entropy(packet.dest_qp, packet.reth.source_qp)).encode())]

    # --- the receiver

    def _from_sender(self, packet: Roce, now_us: int) -> list[Output]:
        reth = packet.reth
        assert reth is not None
        gradient, is_trimmed = self.classes.get(packet.dscp, (False, False))
        if not ranges.is_valid(reth.virtual_addr, reth.dma_len, bool(packet.solicited)):
            self.counters["bad_range"] += 1
            return []
        slot, owner, flow_slot = wire.split_queue_pair(packet.dest_qp)
        flow = self.receivers.get(flow_slot)
        if flow is not None and is_behind(owner, flow.owner):
            self.counters["stale"] += 1
            return []
        entry = self._entry(slot)
        if flow is None or owner != flow.owner:
            # Fixed when the flow is created.
            eligible = gradient and entry is not None and entry[0].p_ppm > 0 and entry[0].eligible
            flow = self.receivers[flow_slot] = ReceiverFlow(owner, eligible)
        blocks = ranges.blocks_of(reth.virtual_addr, reth.dma_len)
        if max(blocks) >= flow.rcv_nxt + wire.WINDOW // wire.BLOCK:
            self.counters["beyond_window"] += 1
            return []
        handler = self.on_trimmed_header if is_trimmed else self.on_data
        return handler(packet, flow, entry, blocks, gradient, now_us)

    def on_data(
        self,
        packet: Roce,
        flow: ReceiverFlow,
        entry: tuple[Step, StepState] | None,
        blocks: Blocks,
        gradient: bool,
        now_us: int,
    ) -> list[Output]:
        """The right column of the paper's table."""
        assert packet.reth is not None
        new = self.unsettled(flow, blocks)
        if any(flow.scoreboard.get(block) is State.FORGIVEN for block in blocks):
            self.counters["data_late"] += 1
        self.counters["data_received" if new else "data_duplicate"] += 1
        if entry is not None:
            state = entry[1]
            state.outstanding -= count({b: n for b, n in new.items() if b in flow.charged})
            if flow.eligible:
                state.received += count(new)
        flow.charged -= set(new)
        self._mark(packet, flow, new, State.RECEIVED)
        self._advance(flow)
        outputs: list[Output] = []
        if new:
            accept = ranges.mask(packet.reth.virtual_addr, new)
            delivered = packet.but(delivery=wire.Delivery(wire.EVENT_DATA, accept))
            outputs.append((HOST, delivered.encode()))
        return outputs + self._acknowledge(packet, flow, entry, packet.ecn == wire.CE, now_us)

    def on_trimmed_header(
        self,
        packet: Roce,
        flow: ReceiverFlow,
        entry: tuple[Step, StepState] | None,
        blocks: Blocks,
        gradient: bool,
        now_us: int,
    ) -> list[Output]:
        """Receiver::OnTrimmedHeader."""
        assert packet.reth is not None
        reth = packet.reth
        echo = packet.ecn == wire.CE
        self.counters["trimmed_received"] += 1
        if entry is not None and gradient:
            entry[1].trimmed += reth.dma_len
        missing = self.unsettled(flow, blocks)
        if not missing:
            self.counters["trimmed_settled"] += 1
            return self._acknowledge(packet, flow, entry, echo, now_us)
        if not gradient:
            self.counters["refused_class"] += 1
            return self.repair(packet, flow, entry, blocks)
        if entry is None or not entry[0].open:
            self.counters["refused_closed"] += 1
            return self.repair(packet, flow, entry, blocks)
        step, state = entry
        state.outstanding += count({b: n for b, n in missing.items() if b not in flow.charged})
        flow.charged |= set(missing)
        length = count(missing)
        if not self._vested(step, state, length):
            self.counters["refused_vesting"] += 1
            return self.repair(packet, flow, entry, blocks)
        flow.trims += 1
        if self.draw(self.seed, packet, flow.trims) >= step.forgive_threshold:
            self.counters["refused_draw"] += 1
            return self.repair(packet, flow, entry, blocks)
        self.counters["forgiven"] += 1
        state.forgiven += length
        state.outstanding -= length
        flow.charged -= set(missing)
        self._mark(packet, flow, missing, State.FORGIVEN)
        self._advance(flow)
        told = packet.but(
            delivery=wire.Delivery(wire.EVENT_FORGIVEN, ranges.mask(reth.virtual_addr, missing)), payload=b""
        )
        answer = self._acknowledge(packet, flow, entry, echo or step.forgiveness_echoes, now_us)
        return [(HOST, told.encode()), *answer]

    @staticmethod
    def _vested(step: Step, state: StepState, length: int) -> bool:
        if not step.vesting:
            return state.forgiven + length <= step.budget
        return (state.forgiven + length) * 1_000_000 <= step.p_ppm * (
            state.received + state.forgiven + length
        )

    @staticmethod
    def unsettled(flow: ReceiverFlow, blocks: Blocks) -> Blocks:
        """Receiver::Unsettled."""
        settled = (State.RECEIVED, State.FORGIVEN)
        return {b: n for b, n in blocks.items() if flow.scoreboard.get(b) not in settled}

    def flags(self, flow: ReceiverFlow, entry: tuple[Step, StepState] | None) -> tuple[int, int]:
        """Receiver::Flags, and the experiment's `exemption` policies."""
        if not flow.eligible:
            return 0, 0
        if entry is None:
            # No budget is left to cover anything.
            return 1, 1
        step, state = entry
        exhausted = state.forgiven + state.outstanding + step.packet_bytes > step.budget
        if step.exemption == NEVER_ENDS:
            exhausted = False
        if exhausted != state.exhausted_sent:
            self.counters["exhausted_set" if exhausted else "exhausted_cleared"] += 1
            state.exhausted_sent = exhausted
        return int(step.exemption != NEVER), int(exhausted)

    def repair(
        self, packet: Roce, flow: ReceiverFlow, entry: tuple[Step, StepState] | None, blocks: Blocks
    ) -> list[Output]:
        """Receiver::Repair: mark the unsettled subranges, request the whole range."""
        for block in self.unsettled(flow, blocks):
            flow.scoreboard[block] = State.REQUESTED
        return [self._feedback(packet, flow, entry, wire.NAK, 0)]

    def _mark(self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, value: State) -> None:
        for block, octets in blocks.items():
            assert flow.scoreboard.get(block) in (None, State.REQUESTED), "a settled block never changes"
            flow.scoreboard[block] = value
            if self.on_settled is not None:
                slot = wire.split_queue_pair(packet.dest_qp)[2]
                self.on_settled(slot, block, octets, value is State.RECEIVED)

    @staticmethod
    def _advance(flow: ReceiverFlow) -> None:
        """Advance(rcv_nxt, scoreboard)."""
        while flow.scoreboard.get(flow.rcv_nxt) in (State.RECEIVED, State.FORGIVEN):
            flow.rcv_nxt += 1

    # --- the receiver's packets

    def _acknowledge(
        self,
        packet: Roce,
        flow: ReceiverFlow,
        entry: tuple[Step, StepState] | None,
        echo: bool,
        now_us: int,
    ) -> list[Output]:
        interval = self.notification_interval_us if entry is None else entry[0].notification_interval_us
        if interval == 0:
            return [self._feedback(packet, flow, entry, wire.ACK, int(echo))]
        outputs = [self._feedback(packet, flow, entry, wire.ACK, 0)]
        last = flow.last_notification_us
        if echo and (last is None or now_us - last >= interval):
            flow.last_notification_us = now_us
            self.counters["notification_sent"] += 1
            outputs.append((WIRE, self._answer(packet, opcode=wire.CNP, becn=1).encode()))
        return outputs

    def _feedback(
        self,
        packet: Roce,
        flow: ReceiverFlow,
        entry: tuple[Step, StepState] | None,
        syndrome: int,
        becn: int,
    ) -> Output:
        assert packet.reth is not None
        self.counters["echo_sent"] += becn
        eligible, exhausted = self.flags(flow, entry)
        answer = self._answer(
            packet,
            opcode=wire.ACKNOWLEDGE,
            psn=packet.psn,
            becn=becn,
            exemption_eligible=eligible,
            budget_exhausted=exhausted,
            feedback=wire.Feedback(
                syndrome, flow.rcv_nxt * wire.BLOCK, packet.reth.virtual_addr, packet.reth.dma_len
            ),
        )
        return WIRE, answer.encode()

    def _answer(self, packet: Roce, **fields: object) -> Roce:
        """What every packet that goes back to the sender of `packet` has in common."""
        assert packet.reth is not None
        base = Roce(
            opcode=0,
            dest_qp=packet.reth.source_qp,
            dscp=self.control_dscp,
            ecn=wire.NOT_ECT,
            eth_dst=packet.eth_src,
            eth_src=packet.eth_dst,
            src_ip=packet.dst_ip,
            dst_ip=packet.src_ip,
            udp_src=packet.udp_src,
            p_key=packet.p_key,
        )
        return base.but(**fields)

    # --- the sender

    def _sender(self, qp: int) -> SenderFlow | None:
        """The flow a feedback packet is for; None if it is stale. Every flow starts obeying."""
        _, owner, slot = wire.split_queue_pair(qp)
        flow = self.senders.get(slot)
        if flow is not None and is_behind(owner, flow.owner):
            self.counters["stale"] += 1
            return None
        if flow is None or flow.owner != owner:
            # Sender::OnFlowStart.
            flow = self.senders[slot] = SenderFlow(owner)
        return flow

    def _report(self, packet: Roce) -> list[Output]:
        """Sender::OnReport, then the packet's own signal (corner 2)."""
        assert packet.feedback is not None
        flow = self._sender(packet.dest_qp)
        if flow is None:
            return []
        exempt = bool(packet.exemption_eligible and not packet.budget_exhausted)
        if exempt != flow.exempt:
            self.counters["became_exempt" if exempt else "became_obeying"] += 1
            flow.exempt = exempt
        if packet.feedback.syndrome == wire.NAK:
            # Sender::OnRetransmissionRequest: 'reduce' exactly when obeying.
            self.counters["request_exempt" if exempt else "request_obeyed"] += 1
            return [(HOST, packet.but(becn=int(not exempt)).encode())]
        if packet.becn:
            self.counters["notification_ignored" if exempt else "notification_delivered"] += 1
        return [(HOST, packet.but(becn=packet.becn and int(not exempt)).encode())]

    def _notification(self, packet: Roce) -> list[Output]:
        """Sender::OnCongestionNotification."""
        flow = self._sender(packet.dest_qp)
        if flow is None:
            return []
        if flow.exempt:
            self.counters["notification_ignored"] += 1
            return []
        self.counters["notification_delivered"] += 1
        return [(HOST, packet.encode())]
