# SPDX-License-Identifier: Apache-2.0
"""Small BMv2 JSONs for the tests, built in Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
Field = tuple[str, int | str] | tuple[str, int, bool]

STANDARD = [
    ("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("instance_type", 32), ("packet_length", 32),
    ("enq_timestamp", 32), ("enq_qdepth", 19), ("deq_timedelta", 32), ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48), ("egress_global_timestamp", 48), ("mcast_grp", 16), ("egress_rid", 16),
    ("checksum_error", 1), ("parser_error", 32), ("priority", 3),
]  # fmt: skip

_INTRINSIC = ("ingress_global_timestamp", "egress_global_timestamp", "mcast_grp", "egress_rid", "priority")
_QUEUEING = ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")

ERRORS = [
    "NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
    "ParserInvalidArgument",
]  # fmt: skip


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def std(name: str) -> Json:
    return field("standard_metadata", name)


def const(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def param(index: int) -> Json:
    return {"type": "runtime_data", "value": index}


def op(name: str, left: Json | None, right: Json | None, cond: Json | None = None) -> Json:
    body: Json = {"op": name, "left": left, "right": right}
    if cond is not None:
        body["cond"] = cond
    return {"type": "expression", "value": body}


def call(name: str, *parameters: Json) -> Json:
    # A primitive's expression is wrapped once more than a nested one.
    wrapped = [{"type": "expression", "value": p} if p.get("type") == "expression" else p for p in parameters]
    return {"op": name, "parameters": wrapped}


def assign(dest: Json, source: Json) -> Json:
    return call("assign", dest, source)


class Builder:
    """A v1model program: headers of [(field, width[, signed])], actions, one table after the other."""

    def __init__(self) -> None:
        self.types: list[Json] = []
        self.headers: list[Json] = []
        self.actions: list[Json] = []
        self.tables: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.states: list[Json] = []
        self.deparser: list[str] = []
        self.extra: Json = {}
        self.header("standard_metadata", STANDARD, metadata=True)

    def header(
        self, name: str, fields: Sequence[Field], metadata: bool = False, max_length: int | None = None
    ) -> None:
        """A field of width "*" is a varbit; `max_length`: bytes of its header at most."""
        rows: list[list[Any]] = [
            [f[0], f[1]] if f[1] == "*" else [f[0], f[1], f[2] if len(f) == 3 else False] for f in fields
        ]
        self.types.append({"name": f"{name}_t", "id": len(self.types), "fields": rows})
        if max_length is not None:
            self.types[-1]["max_length"] = max_length
        # simple_switch wants ids that count from 0.
        self.headers.append(
            {
                "name": name,
                "id": len(self.headers),
                "header_type": f"{name}_t",
                "metadata": metadata,
                "pi_omit": True,
            }
        )
        if not metadata:
            self.deparser.append(name)

    def instance(self, name: str, like: str) -> None:
        """One more header of the type of `like`."""
        self.headers.append(
            {"name": name, "id": len(self.headers), "header_type": f"{like}_t", "metadata": False}
        )
        self.deparser.append(name)

    def unions(self, kind: str, members: Sequence[tuple[str, str]], *names: str, stack: str = "") -> None:
        """Unions of one type with headers `name.member`, each like another header; and a stack of them."""
        types = self.extra.setdefault("header_union_types", [])
        rows = [[member, f"{like}_t"] for member, like in members]
        types.append({"name": kind, "id": len(types), "headers": rows})
        unions = self.extra.setdefault("header_unions", [])
        first = len(unions)
        for name in names:
            ids = []
            for member, like in members:
                ids.append(len(self.headers))
                self.instance(f"{name}.{member}", like)
            unions.append({"name": name, "id": len(unions), "union_type": kind, "header_ids": ids})
        if stack:
            stacks = self.extra.setdefault("header_union_stacks", [])
            stacks.append(
                {
                    "name": stack,
                    "id": len(stacks),
                    "union_type": kind,
                    "size": len(names),
                    "header_union_ids": list(range(first, len(unions))),
                }
            )

    def action(self, name: str, params: list[tuple[str, int]], primitives: list[Json]) -> int:
        number = len(self.actions)
        self.actions.append(
            {
                "name": name,
                "id": number,
                "runtime_data": [{"name": n, "bitwidth": w} for n, w in params],
                "primitives": primitives,
            }
        )
        return number

    def table(
        self,
        name: str,
        key: list[tuple[str, str, str]] | None = None,
        actions: list[str] | None = None,
        default: str | None = None,
        default_args: list[int] | None = None,
        const_default: bool = False,
        pipeline: str = "ingress",
        **extra: Any,
    ) -> None:
        """`key`: (match kind, header, field)."""
        names = actions or ([default] if default else [])
        ids = [next(a["id"] for a in self.actions if a["name"] == n) for n in names]
        kinds = [k for k, _, _ in key or []]
        match = next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")
        if "optional" in kinds and match != "range":
            match = "ternary"
        table: Json = {
            "name": name,
            "id": sum(len(t) for t in self.tables.values()),
            "key": [
                {"match_type": k, "name": f"{h}.{f}", "target": [h, f], "mask": None} for k, h, f in key or []
            ],
            "match_type": match,
            "type": "simple",
            "max_size": 1 << 20,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": ids,
            "actions": names,
            "base_default_next": None,
            "next_tables": dict.fromkeys(names),
        }
        if default is not None:
            table["default_entry"] = {
                "action_id": next(a["id"] for a in self.actions if a["name"] == default),
                "action_const": const_default,
                "action_data": [hex(v) for v in default_args or []],
                "action_entry_const": const_default,
            }
        table.update(extra)
        self.tables[pipeline].append(table)

    def run(self, name: str, primitives: list[Json], pipeline: str = "ingress") -> None:
        """An action that always runs, as p4c wraps it."""
        self.action(name, [], primitives)
        self.table(f"tbl_{name}", default=name, const_default=True, pipeline=pipeline)

    def state(self, name: str, ops: list[Json], key: list[Json] | None = None, *cases: Json) -> None:
        transitions = list(cases) or [default_case(None)]
        self.states.append(
            {
                "name": name,
                "id": len(self.states),
                "parser_ops": ops,
                "transitions": transitions,
                "transition_key": key or [],
            }
        )

    def extract_all(self) -> None:
        """A parser of one state that extracts every header in turn."""
        self.state("start", [extract(n) for n in self.deparser])

    def build(self) -> Json:
        pipelines = []
        for number, name in enumerate(("ingress", "egress")):
            tables = self.tables[name]
            for table, following in pairwise(tables):
                for target in table["next_tables"]:
                    table["next_tables"][target] = following["name"]
                table["base_default_next"] = following["name"]
            pipelines.append(
                {
                    "name": name,
                    "id": number,
                    "init_table": tables[0]["name"] if tables else None,
                    "tables": tables,
                    "action_profiles": [],
                    "conditionals": [],
                }
            )
        if not self.states:
            self.extract_all()
        aliases = [[f"intrinsic_metadata.{n}", ["standard_metadata", n]] for n in _INTRINSIC]
        aliases += [[f"queueing_metadata.{n}", ["standard_metadata", n]] for n in _QUEUEING]
        return {
            "__meta__": {"version": [2, 23], "compiler": "tests"},
            "header_types": self.types,
            "headers": self.headers,
            "header_stacks": [],
            "field_lists": [],
            "errors": [[name, i] for i, name in enumerate(ERRORS)],
            "enums": [],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": self.states}],
            "deparsers": [{"name": "deparser", "id": 0, "order": self.deparser}],
            "actions": self.actions,
            "pipelines": pipelines,
            "checksums": [],
            "field_aliases": aliases,
            **self.extra,
        }

    def json(self) -> str:
        return json.dumps(self.build())


def extract(name: str, stack: bool = False) -> Json:
    kind = "stack" if stack else "regular"
    return {"op": "extract", "parameters": [{"type": kind, "value": name}]}


def extract_varbit(name: str, bits: Json, stack: bool = False) -> Json:
    kind = "stack" if stack else "regular"
    return {"op": "extract_VL", "parameters": [{"type": kind, "value": name}, wrap(bits)]}


def wrap(value: Json) -> Json:
    """As the length of a varbit stands in a JSON: always an expression."""
    return {"type": "expression", "value": value}


def default_case(target: str | None) -> Json:
    return {"type": "default", "value": None, "mask": None, "next_state": target}


def case(value: str, target: str | None, mask: str | None = None) -> Json:
    return {"type": "hexstr", "value": value, "mask": mask, "next_state": target}


def forward_to(port: int) -> Json:
    return assign(std("egress_spec"), const(port))
