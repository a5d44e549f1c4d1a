# SPDX-License-Identifier: Apache-2.0
"""Fields of variable length: extracted, assigned, compared, summed, counted and sent."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable

import pytest

from target.bmjson import JsonError, load
from target.codegen import generate
from target.engine import Device
from tests.target.programs import (
    ERRORS,
    Builder,
    Json,
    assign,
    call,
    case,
    const,
    default_case,
    extract,
    extract_varbit,
    field,
    forward_to,
    op,
    std,
)

MakeDevice = Callable[..., Device]

# Header e: bits of the varbit, and what the program reports.
E = [("bits", 32), ("code", 32), ("length", 32)]
ROOM = 40
"""Bytes of the varbit field at most."""


def frame(bits: int, rest: bytes, code: int = 0, length: int = 0) -> bytes:
    return struct.pack(">III", bits, code, length) + rest


def base(fields: list[tuple[str, int | str]], size: int) -> Builder:
    """`size`: bytes of the other fields."""
    b = Builder()
    b.header("e", E)
    b.header("v", fields, max_length=size + ROOM)
    b.state("start", [extract("e"), extract_varbit("v", field("e", "bits"))])
    return b


def report(b: Builder) -> None:
    b.run("go", [assign(field("e", "code"), std("parser_error")), forward_to(2)])
    b.run("out", [assign(field("e", "length"), std("packet_length"))], "egress")


def header(name: str) -> Json:
    return {"type": "header", "value": name}


def test_lengths_and_errors(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*"), ("end", 16)], 3)
    report(b)
    device = make_device(b.json())
    body = bytes(range(64))
    for bits in (0, 8, 24, 120, 8 * ROOM):
        device.inject(1, frame(bits, body))
        assert device.collect(2) == [frame(bits, body, 0, 76)], bits
    short = body[:13]
    for bits, rest, error in (
        (8 * ROOM + 8, body, "HeaderTooShort"),
        (4, body, "ParserInvalidArgument"),
        (8 * 11, short, "PacketTooShort"),
        # The length of the packet is looked at first.
        (8 * 100, short, "PacketTooShort"),
        (2**31 - 8, body, "PacketTooShort"),
        (2**31, body, "ParserInvalidArgument"),
        (2**32 - 32, body, "ParserInvalidArgument"),
    ):
        device.inject(1, frame(bits, rest))
        expected = frame(bits, rest, ERRORS.index(error), 12 + len(rest))
        assert device.collect(2) == [expected], (bits, error)


def test_fields_behind_it_have_their_values(make_device: MakeDevice) -> None:
    """Fields that share bytes with the varbit, read and written at every length."""
    b = base([("before", 12), ("var", "*"), ("after", 20)], 4)
    b.run(
        "go",
        [
            assign(field("e", "code"), field("v", "after")),
            assign(field("e", "length"), field("v", "before")),
            assign(field("v", "after"), op("+", field("v", "after"), const(1))),
            assign(field("v", "before"), op("+", field("v", "before"), const(1))),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    for size in (0, 1, 2, 7, 16, ROOM):
        var = int.from_bytes(bytes(0x91 + i for i in range(size)), "big")

        def wire(before: int, after: int, var: int = var, size: int = size) -> bytes:
            number = ((before << 8 * size | var) << 20) | after
            return number.to_bytes(4 + size, "big") + b"tail of the frame"

        device.inject(1, frame(8 * size, wire(0xABC, 0x89ABC)))
        expected = frame(8 * size, wire(0xABD, 0x89ABD), 0x89ABC, 0xABC)
        assert device.collect(2) == [expected], size


def test_assignment_changes_the_length(make_device: MakeDevice) -> None:
    """To and fro, through a variable, and to a field with another place in its byte."""
    b = base([("kind", 8), ("var", "*")], 1)
    b.header("w", [("nibble", 4), ("other", "*"), ("end", 4)], max_length=ROOM + 1)
    b.header("$varbit320", [("field", "*")], metadata=True, max_length=ROOM)
    b.deparser.remove("v")
    b.deparser.append("v")
    b.states[0]["parser_ops"] += [extract_varbit("w", field("e", "code"))]
    local, v, w = field("$varbit320", "field"), field("v", "var"), field("w", "other")
    swap = [call("assign_VL", local, v), call("assign_VL", v, w), call("assign_VL", w, local)]
    b.run("go", [*swap, forward_to(2)])
    b.run("out", [assign(field("e", "length"), std("packet_length"))], "egress")
    device = make_device(b.json())
    for first, second in (
        (b"", b"abcde"),
        (b"ABCDEFGH", b"x"),
        (b"12", b""),
        (bytes(range(40)), b"\xff"),
        (b"one", b"two"),
    ):

        def with_nibbles(data: bytes) -> bytes:
            return ((5 << 8 * len(data) | int.from_bytes(data, "big")) << 4 | 6).to_bytes(
                len(data) + 1, "big"
            )

        payload = b"payload" + bytes(20)
        packet = frame(8 * len(first), b"k" + first + with_nibbles(second) + payload, 8 * len(second))
        device.inject(1, packet)
        # BMv2's length counts headers that are added and removed, not fields that grow.
        expected = frame(
            8 * len(first), with_nibbles(first) + b"k" + second + payload, 8 * len(second), len(packet)
        )
        assert device.collect(2) == [expected]


def test_a_parser_may_assign_it(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*")], 1)
    b.instance("w", "v")
    b.states[0]["parser_ops"] += [
        extract_varbit("w", op("+", field("e", "bits"), const(8))),
        {"op": "set", "parameters": [field("w", "var"), field("v", "var")]},
    ]
    b.run("go", [forward_to(2)])
    device = make_device(b.json())
    device.inject(1, frame(24, b"1abc2defgrest" + bytes(9)))
    assert device.collect(2) == [frame(24, b"1abc2abcrest" + bytes(9))]


def test_comparison(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*")], 1)
    b.instance("w", "v")
    b.states[0]["parser_ops"] += [extract_varbit("w", field("e", "code"))]
    equal = op("b2d", None, op("==", field("v", "var"), field("w", "var")))
    b.run("go", [assign(field("e", "length"), equal), forward_to(2)])
    device = make_device(b.json())
    for left, right, same in (
        (b"", b"", 1),
        (b"abc", b"abc", 1),
        (b"abc", b"abd", 0),
        (bytes(range(1, 41)), bytes(range(1, 41)), 1),
        (bytes(range(1, 41)), bytes(range(1, 40)) + b"\0", 0),
        # simple_switch compares numbers.
        (b"\0\0a", b"a", 1),
    ):
        rest = b"1" + left + b"2" + right + bytes(24)
        device.inject(1, frame(8 * len(left), rest, 8 * len(right)))
        assert device.collect(2) == [frame(8 * len(left), rest, 8 * len(right), same)]


def checksum16(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def test_checksums_and_hashes_cover_its_bytes(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*"), ("sum", 16)], 3)
    inputs: list[Json] = [field("v", "kind"), field("v", "var"), field("e", "bits")]
    b.extra["calculations"] = [
        {"name": "s", "id": 0, "algo": "csum16", "input": inputs},
        {"name": "h", "id": 1, "algo": "crc32", "input": inputs},
    ]
    b.extra["checksums"] = [
        {"name": "s", "id": 0, "target": ["v", "sum"], "type": "generic", "calculation": "s",
         "if_cond": {"type": "bool", "value": True}, "update": True, "verify": True}
    ]  # fmt: skip
    hashed = call("modify_field_with_hash_based_offset", field("e", "code"), const(0),
                  {"type": "calculation", "value": "h"}, const(1 << 32))  # fmt: skip
    b.run("go", [hashed, assign(field("e", "length"), std("checksum_error")), forward_to(2)])
    device = make_device(b.json())
    for size in (0, 1, 4, 5, 17, ROOM):
        var = bytes((37 * i + size) & 0xFF for i in range(size))
        data = b"\x81" + var + struct.pack(">I", 8 * size)
        good = struct.pack(">H", checksum16(data))
        for bad, sent in ((0, good), (1, bytes([good[0] ^ 1, good[1]]))):
            device.inject(1, frame(8 * size, b"\x81" + var + sent + bytes(30)))
            expected = frame(8 * size, b"\x81" + var + good + bytes(30), zlib.crc32(data), bad)
            assert device.collect(2) == [expected], size


def test_adding_and_removing_counts_its_bytes(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*")], 1)
    b.instance("w", "v")
    b.run(
        "go",
        [
            call("_jump_if_zero", field("e", "code"), const(2)),
            call("remove_header", header("v")),
            # Never parsed: its varbit is empty.
            call("add_header", header("w")),
            forward_to(2),
        ],
    )
    b.run("out", [assign(field("e", "length"), std("packet_length"))], "egress")
    device = make_device(b.json())
    payload = bytes(range(30))
    device.inject(1, frame(40, b"kABCDE" + payload, 0))
    assert device.collect(2) == [frame(40, b"kABCDE\0" + payload, 0, 49)]
    device.inject(1, frame(40, b"kABCDE" + payload, 1))
    assert device.collect(2) == [frame(40, b"\0" + payload, 1, 43)]


def test_primitives_of_older_programs(make_device: MakeDevice) -> None:
    """`copy_header` is an assignment, `add_header_fast` counts nothing and sets nothing to 0."""
    b = base([("kind", 8), ("var", "*")], 1)
    b.instance("w", "v")
    b.run(
        "go",
        [
            call("copy_header", header("w"), header("v")),
            call("remove_header", header("v")),
            call("add_header_fast", header("v")),
            forward_to(2),
        ],
    )
    b.run("out", [assign(field("e", "length"), std("packet_length"))], "egress")
    device = make_device(b.json())
    payload = bytes(range(30))
    device.inject(1, frame(40, b"kABCDE" + payload))
    assert device.collect(2) == [frame(40, b"kABCDEkABCDE" + payload, 0, 42)]


def test_header_assignment_and_stacks(make_device: MakeDevice) -> None:
    """Three elements of different lengths: extracted in a loop, pushed, popped and copied."""
    b = Builder()
    b.header("e", E)
    b.header("l0", [("size", 8), ("var", "*")], max_length=1 + ROOM)
    b.instance("l1", "l0")
    b.instance("l2", "l0")
    b.header("spare", [("kind", 8)])
    b.instance("copy", "l0")
    b.deparser.remove("spare")
    ids = {h["name"]: h["id"] for h in b.headers}
    stack = {"type": "header_stack", "value": "l"}
    b.extra["header_stacks"] = [
        {
            "name": "l",
            "id": 0,
            "header_type": "l0_t",
            "size": 3,
            "header_ids": [ids[f"l{i}"] for i in range(3)],
        }
    ]
    look = {"type": "lookahead", "value": [0, 8]}
    more = case("0x00", None)
    b.state("start", [extract("e")], [look], more, default_case("element"))
    bits = op("<<", field("e", "bits"), const(3))
    b.states[-1]["parser_ops"].append({"op": "set", "parameters": [field("e", "bits"), look]})
    step = {"op": "set", "parameters": [field("e", "bits"), look]}
    b.state("element", [extract_varbit("l", bits, stack=True), step], [look], more, default_case("element"))
    b.run(
        "go",
        [
            call("_jump_if_zero", op("&", field("e", "code"), const(1)), const(2)),
            call("push", stack, const(1)),
            call("_jump_if_zero", op("&", field("e", "code"), const(2)), const(4)),
            call("pop", stack, const(1)),
            call("assign_header", header("copy"), header("l0")),
            assign(field("e", "length"), std("parser_error")),
            forward_to(2),
        ],
    )
    device = make_device(b.json())

    def element(data: bytes) -> bytes:
        return bytes([len(data)]) + data

    one, two, three = element(b"a"), element(b"0123456789"), element(b"xyz")
    rest = b"\0" + bytes(range(20))
    for elements, code, out in (
        ([], 0, []),
        ([one], 0, [one, one]),
        ([one, two], 0, [one, two, one]),
        ([one, two, three], 0, [one, two, three, one]),
        ([one, two, three], 1, [one, two]),
        ([one, two, three], 2, [two, three, two]),
        ([three, two], 1, [three, two]),
        ([three, two], 3, [three, two, three]),
    ):
        device.inject(1, frame(0, b"".join(elements) + rest, code))
        assert device.collect(2) == [frame(0, b"".join(out) + rest, code)], (len(elements), code)


def test_clones_and_recirculation_keep_the_length(make_device: MakeDevice) -> None:
    b = base([("kind", 8), ("var", "*")], 1)
    b.extra["field_lists"] = [{"id": 1, "name": "none", "elements": []}]
    b.run("go", [call("clone_ingress_pkt_to_egress", const(1), const(1)), forward_to(2)])
    b.run(
        "out",
        [
            assign(field("e", "length"), std("packet_length")),
            call("_jump_if_zero", op("-", std("instance_type"), const(1)), const(3)),
            call("clone_egress_pkt_to_egress", const(2), const(1)),
            call("_jump_if_zero", field("e", "code"), const(6)),
            assign(field("e", "code"), const(0)),
            call("recirculate", const(1)),
        ],
        "egress",
    )
    device = make_device(b.json())
    device.clone_session_set(1, [(3, 0)])
    rest = b"kABCDEFGHIJ" + bytes(range(20))
    device.inject(1, frame(80, rest, 0))
    assert device.collect(2)[0] == frame(80, rest, 0, 43)
    assert device.collect(3) == [frame(80, rest, 0, 43)]
    device.inject(1, frame(80, rest, 1))
    assert device.collect(2)[-1] == frame(80, rest, 0, 43)


def test_a_frame_of_which_only_the_head_is_carried(make_device: MakeDevice) -> None:
    """The parser's reach counts a varbit at its largest."""
    b = base([("kind", 8), ("var", "*"), ("end", 16)], 3)
    report(b)
    device = make_device(b.json())
    device.inject(1, frame(320, b"k")[:13], 200)
    (found,) = device.collect(2)
    assert found[:13] == frame(320, b"k", 0, 200)


