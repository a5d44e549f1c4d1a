# SPDX-License-Identifier: Apache-2.0
"""Client arbitration: who is primary for a role of one device. No I/O; the caller delivers the notifications.

Rules: P4Runtime specification 1.5, "Client Arbitration and Controller Replication". The highest election id
ever seen for a role stays until the server restarts; a client is primary when its election id equals it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from finsy.proto import p4r, rpc_code
from google.protobuf import any_pb2

from target.p4runtime.roles import RoleConfig, check_overlap, decode_role_config
from target.p4runtime.status import (
    P4Error,
    failed_precondition,
    invalid_argument,
    not_found,
    permission_denied,
)

MAX_STREAMS: Final = 16
"""Live clients per role, as on BMv2."""


def u128(value: p4r.Uint128) -> int:
    return (value.high << 64) | value.low


def to_u128(value: int) -> p4r.Uint128:
    return p4r.Uint128(high=value >> 64, low=value & 0xFFFF_FFFF_FFFF_FFFF)


@dataclass(eq=False, slots=True)
class Client:
    """One stream. `role` is None until its first accepted arbitration message."""

    role: str | None = None
    election_id: int | None = None


@dataclass(slots=True)
class _Role:
    name: str
    clients: list[Client] = field(default_factory=list)
    highest: int | None = None
    config: RoleConfig = field(default_factory=RoleConfig)
    config_message: any_pb2.Any | None = None

    @property
    def primary(self) -> Client | None:
        if self.highest is None:
            return None
        return next((c for c in self.clients if c.election_id == self.highest), None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whom to inform. `then`: the client that is primary now; it is told once earlier writes are finished."""

    inform: tuple[Client, ...] = ()
    then: Client | None = None


class Arbiter:
    """The arbitration state of one device."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, _Role] = {"": _Role("")}

    # --- what clients send

    def update(self, client: Client, message: p4r.MasterArbitrationUpdate) -> Outcome:
        """One arbitration message. A P4Error ends the stream with its code; the state is then unchanged."""
        role_message = message.role if message.HasField("role") else None
        name = role_message.name if role_message is not None else ""
        if client.role is None:
            if message.device_id != self.device_id:
                raise not_found(f"no device {message.device_id}, this is device {self.device_id}")
        else:
            if message.device_id != self.device_id:
                raise failed_precondition(
                    f"the stream belongs to device {self.device_id}, it can't change to {message.device_id}"
                )
            if name != client.role:
                raise failed_precondition(
                    f"the stream has role {client.role!r}, it can't change to {name!r}; open another stream"
                )
        election_id = u128(message.election_id) if message.HasField("election_id") else None
        role = self._roles.get(name) or _Role(name)
        if election_id is not None and any(
            c is not client and c.election_id == election_id for c in role.clients
        ):
            # Clients look for these words to try the next id.
            raise invalid_argument(f"Election id already exists for role {name!r}: {election_id}")
        config = decode_role_config(role_message)
        check_overlap(name, config, ((r.name, r.config) for r in self._roles.values()))
        if client.role is None:
            if len(role.clients) >= MAX_STREAMS:
                raise P4Error(rpc_code.RESOURCE_EXHAUSTED, f"role {name!r} has {MAX_STREAMS} streams already")
            role.clients.append(client)
            client.role = name
        self._roles[name] = role
        return self._elect(role, client, election_id, config, role_message)

    def _elect(
        self,
        role: _Role,
        client: Client,
        election_id: int | None,
        config: RoleConfig,
        message: p4r.Role | None,
    ) -> Outcome:
        was_primary = role.primary is client
        client.election_id = election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            role.config = config
            role.config_message = None
            if message is not None and message.HasField("config"):
                role.config_message = message.config
            others = tuple(c for c in role.clients if c is not client)
            return Outcome(inform=others, then=client)
        if was_primary:
            return Outcome(inform=tuple(role.clients))
        return Outcome(inform=(client,))

    def remove(self, client: Client) -> Outcome:
        """The client's stream is gone."""
        if client.role is None:
            return Outcome()
        role = self._roles[client.role]
        was_primary = role.primary is client
        role.clients.remove(client)
        return Outcome(inform=tuple(role.clients) if was_primary else ())

    # --- what the server asks

    def notification(self, client: Client) -> p4r.MasterArbitrationUpdate:
        """What this client is told about its role as things are now."""
        assert client.role is not None
        role = self._roles[client.role]
        message = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        if role.name:
            message.role.name = role.name
        if role.config_message is not None:
            message.role.config.CopyFrom(role.config_message)
        if role.highest is not None:
            message.election_id.CopyFrom(to_u128(role.highest))
        primary = role.primary
        if primary is client:
            message.status.code = rpc_code.OK
            message.status.message = "Is primary"
        elif primary is not None:
            message.status.code = rpc_code.ALREADY_EXISTS
            message.status.message = "Is backup"
        else:
            message.status.code = rpc_code.NOT_FOUND
            message.status.message = "There is no primary"
        return message

    def is_primary(self, client: Client) -> bool:
        return client.role is not None and self._roles[client.role].primary is client

    def primaries(self) -> list[tuple[Client, RoleConfig]]:
        """The primary of every role that has one."""
        return [(p, r.config) for r in self._roles.values() if (p := r.primary) is not None]

    def role_config(self, name: str) -> RoleConfig:
        """Raises NOT_FOUND if no client ever asked for this role."""
        role = self._roles.get(name)
        if role is None:
            raise not_found(f"no role {name!r} on device {self.device_id}")
        return role.config

    def check_primary(self, name: str, election_id: p4r.Uint128 | None) -> RoleConfig:
        """The role's config if `election_id` is its primary's. Raises NOT_FOUND or PERMISSION_DENIED."""
        config = self.role_config(name)
        primary = self._roles[name].primary
        if primary is None:
            raise permission_denied(f"Not primary: role {name!r} of device {self.device_id} has no primary")
        if election_id is None or u128(election_id) != primary.election_id:
            given = "unset" if election_id is None else str(u128(election_id))
            raise permission_denied(
                f"Not primary: election id is {given}, the primary of role {name!r} has {primary.election_id}"
            )
        return config
