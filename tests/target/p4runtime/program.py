# SPDX-License-Identifier: Apache-2.0
"""The pipeline that the tests push: one table of every kind, counters, registers and controller headers.

Built here as BMv2 JSON and P4Info, in the form in which p4c writes them, so that the tests need no compiler.
As P4, its ingress would be:

    if (hdr.packet_out.isValid()) { egress_spec = hdr.packet_out.egress_port; hdr.packet_out.setInvalid(); }
    else { exact_t.apply(); lpm_t.apply(); acl_t.apply(); const_t.apply(); scope_t.apply(); ... }

and its egress puts `packet_in {ingress_port, reason}` in front of what leaves on the CPU port.
"""

from __future__ import annotations

import json
from typing import Any

from finsy.proto import p4i, p4r

CPU_PORT = 255

EXACT_T, LPM_T, ACL_T, CONST_T, SCOPE_T, KEYLESS_T = (0x02000000 + n for n in range(1, 7))
NO_ACTION, DROP, FORWARD, TO_CPU, MARK, MULTICAST = (0x01000000 + n for n in range(1, 7))
COUNTER = 0x12000001
EXACT_COUNTER, ACL_COUNTER, CONST_COUNTER = (0x13000000 + n for n in range(1, 4))
REG32, REG_SIGNED, REG_BOOL, REG_WIDE = (0x16000000 + n for n in range(1, 5))
PACKET_IN, PACKET_OUT = 0x81000001, 0x81000002

EXACT_SIZE = 16
COUNTER_SIZE = 8
REG_SIZE = 16

_ACTIONS: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {
    "NoAction": (NO_ACTION, ()),
    "MyIngress.drop": (DROP, ()),
    "MyIngress.forward": (FORWARD, (("port", 9),)),
    "MyIngress.to_cpu": (TO_CPU, ()),
    "MyIngress.mark": (MARK, (("value", 16), ("wide", 128))),
    "MyIngress.multicast": (MULTICAST, (("group", 16),)),
}
_JSON_IDS = {name: number for number, name in enumerate(_ACTIONS)}

Key = tuple[str, str, int, tuple[str, str]]
"""Name, match kind, width, BMv2 field."""

_DST: Key = ("hdr.ethernet.dst", "exact", 48, ("ethernet", "dst"))
_TYPE: Key = ("hdr.ethernet.type", "exact", 16, ("ethernet", "type"))

_TABLES: tuple[dict[str, Any], ...] = (
    {
        "name": "MyIngress.exact_t",
        "id": EXACT_T,
        "key": (_DST,),
        "actions": ("MyIngress.forward", "MyIngress.to_cpu", "MyIngress.multicast", "MyIngress.drop"),
        "default": ("MyIngress.drop", ()),
        "size": EXACT_SIZE,
        "counter": EXACT_COUNTER,
    },
    {
        "name": "MyIngress.lpm_t",
        "id": LPM_T,
        "key": (_TYPE, ("hdr.ethernet.src", "lpm", 48, ("ethernet", "src"))),
        "actions": ("MyIngress.forward", "NoAction"),
        "default": ("NoAction", ()),
        "size": 1024,
    },
    {
        "name": "MyIngress.acl_t",
        "id": ACL_T,
        "key": (
            ("hdr.ethernet.dst", "ternary", 48, ("ethernet", "dst")),
            ("hdr.ethernet.type", "range", 16, ("ethernet", "type")),
            ("standard_metadata.ingress_port", "optional", 9, ("standard_metadata", "ingress_port")),
        ),
        "actions": ("MyIngress.drop", "MyIngress.mark", "NoAction"),
        "default": ("NoAction", ()),
        "size": 64,
        "counter": ACL_COUNTER,
    },
    {
        "name": "MyIngress.const_t",
        "id": CONST_T,
        "key": (_TYPE,),
        "actions": ("MyIngress.mark", "NoAction"),
        "default": ("NoAction", ()),
        "default_const": True,
        "size": 4,
        "counter": CONST_COUNTER,
        "entries": ((0x0800, "MyIngress.mark", (1, 2)), (0x86DD, "NoAction", ())),
    },
    {
        "name": "MyIngress.scope_t",
        "id": SCOPE_T,
        "key": (_TYPE,),
        "actions": ("MyIngress.mark", "MyIngress.drop", "NoAction"),
        "scopes": {"MyIngress.drop": p4i.ActionRef.TABLE_ONLY, "NoAction": p4i.ActionRef.DEFAULT_ONLY},
        "default": ("NoAction", ()),
        "size": 1024,
    },
    {
        "name": "MyIngress.keyless_t",
        "id": KEYLESS_T,
        "key": (),
        "actions": ("MyIngress.mark", "NoAction"),
        "default": ("MyIngress.mark", (7, 9)),
        "size": 1024,
    },
)
_REGISTERS = (
    ("MyIngress.reg32", REG32, 32, "bit"),
    ("MyIngress.reg_signed", REG_SIGNED, 8, "int"),
    ("MyIngress.reg_bool", REG_BOOL, 1, "bool"),
    ("MyIngress.reg_wide", REG_WIDE, 300, "bit"),
)