BAD: list[tuple[Callable[[Json], None], str]] = [
    (lambda p: p["header_types"][2].pop("max_length"), "max_length"),
    (lambda p: p["header_types"][2].update(max_length=1), "max_length"),
    (lambda p: p["header_types"][2].update(length_exp={}), "length_exp"),
    (lambda p: p["header_types"][2]["fields"].append(["again", "*"]), "one field of variable length"),
    (lambda p: p["header_types"][2]["fields"].append(["odd", 3]), "whole number of bytes"),
    (lambda p: p["parsers"][0]["parse_states"][0]["parser_ops"][1].update(op="extract"), "1 elements"),
    (lambda p: p["parsers"][0]["parse_states"][0]["parser_ops"][0].update(op="extract_VL"), "2 elements"),
    (
        lambda p: p["parsers"][0]["parse_states"][0]["parser_ops"].append(extract_varbit("e", const(8))),
        "expected 'extract'",
    ),
    (
        lambda p: p["parsers"][0]["parse_states"][0]["parser_ops"].append(extract("v")),
        "expected 'extract_VL'",
    ),
    (
        lambda p: p["parsers"][0]["parse_states"][0]["transition_key"].append(field("v", "var")),
        "transition_key[0]",
    ),
    (lambda p: p["actions"][0]["primitives"].append(assign(field("v", "var"), const(1))), "primitives[2]"),
    (
        lambda p: p["actions"][0]["primitives"].append(
            call("assign_VL", field("v", "var"), field("e", "code"))
        ),
        "primitives[2]",
    ),
    (
        lambda p: p["actions"][0]["primitives"].append(call("assign_VL", field("v", "var"), const(1))),
        "two fields",
    ),
]


@pytest.mark.parametrize(("damage", "named"), BAD)
def test_bad_jsons_are_refused(damage: Callable[[Json], None], named: str) -> None:
    b = base([("kind", 8), ("var", "*"), ("end", 16)], 3)
    report(b)
    good = b.build()
    generate(load(json.dumps(good)))
    damage(good)
    with pytest.raises(JsonError) as error:
        generate(load(json.dumps(good)))
    assert named in str(error.value)


def test_a_varbit_is_no_key() -> None:
    b = base([("kind", 8), ("var", "*"), ("end", 16)], 3)
    b.action("nothing", [], [])
    b.table("t", [("exact", "v", "var")], ["nothing"])
    with pytest.raises(JsonError, match=r"tables\[0\] 't'.key\[0\].*varbit"):
        load(b.json())
