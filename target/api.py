# SPDX-License-Identifier: Apache-2.0
"""The device interface: what a control plane may ask of one device of the engine.

Names (tables, actions, counters, registers, ports) are those of the BMv2 JSON. Values are Python integers
of any width. Every method is atomic against the packet loop: a packet sees the state before a call or after
it, never half. Every error is a `DeviceError` (or `target.bmjson.JsonError` for a JSON that can't be loaded)
and leaves the device as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

ErrorCode: TypeAlias = Literal[
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "INVALID_ARGUMENT",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
]

FieldMatch: TypeAlias = tuple[int, ...]
"""One key field: exact `(value,)`; lpm `(value, prefix_len)`; ternary `(value, mask)`; range `(low, high)`;
optional `(value,)` or `()` for don't care."""


class DeviceError(Exception):
    """A request that the device refuses. `code` is a gRPC status name, `message` one line."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Member:
    """What an entry of an indirect table leads to: a member of its action profile."""

    id: int


@dataclass(frozen=True, slots=True)
class Group:
    """Or a group of members, of which a hash picks one for each packet."""

    id: int


@dataclass(frozen=True, slots=True)
class WeightedAction:
    """`watch_port`: the action is left out while this port is down; None: never."""

    action: str
    args: tuple[int, ...]
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True, slots=True)
class ActionSet:
    """Or actions of its own ("one shot"), as if they were members of a group that nobody else uses."""

    actions: tuple[WeightedAction, ...]


Target: TypeAlias = Member | Group | ActionSet


@dataclass(frozen=True, slots=True)
class GroupMember:
    member: int
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True, slots=True)
class Masked:
    """A field of a value set's member: the bits of `mask` are those of `value`."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class InRange:
    """Or it is within low..high."""

    low: int
    high: int


SetMember: TypeAlias = tuple[Masked | InRange, ...]


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates are bytes or packets per second, bursts bytes or packets, as the program declares the meter.

    `eburst`: with `single_rate` (RFC 2697) the excess burst, in place of the peak rate and burst.
    """

    cir: int
    cburst: int
    pir: int
    pburst: int
    eburst: int = 0
    single_rate: bool = False


@dataclass(frozen=True, slots=True)
class MeterState:
    """`config` None: every packet is green. `marked`: (packets, bytes) by colour: green, yellow, red."""

    config: MeterConfig | None = None
    marked: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True, slots=True)
class DigestConfig:
    """When a digest's lists are sent, how long samples are not sent again; see `struct sw_digest_config`."""

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class DigestList:
    """`samples`: a value for each field of the digest. `time_ns`: since the epoch, or of the manual clock."""

    digest: str
    id: int
    samples: tuple[tuple[int, ...], ...]
    time_ns: int


@dataclass(frozen=True, slots=True)
class IdleEntries:
    """Entries of one table, by key and priority, that no packet has hit for their time to live."""

    table: str
    entries: tuple[tuple[tuple[FieldMatch, ...], int], ...]
    time_ns: int


Notice: TypeAlias = DigestList | IdleEntries


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry. The key has one `FieldMatch` per key field, in the JSON's order.

    `priority`: larger wins, as in P4Runtime; 0 where the table has no ternary, range or optional field.
    `const`: set by the device on entries that the program itself declares; ignored on input.
    `target`: in place of `action` ("") and `args` where the table has an action profile.
    """

    key: tuple[FieldMatch, ...]
    action: str
    args: tuple[int, ...]
    priority: int = 0
    const: bool = False
    target: Target | None = None


@dataclass(frozen=True, slots=True)
class PortCounters:
    """A snapshot of one port. Bytes are those of the frame from the Ethernet header on, without FCS.

    The tuples have one element per priority queue, index = priority (larger is served first).
    """

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_drops: int
    """Received but not processed: no pipeline, no buffer, oversized, or the kernel's own drop count."""
    tx_errors: int
    """Handed to the interface and refused by it (down, gone, too long, no buffers)."""
    queue_drops: tuple[int, ...]
    """Packets dropped because the queue's capacity in bytes was reached."""
    queue_drop_bytes: tuple[int, ...]
    depth_packets: tuple[int, ...]
    depth_bytes: tuple[int, ...]
    peak_packets: tuple[int, ...] = ()
    """Largest depths since they were last taken."""
    peak_bytes: tuple[int, ...] = ()
    sent_packets: tuple[int, ...] = ()
    """Packets put on the link."""
    lost_packets: int = 0
    """Lost by a fault of the link: it was down, or the loss was asked for."""
    lost_bytes: int = 0


