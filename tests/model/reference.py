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

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from tests.model import draws, ranges
from tests.model.ranges import Blocks, count
from tests.support import answers, wire
from tests.support.nic import HOST, NEVER, NEVER_ENDS, WIRE, Step
from tests.support.wire import Roce

WORD_BLOCKS = 64
"""Blocks of a scoreboard word, in which the window is counted."""
WINDOW_WORDS = 127


class State(Enum):
    """A block's value on the scoreboard; a block that is absent has none."""

    REQUESTED = auto()
    FORGIVEN = auto()
    RECEIVED = auto()


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
    tag: int = 0
    """The step it belongs to: that of the first entry that its packets met; 0 until then."""
    rcv_nxt: int = 0
    """In blocks: the lowest one not settled."""
    scoreboard: dict[int, State] = field(default_factory=dict)
    charged: set[int] = field(default_factory=set)
    """Blocks that are in the step's `outstanding`."""
    draws: int = 0
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
    return (owner - current) % wire.OWNERS >= wire.OWNERS // 2


def is_roce(frame: bytes) -> bool:
    """UDP to port 4791 in an unfragmented IPv4 packet without options."""
    return (
        frame[12:15] == b"\x08\x00\x45"
        and int.from_bytes(frame[20:22]) & 0x3FFF == 0
        and frame[23] == 17
        and frame[36:38] == wire.UDP_PORT_ROCE.to_bytes(2)
    )


