# SPDX-License-Identifier: Apache-2.0
"""Programs that must compile: JSON and P4Info against goldens, the same output every time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.emit.p4info import P4InfoBuilder, text_of
from tests.compiler.support import GOOD, PROGRAMS, check_golden, compiled, golden_json


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_json(path: Path) -> None:
    result = compiled(path)
    assert result.ok, result.diags.render()
    check_golden(f"{path.stem}.json", golden_json(result.json))


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_p4info(path: Path) -> None:
    result = compiled(path)
    assert result.flat is not None, result.diags.render()
    builder = P4InfoBuilder(result.flat, result.diags)
    check_golden(f"{path.stem}.p4info.txtpb", text_of(builder.build()))
    check_golden(f"{path.stem}.entries.txtpb", text_of(builder.entries()))


@pytest.mark.parametrize("path", [*GOOD, *PROGRAMS], ids=lambda p: p.stem)
def test_deterministic(path: Path) -> None:
    first, second = compiled(path), compiled(path)
    assert first.ok, first.diags.render()
    assert json.dumps(first.json) == json.dumps(second.json)


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_references_resolve(path: Path) -> None:
    """Every name and id in the JSON leads somewhere."""
    j = compiled(path).json
    assert j is not None
    actions = {a["id"]: a["name"] for a in j["actions"]}
    assert sorted(actions) == list(range(len(actions)))
    for pipeline in j["pipelines"]:
        nodes = (
            {t["name"] for t in pipeline["tables"]} | {c["name"] for c in pipeline["conditionals"]} | {None}
        )
        assert pipeline["init_table"] in nodes
        for t in pipeline["tables"]:
            assert [actions[i] for i in t["action_ids"]] == t["actions"]
            assert set(t["next_tables"].values()) <= nodes
        for c in pipeline["conditionals"]:
            assert {c["true_next"], c["false_next"]} <= nodes
    states = {s["name"] for s in j["parsers"][0]["parse_states"]} | {None}
    for s in j["parsers"][0]["parse_states"]:
        assert {t["next_state"] for t in s["transitions"]} <= states


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_jumps_stay_inside(path: Path) -> None:
    j = compiled(path).json
    assert j is not None
    for a in j["actions"]:
        for p in a["primitives"]:
            if p["op"] in ("_jump", "_jump_if_zero"):
                assert 0 <= int(p["parameters"][-1]["value"], 16) <= len(a["primitives"])
