# SPDX-License-Identifier: Apache-2.0
"""Reads STF files: one command a line, `#` begins a comment, keywords in either case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

from tests.stf import language as stf
from tests.stf.language import Command, Place, StfError
from tests.stf.line import Line, strip_comment


def read_file(path: Path) -> list[Command]:
    """All commands of a file. StfError for the first line that can't be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StfError(Place(str(path), 0), f"can't be read: {error}") from None
    return read_text(text, str(path))


def read_text(text: str, name: str) -> list[Command]:
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        rest = strip_comment(line).strip()
        if rest:
            commands.append(_command(Line(Place(name, number), rest)))
    return commands


def _command(line: Line) -> Command:
    keyword = line.word("a command").lower()
    read = _COMMANDS.get(keyword)
    if read is None:
        raise line.error(f"there is no command {keyword!r}; known are {', '.join(sorted(_COMMANDS))}")
    command = read(line)
    line.end()
    return command


# --- packets


def _packet(line: Line) -> Command:
    port = line.port()
    digits = line.packet_data("0123456789abcdefABCDEF").lower()
    if not digits:
        raise line.error("a packet needs data")
    if len(digits) % 2:
        raise line.error(f"{len(digits)} digits of packet data: expected an even number")
    return stf.Packet(line.place, port, bytes.fromhex(digits))


def _expect(line: Line) -> Command:
    port = line.port()
    digits = line.packet_data("0123456789abcdefABCDEF*$").lower()
    if not digits:
        return stf.Expect(line.place, port, None)
    exact = digits.endswith("$")
    digits = digits.removesuffix("$")
    if "$" in digits:
        raise line.error("'$' marks the packet's end, nothing may follow it")
    return stf.Expect(line.place, port, stf.Pattern(digits, exact))


# --- tables


def _add(line: Line) -> Command:
    table = line.name("a table")
    priority = line.number("a priority") if line.at_number() else None
    key: list[tuple[str, stf.KeyValue]] = []
    # What is followed by a parenthesis is the action.
    name = line.name("a key field or the action")
    while line.take(":"):
        key.append((name, _key_value(line)))
        name = line.name("a key field or the action")
    action = _action_call(line, name)
    label = line.name("a label") if line.take("=") else None
    return stf.Add(line.place, table, priority, tuple(key), action, label)


def _key_value(line: Line) -> stf.KeyValue:
    first = line.pattern("a value")
    if line.take("/"):
        return stf.Prefix(first.value, line.number("a prefix length"))
    if line.take("&&&"):
        return stf.Masked(first.value, line.number("a mask"))
    if line.take("->"):
        high = line.number("the end of a range")
        if high < first.value:
            raise line.error(f"the range {first.value}->{high} is empty")
        return stf.Span(first.value, high)
    return first


def _action_call(line: Line, name: str) -> stf.ActionCall:
    line.expect("(")
    args: list[tuple[str, int]] = []
    while not line.take(")"):
        if args:
            line.expect(",")
        param = line.name("a parameter")
        line.expect(":")
        args.append((param, line.number("a value")))
    return stf.ActionCall(name, tuple(args))


def _set_default(line: Line) -> Command:
    table = line.name("a table")
    return stf.SetDefault(line.place, table, _action_call(line, line.name("an action")))


def _remove(line: Line) -> Command:
    if line.word("'all'").lower() != "all":
        raise line.error("only 'remove all' is known")
    return stf.RemoveAll(line.place)


# --- counters, registers, meters


def _relation(line: Line) -> stf.Relation:
    for relation in get_args(stf.Relation):
        if line.take(relation):
            found: stf.Relation = relation
            return found
    raise line.error(f"expected one of {', '.join(get_args(stf.Relation))}, got {line.next_text()}")


def _check_counter(line: Line) -> Command:
    name = line.name("a counter")
    line.expect("(")
    index = line.number("an index") if line.at_number() else line.name("a label").removeprefix("$")
    line.expect(")")
    if line.at_end():
        return stf.CheckCounter(line.place, name, index, "packets", "==", 0)
    word = line.word("'packets' or 'bytes'").lower()
    units: Mapping[str, Literal["packets", "bytes"]] = {"packets": "packets", "bytes": "bytes"}
    if word not in units:
        raise line.error(f"expected 'packets' or 'bytes', got {word!r}")
    return stf.CheckCounter(line.place, name, index, units[word], _relation(line), line.number("a count"))


