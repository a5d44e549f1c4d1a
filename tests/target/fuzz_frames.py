# SPDX-License-Identifier: Apache-2.0
"""Throws random and damaged frames at programs that use everything: python fuzz_frames.py ROUNDS [JSON ...].

Meant to run with the sanitizers; by itself it checks that every frame is accounted for.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from target.api import DeviceError
from target.engine import Device, Engine
from tests.target.programs import (
    Builder,
    assign,
    call,
    case,
    const,
    default_case,
    extract,
    extract_varbit,
    field,
    op,
    std,
)


def program() -> str:
    b = Builder()
    b.header("x", [("kind", 8), ("n", 8), ("v", 32), ("w", 200), ("end", 48)])
    b.header("y", [("a", 3), ("b", 13), ("c", 64), ("d", 128)])
    b.instance("z", "y")
    b.header("l0", [("last", 1), ("label", 23)])
    b.instance("l1", "l0")
    b.header("var", [("odd", 3), ("data", "*"), ("rest", 13)], max_length=2 + 34)
    b.instance("other", "var")
    b.unions("either", [("label", "l0"), ("var", "var")], "u[0]", "u[1]", "u[2]", stack="u")
    b.header("meta", [("m", 16), ("big", 2048)], metadata=True)
    ids = {h["name"]: h["id"] for h in b.headers}
    b.extra["header_stacks"] = [
        {"name": "l", "id": 0, "header_type": "l0_t", "size": 2, "header_ids": [ids["l0"], ids["l1"]]}
    ]
    b.extra["field_lists"] = [{"id": 1, "name": "f", "elements": [{"type": "field", "value": ["meta", "m"]}]}]
    b.extra["register_arrays"] = [{"name": "r", "id": 0, "size": 7, "bitwidth": 2048}]
    b.extra["counter_arrays"] = [{"name": "c", "id": 0, "is_direct": False, "size": 9}]
    read = [("y", "b"), ("x", "w"), ("z", "d"), ("var", "data"), ("other", "rest")]
    inputs = [field(*names) for names in read]
    b.extra["calculations"] = [
        {"name": "h", "id": 0, "algo": "crc32", "input": inputs},
        {"name": "k", "id": 1, "algo": "csum16", "input": [*inputs, {"type": "payload"}]},
    ]
    b.extra["checksums"] = [
        {"name": "s", "id": 0, "target": ["x", "end"], "type": "generic", "calculation": "k",
         "if_cond": None, "update": True, "verify": False}
    ]  # fmt: skip
    kind = [field("x", "kind")]
    cases = [case("0x01", "y"), case("0x02", "labels"), case("0x03", "var"), case("0x04", "unions")]
    cases += [case("0x80", "skip", "0xc0"), default_case(None)]
    b.state("start", [extract("x")], kind, *cases)
    b.state("y", [extract("y")], [{"type": "lookahead", "value": [5, 70]}],
            case("0x" + "00" * 9, None), default_case("z"))  # fmt: skip
    b.state("z", [extract("z")])
    b.state("labels", [extract("l", True)], [{"type": "stack_field", "value": ["l", "last"]}],
            case("0x00", "labels"), default_case(None))  # fmt: skip
    amount = op("<<", field("x", "n"), const(3))
    second = op("<<", op("&", field("x", "v"), const(63)), const(3))
    b.state("var", [extract_varbit("var", amount), extract_varbit("other", second)])
    b.state("skip", [{"op": "advance", "parameters": [{"type": "expression", "value": amount}]}])
    look = {"type": "lookahead", "value": [0, 3]}
    either = [case("0x00", "u_label"), case("0x01", "u_var"), default_case(None)]
    b.state("unions", [], [look], *either)
    labels, variable = extract("u"), extract_varbit("u", second)
    labels["parameters"][0] = {"type": "union_stack", "value": ["u", "label"]}
    variable["parameters"][0] = {"type": "union_stack", "value": ["u", "var"]}
    b.state("u_label", [labels], [look], *either)
    b.state("u_var", [variable], [look], *either)
    stack = {"type": "header_union_stack", "value": "u"}
    element = op("dereference_union_stack", stack, field("x", "n"))
    calc = {"type": "calculation", "value": "h"}
    register = {"type": "register_array", "value": "r"}
    big = field("meta", "big")
    b.run(
        "go",
        [
            assign(std("egress_spec"), op("&", field("x", "v"), const(3))),
            call("modify_field_with_hash_based_offset", field("x", "w"), const(0), calc, const(1 << 32)),
            call("count", {"type": "counter_array", "value": "c"}, field("x", "n")),
            call("register_read", big, register, field("x", "n")),
            assign(big, op("+", op("<<", big, const(9)), field("x", "w"))),
            call("register_write", register, field("x", "n"), big),
            call("_jump_if_zero", op("&", field("x", "v"), const(4)), const(7)),
            call("clone_ingress_pkt_to_egress", const(1), const(1)),
            call("_jump_if_zero", op("&", field("x", "v"), const(8)), const(10)),
            assign(std("mcast_grp"), const(1)),
            assign(std("priority"), op("&", field("x", "v"), const(3))),
            call("_jump_if_zero", op("&", field("x", "v"), const(128)), const(14)),
            call("assign_VL", field("other", "data"), field("var", "data")),
            assign(field("var", "rest"), field("other", "data")),
            call("_jump_if_zero", op("&", field("x", "v"), const(256)), const(16)),
            call("assign_header", {"type": "header", "value": "var"}, {"type": "header", "value": "other"}),
            call("_jump_if_zero", op("valid_union", None, element), const(18)),
            call("assign_union", {"type": "header_union", "value": "u[0]"}, element),
            call("_jump_if_zero", op("&", field("x", "v"), const(512)), const(20)),
            call("pop", stack, const(1)),
            call("_jump_if_zero", op("&", field("x", "v"), const(1024)), const(22)),
            call("add_header", {"type": "header", "value": "u[1].var"}),
        ],
    )
    b.run(
        "out",
        [
            call("truncate", op("+", op(">>", field("x", "v"), const(8)), const(1))),
            call("_jump_if_zero", op("&", field("x", "v"), const(16)), const(3)),
            call("add_header", {"type": "header", "value": "z"}),
            call("_jump_if_zero", op("&", field("x", "v"), const(32)), const(5)),
            call("remove_header", {"type": "header", "value": "x"}),
            call("_jump_if_zero", op("&", field("x", "v"), const(64)), const(8)),
            assign(field("x", "v"), const(0)),
            call("recirculate", const(1)),
            call("push", {"type": "header_stack", "value": "l"}, const(1)),
        ],
        "egress",
    )
    return b.json()


def setup(engine: Engine, text: str) -> Device:
    device = engine.add_device("s1", 1, cpu_port=510, priority_queues=3)
    for port in (1, 2):
        device.add_port(port)
    device.add_port(3, rate_bps=1_000_000_000, queue_bytes=20_000, delay_ns=1000)
    device.load_pipeline(text)
    device.mcast_group_set(1, [(2, 1), (3, 2), (510, 3), (77, 4)])
    device.clone_session_set(1, [(1, 0), (3, 0)], packet_length=30)
    return device


def fuzz(text: str, rounds: int, seed: int = 1) -> None:
    rng = random.Random(seed)
    with Engine() as engine:
        device = setup(engine, text)
        accepted = 0
        for i in range(rounds):
            size = rng.choice(
                [1, 2, 17, 35, 36, 37, 50, 60, 64, 100, 200, 1500, 2047, 2048, 2049, 9000, 10240]
            )
            frame = bytearray(rng.randbytes(min(size, 300)).ljust(size, b"\xee"))
            frame[0] = rng.choice([0, 1, 2, 3, 4, 0x80, 0xBF, frame[0]])
            if size > 1:
                frame[1] = rng.choice([0, 5, 33, 34, 35, frame[1]])
            try:
                # Every other frame is only carried in part.
                carried = size if i % 2 else rng.choice([0, 1, 16, 40, 95, 96, 97, 255, 300, size])
                device.inject(rng.choice([1, 2, 3]), bytes(frame[:carried]), size)
                accepted += 1
            except DeviceError as error:
                # A frame that multiplied itself left its copies in the memory ports.
                assert error.code == "RESOURCE_EXHAUSTED"
            if i % 20 == 0:
                engine.run_until(engine.now_ns + rng.choice([0, 1, 10_000, 10_000_000]))
                for port in (1, 2, 3):
                    device.collect(port)
            if i % 1000 == 999:
                device.load_pipeline(text)
                device.mcast_group_set(1, [(2, 1), (3, 2), (510, 3), (77, 4)])
                device.clone_session_set(1, [(1, 0), (3, 0)], packet_length=30)
        engine.run_until(engine.now_ns + 10**12)
        for port in (1, 2, 3):
            device.collect(port)
        assert device.stats()["held_packets"] == 0
        assert accepted > rounds // 2
        assert sum(device.port_counters(p).rx_packets for p in (1, 2, 3)) == accepted


if __name__ == "__main__":
    texts = [Path(name).read_text() for name in sys.argv[2:]] or [program()]
    for text in texts:
        fuzz(text, int(sys.argv[1]))
