# SPDX-License-Identifier: Apache-2.0
"""P4Info as the server needs it: objects by id and by name, widths in bits, and what may be written.

The index is built once for each pipeline config; a P4Info that contradicts itself is refused with
INVALID_ARGUMENT, naming the object (P4Runtime specification 1.5, "The P4Info Message").
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from finsy.proto import p4i, p4t

from target.p4runtime.digest_data import Encoder, encoder
from target.p4runtime.p4data import Scalar, scalar_type
from target.p4runtime.status import P4Error, invalid_argument


class MatchKind(enum.Enum):
    """How a key field matches; the value is the BMv2 JSON's word for it."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


_KINDS = {
    p4i.MatchField.EXACT: MatchKind.EXACT,
    p4i.MatchField.LPM: MatchKind.LPM,
    p4i.MatchField.TERNARY: MatchKind.TERNARY,
    p4i.MatchField.RANGE: MatchKind.RANGE,
    p4i.MatchField.OPTIONAL: MatchKind.OPTIONAL,
}
_PRIORITY_KINDS = (MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL)


@dataclass(frozen=True, slots=True)
class Value:
    """A named value of a fixed width: a match field, an action parameter, or a metadata field.

    `bitwidth` is 0 where P4Info has none (the `error` type): the device config knows it. `translated` says
    that the controller's width is the translation's, not the dataplane's; `string` that its side is a string.
    """

    id: int
    name: str
    bitwidth: int
    translated: bool = False
    string: bool = False


@dataclass(frozen=True, slots=True)
class MatchField(Value):
    """`as_ternary`: an optional field that the device config declares ternary, as p4c does."""

    kind: MatchKind = MatchKind.EXACT
    as_ternary: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    id: int
    name: str
    params: tuple[Value, ...]


class Scope(enum.Enum):
    """Where a table may use an action."""

    TABLE_AND_DEFAULT = "table and default"
    TABLE_ONLY = "table only"
    DEFAULT_ONLY = "default only"
    GROUP_ACTION = "group action"


_SCOPES = {
    p4i.ActionRef.TABLE_AND_DEFAULT: Scope.TABLE_AND_DEFAULT,
    p4i.ActionRef.TABLE_ONLY: Scope.TABLE_ONLY,
    p4i.ActionRef.DEFAULT_ONLY: Scope.DEFAULT_ONLY,
}


@dataclass(frozen=True, slots=True)
class Table:
    id: int
    name: str
    fields: tuple[MatchField, ...]
    actions: Mapping[int, Scope]
    size: int
    const_default_action_id: int
    implementation_id: int
    is_const: bool
    idle_timeout: bool
    direct_counter_id: int
    direct_meter_id: int

    @property
    def needs_priority(self) -> bool:
        return any(f.kind in _PRIORITY_KINDS for f in self.fields)

    @property
    def what(self) -> str:
        return f"table {self.name!r}"


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """`actions`: those of the tables that use it. Sizes of 0 are no limit.

    `sum_of_members`: sizes count members, else weights."""

    id: int
    name: str
    actions: Mapping[int, Scope]
    with_selector: bool
    size: int
    max_group_size: int
    sum_of_members: bool
    max_member_weight: int
    weights_disallowed: bool

    @property
    def what(self) -> str:
        return f"action profile {self.name!r}"


@dataclass(frozen=True, slots=True)
class ValueSet:
    """`size`: members at most."""

    id: int
    name: str
    fields: tuple[MatchField, ...]
    size: int

    @property
    def what(self) -> str:
        return f"value set {self.name!r}"


@dataclass(frozen=True, slots=True)
class Counter:
    id: int
    name: str
    size: int


class MeterType(enum.Enum):
    TWO_RATES = "two rate three color"
    ONE_RATE = "single rate three color"
    TWO_COLORS = "single rate two color"


_METER_TYPES = {
    p4i.MeterSpec.TWO_RATE_THREE_COLOR: MeterType.TWO_RATES,
    p4i.MeterSpec.SINGLE_RATE_THREE_COLOR: MeterType.ONE_RATE,
    p4i.MeterSpec.SINGLE_RATE_TWO_COLOR: MeterType.TWO_COLORS,
}


@dataclass(frozen=True, slots=True)
class Meter:
    """`unit`: bytes or packets. `table_id`: of a direct meter; its size is 0."""

    id: int
    name: str
    size: int
    unit: str
    type: MeterType
    table_id: int = 0


