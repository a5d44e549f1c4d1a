# SPDX-License-Identifier: Apache-2.0
"""What the emitted JSON computes: expressions against constant folding, statements against Python."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import ir
from compiler.check import check_program
from compiler.diag import Diagnostics
from compiler.parser import parse
from compiler.preprocessor import Preprocessor
from tests.compiler.interpreter import Machine
from tests.compiler.support import small

#: Variables by type: name of the field, width.
VARS: dict[str, list[str]] = {
    "bit<8>": ["a", "b"],
    "bit<16>": ["c", "d"],
    "int<8>": ["s", "t"],
    "bit<3>": ["n"],
    "bool": [],
}
FIELDS = "bit<8> a; bit<8> b; bit<16> c; bit<16> d; int<8> s; int<8> t; bit<3> n; bit<5> pad;"
CASTS = {
    "bit<8>": ["bit<16>", "int<8>", "bit<3>"],
    "bit<16>": ["bit<8>", "bit<3>"],
    "int<8>": ["bit<8>"],
    "bit<3>": ["bit<8>", "bit<16>"],
}
SETTINGS = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
WIDTH = {"bit<8>": 8, "bit<16>": 16, "int<8>": 8, "bit<3>": 3}


def _literal(t: str, value: int) -> str:
    width = WIDTH[t]
    value &= (1 << width) - 1
    if t.startswith("int"):
        value = value - (1 << width) if value >> (width - 1) else value
        return f"(int<{width}>)({value})"
    return f"{width}w{value}"


@st.composite
def expressions(draw: st.DrawFn, t: str, depth: int) -> str:
    """Text of an expression of type `t`; variables are written ``{a}``."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        names = VARS[t]
        coin = draw(st.integers(0, 1))
        if names and coin:
            return "{" + draw(st.sampled_from(names)) + "}"
        if t == "bool":
            return draw(st.sampled_from(["true", "false"]))
        return _literal(t, draw(st.integers(0, 1 << WIDTH[t])))

    def sub(x: str) -> str:
        return draw(expressions(x, depth - 1))

    if t == "bool":
        form = draw(st.sampled_from(["compare", "logic", "not"]))
        if form == "compare":
            x = draw(st.sampled_from([k for k in VARS if k != "bool"]))
            return f"({sub(x)} {draw(st.sampled_from(['==', '!=', '<', '<=', '>', '>=']))} {sub(x)})"
        if form == "logic":
            return f"({sub('bool')} {draw(st.sampled_from(['&&', '||']))} {sub('bool')})"
        return f"(!{sub('bool')})"
    forms = ["binary", "shift", "unary", "mux", "cast"]
    if t == "bit<16>":
        forms.append("concat")
    if t in ("bit<8>", "bit<3>"):
        forms.append("slice")
    form = draw(st.sampled_from(forms))
    if form == "binary":
        return f"({sub(t)} {draw(st.sampled_from(['+', '-', '*', '&', '|', '^', '|+|', '|-|']))} {sub(t)})"
    if form == "shift":
        amount = draw(st.one_of(st.integers(0, 20).map(str), st.just(sub("bit<3>"))))
        return f"({sub(t)} {draw(st.sampled_from(['<<', '>>']))} {amount})"
    if form == "unary":
        return f"({draw(st.sampled_from(['-', '~']))}{sub(t)})"
    if form == "mux":
        return f"({sub('bool')} ? {sub(t)} : {sub(t)})"
    if form == "concat":
        return f"({sub('bit<8>')} ++ {sub('bit<8>')})"
    if form == "slice":
        low = draw(st.integers(0, 16 - WIDTH[t]))
        return f"({sub('bit<16>')}[{low + WIDTH[t] - 1}:{low}])"
    return f"(({t}){sub(draw(st.sampled_from(CASTS[t])))})"


def folded(text: str, t: str) -> int:
    """Value of a constant expression, by the checker alone."""
    diags = Diagnostics()
    tokens = Preprocessor(diags).run_text("x", f"const {t} R = {text}; extern E {{ E({t} x); }} E(R) e;")
    program = check_program(parse(tokens, diags), diags)
    assert not diags.error_count, diags.render()
    arg = program.instances[0].args[0]
    assert isinstance(arg, ir.Lit) and not isinstance(arg.value, str)
    return int(arg.value)


@pytest.mark.parametrize("t", ["bit<8>", "bit<16>", "int<8>", "bit<3>", "bool"])
@given(data=st.data())
@SETTINGS
def test_expression(t: str, data: st.DataObject) -> None:
    text = data.draw(expressions(t, 4))
    types = {name: x for x, names in VARS.items() for name in names}
    values = {name: data.draw(st.integers(0, 65535)) & ((1 << WIDTH[x]) - 1) for name, x in types.items()}
    literals = {name: _literal(x, values[name]) for name, x in types.items()}
    expected = folded(text.format(**literals), t)
    places = {name: f"hdr.h.{name}" for name in types}
    result = small("act();", fields=FIELDS, meta=f"{t} r;",
                   locals=f"action act() {{ meta.r = {text.format(**places)}; }}")  # fmt: skip
    assert result.json is not None, result.diags.render()
    machine = Machine(result.json)
    for name, value in values.items():
        machine.set("h", name, value)
    machine.run("In.act")
    assert machine.get("scalars", "userMetadata.r") == expected, text


