# SPDX-License-Identifier: Apache-2.0
"""Control state for a benchmark, from a JSON object:

{"tables": [{"table": NAME, "key": [[VALUE, ...], ...], "action": NAME, "args": [...], "priority": 0}],
 "groups": {"GROUP": [[PORT, RID], ...]}}
"""

from __future__ import annotations

from typing import Any

from target.api import TableEntry
from target.engine import Device


def install(device: Device, state: dict[str, Any]) -> None:
    for item in state.get("tables", []):
        key = tuple(tuple(match) for match in item["key"])
        entry = TableEntry(key, item["action"], tuple(item.get("args", ())), item.get("priority", 0))
        if key:
            device.table_insert(item["table"], entry)
        else:
            device.table_set_default(item["table"], entry.action, entry.args)
    for group, replicas in state.get("groups", {}).items():
        device.mcast_group_set(int(group), [(port, rid) for port, rid in replicas])
