# SPDX-License-Identifier: Apache-2.0
"""P4Info for a BMv2 JSON that a test has built, as p4c would write it: ids by kind, names of the JSON."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i, p4r

from tests.target.resources import text

PREFIXES = {
    "table": 0x02, "action": 0x01, "profile": 0x11, "meter": 0x14, "direct meter": 0x15,
    "direct counter": 0x13, "digest": 0x17,
}  # fmt: skip


class Described:
    """A JSON with its P4Info; `id(kind, name)` gives the ids."""

    def __init__(self, program: dict[str, Any]) -> None:
        self.program = program
        self.info = p4i.P4Info()
        self._ids: dict[tuple[str, str], int] = {}
        self._types = {t["name"]: t for t in program["header_types"]}
        self._headers = {h["name"]: self._types[h["header_type"]] for h in program["headers"]}
        self._actions()
        for pipeline in program["pipelines"]:
            for profile in pipeline["action_profiles"]:
                self._profile(profile)
        for meter in program.get("meter_arrays", []):
            if not meter.get("is_direct"):
                message = self.info.meters.add(size=meter["size"])
                self._preamble(message.preamble, "meter", meter["name"])
                self._unit(message.spec, meter["type"])
        for pipeline in program["pipelines"]:
            for table in pipeline["tables"]:
                if not table["name"].startswith("tbl_"):
                    self._table(table)
        for digest in program.get("learn_lists", []):
            self._digest(digest)

    def config(self) -> p4r.ForwardingPipelineConfig:
        return p4r.ForwardingPipelineConfig(p4info=self.info, p4_device_config=text(self.program).encode())

    def id(self, kind: str, name: str) -> int:
        if (kind, name) not in self._ids:
            number = 1 + sum(k == kind for k, _ in self._ids)
            self._ids[kind, name] = PREFIXES[kind] << 24 | number
        return self._ids[kind, name]

    def _preamble(self, preamble: p4i.Preamble, kind: str, name: str) -> None:
        preamble.id, preamble.name, preamble.alias = self.id(kind, name), name, name.rpartition(".")[2]

    def _unit(self, spec: p4i.MeterSpec, kind: str) -> None:
        spec.unit = p4i.MeterSpec.PACKETS if kind == "packets" else p4i.MeterSpec.BYTES

    def _width(self, header: str, field: str) -> int:
        return next(int(f[1]) for f in self._headers[header]["fields"] if f[0] == field)

    def _actions(self) -> None:
        used = {
            name
            for pipeline in self.program["pipelines"]
            for table in pipeline["tables"]
            if not table["name"].startswith("tbl_")
            for name in table["actions"]
        }
        for action in self.program["actions"]:
            if action["name"] not in used or ("action", action["name"]) in self._ids:
                continue
            message = self.info.actions.add()
            self._preamble(message.preamble, "action", action["name"])
            for number, param in enumerate(action["runtime_data"], 1):
                message.params.add(id=number, name=param["name"], bitwidth=param["bitwidth"])

    def _profile(self, profile: dict[str, Any]) -> None:
        message = self.info.action_profiles.add(size=profile["max_size"], with_selector="selector" in profile)
        self._preamble(message.preamble, "profile", profile["name"])

    def _table(self, table: dict[str, Any]) -> None:
        message = self.info.tables.add(size=table["max_size"])
        self._preamble(message.preamble, "table", table["name"])
        for number, key in enumerate(table["key"], 1):
            kind = p4i.MatchField.MatchType.Value(key["match_type"].upper())
            width = self._width(*key["target"])
            message.match_fields.add(id=number, name=key["name"], bitwidth=width, match_type=kind)
        for name in table["actions"]:
            message.action_refs.add(id=self.id("action", name))
        if "action_profile" in table:
            message.implementation_id = self.id("profile", table["action_profile"])
            profile = next(p for p in self.info.action_profiles if p.preamble.id == message.implementation_id)
            profile.table_ids.append(message.preamble.id)
        if table["support_timeout"]:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
        if table["with_counters"]:
            counter = self.info.direct_counters.add(direct_table_id=message.preamble.id)
            name = next(
                c["name"] for c in self.program["counter_arrays"] if c.get("binding") == table["name"]
            )
            self._preamble(counter.preamble, "direct counter", name)
            message.direct_resource_ids.append(counter.preamble.id)
        if table["direct_meters"]:
            name = table["direct_meters"]
            json_meter = next(m for m in self.program["meter_arrays"] if m["name"] == name)
            meter = self.info.direct_meters.add(direct_table_id=message.preamble.id)
            self._preamble(meter.preamble, "direct meter", name)
            self._unit(meter.spec, json_meter["type"])
            message.direct_resource_ids.append(meter.preamble.id)

    def _digest(self, digest: dict[str, Any]) -> None:
        message = self.info.digests.add()
        self._preamble(message.preamble, "digest", digest["name"])
        message.type_spec.struct.name = digest["name"]
        spec = self.info.type_info.structs[digest["name"]]
        for number, element in enumerate(digest["elements"]):
            member = spec.members.add(name=f"f{number}")
            member.type_spec.bitstring.bit.bitwidth = self._width(*element["value"])


def raw(value: int) -> bytes:
    """The canonical byte string."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