@dataclass(frozen=True, slots=True)
class Digest:
    """`encode` makes a sample's message from the values of its `leaves` fields."""

    id: int
    name: str
    encode: Encoder
    leaves: int


@dataclass(frozen=True, slots=True)
class Register:
    """`scalar` is None for a type that one integer can't hold."""

    id: int
    name: str
    size: int
    scalar: Scalar | None


@dataclass(frozen=True, slots=True)
class ControllerHeader:
    """The header in front of a packet to or from the controller, in the order of its fields."""

    id: int
    name: str
    fields: tuple[Value, ...]

    @property
    def bitwidth(self) -> int:
        return sum(f.bitwidth for f in self.fields)


@dataclass(frozen=True)
class P4InfoIndex:
    """Every object of one P4Info, by id. `names` maps any id to its full name, for messages."""

    tables: dict[int, Table] = field(default_factory=dict)
    actions: dict[int, Action] = field(default_factory=dict)
    counters: dict[int, Counter] = field(default_factory=dict)
    registers: dict[int, Register] = field(default_factory=dict)
    profiles: dict[int, ActionProfile] = field(default_factory=dict)
    meters: dict[int, Meter] = field(default_factory=dict)
    direct_meters: dict[int, Meter] = field(default_factory=dict)
    value_sets: dict[int, ValueSet] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    packet_in: ControllerHeader | None = None
    packet_out: ControllerHeader | None = None
    kinds: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    """Objects that the compiler left out of the device config because the program never uses them."""
    actions_by_name: dict[str, Action] = field(default_factory=dict)

    def table(self, table_id: int) -> Table:
        """The table of an id. Raises INVALID_ARGUMENT as BMv2's server does for an id that is none."""
        table = self.tables.get(table_id)
        if table is None:
            raise self.no_such("table", table_id)
        return table

    def no_such(self, kind: str, id_: int) -> P4Error:
        """The error for an id that names no object of this kind."""
        if id_ == 0:
            return invalid_argument(f"{kind} id is 0 or unset; give the id from P4Info")
        other = self.kinds.get(id_)
        if id_ in self.removed:
            return invalid_argument(
                f"{other} {self.names[id_]!r} is not in the device config: the program never uses it"
            )
        if other is not None:
            return invalid_argument(f"{id_:#010x} is no {kind} but the {other} {self.names[id_]!r}")
        return invalid_argument(f"no {kind} with id {id_:#010x} in P4Info")


def build_index(p4info: p4i.P4Info) -> P4InfoIndex:
    """Index and check a P4Info. Raises INVALID_ARGUMENT, naming the object."""
    kinds, names = _ids(p4info)
    actions = {a.preamble.id: _action(a, p4info.type_info) for a in p4info.actions}
    headers = {h.preamble.name: _header(h, p4info.type_info) for h in p4info.controller_packet_metadata}
    for name in headers:
        if name not in ("packet_in", "packet_out"):
            raise invalid_argument(
                f"P4Info: controller packet metadata {name!r} is neither 'packet_in' nor 'packet_out'"
            )
    tables = {t.preamble.id: _table(t, p4info.type_info, actions, kinds) for t in p4info.tables}
    return P4InfoIndex(
        tables=tables,
        actions=actions,
        digests={d.preamble.id: _digest(d, p4info.type_info) for d in p4info.digests},
        meters={m.preamble.id: _meter(m.preamble, m.spec, m.size, 0) for m in p4info.meters},
        direct_meters={
            m.preamble.id: _meter(m.preamble, m.spec, 0, m.direct_table_id) for m in p4info.direct_meters
        },
        profiles={p.preamble.id: _profile(p, tables) for p in p4info.action_profiles},
        counters={c.preamble.id: Counter(c.preamble.id, c.preamble.name, c.size) for c in p4info.counters},
        registers={
            r.preamble.id: Register(
                r.preamble.id, r.preamble.name, r.size, scalar_type(r.type_spec, p4info.type_info)
            )
            for r in p4info.registers
        },
        value_sets={v.preamble.id: _value_set(v, p4info.type_info) for v in p4info.value_sets},
        packet_in=headers.get("packet_in"),
        packet_out=headers.get("packet_out"),
        kinds=kinds,
        names=names,
        actions_by_name={a.name: a for a in actions.values()},
    )


