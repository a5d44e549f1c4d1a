# SPDX-License-Identifier: Apache-2.0
"""The P4 programs as artefacts: no warnings, the documented contract, expressions that stay small."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from tests.support.programs import SOURCES, compile_program

DOCS = SOURCES.parent / "docs" / "dataplane.md"
PROGRAMS = ("switch", "nic")

LARGEST_PRIMITIVE = 4000
"""Characters of JSON. p4c inlines what is passed to an action; a popcount once grew to 9,000."""

MATCHES = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
}


def read_p4info(path: Path) -> p4i.P4Info:
    return text_format.Parse(path.read_text(), p4i.P4Info())


def section(program: str) -> str:
    """The part of the documentation about one program."""
    text = DOCS.read_text()
    return re.split(r"^## ", text.split(f"## {program}.p4\n")[1], flags=re.MULTILINE)[0]


def documented_tables(program: str) -> dict[str, tuple[dict[str, str], dict[str, list[tuple[str, int]]]]]:
    """table -> (key -> match kind, action -> [(parameter, width)])."""
    tables = {}
    for name, key, actions in re.findall(
        r"^\| `([\w.]+)` \| (.+?) \| (.+?) \|", section(program), re.MULTILINE
    ):
        keys = dict(re.findall(r"`(\w+)` (exact|lpm|ternary)", key))
        signatures = {
            action: [
                (parameter, int(width)) for width, parameter in re.findall(r"bit<(\d+)> (\w+)", parameters)
            ]
            for action, parameters in re.findall(r"(\w+)\((.*?)\)`", actions)
        }
        control = f"{program.capitalize()}Ingress."
        tables[name if "." in name else control + name] = keys, signatures
    return tables


def documented_counters(program: str) -> set[str]:
    text = section(program).split("Counters, ")[1].split("\n\n")[0]
    text = re.split(r"^- ", text, flags=re.MULTILINE)[0]
    return set(re.findall(r"`(\w+)`", text)) - {"wire"}


@pytest.mark.p4c
@pytest.mark.parametrize("program", PROGRAMS)
def test_p4c_takes_the_program_without_a_word(program: str, tmp_path: Path) -> None:
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c-bm2-ss is not on PATH")
    command = ["p4c-bm2-ss", "-o", str(tmp_path / "out.json"), str(SOURCES / f"{program}.p4")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_checked_in_p4info_is_up_to_date(program: str) -> None:
    """Refresh it by compiling with --p4runtime-files p4src/PROGRAM.p4info.txtpb."""
    fresh = read_p4info(compile_program(program).p4info)
    assert read_p4info(SOURCES / f"{program}.p4info.txtpb") == fresh


@pytest.mark.parametrize("program", PROGRAMS)
def test_tables_are_those_of_the_documentation(program: str) -> None:
    p4info = read_p4info(SOURCES / f"{program}.p4info.txtpb")
    actions = {
        action.preamble.id: (action.preamble.alias, [(p.name, p.bitwidth) for p in action.params])
        for action in p4info.actions
    }
    tables = {}
    for table in p4info.tables:
        keys = {field.name: MATCHES[field.match_type] for field in table.match_fields}
        used = dict(actions[ref.id] for ref in table.action_refs)
        used.pop("NoAction", None)
        tables[table.preamble.name] = keys, used
    assert tables == documented_tables(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_counters_are_those_of_the_documentation(program: str) -> None:
    p4info = read_p4info(SOURCES / f"{program}.p4info.txtpb")
    assert {counter.preamble.alias for counter in p4info.counters} == documented_counters(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_action_of_the_p4info_belongs_to_a_table(program: str) -> None:
    p4info = read_p4info(SOURCES / f"{program}.p4info.txtpb")
    used = {ref.id for table in p4info.tables for ref in table.action_refs}
    assert {action.preamble.id for action in p4info.actions} == used


def without_source_info(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: without_source_info(value) for key, value in node.items() if key != "source_info"}
    if isinstance(node, list):
        return [without_source_info(value) for value in node]
    return node


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_expression_grows_out_of_hand(program: str) -> None:
    compiled = json.loads(compile_program(program).json.read_text())
    sizes = {
        (action["name"], index): len(json.dumps(without_source_info(primitive)))
        for action in compiled["actions"]
        for index, primitive in enumerate(action["primitives"])
    }
    worst = max(sizes, key=lambda at: sizes[at])
    assert sizes[worst] <= LARGEST_PRIMITIVE, worst


def test_sizes_agree_with_each_other() -> None:
    text = (SOURCES / "include" / "sizes.p4").read_text()
    size = {
        name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)\b(?!:)", text, re.MULTILINE)
    }
    slices = {name: (int(high), int(low)) for name, high, low in re.findall(r"(QP_\w+) (\d+):(\d+)", text)}
    assert size["BLOCK_BYTES"] == 1 << size["BLOCK_SHIFT"]
    assert size["RING_WORDS"] == 1 << size["RING_SHIFT"]
    assert size["WORD_BLOCKS"] == 1 << size["WORD_SHIFT"] == size["WORD_MASK"] + 1 == 64
    assert size["MAX_RANGE_BLOCKS"] <= 32, "a range spans two words at most, and its mask is 32 bits"
    assert size["STEP_SLOTS"] == 1 << size["STEP_SLOT_WIDTH"]
    assert size["FLOW_SLOTS"] == 1 << size["FLOW_SLOT_WIDTH"]
    assert size["WORD_INDEX_WIDTH"] == size["FLOW_SLOT_WIDTH"] + size["RING_SHIFT"]
    flow, owner, step = size["FLOW_SLOT_WIDTH"], size["OWNER_WIDTH"], size["STEP_SLOT_WIDTH"]
    assert flow + owner + step == 24
    assert slices == {
        "QP_FLOW_SLOT": (flow - 1, 0),
        "QP_OWNER": (flow + owner - 1, flow),
        "QP_STEP_SLOT": (23, flow + owner),
    }
