# SPDX-License-Identifier: Apache-2.0
"""For tests of links and endpoints: programs that forward, and hosts written in Python."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from target.api import TableEntry
from target.engine import Device, Engine
from tests.target.programs import (
    Builder,
    assign,
    call,
    case,
    const,
    default_case,
    extract,
    field,
    op,
    param,
    std,
)

NEVER = 2**64 - 1
HEADER_BYTES = 4


def forwarder() -> str:
    """Frames of [to, priority, mark, tag]: table `to` -> port. Priority as asked; no entry: dropped."""
    b = Builder()
    b.header("x", [("to", 8), ("priority", 8), ("mark", 8), ("tag", 8)])
    b.action("port", [("port", 9)], [assign(std("egress_spec"), param(0))])
    b.action("drop", [], [call("mark_to_drop", {"type": "header", "value": "standard_metadata"})])
    b.run("classify", [assign(std("priority"), field("x", "priority"))])
    b.table("to", [("exact", "x", "to")], ["port", "drop"], default="drop")
    return b.json()


def deep() -> str:
    """A header [kind, sum] and, for kind 1, ten elements of a stack [more, number] as long as `more` is set;
    then [kind 2, ..., 48 bits], which are looked at without being taken. To port 2, with what was seen."""
    b = Builder()
    b.header("x", [("kind", 8), ("seen", 48), ("error", 8), ("length", 16)])
    b.header("l0", [("more", 1), ("number", 23)])
    for i in range(1, 10):
        b.instance(f"l{i}", "l0")
    b.header("y", [("value", 48)])
    ids = {h["name"]: h["id"] for h in b.headers}
    b.extra["header_stacks"] = [
        {
            "name": "l",
            "id": 0,
            "header_type": "l0_t",
            "size": 10,
            "header_ids": [ids[f"l{i}"] for i in range(10)],
        }
    ]
    cases = [case("0x01", "labels"), case("0x02", "look"), case("0x03", "far"), default_case(None)]
    b.state("start", [extract("x")], [field("x", "kind")], *cases)
    more = {"type": "stack_field", "value": ["l", "more"]}
    b.state("labels", [extract("l", True)], [more], case("0x01", "labels"), default_case("last"))
    b.state("last", [extract("y")])
    look = {"op": "set", "parameters": [field("x", "seen"), {"type": "lookahead", "value": [64, 48]}]}
    b.state("look", [look])
    b.state("far", [{"op": "advance", "parameters": [{"type": "hexstr", "value": "0x640"}]}, extract("y")])
    seen = field("x", "seen")
    b.run(
        "go",
        [
            assign(std("egress_spec"), const(2)),
            assign(seen, op("+", seen, field("y", "value"))),
            *(assign(seen, op("+", seen, field(f"l{i}", "number"))) for i in range(10)),
            assign(field("x", "error"), std("parser_error")),
            assign(field("x", "length"), std("packet_length")),
        ],
    )
    return b.json()


def frame(to: int = 2, priority: int = 0, tag: int = 0, size: int = 100, mark: int = 0) -> bytes:
    return bytes([to, priority, mark, tag]) + bytes(size - HEADER_BYTES)


class Received(NamedTuple):
    time: int
    data: bytes
    wire_bytes: int

    @property
    def tag(self) -> int:
        return self.data[3]


class Host:
    """An endpoint. `send` queues frames; each goes when it is polled for at or after its time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.received: list[Received] = []
        self.polls: list[int] = []
        self.stop_on_tag: int | None = None
        self.wants_attention = False
        self.always_due = False
        self._waiting: deque[tuple[int, bytes, int]] = deque()
        ffi = engine.ffi
        self._busy = False
        self._current: Any = None

        def receive(_: Any, now: int, data: Any, count: int, wire: int) -> int:
            self._enter()
            self.received.append(Received(now, bytes(ffi.buffer(data, count)), wire))
            self._busy = False
            return int(self.stop_on_tag is not None and self.received[-1].tag == self.stop_on_tag)

        def poll(_: Any, now: int, out: Any) -> int:
            self._enter()
            self._busy = False
            self.polls.append(now)
            if not self._waiting or self._waiting[0][0] > now:
                return 0
            _, data, wire = self._waiting.popleft()
            self._current = ffi.from_buffer("uint8_t[]", data)
            out.data, out.bytes, out.wire_bytes = self._current, len(data), wire
            return 1

        def next_wake(_: Any) -> int:
            if self.always_due:
                return 0
            return self._waiting[0][0] if self._waiting else NEVER

        def attention(_: Any) -> int:
            return int(self.wants_attention)

        self._functions = {
            "receive": ffi.callback("int(void *, uint64_t, const uint8_t *, uint32_t, uint32_t)", receive),
            "poll": ffi.callback("int(void *, uint64_t, struct sw_frame *)", poll),
            "next_wake": ffi.callback("uint64_t(const void *)", next_wake),
            "attention": ffi.callback("int(const void *)", attention),
        }
        self.endpoint = ffi.new("struct sw_endpoint *", self._functions)

    def _enter(self) -> None:
        if self._busy:  # would be lost in a callback's exception
            sys.exit("the engine re-entered an endpoint")
        self._busy = True

    def send(self, data: bytes, wire_bytes: int | None = None, at: int = 0) -> None:
        self._waiting.append((at, data, len(data) if wire_bytes is None else wire_bytes))

    @property
    def left(self) -> int:
        return len(self._waiting)

    @property
    def times(self) -> list[int]:
        return [r.time for r in self.received]

    @property
    def tags(self) -> list[int]:
        return [r.tag for r in self.received]


class Watch:
    """An observer that keeps what it saw: (time, outgoing, data, wire bytes)."""

    def __init__(self, engine: Engine, stop_on_tag: int | None = None) -> None:
        ffi = engine.ffi
        self.seen: list[tuple[int, int, bytes, int]] = []

        def see(_: Any, now: int, outgoing: int, data: Any, count: int, wire: int) -> int:
            self.seen.append((now, outgoing, bytes(ffi.buffer(data, count)), wire))
            return int(stop_on_tag is not None and self.seen[-1][2][3] == stop_on_tag)

        self._function = ffi.callback("int(void *, uint64_t, int, const uint8_t *, uint32_t, uint32_t)", see)
        self.observer = ffi.new("struct sw_observer *", {"frame": self._function})


def add_forwarder(engine: Engine, name: str, routes: Sequence[tuple[int, int]] = (), **config: Any) -> Device:
    """A device with the forwarding program and (destination, port) routes."""
    device = engine.add_device(name, len(engine.devices) + 1, priority_queues=4, **config)
    device.load_pipeline(forwarder())
    for to, port in routes:
        device.table_insert("to", TableEntry(((to,),), "port", (port,)))
    return device
