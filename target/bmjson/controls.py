# SPDX-License-Identifier: Apache-2.0
"""Reads the pipelines of a BMv2 JSON: tables, conditionals, action calls."""

from __future__ import annotations

from target.bmjson.exprs import ExprReader, source_line
from target.bmjson.model import (
    Action,
    ActionCall,
    ActionProfile,
    Conditional,
    ConstEntry,
    FieldRef,
    KeyField,
    Pipeline,
    Program,
    Table,
)
from target.bmjson.node import Node
from target.bmjson.profiles import check_shared, read_profile, table_profile

_TABLE_OPTIONAL = (
    "source_info action_ids base_default_next default_entry entries direct_meters with_counters "
    "support_timeout max_size action_profile default_action"
)


def read_pipeline(item: Node, program: Program, exprs: ExprReader) -> Pipeline:
    item.keys("name id init_table tables conditionals", "source_info action_profiles action_calls")
    profiles: dict[str, ActionProfile] = {}
    for node in item.get("action_profiles", []).elements():
        profile = read_profile(node, program, exprs)
        if profile.name in profiles:
            node.fail(f"the name {profile.name!r} is already taken")
        profiles[profile.name] = profile
    shared: dict[str, dict[str, Action]] = {name: {} for name in profiles}
    tables: dict[str, Table] = {}
    conditionals: dict[str, Conditional] = {}
    calls: dict[str, ActionCall] = {}
    for node in item["tables"].elements():
        name = _node_name(node, tables, conditionals, calls)
        tables[name] = table = _table(node, program, exprs, profiles)
        if table.profile is not None:
            actions = [program.actions[i] for i in table.action_ids]
            check_shared(node, actions, shared[table.profile])
    for node in item["conditionals"].elements():
        node.keys("name id expression", "source_info true_next false_next")
        name = _node_name(node, tables, conditionals, calls)
        conditionals[name] = Conditional(
            name,
            exprs.expr(node["expression"]),
            node.get("true_next", None).opt_str(),
            node.get("false_next", None).opt_str(),
            source_line(node),
        )
    for node in item.get("action_calls", []).elements():
        node.keys("name id action_id", "source_info next_node")
        name = _node_name(node, tables, conditionals, calls)
        action = _action(node["action_id"], program)
        if action.params:
            node.fail(f"action {action.name!r} has parameters and can't be called directly")
        calls[name] = ActionCall(name, action.id, node.get("next_node", None).opt_str())
    pipeline = Pipeline(
        item["name"].string(), item["init_table"].opt_str(), tables, conditionals, calls, profiles
    )
    _check_graph(item, pipeline)
    return pipeline


def _node_name(node: Node, *pools: dict[str, Table] | dict[str, Conditional] | dict[str, ActionCall]) -> str:
    name = node["name"].string()
    if any(name in pool for pool in pools):
        node.fail(f"the name {name!r} is already taken")
    return name


def _action(node: Node, program: Program) -> Action:
    if node.integer() not in program.actions:
        node.fail(f"there is no action with id {node.integer()}")
    return program.actions[node.integer()]


def _table(node: Node, program: Program, exprs: ExprReader, profiles: dict[str, ActionProfile]) -> Table:
    node.keys("name id key match_type type actions next_tables", _TABLE_OPTIONAL)
    match = node["match_type"].string()
    if match not in ("exact", "lpm", "ternary", "range"):
        node["match_type"].fail(f"match type {match!r} is not supported")
    kind = node["type"].string()
    if kind not in ("simple", "indirect", "indirect_ws"):
        node["type"].fail(f"table type {kind!r} is not supported")
    profile = table_profile(node, kind, profiles)
    if node.has("default_action"):
        node["default_action"].fail("use 'default_entry' instead")
    timeout = node.get("support_timeout", False).boolean()
    key = tuple(_key_field(k, program, exprs) for k in node["key"].elements())
    if sum(k.match == "lpm" for k in key) > 1:
        node["key"].fail("a table may have one lpm field at most")
    actions = _table_actions(node, program)
    next_nodes, hit_miss = _next_nodes(node, actions)
    default, action_const, args_const = None, False, False
    if node.has("default_entry"):
        entry = node["default_entry"]
        entry.keys("action_id action_data", "action_const action_entry_const source_info")
        action = _action(entry["action_id"], program)
        default = (action.id, _action_data(entry["action_data"], action))
        action_const = entry.get("action_const", False).boolean()
        args_const = entry.get("action_entry_const", False).boolean()
    entries = None
    if node.has("entries"):
        entries = tuple(_entry(e, key, actions, program) for e in node["entries"].elements())
    return Table(
        name=node["name"].string(),
        key=key,
        match=match,
        kind=kind,
        profile=profile,
        size=node.get("max_size", 1024).integer(0, 2**31),
        counters=node.get("with_counters", False).boolean(),
        timeout=timeout,
        meter=_direct_meter(node, program),
        action_ids=tuple(a.id for a in actions),
        next=next_nodes,
        hit_miss=hit_miss,
        default_next=node.get("base_default_next", None).opt_str(),
        default=default,
        default_const=action_const,
        default_args_const=args_const,
        entries=entries,
        place=node.path,
        source=source_line(node),
    )


