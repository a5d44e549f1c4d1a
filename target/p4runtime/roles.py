# SPDX-License-Identifier: Apache-2.0
"""What a role may do. The scheme is Stratum's `P4RoleConfig`; an unset config is full pipeline access.

P4Runtime leaves the definition of roles to the operator (specification 1.5, "Role Config"); this is the
scheme that P4Runtime clients know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4r, stratum
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError

from target.p4runtime.status import invalid_argument


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """`None` in a field is "no restriction".

    `packet_in_filter`: (metadata id, canonical value) that a packet must carry."""

    exclusive_ids: frozenset[int] | None = None
    shared_ids: frozenset[int] = frozenset()
    packet_in_filter: tuple[int, bytes] | None = None
    receives_packet_ins: bool = True
    can_push_pipeline: bool = True

    def may_use(self, p4_id: int) -> bool:
        """May this role write, and does it see, the object? Id 0 stands for what P4Info does not list."""
        return self.exclusive_ids is None or p4_id in self.exclusive_ids or p4_id in self.shared_ids

    def wants_packet(self, metadata: Iterable[p4r.PacketMetadata]) -> bool:
        if not self.receives_packet_ins:
            return False
        if self.packet_in_filter is None:
            return True
        return any((m.metadata_id, m.value) == self.packet_in_filter for m in metadata)


FULL_ACCESS = RoleConfig()


def decode_role_config(role: p4r.Role | None) -> RoleConfig:
    """Raises INVALID_ARGUMENT if the config is of another scheme or does not parse."""
    if role is None or not role.HasField("config"):
        return FULL_ACCESS
    config = stratum.P4RoleConfig()
    try:
        known = role.config.Unpack(config)
    except DecodeError:
        raise invalid_argument(f"role {role.name!r}: role.config does not parse") from None
    if not known:
        raise invalid_argument(
            f"role {role.name!r}: role.config is {_type(role.config)}, "
            f"this server knows {config.DESCRIPTOR.full_name}"
        )
    packet_filter = None
    if config.HasField("packet_in_filter"):
        packet_filter = (config.packet_in_filter.metadata_id, config.packet_in_filter.value)
    return RoleConfig(
        exclusive_ids=frozenset(config.exclusive_p4_ids),
        shared_ids=frozenset(config.shared_p4_ids),
        packet_in_filter=packet_filter,
        receives_packet_ins=config.receives_packet_ins,
        can_push_pipeline=config.can_push_pipeline,
    )


def check_overlap(name: str, config: RoleConfig, others: Iterable[tuple[str, RoleConfig]]) -> None:
    """Raises INVALID_ARGUMENT if one role's exclusive objects are another's too."""
    for other_name, other in others:
        if other_name == name or config.exclusive_ids is None or other.exclusive_ids is None:
            continue
        clash = (config.exclusive_ids & (other.exclusive_ids | other.shared_ids)) | (
            other.exclusive_ids & config.shared_ids
        )
        if clash:
            raise invalid_argument(
                f"role {name!r}: object {min(clash):#010x} is exclusive to it or to role {other_name!r}, "
                "and both claim it"
            )


def _type(config: any_pb2.Any) -> str:
    return config.type_url.rpartition("/")[2] or "of no type"