class NicModel:
    """One NIC: receiver of what comes from the wire, sender of what its host sends."""

    def __init__(
        self,
        classes: dict[int, tuple[bool, bool]],
        seed: int = 0,
        control_dscp: int = wire.DSCP_CONTROL,
        notification_interval_us: int = 0,
        draw: Callable[[int, int, int, int], int] = draws.forgive,
    ) -> None:
        """`classes`: dscp -> (gradient, trimmed), the table `traffic_class`. `draw`: `draws.forgive`."""
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

    def restart(self) -> None:
        """Its program is loaded anew; what the controller had installed is again, steps closed."""
        self.step_states.clear()
        self.receivers.clear()
        self.senders.clear()
        self.counters.clear()
        self.steps = {slot: replace(step, open=False) for slot, step in self.steps.items()}

    def query(self, slot: int) -> StateReport:
        """What a PacketOut asks: zeros without an entry, no bytes while no packet has met it."""
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
            self._exhausted(step, state),
            state.received,
            state.forgiven,
            state.outstanding,
            state.trimmed,
        )

    @staticmethod
    def _exhausted(step: Step, state: StepState) -> bool:
        """The paper's budget-exhausted, of an eligible flow."""
        return state.forgiven + state.outstanding + step.packet_bytes > step.budget

    def _entry(self, slot: int, flow: ReceiverFlow) -> Step | None:
        """steps[StepOf(flow)]; None too if the slot has become another step's."""
        step = self.steps.get(slot)
        return step if step is not None and step.tag == flow.tag else None

    def _state(self, slot: int, flow: ReceiverFlow) -> StepState | None:
        """The byte state of the flow's step, whether or not its entry is still there."""
        state = self.step_states.get(slot)
        return state if state is not None and state.tag == flow.tag else None

    def _create(self, slot: int, owner: int, gradient: bool) -> ReceiverFlow:
        """Eligibility is fixed here."""
        step = self.steps.get(slot)
        return ReceiverFlow(
            owner, eligible=gradient and step is not None and step.p_ppm > 0 and step.eligible
        )

    def _meet(self, slot: int, flow: ReceiverFlow) -> None:
        """The flow joins the first step that its packets meet; the state starts with the step's first
        packet."""
        step = self.steps.get(slot)
        if step is None:
            return
        if flow.tag == 0:
            flow.tag = step.tag
        state = self.step_states.get(slot)
        if state is None or state.tag != step.tag:
            self.step_states[slot] = StepState(step.tag)

    # --- packets

    def receive(self, port: int, frame: bytes, now_us: int = 0) -> list[Output]:
        """Every frame that leaves because `frame` came in at `port`."""
        if not is_roce(frame):
            return [(HOST + WIRE - port, frame)]
        packet = self._parse(frame)
        if packet is None or (port == HOST and packet.opcode != wire.WRITE_ONLY):
            self.counters["malformed"] += 1
            return []
        if port == HOST:
            return self._from_host(packet)
        if packet.opcode == wire.WRITE_ONLY:
            return self._from_sender(packet, now_us)
        return self._report(packet) if packet.opcode == wire.ACKNOWLEDGE else self._notification(packet)

    def _parse(self, frame: bytes) -> Roce | None:
        """The packet, or None if it is malformed: lengths, opcode, reserved fields."""
        try:
            packet = wire.decode(frame, checksum=False)
        except (wire.WireError, struct.error):
            return None
        if packet.opcode not in (wire.WRITE_ONLY, wire.ACKNOWLEDGE, wire.CNP):
            return None
        if packet.reth is None:
            return None if packet.payload else packet
        if packet.reth.virtual_addr_high or packet.reth.rkey_high:
            return None
        _, is_trimmed = self.classes.get(packet.dscp, (False, False))
        return packet if len(packet.payload) == (0 if is_trimmed else packet.reth.dma_len) else None

    def _from_host(self, packet: Roce) -> list[Output]:
        assert packet.opcode == wire.WRITE_ONLY and packet.reth is not None
        return [(WIRE, packet.but(udp_src=draws.source_port(packet.dest_qp, packet.reth.source_qp)).encode())]

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
        if flow is None or owner != flow.owner:
            step = self.steps.get(slot)
            if is_trimmed and step is not None and not step.trimmed_starts_flow:
                return self.request_unknown(packet)
            flow = self.receivers[flow_slot] = self._create(slot, owner, gradient)
        self._meet(slot, flow)
        blocks = ranges.blocks_of(reth.virtual_addr, reth.dma_len)
        if max(blocks) // WORD_BLOCKS >= flow.rcv_nxt // WORD_BLOCKS + WINDOW_WORDS:
            self.counters["beyond_window"] += 1
            return []
        handler = self.on_trimmed_header if is_trimmed else self.on_data
        return handler(packet, flow, blocks, now_us)

    def on_data(self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int) -> list[Output]:
        """The right column of the paper's table."""
        assert packet.reth is not None
        new = self.unsettled(flow, blocks)
        if any(flow.scoreboard.get(block) is State.FORGIVEN for block in blocks):
            self.counters["data_late"] += 1
        self.counters["data_received" if new else "data_duplicate"] += 1
        state = self._state(self.slot(packet), flow)
        if state is not None:
            # Never below 0, should a peer contradict itself about where its message ends.
            charged = count({b: n for b, n in new.items() if b in flow.charged})
            state.outstanding = max(0, state.outstanding - charged)
            if flow.eligible:
                state.received += count(new)
        flow.charged -= set(new)
        self._mark(packet, flow, new, State.RECEIVED)
        self._advance(flow)
        outputs: list[Output] = []
        if new:
            accept = ranges.mask(packet.reth.virtual_addr, new)
            outputs.append((HOST, answers.delivered(packet, accept).encode()))
        return outputs + self._acknowledge(packet, flow, packet.ecn == wire.CE, now_us)

    def on_trimmed_header(
        self, packet: Roce, flow: ReceiverFlow, blocks: Blocks, now_us: int
    ) -> list[Output]:
        """Receiver::OnTrimmedHeader."""
        assert packet.reth is not None
        reth = packet.reth
        echo = packet.ecn == wire.CE
        step = self._entry(self.slot(packet), flow)
        state = self._state(self.slot(packet), flow)
        gradient, _ = self.classes[packet.dscp]
        self.counters["trimmed_received"] += 1
        if state is not None:
            state.trimmed += reth.dma_len
        missing = self.unsettled(flow, blocks)
        if not missing:
            self.counters["trimmed_settled"] += 1
            return self._acknowledge(packet, flow, echo, now_us)
        if not gradient or (step is not None and not step.eligible):
            self.counters["refused_class"] += 1
            return self.repair(packet, flow, blocks)
        if step is None or not step.open:
            self.counters["refused_closed"] += 1
            return self.repair(packet, flow, blocks)
        assert state is not None, "a flow that has an entry has met it"
        state.outstanding += count({b: n for b, n in missing.items() if b not in flow.charged})
        flow.charged |= set(missing)
        length = count(missing)
        if not self._vested(step, state, length):
            self.counters["refused_vesting"] += 1
            return self.repair(packet, flow, blocks)
        flow.draws += 1
        if self.draw(self.seed, packet.dest_qp, reth.virtual_addr, flow.draws - 1) >= step.forgive_threshold:
            self.counters["refused_draw"] += 1
            return self.repair(packet, flow, blocks)
        self.counters["forgiven"] += 1
        state.forgiven += length
        state.outstanding = max(0, state.outstanding - length)
        flow.charged -= set(missing)
        self._mark(packet, flow, missing, State.FORGIVEN)
        self._advance(flow)
        told = answers.forgiven(packet, ranges.mask(reth.virtual_addr, missing))
        answer = self._acknowledge(packet, flow, echo or step.forgiveness_echoes, now_us)
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

    def flags(self, packet: Roce, flow: ReceiverFlow) -> tuple[int, int]:
        """Receiver::Flags, and the experiment's `exemption` policies."""
        if not flow.eligible:
            return 0, 0
        step = self._entry(self.slot(packet), flow)
        state = self._state(self.slot(packet), flow)
        if step is None or state is None:
            # No budget is left that could cover anything.
            return 1, 1
        exhausted = self._exhausted(step, state)
        if step.exemption == NEVER_ENDS:
            exhausted = False
        if exhausted != state.exhausted_sent:
            self.counters["exhausted_set" if exhausted else "exhausted_cleared"] += 1
            state.exhausted_sent = exhausted
        return int(step.exemption != NEVER), int(exhausted)

    def repair(self, packet: Roce, flow: ReceiverFlow, blocks: Blocks) -> list[Output]:
        """Receiver::Repair: mark the unsettled subranges, request the whole range."""
        for block in self.unsettled(flow, blocks):
            flow.scoreboard[block] = State.REQUESTED
        return [self._feedback(packet, flow, wire.NAK, 0)]

    def request_unknown(self, packet: Roce) -> list[Output]:
        """A header of a flow that only data may start: the range is requested, and nothing is remembered."""
        self.counters["unknown_flow"] += 1
        request = answers.feedback(
            packet, wire.NAK, 0, eligible=0, exhausted=0, becn=0, dscp=self.control_dscp
        )
        return [(WIRE, request.encode())]

    @staticmethod
    def slot(packet: Roce) -> int:
        """StepOf(flow)."""
        return wire.split_queue_pair(packet.dest_qp)[0]

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

    def _acknowledge(self, packet: Roce, flow: ReceiverFlow, signal: bool, now_us: int) -> list[Output]:
        """SendAck. `signal`: the ECN echo, on the acknowledgement or as a notification."""
        # The interval is that of whatever entry the slot has, as the table gives it.
        step = self.steps.get(self.slot(packet))
        interval = self.notification_interval_us if step is None else step.notification_interval_us
        if interval == 0:
            return [self._feedback(packet, flow, wire.ACK, int(signal))]
        outputs = [self._feedback(packet, flow, wire.ACK, 0)]
        last = flow.last_notification_us
        if signal and (last is None or now_us - last >= interval):
            flow.last_notification_us = now_us
            self.counters["notification_sent"] += 1
            outputs.append((WIRE, answers.notification(packet, self.control_dscp).encode()))
        return outputs

    def _feedback(self, packet: Roce, flow: ReceiverFlow, syndrome: int, becn: int) -> Output:
        assert packet.reth is not None
        self.counters["echo_sent"] += becn
        eligible, exhausted = self.flags(packet, flow)
        answer = answers.feedback(
            packet,
            syndrome,
            flow.rcv_nxt * wire.BLOCK,
            eligible=eligible,
            exhausted=exhausted,
            becn=becn,
            dscp=self.control_dscp,
        )
        return WIRE, answer.encode()

    # --- the sender

    def _sender(self, qp: int) -> SenderFlow | None:
        """The flow that a feedback packet is for; None if it is stale. Every flow starts obeying."""
        _, owner, slot = wire.split_queue_pair(qp)
        flow = self.senders.get(slot)
        if flow is not None and is_behind(owner, flow.owner):
            return None
        if flow is None or flow.owner != owner:
            # Sender::OnFlowStart.
            flow = self.senders[slot] = SenderFlow(owner)
        return flow

    def _report(self, packet: Roce) -> list[Output]:
        """Sender::OnReport, then the packet's own signal (corner 2)."""
        assert packet.feedback is not None
        is_request = packet.feedback.syndrome == wire.NAK
        flow = self._sender(packet.dest_qp)
        if flow is None:
            # Delivered as it is.
            self.counters["notification_delivered"] += packet.becn and int(not is_request)
            return [(HOST, packet.encode())]
        exempt = bool(packet.exemption_eligible and not packet.budget_exhausted)
        if exempt != flow.exempt:
            self.counters["became_exempt" if exempt else "became_obeying"] += 1
            flow.exempt = exempt
        if is_request:
            # Sender::OnRetransmissionRequest: 'reduce' exactly when obeying.
            self.counters["request_exempt" if exempt else "request_obeyed"] += 1
            return [(HOST, packet.but(becn=int(not exempt)).encode())]
        if packet.becn:
            self.counters["notification_ignored" if exempt else "notification_delivered"] += 1
        return [(HOST, packet.but(becn=packet.becn and int(not exempt)).encode())]

    def _notification(self, packet: Roce) -> list[Output]:
        """Sender::OnCongestionNotification."""
        flow = self._sender(packet.dest_qp)
        if flow is not None and flow.exempt:
            self.counters["notification_ignored"] += 1
            return []
        self.counters["notification_delivered"] += 1
        return [(HOST, packet.encode())]