def _check_register(line: Line) -> Command:
    name = line.name("a register")
    line.expect("(")
    index = line.number("an index")
    line.expect(")")
    return stf.CheckRegister(line.place, name, index, _relation(line), line.number("a value"))


def _counter_read(line: Line) -> Command:
    return stf.CounterRead(line.place, line.name("a counter"), line.number("an index"))


def _counter_write(line: Line) -> Command:
    name = line.name("a counter")
    return stf.CounterWrite(
        line.place, name, line.number("an index"), line.number("packets"), line.number("bytes")
    )


def _register_read(line: Line) -> Command:
    return stf.RegisterRead(line.place, line.name("a register"), line.number("an index"))


def _register_write(line: Line) -> Command:
    name = line.name("a register")
    return stf.RegisterWrite(line.place, name, line.number("an index"), line.number("a value"))


def _register_reset(line: Line) -> Command:
    return stf.RegisterReset(line.place, line.name("a register"))


def _rates(line: Line) -> tuple[stf.Rate, ...]:
    rates: list[stf.Rate] = []
    while not rates or not line.at_end():
        rate = line.fraction("a rate")
        line.expect(":")
        rates.append(stf.Rate(rate, line.number("a burst")))
    return tuple(rates)


def _meter_get(line: Line) -> Command:
    return stf.MeterGet(line.place, line.name("a meter"), line.number("an index"))


def _meter_set(line: Line) -> Command:
    return stf.MeterSet(line.place, line.name("a meter"), line.number("an index"), _rates(line))


def _meter_set_all(line: Line) -> Command:
    return stf.MeterSetAll(line.place, line.name("a meter"), _rates(line))


# --- replication


def _numbers(line: Line, what: str) -> tuple[int, ...]:
    found: list[int] = []
    while not line.at_end():
        found.append(line.number(what))
    return tuple(found)


def _mirror_to_port(line: Line) -> Command:
    return stf.MirrorToPort(line.place, line.number("a session"), line.number("a port"))


def _mirror_to_group(line: Line) -> Command:
    return stf.MirrorToGroup(line.place, line.number("a session"), line.number("a multicast group"))


def _mirror_delete(line: Line) -> Command:
    return stf.MirrorDelete(line.place, line.number("a session"))


def _mirror_get(line: Line) -> Command:
    return stf.MirrorGet(line.place, line.number("a session"))


def _group_create(line: Line) -> Command:
    return stf.GroupCreate(line.place, line.number("a multicast group"))


def _node_create(line: Line) -> Command:
    return stf.NodeCreate(line.place, line.number("a replica id"), _numbers(line, "a port"))


def _node_update(line: Line) -> Command:
    return stf.NodeUpdate(line.place, line.number("a node"), _numbers(line, "a port"))


def _node_associate(line: Line) -> Command:
    return stf.NodeAssociate(line.place, line.number("a multicast group"), line.number("a node"))


_COMMANDS: Mapping[str, Callable[[Line], Command]] = {
    "add": _add,
    "check_counter": _check_counter,
    "check_register": _check_register,
    "counter_read": _counter_read,
    "counter_write": _counter_write,
    "expect": _expect,
    "mc_mgrp_create": _group_create,
    "mc_node_associate": _node_associate,
    "mc_node_create": _node_create,
    "mc_node_update": _node_update,
    "meter_array_set_rates": _meter_set_all,
    "meter_get_rates": _meter_get,
    "meter_set_rates": _meter_set,
    "mirroring_add": _mirror_to_port,
    "mirroring_add_mc": _mirror_to_group,
    "mirroring_delete": _mirror_delete,
    "mirroring_get": _mirror_get,
    "no_packet": lambda line: stf.NoPacket(line.place),
    "packet": _packet,
    "register_read": _register_read,
    "register_reset": _register_reset,
    "register_write": _register_write,
    "remove": _remove,
    "setdefault": _set_default,
    "wait": lambda line: stf.Wait(line.place),
}