def _direct_meter(node: Node, program: Program) -> str | None:
    if not node.has("direct_meters"):
        return None
    name = node["direct_meters"].string()
    meter = program.meters.get(name)
    if meter is None or meter.direct_table != node["name"].string():
        node["direct_meters"].fail(f"there is no direct meter {name!r} of this table")
    if meter.target is None:
        node["direct_meters"].fail(f"the meter {name!r} has no 'result_target'")
    return name


def _key_field(node: Node, program: Program, exprs: ExprReader) -> KeyField:
    node.keys("match_type target", "mask name source_info")
    match = node["match_type"].string()
    if match not in ("exact", "lpm", "ternary", "range", "optional", "valid"):
        node["match_type"].fail(f"match type {match!r} is not supported")
    if match == "valid":
        target = FieldRef(exprs.header(node["target"]), "$valid$")
    else:
        target = exprs.field(node["target"])
    if program.field_type(target).varbit:
        node["target"].fail("a varbit field can't be a key")
    width = program.field_type(target).width
    mask = node["mask"].hexstr() if node.has("mask") else None
    if mask is not None and mask >> width:
        node["mask"].fail(f"the mask is wider than the field of {width} bits")
    name = node.get("name", f"{target.header}.{target.field}").string()
    return KeyField(match, target, width, mask, name)


def _table_actions(node: Node, program: Program) -> list[Action]:
    names = [a.string() for a in node["actions"].elements()]
    if "action_ids" in node.value:
        actions = [_action(a, program) for a in node["action_ids"].elements(len(names))]
        for action, name in zip(actions, names, strict=True):
            if action.name != name:
                node["action_ids"].fail(f"action {action.id} is {action.name!r}, not {name!r}")
        return actions
    result: list[Action] = []
    for name in names:
        found = [a for a in program.actions.values() if a.name == name]
        if len(found) != 1:
            node["actions"].fail(f"there are {len(found)} actions named {name!r}, expected one")
        result.append(found[0])
    return result


def _next_nodes(
    node: Node, actions: list[Action]
) -> tuple[dict[int, str | None], tuple[str | None, str | None] | None]:
    table = node["next_tables"]
    if not isinstance(table.value, dict):
        table.fail("expected an object")
    if "__HIT__" in table.value or "__MISS__" in table.value:
        table.keys("__HIT__ __MISS__")
        return {}, (table["__HIT__"].opt_str(), table["__MISS__"].opt_str())
    names = {a.name for a in actions}
    for key in table.value:
        if key not in names:
            table.fail(f"{key!r} is not an action of this table")
    return {a.id: table[a.name].opt_str() for a in actions}, None


def _action_data(node: Node, action: Action) -> tuple[int, ...]:
    args = tuple(a.hexstr() for a in node.elements(len(action.params)))
    for value, param in zip(args, action.params, strict=True):
        if value < 0 or value >> param.width:
            node.fail(f"value {value:#x} of {param.name!r} is wider than {param.width} bits")
    return args


def _entry(node: Node, key: tuple[KeyField, ...], actions: list[Action], program: Program) -> ConstEntry:
    node.keys("match_key action_entry", "priority source_info")
    fields: list[tuple[int, ...]] = []
    for part, field in zip(node["match_key"].elements(len(key)), key, strict=True):
        part.keys("match_type", "key mask prefix_length start end")
        match = part["match_type"].string()
        if match != field.match:
            part["match_type"].fail(f"expected {field.match!r}, got {match!r}")
        values: tuple[int, ...]
        if match == "valid":
            values = (int(part["key"].boolean()),)
        elif match == "exact":
            values = (part["key"].hexstr(),)
        elif match == "lpm":
            values = (part["key"].hexstr(), part["prefix_length"].integer(0, field.width))
        elif match in ("ternary", "optional"):
            values = (part["key"].hexstr(), part["mask"].hexstr())
        else:
            values = (part["start"].hexstr(), part["end"].hexstr())
        for value in values:
            if value < 0 or (match != "lpm" and value >> field.width):
                part.fail(f"{value:#x} is wider than the field of {field.width} bits")
        fields.append(values)
    call = node["action_entry"]
    call.keys("action_id action_data", "source_info")
    action = _action(call["action_id"], program)
    if action not in actions:
        call["action_id"].fail(f"{action.name!r} is not an action of this table")
    return ConstEntry(
        tuple(fields), action.id, _action_data(call["action_data"], action), node.get("priority", 0).integer()
    )


def _check_graph(item: Node, pipeline: Pipeline) -> None:
    """Every next node exists, and the graph has no cycle."""
    edges: dict[str, list[str | None]] = {}
    for table in pipeline.tables.values():
        targets = [*table.next.values(), table.default_next, *(table.hit_miss or ())]
        edges[table.name] = targets
    for cond in pipeline.conditionals.values():
        edges[cond.name] = [cond.true_next, cond.false_next]
    for call in pipeline.action_calls.values():
        edges[call.name] = [call.next]
    for name, targets in [("init_table", [pipeline.init]), *edges.items()]:
        for target in targets:
            if target is not None and target not in edges:
                item.fail(f"{name!r} leads to an unknown node {target!r}")
    state: dict[str, int] = {}
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in state else []
        if stack:
            state[start] = 1
        while stack:
            name, rest = stack[-1]
            target = next(rest, "")
            if target == "":
                state[name] = 2
                stack.pop()
            elif target is not None and state.get(target) == 1:
                item.fail(f"the control flow has a cycle through {target!r}")
            elif target is not None and target not in state:
                state[target] = 1
                stack.append((target, iter(edges[target])))
