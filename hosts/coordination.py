# SPDX-License-Identifier: Apache-2.0
"""What a rank and the controller tell each other, beside the network: one JSON
object a line over a stream socket.

It stands for the host-local interface of the paper (section "State and
decision"): which step begins and what its gradient norms say, how many gradient
bytes it will bring, which flows carry them. The answer `Go` is the promise that
every receiving rank's budget is installed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar


@dataclass(frozen=True, slots=True)
class Hello:
    """A host's process is up, its queue pairs are its own. host: name in the topology."""

    kind: ClassVar[str] = "hello"
    host: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A message that a host expects. key: a MessageKey as text; qp: the receiver's choice."""

    key: str
    qp: int
    length_bytes: int
    gradient: bool


@dataclass(frozen=True, slots=True)
class StepBegin:
    """A host is about to take part in a step.

    offers: what it expects, sender's host name -> messages.
    critical, norm, change: the detector's verdict; norm < 0 on hosts without
        gradient traffic. change is 1e308 when there is nothing to compare with.
    expected_bytes: gradient bytes the step will bring this host; 0: not eligible.
    """

    kind: ClassVar[str] = "begin"
    host: str
    step: int
    critical: bool
    norm: float
    change: float
    expected_bytes: int
    offers: dict[str, list[Offer]]


@dataclass(frozen=True, slots=True)
class Go:
    """Every budget is installed: send. queue_pairs: message key -> the receiver's queue pair."""

    kind: ClassVar[str] = "go"
    step: int
    queue_pairs: dict[str, int]


@dataclass(frozen=True, slots=True)
class ReceiveDone:
    """OnAllReduceComplete: every byte that the step brings this host is settled."""

    kind: ClassVar[str] = "received"
    host: str
    step: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StepDone:
    """Nothing of the step is left in flight from or to this host.

    start_ns, end_ns: first post to last settled byte, CLOCK_MONOTONIC.
    completions_ns: per received message, from the step's start.
    forgiven_bytes, shed_bytes: of the messages received; shed: keys of the latter.
    loss: training loss of the rank's batch; 0 on hosts without training.
    """

    kind: ClassVar[str] = "done"
    host: str
    step: int
    start_ns: int
    end_ns: int
    completions_ns: list[int]
    forgiven_bytes: int
    shed_bytes: int
    shed: list[str]
    sent_bytes: int
    retransmitted_bytes: int
    timeouts: int
    rate_cuts: int
    signals: int
    loss: float


@dataclass(frozen=True, slots=True)
class Bye:
    """The host has done all its steps. its weights lie in the run's directory."""

    kind: ClassVar[str] = "bye"
    host: str
    accuracy: float
    loss: float


@dataclass(frozen=True, slots=True)
class Trouble:
    """The host gives up: one line that says why."""

    kind: ClassVar[str] = "trouble"
    host: str
    why: str


Message = Hello | StepBegin | Go | ReceiveDone | StepDone | Bye | Trouble
M = TypeVar("M", bound=Message)
_KINDS: dict[str, type[Any]] = {
    c.kind: c for c in (Hello, StepBegin, Go, ReceiveDone, StepDone, Bye, Trouble)
}


class MessageError(ValueError):
    """A line that is no message."""


def encode(message: Message) -> bytes:
    """One line, newline included."""
    return json.dumps({"kind": message.kind, **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message of one line. Raises MessageError."""
    try:
        fields = json.loads(line)
        made: Message = _KINDS[fields.pop("kind")](**fields)
        if isinstance(made, StepBegin):
            offers = {host: [Offer(**o) for o in each] for host, each in fields["offers"].items()}
            made = replace(made, offers=offers)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise MessageError(f"not a message: {line[:120]!r} ({problem})") from None
    return made
