# SPDX-License-Identifier: Apache-2.0
"""Profiles: the one place of a run's parameters.

    from profiles import load
    configuration = load("mininet").at_rate(8_000_000)     # link rate in bit/s, from a calibration
    configuration.queue.data_limit_bytes

`profiles/*.toml` hold sizes in packets and times in packet times (`profiles.schema` says what each key
means), so the same profile fits any machine; `Profile.at_rate` derives bytes, nanoseconds and rates
(`profiles.concrete`). `Profile.override` and `Profile.override_text` change single keys. `to_json` and
`from_json` save and restore either. Every mistake is a `ProfileError` of one line.
"""

from __future__ import annotations

import json
from typing import TypeVar

from profiles.concrete import (
    BudgetPolicy,
    Configuration,
    DcqcnRates,
    IngressBytes,
    Links,
    QueueBytes,
    TransportBytes,
)
from profiles.profile import Profile, load
from profiles.reader import ProfileError, plain, read
from profiles.schema import (
    Burst,
    Dscp,
    Exemption,
    Family,
    Fault,
    FaultKind,
    Flows,
    Study,
    WindowBasis,
    WindowKind,
    Wire,
    Workload,
)

T = TypeVar("T", Profile, Configuration)


def to_json(value: Profile | Configuration) -> str:
    """Exact and readable; keys in a fixed order."""
    return json.dumps(plain(value), indent=2) + "\n"


def from_json(cls: type[T], text: str, where: str = "JSON") -> T:
    """What `to_json` wrote. Raises ProfileError in one line; `where` names the file."""
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise ProfileError(f"{where}: not JSON: {error}; mend it there") from None
    return read(cls, tree, where)


__all__ = [
    "BudgetPolicy",
    "Burst",
    "Configuration",
    "DcqcnRates",
    "Dscp",
    "Exemption",
    "Family",
    "Fault",
    "FaultKind",
    "Flows",
    "IngressBytes",
    "Links",
    "Profile",
    "ProfileError",
    "QueueBytes",
    "Study",
    "TransportBytes",
    "WindowBasis",
    "WindowKind",
    "Wire",
    "Workload",
    "from_json",
    "load",
    "to_json",
]
