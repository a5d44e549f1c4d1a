# SPDX-License-Identifier: Apache-2.0
"""JSONs that can't be loaded: one line that names the element, and the running pipeline stays."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from target.bmjson import JsonError, load
from target.codegen import generate
from target.engine import Device
from tests.target import test_unions, test_value_sets
from tests.target.programs import Builder, assign, call, case, const, default_case, extract, field, forward_to
from tests.target.programs import op as expr
from tests.target.resources import direct_meter, meter_array, profile, with_profiles

Json = dict[str, Any]


def program() -> Json:
    """Something of everything."""
    b = Builder()
    b.header("x", [("kind", 8), ("v", 32), ("w", 200)])
    b.header("meta", [("m", 16)], metadata=True)
    b.state("start", [extract("x")], [field("x", "kind")], case("0x01", "more"), default_case(None))
    b.state("more", [{"op": "verify", "parameters": [expr("==", field("x", "v"), const(1)), const(2)]}])
    b.extra["register_arrays"] = [{"name": "r", "id": 0, "size": 4, "bitwidth": 32}]
    b.extra["counter_arrays"] = [{"name": "c", "id": 0, "is_direct": False, "size": 3}]
    b.extra["calculations"] = [
        {"name": "h", "id": 0, "algo": "crc32", "input": [{"type": "field", "value": ["x", "v"]}]}
    ]
    b.extra["learn_lists"] = [
        {"id": 3, "name": "d", "elements": [field("x", "w"), field("meta", "m"), field("x", "kind")]}
    ]
    b.extra["field_lists"] = [{"id": 1, "name": "l", "elements": [{"type": "field", "value": ["meta", "m"]}]}]
    b.action("hit", [("v", 32)], [assign(field("x", "v"), {"type": "runtime_data", "value": 0})])
    b.extra["meter_arrays"] = [
        meter_array("m", "bytes"),
        direct_meter("d", "packets", "t", ("meta", "m")),
    ]
    b.action(
        "miss",
        [],
        [
            call("count", {"type": "counter_array", "value": "c"}, const(1)),
            call("execute_meter", {"type": "meter_array", "value": "m"}, const(2), field("meta", "m")),
        ],
    )
    learn = call("generate_digest", const(1), const(3))
    b.run("go", [forward_to(2), call("resubmit", const(1)), call("truncate", const(9)), learn])
    b.table("t", [("ternary", "x", "kind"), ("exact", "x", "v")], ["hit", "miss"], default="miss",
            direct_meters="d", support_timeout=True)  # fmt: skip
    indirect: Json = {"type": "indirect_ws", "action_profile": "sel"}
    b.table("u", [("exact", "x", "kind")], ["hit", "miss"], **indirect)
    return with_profiles(b, profile("sel", selector=("crc16", [("x", "v"), ("meta", "m")])))


def at(root: Any, *path: Any) -> Any:
    for step in path:
        root = root[step]
    return root


# (path of the element's parent, key, bad value, what the message must name)
BAD: list[tuple[tuple[Any, ...], Any, Any, str]] = [
    ((), "surprise", 1, "surprise"),
    (("__meta__",), "version", [1, 0], "version"),
    (("header_types", 1, "fields", 0), 1, 0, "header_types[1]"),
    (("header_types", 1, "fields", 0), 1, 4096, "header_types[1]"),
    (("header_types", 1, "fields", 0), 1, "*", "header_types[1]"),
    (("header_types", 1, "fields", 0), 1, 7, "whole number of bytes"),
    (
        ("header_types", 1, "fields"),
        0,
        ["kind", 8, 2],
        "header_types[1] 'x_t'.fields[0][2]: 2 is outside 0..1",
    ),
    (("headers", 1), "header_type", "nope", "nope"),
    (("headers", 1), "name", "standard_metadata", "standard_metadata"),
    (("actions", 0, "primitives", 0), "op", "explode", "explode"),
    (("actions", 0, "primitives", 0, "parameters", 1), "value", 1, "actions[0] 'hit'"),
    (("actions", 0, "primitives", 0, "parameters", 0), "value", ["x", "zz"], "zz"),
    (("actions", 1, "primitives", 0, "parameters", 0), "value", "zz", "zz"),
    (("parsers", 0, "parse_states", 0, "transitions", 0), "next_state", "zz", "zz"),
    (("parsers", 0, "parse_states", 0, "transitions", 0), "value", "0x1ff", "transitions[0]"),
    (("parsers", 0, "parse_states", 0, "transitions", 0), "type", "parse_vset", "value set"),
    (("parsers", 0, "parse_states", 1, "parser_ops", 0), "op", "zz", "zz"),
    (("parsers", 0), "init_state", "zz", "zz"),
    (("deparsers", 0, "order"), 0, "zz", "zz"),
    (("pipelines", 0), "name", "middle", "middle"),
    (("pipelines", 0), "init_table", "zz", "zz"),
    (("pipelines", 0, "tables", 1), "match_type", "fuzzy", "fuzzy"),
    (("pipelines", 0, "tables", 1), "type", "woolly", "woolly"),
    (("pipelines", 0, "tables", 1, "key", 0), "match_type", "fuzzy", "fuzzy"),
    (("pipelines", 0, "tables", 1, "next_tables"), "hit", "t", "cycle"),
    (("pipelines", 0, "tables", 1, "default_entry"), "action_id", 99, "99"),
    (("pipelines", 0, "tables", 1, "default_entry"), "action_data", ["0x1"], "action_data"),
    (("calculations", 0), "algo", "md5", "md5"),
    (("register_arrays", 0), "bitwidth", 0, "register_arrays[0] 'r'"),
    (("register_arrays", 0), "size", -1, "register_arrays[0] 'r'"),
    (("field_lists", 0, "elements", 0), "type", "zz", "zz"),
    ((), "header_unions", [{"name": "u"}], "header_unions[0] 'u'"),
    ((), "extern_instances", [{"name": "e", "type": "Mine"}], "extern_instances[0] 'e': extern type 'Mine'"),
    ((), "parsers", [], "parsers"),
]


@pytest.mark.parametrize(("path", "key", "value", "named"), BAD, ids=lambda v: str(v)[:40])
def test_the_message_names_the_element(path: tuple[Any, ...], key: Any, value: Any, named: str) -> None:
    good = program()
    generate(load(json.dumps(good)))
    at(good, *path)[key] = value
    with pytest.raises(JsonError) as error:
        generate(load(json.dumps(good)))
    message = str(error.value)
    assert named in message
    assert "\n" not in message


def test_the_sign_of_a_field_may_be_a_number() -> None:
    for sign, signed in ((0, False), (1, True), (False, False), (True, True)):
        good = program()
        good["header_types"][1]["fields"][0] = ["kind", 8, sign]
        assert load(json.dumps(good)).headers["x"].type.fields[0].signed is signed


def test_not_json_at_all(make_device: Callable[..., Device]) -> None:
    device = make_device(json.dumps(program()))
    for text in ("", "{", "[]", "null", '"x"', "[" * 100_000):
        with pytest.raises(JsonError):
            device.load_pipeline(text)
    device.inject(1, b"\x00" + bytes(40))
    assert device.port_counters(1).rx_packets == 1


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """(path of the parent, key) of everything in a JSON."""
    result: list[tuple[tuple[Any, ...], Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        result.append((path, key))
        result += places(child, (*path, key))
    return result


def mutate(rng: random.Random, good: Json) -> Json:
    bad = copy.deepcopy(good)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        path, key = rng.choice(places(bad))
        parent = at(bad, *path)
        kind = rng.randrange(5)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        elif kind == 2:
            other_path, other_key = rng.choice(places(bad))
            parent[key] = copy.deepcopy(at(bad, *other_path)[other_key])
        else:
            parent[key] = rng.choice(
                [
                    None,
                    True,
                    -1,
                    0,
                    1,
                    2**31,
                    2**64,
                    1.5,
                    "",
                    "0x",
                    "-0x1",
                    "zz",
                    "*/ evil",
                    [],
                    {},
                    [[]],
                    "x",
                    "hit",
                ]
            )
    return bad


def with_run(b: Builder) -> Json:
    b.run("go", [forward_to(2)])
    return b.build()


PROGRAMS: dict[str, Callable[[], Json]] = {
    "everything": program,
    "unions": lambda: with_run(test_unions.stack_program()),
    "value sets": lambda: test_value_sets.program().build(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rounds", [700, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutated_jsons_never_crash_the_loader(rounds: int, name: str) -> None:
    rng = random.Random(1)
    good = PROGRAMS[name]()
    accepted = 0
    for _ in range(rounds):
        text = json.dumps(mutate(rng, good))
        try:
            generate(load(text))
            accepted += 1
        except JsonError as error:
            assert "\n" not in str(error)
    assert 0 < accepted < rounds


def test_names_never_become_code(make_device: Callable[..., Device]) -> None:
    evil = '*/ #include "/etc/passwd" /* \\\n??/ "; system("id"); //\x00\u2028\ud800'
    text = json.dumps(program())
    for name in ("x", "v", "hit", "miss", "start", "more", "meta", "t", "c", "r", "h"):
        text = text.replace(json.dumps(name), json.dumps(evil + name))
    loaded = load(text)
    source = generate(loaded).source
    code = "".join(part.split("*/", 1)[-1] for part in source.split("/*"))
    assert "system" not in code
    assert "passwd" not in code
    device = make_device(text)
    device.inject(1, b"\x00" + bytes(40))


@pytest.mark.parametrize("name", PROGRAMS)
def test_mutants_that_load_also_compile_and_run(name: str, make_device: Callable[..., Device]) -> None:
    rng = random.Random(2)
    good = PROGRAMS[name]()
    device = make_device(json.dumps(good))
    done = 0
    while done < (12 if name == "everything" else 6):
        text = json.dumps(mutate(rng, good))
        try:
            load(text)
            generate(load(text))
        except JsonError:
            continue
        if text == json.dumps(good):
            continue
        try:
            device.load_pipeline(text)
        except JsonError:
            continue  # const entries are checked on installing
        for size in (0, 1, 5, 40, 90):
            device.inject(1, rng.randbytes(size + 1))
        done += 1
