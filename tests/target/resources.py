# SPDX-License-Identifier: Apache-2.0
"""Programs with what not every program has: action profiles, meters, digests, idle timeouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from target.bmjson import JsonError, load
from target.codegen import generate
from tests.target.programs import Builder, Json, assign, call, const, field, forward_to, param


def profile(name: str, size: int = 64, selector: tuple[str, list[tuple[str, str]]] | None = None) -> Json:
    """`selector`: (hash algorithm, fields)."""
    result: Json = {"name": name, "id": 0, "max_size": size}
    if selector is not None:
        algo, fields = selector
        inputs = [{"type": "field", "value": list(f)} for f in fields]
        result["selector"] = {"algo": algo, "input": inputs}
    return result


def with_profiles(b: Builder, *profiles: Json, pipeline: str = "ingress") -> Json:
    """The program with action profiles in one of its pipelines."""
    built = b.build()
    for number, item in enumerate(profiles):
        item["id"] = number
    next(p for p in built["pipelines"] if p["name"] == pipeline)["action_profiles"] = list(profiles)
    return built


def selector_program(
    algo: str = "identity", size: int = 64, pipeline: str = "ingress", fields: tuple[str, ...] = ("flow",)
) -> Json:
    """Header x: key (8), flow (32), result (32), wide (128). Table t on x.key, selector on `fields`.

    Actions: set(value) writes x.result, wide(value) x.wide, nothing. Everything goes to port 2. Table `after`
    sets x.seen to 1 behind `set`, to 2 behind `wide`, to 3 else.
    """
    b = Builder()
    b.header("x", [("key", 8), ("flow", 32), ("result", 32), ("wide", 128), ("seen", 8)])
    b.action("set", [("value", 32)], [assign(field("x", "result"), param(0))])
    b.action("wide", [("value", 128), ("low", 8)], [assign(field("x", "wide"), param(0))])
    b.action("nothing", [], [])
    b.run("first", [forward_to(2)])
    for value, name in ((1, "one"), (2, "two"), (3, "three")):
        b.action(name, [], [assign(field("x", "seen"), const(value))])
    kind: Json = {"type": "indirect_ws", "action_profile": "sel"}
    b.table("t", [("exact", "x", "key")], ["set", "wide", "nothing"], pipeline=pipeline, **kind)
    built = with_profiles(
        b, profile("sel", size, (algo, [("x", name) for name in fields])), pipeline=pipeline
    )
    tables = next(p for p in built["pipelines"] if p["name"] == pipeline)["tables"]
    table = tables[-1]
    for name in ("one", "two", "three"):
        hidden = {**table, "name": f"tbl_{name}", "id": len(tables), "type": "simple", "key": []}
        del hidden["action_profile"]
        number = next(a["id"] for a in built["actions"] if a["name"] == name)
        hidden |= {"action_ids": [number], "actions": [name], "next_tables": {name: None}}
        hidden["default_entry"] = {
            "action_id": number, "action_const": True, "action_data": [], "action_entry_const": True,
        }  # fmt: skip
        tables.append(hidden)
    table["next_tables"] = {"set": "tbl_one", "wide": "tbl_two", "nothing": "tbl_three"}
    table["base_default_next"] = "tbl_three"
    return built


def selector_frame(key: int, flow: int) -> bytes:
    return bytes([key]) + flow.to_bytes(4, "big") + bytes(4 + 16 + 1)


def text(program: Json) -> str:
    return json.dumps(program)


def check_damage(program: Json, path: Sequence[Any], value: Any, named: str) -> str:
    """With `value` in its place the program is refused in a line that has `named`, which is returned."""
    generate(load(text(program)))
    parent: Any = program
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    with pytest.raises(JsonError) as error:
        generate(load(text(program)))
    assert named in str(error.value)
    return str(error.value)


def meter_array(name: str, kind: str, size: int = 4) -> Json:
    return {"name": name, "id": 0, "is_direct": False, "rate_count": 2, "type": kind, "size": size}


def direct_meter(name: str, kind: str, table: str, target: tuple[str, str]) -> Json:
    return {
        "name": name, "id": 1, "is_direct": True, "rate_count": 2, "type": kind, "size": 1024,
        "binding": table, "result_target": list(target),
    }  # fmt: skip


def meter_program(kind: str = "packets", pipeline: str = "ingress", target: str = "direct") -> Json:
    """Header x: key (8), index (8), colour, direct (8 each), one (1), pad (7). Everything goes to port 2.

    x.colour gets that of meter `m` (4 cells) at x.index; table t on x.key is metered into `target`, its
    action `mark` adds 0x10 to x.direct.
    """
    b = Builder()
    b.header("x", [("key", 8), ("index", 8), ("colour", 8), ("direct", 8), ("one", 1), ("pad", 7)])
    b.header("scratch", [("unread", 8)], metadata=True)
    array = {"type": "meter_array", "value": "m"}
    sixteen = {
        "type": "expression",
        "value": {"op": "+", "left": field("x", "direct"), "right": const(0x10)},
    }
    b.action("mark", [], [assign(field("x", "direct"), sixteen)])
    b.action("pass", [], [])
    b.run("first", [forward_to(2)])
    b.run(
        "execute",
        [{"op": "execute_meter", "parameters": [array, field("x", "index"), field("x", "colour")]}],
        pipeline=pipeline,
    )
    extra: Json = {"direct_meters": "d"}
    b.table("t", [("exact", "x", "key")], ["mark", "pass"], default="pass", pipeline=pipeline, **extra)
    place = ("scratch", "unread") if target == "unread" else ("x", target)
    b.extra["meter_arrays"] = [meter_array("m", kind), direct_meter("d", kind, "t", place)]
    return b.build()


def digest_program(ingress: bool = True) -> Json:
    """Header x: src (48), port (16), big (128), what (8). Everything goes to port 2.

    Table `learn` on x.what: `tell` makes a digest "mac" of x.src, x.port and x.big, `forget` none.
    """
    b = Builder()
    b.header("x", [("src", 48), ("port", 16), ("big", 128), ("what", 8)])
    b.action("tell", [], [call("generate_digest", const(1), const(7))])
    b.action(
        "forget",
        [],
        [call("generate_digest", const(1), const(7)), call("generate_digest", const(1), const(0))],
    )
    b.action("pass", [], [])
    b.run("first", [forward_to(2)])
    where = "ingress" if ingress else "egress"
    key = [("exact", "x", "what")]
    b.table("learn", key, ["tell", "forget", "pass"], default="pass", pipeline=where)
    elements = [field("x", name) for name in ("src", "port", "big")]
    b.extra["learn_lists"] = [{"id": 7, "name": "mac", "elements": elements}]
    return b.build()


def digest_frame(src: int, port: int = 0, big: int = 0, what: int = 1) -> bytes:
    return src.to_bytes(6, "big") + port.to_bytes(2, "big") + big.to_bytes(16, "big") + bytes([what])


def idle_program(kinds: tuple[tuple[str, str], ...] = (("exact", "key"),)) -> Json:
    """Header x: key (8), wide (16). Everything goes to port 2. Table t supports timeouts."""
    b = Builder()
    b.header("x", [("key", 8), ("wide", 16)])
    b.action("pass", [], [])
    b.run("first", [forward_to(2)])
    key = [(kind, "x", name) for kind, name in kinds]
    extra: Json = {"support_timeout": True}
    b.table("t", key, ["pass"], default="pass", **extra)
    return b.build()