def p4info() -> p4i.P4Info:
    info = p4i.P4Info()
    info.pkg_info.arch = "v1model"
    for name, (action_id, params) in _ACTIONS.items():
        action = info.actions.add()
        _preamble(action.preamble, action_id, name)
        for number, (param, width) in enumerate(params, 1):
            action.params.add(id=number, name=param, bitwidth=width)
    for item in _TABLES:
        table = info.tables.add(size=item["size"])
        _preamble(table.preamble, item["id"], item["name"])
        for number, (name, kind, width, _) in enumerate(item["key"], 1):
            match_type = p4i.MatchField.MatchType.Value(kind.upper())
            table.match_fields.add(id=number, name=name, bitwidth=width, match_type=match_type)
        for name in item["actions"]:
            ref = table.action_refs.add(id=_ACTIONS[name][0])
            if name in item.get("scopes", {}):
                ref.scope = item["scopes"][name]
        if item.get("default_const"):
            table.const_default_action_id = _ACTIONS[item["default"][0]][0]
        if "entries" in item:
            table.is_const_table = True
            table.has_initial_entries = True
        if "counter" in item:
            table.direct_resource_ids.append(item["counter"])
            direct = info.direct_counters.add(direct_table_id=item["id"])
            _preamble(direct.preamble, item["counter"], item["name"] + "_counter")
            direct.spec.unit = p4i.CounterSpec.BOTH
    counter = info.counters.add(size=COUNTER_SIZE)
    _preamble(counter.preamble, COUNTER, "MyIngress.counter")
    counter.spec.unit = p4i.CounterSpec.BOTH
    for name, register_id, width, kind in _REGISTERS:
        register = info.registers.add(size=REG_SIZE)
        _preamble(register.preamble, register_id, name)
        if kind == "bool":
            register.type_spec.bool.SetInParent()
        else:
            getattr(register.type_spec.bitstring, kind).bitwidth = width
    for name, header_id, fields in (
        ("packet_in", PACKET_IN, (("ingress_port", 9), ("reason", 3), ("pad", 4))),
        ("packet_out", PACKET_OUT, (("egress_port", 9), ("pad", 7))),
    ):
        header = info.controller_packet_metadata.add()
        _preamble(header.preamble, header_id, name)
        for number, (field, width) in enumerate(fields, 1):
            header.metadata.add(id=number, name=field, bitwidth=width)
    return info


def _preamble(preamble: p4i.Preamble, id_: int, name: str) -> None:
    preamble.id = id_
    preamble.name = name
    preamble.alias = name.rpartition(".")[2]


def config(cookie: int | None = None) -> p4r.ForwardingPipelineConfig:
    message = p4r.ForwardingPipelineConfig(p4info=p4info(), p4_device_config=bmv2_json().encode())
    if cookie is not None:
        message.cookie.cookie = cookie
    return message


def bmv2_json() -> str:
    return json.dumps(bmv2_program())