class DeviceApi(Protocol):
    """One device (a switch or a NIC). All methods may be called from any thread."""

    @property
    def name(self) -> str: ...
    @property
    def device_id(self) -> int: ...
    @property
    def cpu_port(self) -> int | None:
        """The CPU port's number, or None if there is none."""

    # --- pipeline
    def load_pipeline(self, bmv2_json: str) -> None:
        """Replace the pipeline and all its state (tables, registers, groups, sessions).

        Raises DeviceError or JsonError and leaves the running pipeline untouched. Safe under traffic."""

    def verify_pipeline(self, bmv2_json: str) -> None:
        """Everything `load_pipeline` does (parse, generate, compile) but the replacing."""

    def has_pipeline(self) -> bool: ...

    # --- tables
    def tables(self) -> Sequence[str]: ...
    def table_insert(self, table: str, entry: TableEntry) -> None: ...
    def table_modify(self, table: str, entry: TableEntry) -> None:
        """Replace action and arguments of the entry with the same key (and priority)."""

    def table_delete(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> None: ...
    def table_entries(self, table: str) -> list[TableEntry]:
        """All entries in insertion order; const entries first, with `const` set."""

    def table_entry(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> TableEntry:
        """The entry with exactly this key (and priority). NOT_FOUND if there is none."""

    def table_default(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        """The action that a miss runs, or None."""

    def table_set_default(self, table: str, action: str | None, args: tuple[int, ...] = ()) -> None:
        """Set the default action; None: back to the program's own default."""

    # --- action profiles: ids are the caller's, from 1 on; members and groups have separate ones
    def profile_members(self, profile: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        """(action, arguments) by id, without those of action sets."""

    def profile_groups(self, profile: str) -> dict[int, tuple[GroupMember, ...]]: ...
    def profile_usage(self, profile: str) -> tuple[int, int]:
        """(members, weights) of all groups and action sets together."""

    def profile_member_insert(
        self, profile: str, member: int, action: str, args: tuple[int, ...]
    ) -> None: ...
    def profile_member_modify(
        self, profile: str, member: int, action: str, args: tuple[int, ...]
    ) -> None: ...
    def profile_member_delete(self, profile: str, member: int) -> None:
        """FAILED_PRECONDITION while a group or an entry has it."""

    def profile_group_insert(self, profile: str, group: int, members: Sequence[GroupMember]) -> None: ...
    def profile_group_modify(self, profile: str, group: int, members: Sequence[GroupMember]) -> None: ...
    def profile_group_delete(self, profile: str, group: int) -> None:
        """FAILED_PRECONDITION while an entry has it."""

    # --- idle entries
    def entry_timeout(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        """Time to live in ns, 0: none. FAILED_PRECONDITION if the table does not support timeouts."""

    def entry_set_timeout(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, timeout_ns: int
    ) -> None:
        """`IdleEntries` names the entry when it was not hit for so long, and each time after. 0: never."""

    def entry_idle_ns(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        """Nanoseconds since the last hit, or since the entry was inserted or its timeout set."""

    # --- digests
    def digest_config(self, digest: str) -> DigestConfig | None:
        """None: the digest makes no lists."""

    def digest_set(self, digest: str, config: DigestConfig | None) -> None: ...
    def digest_acknowledge(self, digest: str, list_id: int) -> None:
        """A list that is not known any more is ignored."""

    def set_notices(self, handler: Callable[[Notice], None] | None) -> None:
        """Digest lists and idle entries go to `handler`, on a thread of its own, never the packet loop's."""

    # --- meters
    def meter_size(self, meter: str) -> int: ...
    def meter_read(self, meter: str, index: int) -> MeterState: ...
    def meter_write(self, meter: str, index: int, config: MeterConfig | None) -> None:
        """None: back to all green. The buckets are full afterwards; what is marked stays."""

    def meter_write_marked(self, meter: str, index: int, state: MeterState) -> None:
        """Set the counts of `state`; its config does not matter."""

    def direct_meter_read(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> MeterState:
        """The meter of one entry. FAILED_PRECONDITION if the table has no direct meter."""

    def direct_meter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, config: MeterConfig | None
    ) -> None: ...
    def direct_meter_write_marked(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, state: MeterState
    ) -> None: ...

    # --- parser value sets
    def value_set_members(self, vset: str) -> list[SetMember]: ...
    def value_set_replace(self, vset: str, members: Sequence[SetMember]) -> None:
        """All members at once; each has one part for each field of the set."""

    # --- counters and registers
    def direct_counter_read(
        self, table: str, key: tuple[FieldMatch, ...], priority: int = 0
    ) -> tuple[int, int]:
        """(packets, bytes) of one entry. FAILED_PRECONDITION if the table has no direct counter."""

    def direct_counter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, packets: int, octets: int
    ) -> None: ...
    def counter_size(self, counter: str) -> int: ...
    def counter_read(self, counter: str, index: int) -> tuple[int, int]:
        """(packets, bytes)."""

    def counter_write(self, counter: str, index: int, packets: int, octets: int) -> None: ...
    def register_size(self, register: str) -> int: ...
    def register_width(self, register: str) -> int:
        """Bits of one element."""

    def register_read(self, register: str, index: int) -> int: ...
    def register_read_all(self, register: str) -> list[int]: ...
    def register_write(self, register: str, index: int, value: int) -> None: ...
    def register_write_all(self, register: str, value: int) -> None:
        """Every element at once, in one step for the packet loop."""

    # --- packet replication
    def mcast_group_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Create or replace a group. A replica is (egress port, replica id)."""

    def mcast_group_delete(self, group: int) -> None: ...
    def mcast_groups(self) -> dict[int, list[tuple[int, int]]]: ...
    def clone_session_set(
        self, session: int, replicas: Sequence[tuple[int, int]], packet_length: int = 0
    ) -> None:
        """Create or replace a session. `packet_length`: bytes kept of a clone, 0 for all."""

    def clone_session_delete(self, session: int) -> None: ...
    def clone_sessions(self) -> dict[int, tuple[list[tuple[int, int]], int]]:
        """session -> (replicas, packet_length)."""

    # --- packet I/O
    def packet_out(self, packet: bytes) -> None:
        """The packet enters ingress on the CPU port. FAILED_PRECONDITION without it or without a pipeline."""

    def set_packet_in(self, handler: Callable[[bytes], None] | None) -> None:
        """Packets sent to the CPU port go to `handler`, on a thread of its own, never the packet loop's.

        Packets wait in a bounded queue; what does not fit is dropped and counted (`packet_in_drops`)."""

    def packet_in_drops(self) -> int: ...

    # --- ports
    def ports(self) -> Mapping[int, str]:
        """Port number -> interface name ("" for an in-memory port)."""

    def port_counters(self, port: int) -> PortCounters: ...
