# SPDX-License-Identifier: Apache-2.0
"""All-reduce among ranks: direct (reduce-scatter, then all-gather, everybody to everybody, a message per
pair and phase) and ring. Written against `hosts.messages.MessageLayer`; driven by completions.

    collective = DirectAllReduce(layer, group, rank, step, ...)
    collective.expect()     # receives posted; now peers may be told
    collective.start()      # once every peer is ready
    ... on_sent, on_received until `finished` ...
    collective.result()
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from hosts.endpoint import Range, TrafficClass
from hosts.messages import Arrival, FloatArray, MessageKey, MessageLayer, Phase
from hosts.shedding import PLACEHOLDER_BYTES, Shedding

Operation: TypeAlias = Literal["sum", "mean"]
Release: TypeAlias = Literal["received", "sent"]

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class ForgivenPolicy:
    """What stands where a gradient value never arrived.

    reduce_scatter: "zero" adds nothing; "rescale" multiplies the sum of what arrived (the own value always
    does) by ranks / values that arrived. all_gather: "zero"; "own" takes this rank's own value for the
    mean, or for the sum that value times the ranks."""

    reduce_scatter: Literal["zero", "rescale"] = "zero"
    all_gather: Literal["zero", "own"] = "zero"

    def __post_init__(self) -> None:
        if self.reduce_scatter not in ("zero", "rescale"):
            raise ValueError(f"reduce_scatter = {self.reduce_scatter!r}: must be 'zero' or 'rescale'")
        if self.all_gather not in ("zero", "own"):
            raise ValueError(f"all_gather = {self.all_gather!r}: must be 'zero' or 'own'")


@dataclass(frozen=True)
class AllReduceResult:
    """Of one rank. `reduced`: shape of the values, float32; None without payload."""

    reduced: FloatArray | None
    missing: Mapping[tuple[Phase, int], tuple[Range, ...]]
    """Byte ranges of the message from a peer in a phase that never arrived; absent: all did."""
    shed: frozenset[tuple[Phase, int]]
    """Those of them whose sender gave up the whole message."""
    expected_bytes: int
    missing_bytes: int
    shed_bytes: int


def shard_bounds(elements: int, ranks: int) -> list[tuple[int, int]]:
    """[start, end) of each rank's shard: whole elements, the first `elements % ranks` one longer.

    Raises ValueError when there are fewer elements than ranks."""
    if elements < ranks:
        raise ValueError(f"{elements} values for {ranks} ranks: at least one each is needed")
    size, longer = divmod(elements, ranks)
    starts = [i * size + min(i, longer) for i in range(ranks + 1)]
    return list(itertools.pairwise(starts))


def expected_gradient_bytes(shard_bytes: Sequence[int], index: int) -> int:
    """What a direct all-reduce brings to one rank (paper: ExpectedGradientBytes): its own shard from every
    other rank, then every other rank's shard."""
    return shard_bytes[index] * (len(shard_bytes) - 1) + sum(shard_bytes) - shard_bytes[index]


def _check_group(group: Sequence[int], rank: int) -> int:
    if len(set(group)) != len(group):
        raise ValueError(f"group {list(group)}: a rank is in it twice")
    if rank not in group:
        raise ValueError(f"rank {rank} is not in group {list(group)}")
    return list(group).index(rank)


def _check_values(values: FloatArray) -> None:
    if values.dtype != np.float32 or values.ndim != 1 or not values.flags.c_contiguous:
        raise ValueError(
            f"values: must be a contiguous vector of float32, not {values.ndim}-dimensional {values.dtype}"
        )