def bmv2_program() -> dict[str, Any]:
    """The JSON as Python objects, for tests that break it."""
    egress_spec = _field("standard_metadata", "egress_spec")
    egress_port = _field("standard_metadata", "egress_port")
    on_cpu_port = _binary("==", egress_port, _hex(CPU_PORT))
    return {
        "program": "program.p4i",
        "__meta__": {"version": [2, 23], "compiler": "https://github.com/p4lang/p4c"},
        "header_types": _header_types(),
        "headers": [
            {"name": "scalars", "id": 0, "header_type": "scalars_0", "metadata": True, "pi_omit": True},
            {"name": "standard_metadata", "id": 1, "header_type": "standard_metadata", "metadata": True},
            {"name": "packet_out", "id": 2, "header_type": "packet_out_t", "metadata": False},
            {"name": "packet_in", "id": 3, "header_type": "packet_in_t", "metadata": False},
            {"name": "ethernet", "id": 4, "header_type": "ethernet_t", "metadata": False},
        ],
        "header_stacks": [],
        "header_union_types": [],
        "header_unions": [],
        "header_union_stacks": [],
        "field_lists": [],
        "errors": [
            [name, number]
            for number, name in enumerate(
                (
                    "NoError",
                    "PacketTooShort",
                    "NoMatch",
                    "StackOutOfBounds",
                    "HeaderTooShort",
                    "ParserTimeout",
                    "ParserInvalidArgument",
                ),
                1,
            )
        ],
        "enums": [],
        "parsers": [_parser()],
        "parse_vsets": [],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["packet_in", "ethernet"]}],
        "meter_arrays": [],
        "counter_arrays": _counters(),
        "register_arrays": [
            {"name": name, "id": number, "size": REG_SIZE, "bitwidth": width}
            for number, (name, _, width, _) in enumerate(_REGISTERS)
        ],
        "calculations": [],
        "learn_lists": [],
        "actions": _actions(egress_spec),
        "pipelines": [
            {
                "name": "ingress",
                "id": 0,
                "init_table": "node_2",
                "tables": _tables(),
                "action_profiles": [],
                "conditionals": [
                    {
                        "name": "node_2",
                        "id": 0,
                        "expression": {
                            "type": "expression",
                            "value": {
                                "op": "d2b",
                                "left": None,
                                "right": _field("packet_out", "$valid$"),
                            },
                        },
                        "true_next": "tbl_from_cpu",
                        "false_next": _TABLES[0]["name"],
                    }
                ],
            },
            {
                "name": "egress",
                "id": 1,
                "init_table": "node_12",
                "tables": [_hidden_table("tbl_add_packet_in", 101, 7)],
                "action_profiles": [],
                "conditionals": [
                    {
                        "name": "node_12",
                        "id": 1,
                        "expression": on_cpu_port,
                        "true_next": "tbl_add_packet_in",
                        "false_next": None,
                    }
                ],
            },
        ],
        "checksums": [],
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": [
            ["queueing_metadata.enq_timestamp", ["standard_metadata", "enq_timestamp"]],
            ["queueing_metadata.enq_qdepth", ["standard_metadata", "enq_qdepth"]],
            ["queueing_metadata.deq_timedelta", ["standard_metadata", "deq_timedelta"]],
            ["queueing_metadata.deq_qdepth", ["standard_metadata", "deq_qdepth"]],
            [
                "intrinsic_metadata.ingress_global_timestamp",
                ["standard_metadata", "ingress_global_timestamp"],
            ],
            ["intrinsic_metadata.egress_global_timestamp", ["standard_metadata", "egress_global_timestamp"]],
            ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
            ["intrinsic_metadata.egress_rid", ["standard_metadata", "egress_rid"]],
            ["intrinsic_metadata.priority", ["standard_metadata", "priority"]],
        ],
    }


def _header_types() -> list[dict[str, Any]]:
    types = {
        "scalars_0": (("mark", 16), ("wide", 128), ("_padding", 0)),
        "standard_metadata": (
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
            ("enq_timestamp", 32),
            ("enq_qdepth", 19),
            ("deq_timedelta", 32),
            ("deq_qdepth", 19),
            ("ingress_global_timestamp", 48),
            ("egress_global_timestamp", 48),
            ("mcast_grp", 16),
            ("egress_rid", 16),
            ("checksum_error", 1),
            ("parser_error", 32),
            ("priority", 3),
            ("_padding", 3),
        ),
        "packet_out_t": (("egress_port", 9), ("pad", 7)),
        "packet_in_t": (("ingress_port", 9), ("reason", 3), ("pad", 4)),
        "ethernet_t": (("dst", 48), ("src", 48), ("type", 16)),
    }
    return [
        {"name": name, "id": number, "fields": [[field, width, False] for field, width in fields if width]}
        for number, (name, fields) in enumerate(types.items())
    ]


def _parser() -> dict[str, Any]:
    def extract(header: str) -> list[dict[str, Any]]:
        return [{"parameters": [{"type": "regular", "value": header}], "op": "extract"}]

    default = {"type": "default", "value": None, "mask": None}
    return {
        "name": "parser",
        "id": 0,
        "init_state": "start",
        "parse_states": [
            {
                "name": "start",
                "id": 0,
                "parser_ops": [],
                "transitions": [
                    {
                        "type": "hexstr",
                        "value": f"0x{CPU_PORT:04x}",
                        "mask": None,
                        "next_state": "parse_packet_out",
                    },
                    default | {"next_state": "parse_ethernet"},
                ],
                "transition_key": [_field("standard_metadata", "ingress_port")],
            },
            {
                "name": "parse_packet_out",
                "id": 1,
                "parser_ops": extract("packet_out"),
                "transitions": [default | {"next_state": "parse_ethernet"}],
                "transition_key": [],
            },
            {
                "name": "parse_ethernet",
                "id": 2,
                "parser_ops": extract("ethernet"),
                "transitions": [default | {"next_state": None}],
                "transition_key": [],
            },
        ],
    }


def _counters() -> list[dict[str, Any]]:
    arrays: list[dict[str, Any]] = [
        {"name": "MyIngress.counter", "id": 0, "is_direct": False, "size": COUNTER_SIZE}
    ]
    for table in _TABLES:
        if "counter" in table:
            name = table["name"] + "_counter"
            arrays.append({"name": name, "id": len(arrays), "is_direct": True, "binding": table["name"]})
    return arrays