def run(body: str, *, locals: str = "", meta: str = "bit<32> r; bit<32> q;", a: int = 0) -> Machine:
    """Machine after an action with `body` has run."""
    result = small("act();", meta=meta, locals=f"{locals} action act() {{ {body} }}")
    assert result.json is not None, result.diags.render()
    machine = Machine(result.json)
    machine.set("h", "a", a)
    machine.run("In.act")
    return machine


def result_of(body: str, a: int = 0) -> int:
    return run(body, a=a).get("scalars", "userMetadata.r")


@pytest.mark.parametrize("a", range(6))
def test_branches(a: int) -> None:
    body = """
        if (hdr.h.a == 0) { meta.r = 10; return; }
        else if (hdr.h.a < 3) { meta.r = 20; } else { meta.r = 30; if (hdr.h.a == 4) { exit; } }
        meta.r = meta.r + 1;"""
    assert result_of(body, a=a) == {0: 10, 1: 21, 2: 21, 3: 31, 4: 30, 5: 31}[a]


@pytest.mark.parametrize("a", [0, 1, 5, 200])
def test_loops_known_and_unknown(a: int) -> None:
    known = "for (bit<8> i = 0; i < 10; i = i + 2) { if (i == 6) { break; } meta.r = meta.r + (bit<32>)i; }"
    assert result_of(known) == 0 + 2 + 4
    unknown = """
        for (bit<8> i = 0; i < hdr.h.a; i = i + 1) {
            if (i[0:0] == 1) { continue; }
            for (bit<8> k in 1..3) { meta.r = meta.r + (bit<32>)k; }
        }"""
    assert result_of(unknown, a=a) == 6 * len(range(0, a, 2))


def test_known_loops_are_unrolled() -> None:
    machine = run("for (bit<8> i = 0; i < 4; i = i + 1) { meta.r = meta.r + 1; }")
    ops = [p["op"] for p in machine.actions["In.act"]["primitives"]]
    assert "_jump_if_zero" not in ops
    assert machine.get("scalars", "userMetadata.r") == 4


def test_range_loop_reaches_the_largest_value() -> None:
    assert result_of("for (bit<8> i in hdr.h.a..255) { meta.r = meta.r + 1; }", a=250) == 6


def test_swap_through_a_list() -> None:
    machine = run("meta.p = { 1, 2 }; meta.p = { meta.p.y, meta.p.x };", meta="pair_t p;")
    values = [machine.get("scalars", f"userMetadata.p.{x}") for x in "xy"]
    assert values == [2, 1]


def test_an_action_stays_one_action() -> None:
    """A read-modify-write with branches must stay in one action: the target locks registers per action."""
    result = small(
        "act();",
        locals="""
        register<bit<8>>(4) r;
        action act() {
            bit<8> x;
            r.read(x, 0);
            if (x > 3) { x = 0; } else { x = x + hdr.h.a; }
            r.write(0, x);
        }""",
    )
    assert result.json is not None
    ops = [p["op"] for p in next(a for a in result.json["actions"] if a["name"] == "In.act")["primitives"]]
    assert ops.count("register_read") == ops.count("register_write") == 1
    machine = Machine(result.json)
    for step in (2, 2, 7):
        machine.set("h", "a", step)
        machine.run("In.act")
    assert machine.registers["In.r"][0] == 0


def test_copy_in_and_out() -> None:
    """An inout argument that the action also reaches by its own name is copied, not shared."""
    machine = run(
        "bump(hdr.h.a);", a=1, locals="action bump(inout bit<8> x) { hdr.h.a = 10; x = x + hdr.h.a; }"
    )
    assert machine.get("h", "a") == 11


def test_slices_and_wide_words() -> None:
    meta = "bit<32> r; bit<512> w;"
    body = "meta.w[399:392] = hdr.h.a; meta.w = meta.w >> 200; meta.r = meta.w[223:192];"
    assert run(body, meta=meta, a=0xAB).get("scalars", "userMetadata.r") == 0xAB


def test_switch_on_an_action_with_bound_arguments() -> None:
    """The list of actions binds an argument, so the table has its own copy of the action."""
    result = small(
        "switch (t.apply().action_run) { act: { hdr.h.b = 1; } default: { hdr.h.b = 2; } }",
        locals="action act(in bit<8> x) { hdr.h.a = x; } table t { actions = { act(hdr.h.b); NoAction; } }",
    )
    assert result.json is not None, result.diags.render()
    pipeline = result.json["pipelines"][0]
    table = next(t for t in pipeline["tables"] if t["name"] == "In.t")
    assert table["next_tables"]["In.act"] != table["next_tables"]["NoAction"]


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_calls_in_conditions_keep_their_order(first: int, second: int) -> None:
    """The right side of && runs only if the left one holds, and what it changes is seen afterwards."""
    result = small(
        "act();",
        meta="bit<8> calls; bit<8> r;",
        locals="""
        action act() {
            if (seen(hdr.h.a, meta.calls) && seen(hdr.h.b, meta.calls)) { meta.r = 1; } else { meta.r = 2; }
        }""",
    )
    assert result.json is not None, result.diags.render()
    machine = Machine(result.json)
    machine.set("h", "a", first)
    machine.set("h", "b", second)
    machine.run("In.act")
    assert machine.get("scalars", "userMetadata.r") == (1 if first and second else 2)
    assert machine.get("scalars", "userMetadata.calls") == (2 if first else 1)