def _digest(digest: p4i.Digest, types: p4t.P4TypeInfo) -> Digest:
    encode, leaves = encoder(digest.type_spec, types, f"digest {digest.preamble.name!r}")
    return Digest(digest.preamble.id, digest.preamble.name, encode, leaves)


def _meter(preamble: p4i.Preamble, spec: p4i.MeterSpec, size: int, table_id: int) -> Meter:
    kind = _METER_TYPES.get(spec.type)
    if kind is None:
        raise invalid_argument(f"P4Info: meter {preamble.name!r}: type {spec.type} is not supported")
    if spec.unit not in (p4i.MeterSpec.BYTES, p4i.MeterSpec.PACKETS):
        raise invalid_argument(f"P4Info: meter {preamble.name!r} has no unit")
    unit = "bytes" if spec.unit == p4i.MeterSpec.BYTES else "packets"
    return Meter(preamble.id, preamble.name, size, unit, kind, table_id)


def _profile(profile: p4i.ActionProfile, tables: Mapping[int, Table]) -> ActionProfile:
    name = profile.preamble.name
    actions: dict[int, Scope] = {}
    for table in tables.values():
        if table.implementation_id == profile.preamble.id:
            actions |= table.actions
    if profile.size and profile.max_group_size > profile.size:
        raise invalid_argument(
            f"P4Info: action profile {name!r}: max_group_size {profile.max_group_size} is above size "
            f"{profile.size}"
        )
    return ActionProfile(
        id=profile.preamble.id,
        name=name,
        actions=actions,
        with_selector=profile.with_selector,
        size=profile.size,
        max_group_size=profile.max_group_size,
        sum_of_members=profile.WhichOneof("selector_size_semantics") == "sum_of_members",
        max_member_weight=profile.sum_of_members.max_member_weight,
        weights_disallowed=profile.weights_disallowed,
    )


def _ids(p4info: p4i.P4Info) -> tuple[dict[int, str], dict[int, str]]:
    groups: tuple[tuple[str, Iterable[p4i.Preamble]], ...] = (
        ("table", [x.preamble for x in p4info.tables]),
        ("action", [x.preamble for x in p4info.actions]),
        ("action profile", [x.preamble for x in p4info.action_profiles]),
        ("counter", [x.preamble for x in p4info.counters]),
        ("direct counter", [x.preamble for x in p4info.direct_counters]),
        ("meter", [x.preamble for x in p4info.meters]),
        ("direct meter", [x.preamble for x in p4info.direct_meters]),
        ("controller header", [x.preamble for x in p4info.controller_packet_metadata]),
        ("value set", [x.preamble for x in p4info.value_sets]),
        ("register", [x.preamble for x in p4info.registers]),
        ("digest", [x.preamble for x in p4info.digests]),
        ("extern instance", [y.preamble for x in p4info.externs for y in x.instances]),
    )
    kinds: dict[int, str] = {}
    names: dict[int, str] = {}
    for kind, preambles in groups:
        seen: set[str] = set()
        for preamble in preambles:
            if not preamble.name:
                raise invalid_argument(f"P4Info: {kind} with id {preamble.id:#010x} has no name")
            if preamble.id == 0:
                raise invalid_argument(f"P4Info: {kind} {preamble.name!r} has no id")
            if preamble.id in kinds:
                raise invalid_argument(
                    f"P4Info: {kind} {preamble.name!r} and {kinds[preamble.id]} {names[preamble.id]!r} "
                    f"have the same id {preamble.id:#010x}"
                )
            if preamble.name in seen:
                raise invalid_argument(f"P4Info: two {kind}s are named {preamble.name!r}")
            seen.add(preamble.name)
            kinds[preamble.id] = kind
            names[preamble.id] = preamble.name
    return kinds, names


def _value(
    where: str, id_: int, name: str, bitwidth: int, type_name: str, types: p4t.P4TypeInfo
) -> tuple[int, str, int, bool, bool]:
    translated = False
    if type_name:
        spec = types.new_types.get(type_name)
        # p4c leaves some architecture types out of type_info: then the bitwidth says all.
        translated = spec is not None and spec.WhichOneof("representation") == "translated_type"
        if spec is not None and translated and spec.translated_type.WhichOneof("sdn_type") == "sdn_string":
            return id_, name, 0, True, True
    if id_ == 0:
        raise invalid_argument(f"P4Info: {where} has no id")
    if bitwidth < 0:
        raise invalid_argument(f"P4Info: {where} has bitwidth {bitwidth}")
    return id_, name, bitwidth, translated, False