def _actions(egress_spec: dict[str, Any]) -> list[dict[str, Any]]:
    def data(index: int) -> dict[str, Any]:
        return {"type": "runtime_data", "value": index}

    mcast = _field("standard_metadata", "mcast_grp")
    ingress_port = _field("standard_metadata", "ingress_port")
    count = {
        "op": "count",
        "parameters": [{"type": "counter_array", "value": "MyIngress.counter"}, _hex(0)],
    }
    body: dict[str, list[dict[str, Any]]] = {
        "NoAction": [],
        "MyIngress.drop": [{"op": "mark_to_drop", "parameters": [_header("standard_metadata")]}],
        "MyIngress.forward": [_assign(egress_spec, data(0)), count],
        "MyIngress.to_cpu": [_assign(egress_spec, _hex(CPU_PORT))],
        "MyIngress.mark": [
            _assign(_field("scalars", "mark"), data(0)),
            _assign(_field("scalars", "wide"), data(1)),
        ],
        "MyIngress.multicast": [_assign(mcast, data(0))],
    }
    actions = [
        {
            "name": name,
            "id": _JSON_IDS[name],
            "runtime_data": [{"name": param, "bitwidth": width} for param, width in params],
            "primitives": body[name],
        }
        for name, (_, params) in _ACTIONS.items()
    ]
    hidden = {
        "from_cpu": [
            _assign(egress_spec, _field("packet_out", "egress_port")),
            {"op": "remove_header", "parameters": [_header("packet_out")]},
        ],
        "add_packet_in": [
            {"op": "add_header", "parameters": [_header("packet_in")]},
            _assign(_field("packet_in", "ingress_port"), ingress_port),
            _assign(_field("packet_in", "reason"), _hex(5)),
            _assign(_field("packet_in", "pad"), _hex(0)),
        ],
    }
    for name, primitives in hidden.items():
        actions.append({"name": name, "id": len(actions), "runtime_data": [], "primitives": primitives})
    return actions


def _tables() -> list[dict[str, Any]]:
    result = [_hidden_table("tbl_from_cpu", 100, 6)]
    for number, table in enumerate(_TABLES):
        following = _TABLES[number + 1]["name"] if number + 1 < len(_TABLES) else None
        kinds = {kind for _, kind, _, _ in table["key"]}
        match_type = next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")
        action, args = table["default"]
        constant = table.get("default_const", False)
        item = {
            "name": table["name"],
            "id": number,
            "key": [
                {
                    # An optional match is a ternary one for BMv2.
                    "match_type": "ternary" if kind == "optional" else kind,
                    "name": name,
                    "target": list(target),
                    "mask": None,
                }
                for name, kind, _, target in table["key"]
            ],
            "match_type": match_type,
            "type": "simple",
            "max_size": table["size"],
            "with_counters": "counter" in table,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [_JSON_IDS[name] for name in table["actions"]],
            "actions": list(table["actions"]),
            "base_default_next": following,
            "next_tables": dict.fromkeys(table["actions"], following),
            "default_entry": {
                "action_id": _JSON_IDS[action],
                "action_const": constant,
                "action_data": [hex(arg) for arg in args],
                "action_entry_const": constant,
            },
        }
        if "entries" in table:
            item["entries"] = [
                {
                    "match_key": [{"match_type": "exact", "key": f"0x{key:04x}"}],
                    "action_entry": {
                        "action_id": _JSON_IDS[name],
                        "action_data": [hex(arg) for arg in entry_args],
                    },
                    "priority": priority,
                }
                for priority, (key, name, entry_args) in enumerate(table["entries"], 1)
            ]
        result.append(item)
    return result


def _hidden_table(name: str, id_: int, action_id: int) -> dict[str, Any]:
    action = name.removeprefix("tbl_")
    return {
        "name": name,
        "id": id_,
        "key": [],
        "match_type": "exact",
        "type": "simple",
        "max_size": 1024,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [action_id],
        "actions": [action],
        "base_default_next": None,
        "next_tables": {action: None},
        "default_entry": {
            "action_id": action_id,
            "action_const": True,
            "action_data": [],
            "action_entry_const": True,
        },
    }


def _field(header: str, field: str) -> dict[str, Any]:
    return {"type": "field", "value": [header, field]}


def _header(name: str) -> dict[str, Any]:
    return {"type": "header", "value": name}


def _hex(value: int) -> dict[str, Any]:
    return {"type": "hexstr", "value": f"0x{value:04x}"}


def _assign(target: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    return {"op": "assign", "parameters": [target, source]}


def _binary(op: str, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}
