# SPDX-License-Identifier: Apache-2.0
"""The real simple_switch as the device under test: entries by its command line, packets by nanomsg."""

from __future__ import annotations

import re
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.stf.bmv2_process import CommandLine, Switch
from tests.stf.dut import DutError, Entry, Match
from tests.stf.language import Rate
from tests.stf.program import Action, Array, Table

LOWEST_PRIORITY = 10_000
"""In BMv2 the smaller number wins."""
PACKET_S = 0.02
"""After each packet, so that what it causes stays before what the next one causes."""
QUIET_S = 0.25
"""Without a packet for so long, nothing more comes."""
PATIENCE_S = 5.0
"""For a packet that is expected."""

_HEADER = struct.Struct("<iii")
_PACKET_IN, _PACKET_OUT = 3, 4
_HANDLE = re.compile(r"handle (\d+)")
_COUNTS = re.compile(r"\((\d+) bytes, (\d+) packets\)")
_VALUE = re.compile(r"\]=\s*(\d+)")
_SEPARATORS = {"lpm": "/", "ternary": "&&&", "range": "->"}


class Bmv2Dut:
    """A simple_switch process with its command line. `ports`: those that the test speaks of."""

    def __init__(self, program: str, ports: Sequence[int]) -> None:
        """Raises DutError if the switch does not start with this program."""
        self._folder = tempfile.TemporaryDirectory(prefix="stf-")
        folder = Path(self._folder.name)
        (folder / "program.json").write_text(program)
        self._received: dict[int, list[bytes]] = {port: [] for port in ports}
        self._handles: dict[Entry, int] = {}
        self._sent = False
        self._switch = Switch(folder)
        try:
            self._cli = CommandLine(self._switch.thrift_port)
        except BaseException:
            self._switch.close()
            self._folder.cleanup()
            raise

    def _command(self, *words: object) -> str:
        if self._sent:
            # Packets and commands take different ways into the switch.
            self._collect(QUIET_S)
            self._sent = False
        return self._cli.command(" ".join(str(word) for word in words))

    # --- tables

    def insert(self, entry: Entry) -> None:
        # The type of the table decides whether the command line wants a priority.
        ordered = entry.table.match in ("ternary", "range", "optional")
        priority = [LOWEST_PRIORITY - (entry.priority or 0)] if ordered else []
        key = [_written(field.match, match) for field, match in zip(entry.table.key, entry.key, strict=True)]
        answer = self._command(
            "table_add", entry.table.name, entry.action.name, *key, "=>", *entry.args, *priority
        )
        self._handles[entry] = int(_find(_HANDLE, answer)[1])

    def remove(self, entry: Entry) -> None:
        self._command("table_delete", entry.table.name, self._handles.pop(entry))

    def set_default(self, table: Table, action: Action, args: tuple[int, ...]) -> None:
        self._command("table_set_default", table.name, action.name, *args)

    # --- replication

    def mirror_to_port(self, session: int, port: int) -> None:
        self._command("mirroring_add", session, port)

    def mirror_to_group(self, session: int, group: int) -> None:
        self._command("mirroring_add_mc", session, group)

    def mirror_delete(self, session: int) -> None:
        self._command("mirroring_delete", session)

    def mirror_get(self, session: int) -> None:
        self._command("mirroring_get", session)

    def group_create(self, group: int) -> None:
        self._command("mc_mgrp_create", group)

    def node_create(self, rid: int, ports: Sequence[int]) -> None:
        self._command("mc_node_create", rid, *ports)

    def node_update(self, node: int, ports: Sequence[int]) -> None:
        self._command("mc_node_update", node, *ports)

    def node_associate(self, group: int, node: int) -> None:
        self._command("mc_node_associate", group, node)

    # --- counters, registers, meters

    def counter_read(self, counter: Array, index: int) -> tuple[int, int]:
        found = _find(_COUNTS, self._command("counter_read", counter.name, index))
        return int(found[2]), int(found[1])

    def direct_counter_read(self, counter: Array, entry: Entry) -> tuple[int, int]:
        return self.counter_read(counter, self._handles[entry])

    def counter_write(self, counter: Array, index: int, packets: int, octets: int) -> None:
        self._command("counter_write", counter.name, index, packets, octets)

    def register_read(self, register: Array, index: int) -> int:
        return int(_find(_VALUE, self._command("register_read", register.name, index))[1])

    def register_write(self, register: Array, index: int, value: int) -> None:
        self._command("register_write", register.name, index, value)

    def register_reset(self, register: Array) -> None:
        self._command("register_reset", register.name)

    def meter_get(self, meter: Array, index: int) -> None:
        self._command("meter_get_rates", meter.name, index)

    def meter_set(self, meter: Array, index: int | None, rates: Sequence[Rate]) -> None:
        written = [f"{rate.per_microsecond}:{rate.burst}" for rate in rates]
        if index is None:
            self._command("meter_array_set_rates", meter.name, *written)
        else:
            self._command("meter_set_rates", meter.name, index, *written)

    # --- packets

    def send(self, port: int, data: bytes) -> None:
        self._switch.send(_HEADER.pack(_PACKET_IN, port, len(data)) + data)
        self._sent = True
        time.sleep(PACKET_S)

    def wait(self) -> None:
        time.sleep(1)

    def received(self, expected: Mapping[int, int]) -> Mapping[int, list[bytes]]:
        until = time.monotonic() + PATIENCE_S
        while True:
            self._collect(QUIET_S)
            missing = any(len(self._received[port]) < count for port, count in expected.items())
            if not missing or time.monotonic() > until:
                return self._received

    def _collect(self, quiet_s: float) -> None:
        """Take packets until there is none for `quiet_s` seconds."""
        while (message := self._switch.receive(quiet_s)) is not None:
            kind, port, length = _HEADER.unpack_from(message)
            if kind == _PACKET_OUT and port in self._received:
                self._received[port].append(message[_HEADER.size : _HEADER.size + length])

    def close(self) -> None:
        self._cli.close()
        self._switch.close()
        self._folder.cleanup()


def _written(kind: str, match: Match) -> str:
    return _SEPARATORS.get(kind, "").join(str(part) for part in match)


def _find(pattern: re.Pattern[str], answer: str) -> re.Match[str]:
    found = pattern.search(answer)
    if found is None:
        raise DutError(f"simple_switch_CLI answered {answer.strip()!r}")
    return found
