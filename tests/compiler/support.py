# SPDX-License-Identifier: Apache-2.0
"""What the tests of the compiler share. UPDATE_GOLDENS=1 in the environment rewrites all goldens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from compiler.driver import Options, Result, compile_file, compile_text

HERE = Path(__file__).parent
GOOD = sorted(p for p in (HERE / "good").glob("*.p4") if p.name != "skeleton.p4")
ERRORS = sorted((HERE / "errors").glob("*.p4"))
REPO = HERE.parents[1]
PROGRAMS = sorted((REPO / "p4src").glob("*.p4"))

SHELL = """
#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields} }}
struct pair_t {{ bit<32> x; bit<32> y; }}
bool seen(in bit<8> x, inout bit<8> calls) {{
    calls = calls + 1;
    if (x == 0) {{ return false; }}
    return true;
}}
struct headers_t {{ h_t h; }}
struct meta_t {{ {meta} bit<1> unused; }}
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{ pkt.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    {locals}
    apply {{ {body} }}
}}
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{ apply {{}} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ pkt.emit(hdr.h); }} }}
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"""


def compiled(path: Path) -> Result:
    """Result for the program at `path`, its own directory and ``include`` searched for includes."""
    return compile_file(str(path), Options([str(path.parent), str(path.parent / "include")], max_errors=500))


def small(body: str, *, fields: str = "bit<8> a; bit<8> b;", meta: str = "", locals: str = "") -> Result:
    """Result for a program whose ingress does `body`."""
    return compile_text(SHELL.format(body=body, fields=fields, meta=meta, locals=locals), "small.p4")


def stripped(j: Any) -> Any:
    """JSON without the places of the source, which any edit moves."""
    if isinstance(j, dict):
        return {k: stripped(v) for k, v in j.items() if k not in ("source_info", "program", "compiler")}
    if isinstance(j, list):
        return [stripped(x) for x in j]
    return j


def check_golden(name: str, text: str) -> None:
    """Compare `text` with the golden `name`, or write it when goldens are being updated."""
    path = HERE / "golden" / name
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(text)
    assert path.exists(), f"no golden {name}; run with UPDATE_GOLDENS=1"
    assert text == path.read_text(), f"{name} differs; if that is meant, run with UPDATE_GOLDENS=1"


def golden_json(j: Any) -> str:
    return json.dumps(stripped(j), indent=1) + "\n"