def _pieces(missing: Sequence[Range]) -> list[slice]:
    return [slice(piece.start // FLOAT_BYTES, piece.end // FLOAT_BYTES) for piece in missing]


@dataclass
class _PhaseState:
    """Progress of one half of a direct all-reduce."""

    to_send: list[int]
    to_receive: set[int]
    posted: int = 0
    sent: int = 0
    missing: dict[int, tuple[Range, ...]] = field(default_factory=dict)

    def received(self, ranks: int) -> int:
        return ranks - 1 - len(self.to_receive)


class DirectAllReduce:
    """One rank's part in a direct all-reduce of one bucket.

    `shard_bytes`: length of each group member's shard, in group order; with `values` it follows from them.
    Messages of a pair: `sequence` for the reduce-scatter, `sequence` + 1 for the all-gather. `width`: sends
    in flight, to distinct peers in ring order from the next rank on; all by default. `release`: what makes
    room for another send, an inbound message of the phase that completes (as in the paper's study) or an
    own send. The all-gather starts when the whole reduce-scatter has arrived.

    `counted`, without payload only: the first message to arrive from a peer counts as its reduce-scatter and
    the second as its all-gather, whichever they are. The paper's study tells them apart by nothing else."""

    def __init__(
        self,
        layer: MessageLayer,
        group: Sequence[int],
        rank: int,
        step: int,
        *,
        values: FloatArray | None = None,
        shard_bytes: Sequence[int] | None = None,
        width: int | None = None,
        release: Release = "received",
        operation: Operation = "sum",
        policy: ForgivenPolicy | None = None,
        shedding: Shedding | None = None,
        traffic_class: TrafficClass = TrafficClass.GRADIENT,
        sequence: int = 0,
        counted: bool = False,
    ) -> None:
        self.index = _check_group(group, rank)
        self.group = list(group)
        self.rank = rank
        self.step = step
        self.ranks = len(self.group)
        if (values is None) == (shard_bytes is None):
            raise ValueError("exactly one of values and shard_bytes must be given")
        if counted and values is not None:
            raise ValueError("counted: only without values, whose messages are not interchangeable")
        if values is not None:
            _check_values(values)
            self._bounds = shard_bounds(values.size, self.ranks)
            self.shard_bytes = [FLOAT_BYTES * (end - start) for start, end in self._bounds]
        else:
            assert shard_bytes is not None
            self._bounds = []
            self.shard_bytes = list(shard_bytes)
        if len(self.shard_bytes) != self.ranks or min(self.shard_bytes) < 1:
            raise ValueError(f"shard_bytes: must be {self.ranks} positive lengths, one per rank of the group")
        self.width = self.ranks - 1 if width is None else width
        if self.ranks > 1 and not 1 <= self.width <= self.ranks - 1:
            raise ValueError(f"width = {self.width}: must be from 1 to {self.ranks - 1}")
        if release not in ("received", "sent"):
            raise ValueError(f"release = {release!r}: must be 'received' or 'sent'")
        if operation not in ("sum", "mean"):
            raise ValueError(f"operation = {operation!r}: must be 'sum' or 'mean'")
        self._layer = layer
        self._release = release
        self._operation = operation
        self._policy = policy or ForgivenPolicy()
        self._shedding = shedding
        self._class = traffic_class
        self._sequence = sequence
        self._counted = counted
        self._values = values
        # In ring order from the next rank on.
        peers = [(self.index + k) % self.ranks for k in range(1, self.ranks)]
        self._phases = {phase: _PhaseState(list(peers), set(peers)) for phase in Phase}
        self._reduced: FloatArray | None = None if values is None else np.zeros_like(values)
        self._parts: dict[int, FloatArray] = {}
        self._shed: set[tuple[Phase, int]] = set()
        self._gathering = False
        self._placeholder = np.zeros(PLACEHOLDER_BYTES // FLOAT_BYTES, np.float32)

    # --- what others need to know

    @property
    def expected_bytes(self) -> int:
        """Gradient bytes that this all-reduce brings to this rank."""
        return expected_gradient_bytes(self.shard_bytes, self.index)

    @property
    def received_all(self) -> bool:
        """Everything has arrived or is given up: the paper's OnAllReduceComplete."""
        return all(not state.to_receive for state in self._phases.values())

    @property
    def finished(self) -> bool:
        """Everything arrived, and every own message is settled: buffers are free."""
        return self.received_all and all(s.sent == self.ranks - 1 for s in self._phases.values())

    def waiting_for(self) -> str:
        parts = []
        for phase, state in self._phases.items():
            if state.to_receive:
                ranks = sorted(self.group[peer] for peer in state.to_receive)
                parts.append(f"{phase.value} from ranks {ranks}")
            if state.sent < self.ranks - 1:
                parts.append(f"{self.ranks - 1 - state.sent} {phase.value} sends")
        return f"step {self.step}: " + (", ".join(parts) or "nothing")

    # --- driving it

    def expect(self) -> None:
        """Post every receive of both phases."""
        own_bytes = self.shard_bytes[self.index]
        for peer in self._phases[Phase.REDUCE_SCATTER].to_send:
            buffer = None
            if self._values is not None:
                buffer = self._parts[peer] = np.empty(own_bytes // FLOAT_BYTES, np.float32)
            self._expect(Phase.REDUCE_SCATTER, peer, own_bytes, buffer)
        for peer in self._phases[Phase.ALL_GATHER].to_send:
            buffer = None if self._reduced is None else self._reduced[slice(*self._bounds[peer])]
            self._expect(Phase.ALL_GATHER, peer, self.shard_bytes[peer], buffer)

    def start(self) -> None:
        """Send what may be sent. Every peer must be ready to receive, its NIC's budget installed."""
        if self.ranks == 1:
            self._reduce()
        self._launch()

    def on_sent(self, key: MessageKey) -> None:
        self._phases[self._phase(key)].sent += 1
        self._launch()

    def on_received(self, arrival: Arrival) -> None:
        peer = self.group.index(arrival.key.source)
        phase = self._phase(arrival.key)
        if self._counted:
            first = peer in self._phases[Phase.REDUCE_SCATTER].to_receive
            phase = Phase.REDUCE_SCATTER if first else Phase.ALL_GATHER
        state = self._phases[phase]
        state.to_receive.remove(peer)
        if arrival.missing:
            state.missing[peer] = arrival.missing
        if arrival.shed:
            self._shed.add((phase, arrival.key.source))
        if phase is Phase.ALL_GATHER:
            self._fill_gap(peer, arrival.missing)
        elif not state.to_receive:
            self._reduce()
        self._launch()

    def result(self) -> AllReduceResult:
        """After `received_all`."""
        if not self.received_all:
            raise RuntimeError(f"not complete, {self.waiting_for()}")
        missing = {
            (phase, self.group[peer]): ranges
            for phase, state in self._phases.items()
            for peer, ranges in sorted(state.missing.items())
        }
        lost = {name: sum(piece.length_bytes for piece in ranges) for name, ranges in missing.items()}
        return AllReduceResult(
            reduced=self._reduced,
            missing=missing,
            shed=frozenset(self._shed),
            expected_bytes=self.expected_bytes,
            missing_bytes=sum(lost.values()),
            shed_bytes=sum(lost[name] for name in self._shed),
        )

    # --- inside

    def _phase(self, key: MessageKey) -> Phase:
        return Phase.REDUCE_SCATTER if key.sequence == self._sequence else Phase.ALL_GATHER

    def _key(self, phase: Phase, source: int, destination: int) -> MessageKey:
        sequence = self._sequence + (phase is Phase.ALL_GATHER)
        return MessageKey(self.step, self.group[source], self.group[destination], sequence)

    def _expect(self, phase: Phase, peer: int, length: int, buffer: FloatArray | None) -> None:
        key = self._key(phase, peer, self.index)
        self._layer.expect(key, length_bytes=length, buffer=buffer, traffic_class=self._class)

    def _may_send(self, phase: Phase) -> bool:
        state = self._phases[phase]
        if state.posted == self.ranks - 1 or (phase is Phase.ALL_GATHER and not self._gathering):
            return False
        if self._release == "received":
            return state.posted < self.width + state.received(self.ranks)
        return sum(s.posted - s.sent for s in self._phases.values()) < self.width

    def _launch(self) -> None:
        for phase, state in self._phases.items():
            while self._may_send(phase):
                peer = state.to_send[state.posted]
                state.posted += 1
                self._send(phase, peer)

    def _send(self, phase: Phase, peer: int) -> None:
        shard = peer if phase is Phase.REDUCE_SCATTER else self.index
        source = self._values if phase is Phase.REDUCE_SCATTER else self._reduced
        length = self.shard_bytes[shard]
        key = self._key(phase, self.index, peer)
        if self._shedding is not None and self._shedding.sheds(key, length):
            data = None if source is None else self._placeholder
            self._layer.send(key, length_bytes=PLACEHOLDER_BYTES, data=data, traffic_class=TrafficClass.DATA)
            return
        data = None if source is None else source[slice(*self._bounds[shard])]
        self._layer.send(key, length_bytes=length, data=data, traffic_class=self._class)

    def _reduce(self) -> None:
        """Sum the own shard in group order, so that the result does not depend on who came first."""
        self._gathering = True
        if self._values is None or self._reduced is None:
            return
        own = slice(*self._bounds[self.index])
        missing = self._phases[Phase.REDUCE_SCATTER].missing
        for peer, ranges in missing.items():
            for piece in _pieces(ranges):
                self._parts[peer][piece] = 0
        total = np.zeros(own.stop - own.start, np.float32)
        for peer in range(self.ranks):
            total += self._values[own] if peer == self.index else self._parts[peer]
        if missing and self._policy.reduce_scatter == "rescale":
            arrived = np.full(total.size, self.ranks, np.float32)
            for ranges in missing.values():
                for piece in _pieces(ranges):
                    arrived[piece] -= 1
            total *= np.float32(self.ranks) / arrived
        if self._operation == "mean":
            total /= np.float32(self.ranks)
        self._reduced[own] = total
        self._parts.clear()

    def _fill_gap(self, peer: int, missing: Sequence[Range]) -> None:
        if self._values is None or self._reduced is None:
            return
        start, end = self._bounds[peer]
        shard, own = self._reduced[start:end], self._values[start:end]
        factor = np.float32(1 if self._operation == "mean" else self.ranks)
        for piece in _pieces(missing):
            shard[piece] = own[piece] * factor if self._policy.all_gather == "own" else 0


class RingAllReduce:
    """One rank's part in a ring all-reduce: 2 (n - 1) messages to the next rank, each sent when the one
    before has arrived. Load of the tensor-parallel kind: never gradient traffic, so nothing of it is ever
    forgiven.

    With `values` the sum is computed; with `shard_bytes` (all alike) no payload is carried. `counted`,
    without payload only: whichever message comes next counts as the next one, as in the paper's study."""

    def __init__(
        self,
        layer: MessageLayer,
        group: Sequence[int],
        rank: int,
        step: int,
        *,
        values: FloatArray | None = None,
        shard_bytes: int | None = None,
        sequence: int = 0,
        counted: bool = False,
    ) -> None:
        self.index = _check_group(group, rank)
        self.group = list(group)
        self.step = step
        self.ranks = len(self.group)
        if (values is None) == (shard_bytes is None):
            raise ValueError("exactly one of values and shard_bytes must be given")
        if counted and values is not None:
            raise ValueError("counted: only without values, whose messages are not interchangeable")
        if values is not None:
            _check_values(values)
            self._bounds = shard_bounds(values.size, self.ranks)
            self._lengths = [FLOAT_BYTES * (end - start) for start, end in self._bounds]
        else:
            assert shard_bytes is not None
            if shard_bytes < 1:
                raise ValueError(f"shard_bytes = {shard_bytes}: must be positive")
            self._lengths = [shard_bytes] * self.ranks
        self._layer = layer
        self._sequence = sequence
        self._work = None if values is None else values.copy()
        self._parts: dict[int, FloatArray] = {}
        self.messages = 2 * (self.ranks - 1)
        self._posted = self._sent = self._received = 0
        self._early: set[int] = set()
        self._counted = counted

    @property
    def received_all(self) -> bool:
        return self._received == self.messages

    @property
    def finished(self) -> bool:
        return self.received_all and self._sent == self.messages

    def waiting_for(self) -> str:
        return f"step {self.step}: ring, {self._received} of {self.messages} received, {self._sent} sent"

    def _shard(self, number: int, index: int) -> int:
        """Which shard a rank sends as its message of this number: the own one first, then what it just
        received; from the middle on, whole sums."""
        half = self.ranks - 1
        return (index - number if number < half else index + 1 - (number - half)) % self.ranks

    def expect(self) -> None:
        previous = (self.index - 1) % self.ranks
        for number in range(self.messages):
            shard = self._shard(number, previous)
            buffer = None
            if self._work is not None:
                buffer = self._parts[number] = np.empty(self._lengths[shard] // FLOAT_BYTES, np.float32)
            key = MessageKey(self.step, self.group[previous], self.group[self.index], self._sequence + number)
            self._layer.expect(
                key, length_bytes=self._lengths[shard], buffer=buffer, traffic_class=TrafficClass.DATA
            )

    def start(self) -> None:
        self._launch()

    def _launch(self) -> None:
        if self._posted == self.messages or self._posted > self._received:
            return
        shard = self._shard(self._posted, self.index)
        data = None if self._work is None else self._work[slice(*self._bounds[shard])]
        following = self.group[(self.index + 1) % self.ranks]
        key = MessageKey(self.step, self.group[self.index], following, self._sequence + self._posted)
        self._posted += 1
        self._layer.send(key, length_bytes=self._lengths[shard], data=data, traffic_class=TrafficClass.DATA)

    def on_sent(self, key: MessageKey) -> None:
        self._sent += 1

    def on_received(self, arrival: Arrival) -> None:
        if arrival.missing_bytes:
            raise RuntimeError(
                f"message {arrival.key}: bytes of it are missing, though it may not be forgiven"
            )
        self._early.add(self._received if self._counted else arrival.key.sequence - self._sequence)
        # Messages of one pair may overtake each other; they are taken in order.
        while self._received in self._early:
            number = self._received
            self._early.remove(number)
            self._received += 1
            self._take(number)
            self._launch()

    def _take(self, number: int) -> None:
        if self._work is None:
            return
        shard = slice(*self._bounds[self._shard(number, (self.index - 1) % self.ranks)])
        part = self._parts.pop(number)
        if number < self.ranks - 1:
            self._work[shard] += part
        else:
            self._work[shard] = part

    def result(self) -> FloatArray | None:
        """The sum, after `received_all`; None without payload."""
        if not self.received_all:
            raise RuntimeError(f"not complete, {self.waiting_for()}")
        return self._work
