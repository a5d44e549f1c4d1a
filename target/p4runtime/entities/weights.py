# SPDX-License-Identifier: Apache-2.0
"""What groups and one-shot action sets share: weights, sizes, watched ports (P4Runtime specification 1.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from finsy.proto import p4r

from target.p4runtime import bytestrings
from target.p4runtime.p4info import ActionProfile
from target.p4runtime.pipeline import Pipeline
from target.p4runtime.status import P4Error, invalid_argument, resource_exhausted

_SDN_PORT_CPU: Final = 0xFFFFFFFD


def decode_weight(profile: ActionProfile, weight: int, what: str) -> int:
    """The weight in the dataplane."""
    if profile.weights_disallowed:
        if weight:
            raise invalid_argument(f"{what}: the switch determines weights, they must be unset")
        return 1
    if weight <= 0:
        raise invalid_argument(f"{what}: weight {weight} is not possible, it must be positive")
    return weight


def watched_port(
    pipeline: Pipeline, item: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction, what: str
) -> int | None:
    """Raises INVALID_ARGUMENT if the port does not exist."""
    match item.WhichOneof("watch_kind"):
        case "watch_port" if item.watch_port:
            port = bytestrings.decode(item.watch_port, 32, f"{what}, watch port")
        case "watch" if item.watch:
            port = item.watch
        case _:
            return None
    cpu = pipeline.device.cpu_port
    if port == _SDN_PORT_CPU and cpu is not None:
        return cpu
    if port != cpu and port not in pipeline.device.ports():
        raise invalid_argument(f"{what}: the device has no port {port} to watch")
    return port


def size_of(profile: ActionProfile, weights: Sequence[int]) -> int:
    return len(weights) if profile.sum_of_members else sum(weights)


def check_weights(
    profile: ActionProfile, weights: Sequence[int], limit: int, what: str, too_many: Callable[[str], P4Error]
) -> None:
    """The limits of one group. `limit` 0: none."""
    largest = profile.max_member_weight if profile.sum_of_members else 0
    if largest and max(weights, default=0) > largest:
        raise invalid_argument(f"{what}: weight {max(weights)} is above the largest, {largest}")
    size = size_of(profile, weights)
    if limit and size > limit:
        kind = "members" if profile.sum_of_members else "weights in sum"
        raise too_many(f"{what}: {size} {kind}, at most {limit} are possible")


def check_total(
    pipeline: Pipeline, profile: ActionProfile, weights: Sequence[int], former: Sequence[int]
) -> None:
    """The limit of all groups and action sets together, with this one in place of a `former` one."""
    if not profile.size:
        return
    members, total = pipeline.device.profile_usage(profile.name)
    used = (members if profile.sum_of_members else total) - size_of(profile, former)
    used += size_of(profile, weights)
    if used > profile.size:
        raise resource_exhausted(f"{profile.what} is full: {used} of {profile.size}")
