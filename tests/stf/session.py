# SPDX-License-Identifier: Apache-2.0
"""Carries out the commands of one STF file on a device and judges what comes back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.stf import language as stf
from tests.stf.dut import Dut, DutError, Entry, Match
from tests.stf.keys import BadKey, match_of
from tests.stf.language import Command
from tests.stf.program import Action, Program, UnknownName

_RELATIONS: Mapping[stf.Relation, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class CaseFailure(Exception):
    """The test failed. One line, with the place in the STF file where there is one."""


def ports_of(commands: Sequence[Command]) -> list[int]:
    """The ports that a file speaks of: those are watched."""
    return sorted({c.port for c in commands if isinstance(c, (stf.Packet, stf.Expect))})


class Session:
    """One run of one file."""

    def __init__(self, program: Program, dut: Dut) -> None:
        self._program = program
        self._dut = dut
        self._entries: list[Entry] = []
        self._labels: dict[str, Entry] = {}
        self._expected: dict[int, list[stf.Expect]] = {}

    def run(self, commands: Sequence[Command]) -> None:
        """Raises CaseFailure for the first thing that goes wrong."""
        for command in commands:
            try:
                self._run_one(command)
            except (DutError, UnknownName, BadKey) as error:
                raise CaseFailure(f"line {command.place.line}: {error}") from None
        self._judge()

    def _run_one(self, command: Command) -> None:
        dut, program = self._dut, self._program
        match command:
            case stf.Packet(_, port, data):
                dut.send(port, data)
            case stf.Expect(_, port, _):
                self._expected.setdefault(port, []).append(command)
            case stf.NoPacket():
                self._no_packet()
            case stf.Wait():
                dut.wait()
            case stf.Add():
                self._add(command)
            case stf.SetDefault(_, name, call):
                table = program.table(name)
                action = table.find_action(call.name)
                dut.set_default(table, action, _args(action, call))
            case stf.RemoveAll():
                while self._entries:
                    dut.remove(self._entries.pop())
                self._labels.clear()
            case stf.MirrorToPort(_, session, port):
                dut.mirror_to_port(session, port)
            case stf.MirrorToGroup(_, session, group):
                dut.mirror_to_group(session, group)
            case stf.MirrorDelete(_, session):
                dut.mirror_delete(session)
            case stf.MirrorGet(_, session):
                dut.mirror_get(session)
            case stf.GroupCreate(_, group):
                dut.group_create(group)
            case stf.NodeCreate(_, rid, ports):
                dut.node_create(rid, ports)
            case stf.NodeUpdate(_, node, ports):
                dut.node_update(node, ports)
            case stf.NodeAssociate(_, group, node):
                dut.node_associate(group, node)
            case _:
                self._run_array(command)

    def _run_array(self, command: Command) -> None:
        dut, program = self._dut, self._program
        match command:
            case stf.CheckCounter():
                self._check_counter(command)
            case stf.CheckRegister(_, name, index, relation, value):
                found = dut.register_read(program.register(name), index)
                _check(f"{name}[{index}]", found, relation, value)
            case stf.CounterRead(_, name, index):
                dut.counter_read(program.counter(name), index)
            case stf.CounterWrite(_, name, index, packets, octets):
                dut.counter_write(program.counter(name), index, packets, octets)
            case stf.RegisterRead(_, name, index):
                dut.register_read(program.register(name), index)
            case stf.RegisterWrite(_, name, index, value):
                dut.register_write(program.register(name), index, value)
            case stf.RegisterReset(_, name):
                dut.register_reset(program.register(name))
            case stf.MeterGet(_, name, index):
                dut.meter_get(program.meter(name), index)
            case stf.MeterSet(_, name, index, rates):
                dut.meter_set(program.meter(name), index, rates)
            case stf.MeterSetAll(_, name, rates):
                dut.meter_set(program.meter(name), None, rates)
            case _:
                raise AssertionError(f"a command without a meaning: {command}")

    def _add(self, command: stf.Add) -> None:
        table = self._program.table(command.table)
        given: dict[str, Match] = {}
        for name, value in command.key:
            field = table.find_key(name)
            if field.name in given:
                raise UnknownName(f"key field {field.name!r} of {table.name!r} has two values")
            given[field.name] = match_of(field, value)
        key = tuple(given.get(field.name, match_of(field, None)) for field in table.key)
        ordered = any(field.match in ("ternary", "range", "optional") for field in table.key)
        action = table.find_action(command.action.name)
        entry = Entry(
            table, key, (command.priority or 0) if ordered else None, action, _args(action, command.action)
        )
        self._dut.insert(entry)
        self._entries.append(entry)
        if command.label is not None:
            self._labels[command.label] = entry

    def _check_counter(self, command: stf.CheckCounter) -> None:
        counter = self._program.counter(command.name)
        if isinstance(command.index, str):
            entry = self._labels.get(command.index)
            if entry is None:
                raise UnknownName(f"no entry is labelled {command.index!r}")
            if counter.table != entry.table.name:
                raise UnknownName(f"{counter.name!r} is no direct counter of table {entry.table.name!r}")
            packets, octets = self._dut.direct_counter_read(counter, entry)
        else:
            packets, octets = self._dut.counter_read(counter, command.index)
        found = packets if command.unit == "packets" else octets
        _check(f"{command.unit} of {command.name}({command.index})", found, command.relation, command.value)

    def _no_packet(self) -> None:
        expected = {port: len(lines) for port, lines in self._expected.items()}
        for port, packets in self._dut.received(expected).items():
            if len(packets) > expected.get(port, 0):
                raise DutError(f"port {port} has sent {packets[expected.get(port, 0)].hex()}")

    def _judge(self) -> None:
        try:
            received = self._dut.received({port: len(lines) for port, lines in self._expected.items()})
        except DutError as error:
            raise CaseFailure(str(error)) from None
        for port in sorted({*received, *self._expected}):
            expected, packets = self._expected.get(port, []), received.get(port, [])
            for number, (line, packet) in enumerate(zip(expected, packets, strict=False), 1):
                difference = line.pattern.mismatch(packet) if line.pattern else None
                if difference:
                    raise CaseFailure(f"line {line.place.line}: packet {number} of port {port}: {difference}")
            if len(expected) > len(packets):
                line = expected[len(packets)]
                raise CaseFailure(
                    f"line {line.place.line}: port {port} sent {len(packets)} packets, "
                    f"expected {len(expected)}"
                )
            if len(packets) > len(expected):
                raise CaseFailure(
                    f"port {port} sent {len(packets)} packets, expected {len(expected)}; "
                    f"the first too many is {packets[len(expected)].hex()}"
                )


def _check(what: str, found: int, relation: stf.Relation, value: int) -> None:
    if not _RELATIONS[relation](found, value):
        raise DutError(f"{what} is {found}, expected {relation} {value}")


def _args(action: Action, call: stf.ActionCall) -> tuple[int, ...]:
    given = dict(call.args)
    names = [name for name, _ in action.params]
    if len(given) != len(call.args) or set(given) != set(names):
        raise UnknownName(
            f"action {action.name!r} takes ({', '.join(names)}), got ({', '.join(n for n, _ in call.args)})"
        )
    return tuple(given[name] for name in names)


def run(program: Mapping[str, Any], dut: Dut, commands: Sequence[Command]) -> None:
    """A whole file against a device that has the BMv2 JSON `program` loaded."""
    Session(Program(program), dut).run(commands)