def _unique(where: str, values: Iterable[Value]) -> None:
    seen: set[int] = set()
    for value in values:
        if value.id in seen:
            raise invalid_argument(f"P4Info: {where}: id {value.id} appears twice")
        seen.add(value.id)


def _action(action: p4i.Action, types: p4t.P4TypeInfo) -> Action:
    name = action.preamble.name
    params = tuple(
        Value(
            *_value(
                f"parameter {p.name!r} of action {name!r}", p.id, p.name, p.bitwidth, p.type_name.name, types
            )
        )
        for p in action.params
    )
    _unique(f"action {name!r}", params)
    return Action(action.preamble.id, name, params)


def _header(header: p4i.ControllerPacketMetadata, types: p4t.P4TypeInfo) -> ControllerHeader:
    name = header.preamble.name
    fields = tuple(
        Value(*_value(f"metadata {m.name!r} of {name!r}", m.id, m.name, m.bitwidth, m.type_name.name, types))
        for m in header.metadata
    )
    _unique(f"controller header {name!r}", fields)
    for item in fields:
        if not item.bitwidth and not item.string:
            raise invalid_argument(f"P4Info: metadata {item.name!r} of {name!r} has no bitwidth")
    return ControllerHeader(header.preamble.id, name, fields)


def _match_fields(
    owner: str, match_fields: Iterable[p4i.MatchField], types: p4t.P4TypeInfo
) -> tuple[MatchField, ...]:
    fields: list[MatchField] = []
    for match in match_fields:
        where = f"match field {match.name!r} of {owner}"
        kind = _KINDS.get(match.match_type)
        if match.WhichOneof("match") != "match_type" or kind is None:
            wanted = match.other_match_type or match.match_type
            raise invalid_argument(f"P4Info: {where}: match type {wanted!r} is not supported")
        value = _value(where, match.id, match.name, match.bitwidth, match.type_name.name, types)
        fields.append(MatchField(*value, kind=kind))
    _unique(owner, fields)
    return tuple(fields)


def _value_set(vset: p4i.ValueSet, types: p4t.P4TypeInfo) -> ValueSet:
    name = vset.preamble.name
    fields = _match_fields(f"value set {name!r}", vset.match, types)
    return ValueSet(vset.preamble.id, name, fields, vset.size)


def _table(
    table: p4i.Table, types: p4t.P4TypeInfo, actions: Mapping[int, Action], kinds: Mapping[int, str]
) -> Table:
    name = table.preamble.name
    fields = _match_fields(f"table {name!r}", table.match_fields, types)
    scopes: dict[int, Scope] = {}
    for ref in table.action_refs:
        if ref.id not in actions:
            raise invalid_argument(f"P4Info: table {name!r} refers to action {ref.id:#010x}, which is none")
        # The group scope is newer than the generated stubs of some clients: anything unknown is that.
        scopes[ref.id] = _SCOPES.get(ref.scope, Scope.GROUP_ACTION)
    if table.const_default_action_id and table.const_default_action_id not in actions:
        raise invalid_argument(
            f"P4Info: table {name!r}: const default action {table.const_default_action_id:#010x} is none"
        )
    direct = {"direct counter": 0, "direct meter": 0}
    for resource in table.direct_resource_ids:
        resource_kind = kinds.get(resource, "")
        if resource_kind not in direct:
            raise invalid_argument(f"P4Info: table {name!r}: {resource:#010x} is no direct resource")
        direct[resource_kind] = resource
    if table.implementation_id and kinds.get(table.implementation_id) != "action profile":
        raise invalid_argument(
            f"P4Info: table {name!r}: implementation {table.implementation_id:#010x} is no action profile"
        )
    return Table(
        id=table.preamble.id,
        name=name,
        fields=fields,
        actions=scopes,
        size=table.size,
        const_default_action_id=table.const_default_action_id,
        implementation_id=table.implementation_id,
        is_const=table.is_const_table,
        idle_timeout=table.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
        direct_counter_id=direct["direct counter"],
        direct_meter_id=direct["direct meter"],
    )
