# SPDX-License-Identifier: Apache-2.0
"""The state of what not every program has, without a dataplane: action profiles, meters, digests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from target.api import (
    DeviceError,
    DigestConfig,
    FieldMatch,
    GroupMember,
    MeterConfig,
    MeterState,
    Notice,
    SetMember,
    TableEntry,
)
from target.bmjson.model import Program
from target.meters import check_config, check_marked
from target.notices import check_digest_config
from target.profile_places import profile_actions_by_name
from target.profiles import Held, NoPlaces, ProfileControl, action_check
from target.value_sets import check_members

_Place = tuple[str, object]
"""A table, and the key and priority of an entry."""


class ShadowResources:
    """Part of `target.p4runtime.shadow.ShadowDevice`."""

    def _reset_resources(self, program: Program) -> None:
        self._program = program
        self._profiles = {
            name: ProfileControl(
                profile, action_check(name, profile_actions_by_name(program, name)), NoPlaces()
            )
            for name, profile in program.profiles.items()
        }
        self._held: dict[_Place, Held] = {}
        self._meters: dict[tuple[str, int], MeterState] = {}
        self._value_sets: dict[str, list[SetMember]] = {name: [] for name in program.vsets}
        self._direct_meters: dict[_Place, MeterState] = {}
        self._timeouts: dict[_Place, int] = {}
        self._digests: dict[str, DigestConfig] = {}

    @abstractmethod
    def table_entry(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> TableEntry:
        """Of `DeviceApi`."""

    def _forget_entry(self, table: str, place: object) -> None:
        """An entry is deleted."""
        self._release(table, place)
        self._direct_meters.pop((table, place), None)
        self._timeouts.pop((table, place), None)

    # --- what table entries lead to

    def _profile_of(self, table: str) -> ProfileControl | None:
        name = self._program.tables[table].profile
        return None if name is None else self._profiles[name]

    def _hold(self, table: str, entry: TableEntry) -> None:
        """Take hold of what the entry leads to, in place of what it held before."""
        profile = self._profile_of(table)
        if profile is None:
            return
        if entry.target is None:
            raise DeviceError("INVALID_ARGUMENT", f"table {table!r} is indirect")
        place = (table, (entry.key, entry.priority))
        held = profile.hold(entry.target, self._held.get(place))
        self._release(*place)
        self._held[place] = held

    def _release(self, table: str, place: object) -> None:
        profile, held = self._profile_of(table), self._held.pop((table, place), None)
        if profile is not None and held is not None:
            profile.release(held)

    # --- action profiles

    def _profile(self, profile: str) -> ProfileControl:
        if profile not in self._profiles:
            raise DeviceError("NOT_FOUND", f"no action profile {profile!r} in the pipeline")
        return self._profiles[profile]

    def profile_members(self, profile: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        return self._profile(profile).members()

    def profile_groups(self, profile: str) -> dict[int, tuple[GroupMember, ...]]:
        return self._profile(profile).groups()

    def profile_usage(self, profile: str) -> tuple[int, int]:
        return self._profile(profile).usage()

    def profile_member_insert(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        self._profile(profile).member_insert(member, action, args)

    def profile_member_modify(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        self._profile(profile).member_modify(member, action, args)

    def profile_member_delete(self, profile: str, member: int) -> None:
        self._profile(profile).member_delete(member)

    def profile_group_insert(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        self._profile(profile).group_insert(group, members)

    def profile_group_modify(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        self._profile(profile).group_modify(group, members)

    def profile_group_delete(self, profile: str, group: int) -> None:
        self._profile(profile).group_delete(group)

    # --- parser value sets

    def value_set_members(self, vset: str) -> list[SetMember]:
        if vset not in self._value_sets:
            raise DeviceError("NOT_FOUND", f"no value set {vset!r} in the pipeline")
        return list(self._value_sets[vset])

    def value_set_replace(self, vset: str, members: Sequence[SetMember]) -> None:
        self.value_set_members(vset)
        self._value_sets[vset] = check_members(self._program.vsets[vset], members)

    # --- meters

    def meter_size(self, meter: str) -> int:
        found = self._program.meters.get(meter)
        if found is None or found.direct_table is not None:
            raise DeviceError("NOT_FOUND", f"no indirect meter {meter!r} in the pipeline")
        return found.size

    def _meter_place(self, meter: str, index: int) -> tuple[str, int]:
        if not 0 <= index < self.meter_size(meter):
            raise DeviceError("INVALID_ARGUMENT", f"meter {meter!r} has no index {index}")
        return meter, index

    def meter_read(self, meter: str, index: int) -> MeterState:
        return self._meters.get(self._meter_place(meter, index), MeterState())

    def meter_write(self, meter: str, index: int, config: MeterConfig | None) -> None:
        check_config(config, f"meter {meter!r}")
        place = self._meter_place(meter, index)
        self._meters[place] = replace(self._meters.get(place, MeterState()), config=config)

    def meter_write_marked(self, meter: str, index: int, state: MeterState) -> None:
        check_marked(state, f"meter {meter!r}")
        place = self._meter_place(meter, index)
        self._meters[place] = replace(state, config=self._meters.get(place, MeterState()).config)

    def _direct_place(self, table: str, key: tuple[FieldMatch, ...], priority: int) -> _Place:
        self.table_entry(table, key, priority)
        if self._program.tables[table].meter is None:
            raise DeviceError("FAILED_PRECONDITION", f"table {table!r} has no direct meter")
        return table, (key, priority)

    def direct_meter_read(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> MeterState:
        return self._direct_meters.get(self._direct_place(table, key, priority), MeterState())

    def direct_meter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, config: MeterConfig | None
    ) -> None:
        check_config(config, f"table {table!r}")
        place = self._direct_place(table, key, priority)
        self._direct_meters[place] = replace(self._direct_meters.get(place, MeterState()), config=config)

    def direct_meter_write_marked(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, state: MeterState
    ) -> None:
        check_marked(state, f"table {table!r}")
        place = self._direct_place(table, key, priority)
        former = self._direct_meters.get(place, MeterState())
        self._direct_meters[place] = replace(state, config=former.config)

    # --- idle entries

    def _ageing(self, table: str, key: tuple[FieldMatch, ...], priority: int) -> _Place:
        self.table_entry(table, key, priority)
        if not self._program.tables[table].timeout:
            raise DeviceError("FAILED_PRECONDITION", f"table {table!r} supports no timeouts")
        return table, (key, priority)

    def entry_timeout(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        return self._timeouts.get(self._ageing(table, key, priority), 0)

    def entry_set_timeout(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, timeout_ns: int
    ) -> None:
        self._timeouts[self._ageing(table, key, priority)] = timeout_ns

    def entry_idle_ns(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        self._ageing(table, key, priority)
        return 0

    # --- digests

    def _check_digest(self, digest: str) -> str:
        if all(item.name != digest for item in self._program.learn_lists.values()):
            raise DeviceError("NOT_FOUND", f"no digest {digest!r} in the pipeline")
        return digest

    def digest_config(self, digest: str) -> DigestConfig | None:
        return self._digests.get(self._check_digest(digest))

    def digest_set(self, digest: str, config: DigestConfig | None) -> None:
        self._check_digest(digest)
        check_digest_config(config, f"digest {digest!r}")
        if config is None:
            self._digests.pop(digest, None)
        else:
            self._digests[digest] = config

    def digest_acknowledge(self, digest: str, list_id: int) -> None:
        self._check_digest(digest)

    def set_notices(self, handler: Callable[[Notice], None] | None) -> None:
        """Without packets there is nothing to tell: the handler is never called."""
