# SPDX-License-Identifier: Apache-2.0
"""The parts of a device's interface that not every program has: action profiles, meters, digests."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence

from target.api import DigestConfig, FieldMatch, GroupMember, MeterConfig, MeterState, SetMember
from target.pipeline import Pipeline


class Resources:
    """Part of `target.device.Device`."""

    _control: threading.RLock

    @abstractmethod
    def _need(self) -> Pipeline:
        """The running pipeline. Raises FAILED_PRECONDITION."""

    # --- action profiles

    def profile_members(self, profile: str) -> dict[int, tuple[str, tuple[int, ...]]]:
        with self._control:
            return self._need().profile(profile).members()

    def profile_groups(self, profile: str) -> dict[int, tuple[GroupMember, ...]]:
        with self._control:
            return self._need().profile(profile).groups()

    def profile_usage(self, profile: str) -> tuple[int, int]:
        with self._control:
            return self._need().profile(profile).usage()

    def profile_member_insert(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        with self._control:
            self._need().profile(profile).member_insert(member, action, args)

    def profile_member_modify(self, profile: str, member: int, action: str, args: tuple[int, ...]) -> None:
        with self._control:
            self._need().profile(profile).member_modify(member, action, args)

    def profile_member_delete(self, profile: str, member: int) -> None:
        with self._control:
            self._need().profile(profile).member_delete(member)

    def profile_group_insert(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        with self._control:
            self._need().profile(profile).group_insert(group, members)

    def profile_group_modify(self, profile: str, group: int, members: Sequence[GroupMember]) -> None:
        with self._control:
            self._need().profile(profile).group_modify(group, members)

    def profile_group_delete(self, profile: str, group: int) -> None:
        with self._control:
            self._need().profile(profile).group_delete(group)

    # --- parser value sets

    def value_set_members(self, vset: str) -> list[SetMember]:
        with self._control:
            return self._need().value_set(vset).members()

    def value_set_replace(self, vset: str, members: Sequence[SetMember]) -> None:
        with self._control:
            self._need().value_set(vset).replace(members)

    # --- idle entries

    def entry_timeout(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        with self._control:
            return self._need().table(table).timeout(key, priority)

    def entry_set_timeout(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, timeout_ns: int
    ) -> None:
        with self._control:
            self._need().table(table).set_timeout(key, priority, timeout_ns)

    def entry_idle_ns(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> int:
        with self._control:
            return self._need().table(table).idle_ns(key, priority)

    # --- digests

    def digest_config(self, digest: str) -> DigestConfig | None:
        with self._control:
            return self._need().digests.config(digest)

    def digest_set(self, digest: str, config: DigestConfig | None) -> None:
        with self._control:
            self._need().digests.set(digest, config)

    def digest_acknowledge(self, digest: str, list_id: int) -> None:
        with self._control:
            self._need().digests.acknowledge(digest, list_id)

    # --- meters

    def meter_size(self, meter: str) -> int:
        with self._control:
            return self._need().meter(meter).size

    def meter_read(self, meter: str, index: int) -> MeterState:
        with self._control:
            return self._need().meter_read(meter, index)

    def meter_write(self, meter: str, index: int, config: MeterConfig | None) -> None:
        with self._control:
            self._need().meter_write(meter, index, config)

    def meter_write_marked(self, meter: str, index: int, state: MeterState) -> None:
        with self._control:
            self._need().meter_write_marked(meter, index, state)

    def direct_meter_read(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> MeterState:
        with self._control:
            return self._need().table(table).meter_read(key, priority)

    def direct_meter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, config: MeterConfig | None
    ) -> None:
        with self._control:
            self._need().table(table).meter_write(key, priority, config)

    def direct_meter_write_marked(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, state: MeterState
    ) -> None:
        with self._control:
            self._need().table(table).meter_write_marked(key, priority, state)
