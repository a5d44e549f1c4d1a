# SPDX-License-Identifier: Apache-2.0
"""The project's own STF cases, with either compiler, on either device; and that a wrong one fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.stf.bmv2_process import missing
from tests.stf.cases import Case, find_cases
from tests.stf.compiling import P4C
from tests.stf.workers import Settings, run_case

CASES = {case.name: case for case in find_cases(Path(__file__).parent / "cases").cases}

NO_P4C = None if shutil.which(P4C) else f"{P4C} isn't on PATH"
NO_BMV2 = missing()

WAYS = [
    pytest.param("embedded", "own", id="own-embedded"),
    pytest.param(
        "embedded", "p4c", id="p4c-embedded",
        marks=[pytest.mark.p4c, pytest.mark.skipif(NO_P4C is not None, reason=NO_P4C or "")],
    ),
    pytest.param(
        "bmv2", "own", id="own-bmv2",
        marks=[pytest.mark.bmv2, pytest.mark.skipif(NO_BMV2 is not None, reason=NO_BMV2 or "")],
    ),
]  # fmt: skip

KNOWN = {
    (
        "parser_errors",
        "bmv2",
        "own",
    ): "simple_switch reads beyond a packet's end for a lookahead in a select's "
    "key; p4c assigns it to a variable first, which is checked"
}


@pytest.mark.parametrize(("target", "compiler"), WAYS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str, target: str, compiler: str, request: pytest.FixtureRequest) -> None:
    if (name, target, compiler) in KNOWN:
        request.applymarker(pytest.mark.xfail(reason=KNOWN[name, target, compiler], strict=False))
    outcome = run_case(CASES[name], Settings(target, compiler, 120))
    assert outcome.passed, f"{outcome.stage}: {outcome.reason}"


def changed(case: Case, folder: Path, pattern: str, by: str) -> Case:
    """A case whose file says something else in one place."""
    text = case.script.read_text()
    new, count = re.subn(pattern, by, text, count=1, flags=re.MULTILINE)
    assert count == 1
    script = folder / case.script.name
    script.write_text(new)
    return Case(case.name, case.program, script)


WRONG = [
    ("match_kinds", r"0101010101 \$", "0101010102 $", "line 17: packet 1 of port 2: byte 15 differs"),
    ("match_kinds", r"0101010101 \$", "01010101 $", "16 bytes, expected exactly 15"),
    ("match_kinds", r"0101010101 \$", "010101010100", "16 bytes, expected 17"),
    ("match_kinds", r"^expect 2", "expect 3", "line 20: packet 1 of port 2: byte 2 differs"),
    ("match_kinds", r"^expect 2 08.*$", "", "port 2 sent 4 packets, expected 3; the first too many is 08"),
    ("match_kinds", r"^packet 1 08.*$", "", "port 2 sent 3 packets, expected 4"),
    ("match_kinds", r"exact_key:7 put_exact", "exact_key:9 put_exact", "byte 11 differs"),
    ("match_kinds", r"put_exact\(v:1\)", "put_exact(w:1)", "line 2: action 'MyIngress.put_exact' takes (v)"),
    ("match_kinds", r"put_exact\(v:1\)", "put_lpm(v:1)", "line 2: there is no action of table"),
    ("match_kinds", r"put_exact\(v:1\)", "put_exact(v:256)", "line 2: argument 'v'"),
    ("match_kinds", r"^add exacts", "add exact", "line 2: there is no table 'exact'"),
    ("match_kinds", r"exact_key:7", "exact:7", "has no key field 'exact'"),
    ("match_kinds", r"0x0a000000/8", "0x0a000000/33", "/33 is longer than 32 bits"),
    ("counters", r"packets == 2", "packets == 3", "packets of MyIngress.by_kind(1) is 2, expected == 3"),
    ("counters", r"by_kind\(7\)", "by_kind(8)", "index 8"),
    ("counters", r"by_entry\(1\)", "by_entry(2)", "has no entry with handle 2"),
    ("counters", r"by_entry\(ones\)", "by_entry(threes)", "no entry is labelled 'threes'"),
    ("counters", r"^expect 4 .*\$", "", "line 30: port 4 has sent 01000000ffffffff"),
    ("registers", r"sums\(1\) == 0", "sums(1) == 1", "line 7: sums[1] is 0, expected == 1"),
    ("meters", r" 0:10 0:20", " 0:10", "meter 'MyIngress.by_entry' takes 2 rates, got 1"),
    ("meters", r" 0:2 0:4", " 0.0000001:2 0:4", "0.0000001 a microsecond is no whole number a second"),
    ("clone", r"mirroring_get 200", "mirroring_get 201", "there is no mirror session 201"),
    ("multicast", r"mc_node_associate 1 1", "mc_node_associate 1 3", "there is no multicast node 3"),
]


@pytest.mark.parametrize(("name", "pattern", "by", "reason"), WRONG)
def test_what_is_wrong_fails(name: str, pattern: str, by: str, reason: str, tmp_path: Path) -> None:
    outcome = run_case(changed(CASES[name], tmp_path, pattern, by), Settings("embedded", "own", 120))
    assert outcome.stage == "run"
    assert reason in outcome.reason


@pytest.mark.bmv2
@pytest.mark.skipif(NO_BMV2 is not None, reason=NO_BMV2 or "")
@pytest.mark.parametrize(
    ("name", "pattern", "by", "reason"),
    [
        ("match_kinds", r"0101010101 \$", "0101010102 $", "line 17: packet 1 of port 2: byte 15 differs"),
        ("match_kinds", r"^packet 1 08.*$", "", "port 2 sent 3 packets, expected 4"),
        ("match_kinds", r"^expect 2 08.*$", "", "port 2 sent 4 packets, expected 3"),
        ("match_kinds", r"put_exact\(v:1\)", "put_exact(v:0x10000)", "Invalid runtime data"),
        ("counters", r"packets == 2", "packets == 3", "packets of MyIngress.by_kind(1) is 2, expected == 3"),
        ("multicast", r"mc_node_associate 1 1", "mc_node_associate 1 3", "Invalid PRE operation"),
    ],
)
def test_what_is_wrong_fails_on_bmv2(name: str, pattern: str, by: str, reason: str, tmp_path: Path) -> None:
    outcome = run_case(changed(CASES[name], tmp_path, pattern, by), Settings("bmv2", "own", 120))
    assert outcome.stage == "run"
    assert reason in outcome.reason
