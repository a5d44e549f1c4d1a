# SPDX-License-Identifier: Apache-2.0
"""Header unions and stacks of them: which header is valid, and what is copied, compared and sent."""

from __future__ import annotations

import json
import struct
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

# Header e: which header follows, a command, and what the program found.
E = [("kind", 8), ("cmd", 8), ("arg", 8), ("r", 32)]


def frame(kind: int, cmd: int, rest: bytes, arg: int = 0, r: int = 0) -> bytes:
    return struct.pack(">BBBI", kind, cmd, arg, r) + rest


TAIL = bytes(range(0x80, 0xA0))


def e(name: str) -> Json:
    return field("e", name)


def header(name: str) -> Json:
    return {"type": "header", "value": name}


def union(name: str) -> Json:
    return {"type": "header_union", "value": name}


def bit(test: Json, place: int) -> Json:
    """A boolean as a bit of a number."""
    return op("<<", op("b2d", None, test), const(place))


def valid(name: str) -> Json:
    return op("valid", None, header(name))


def either(*bits: Json) -> Json:
    result = bits[0]
    for more in bits[1:]:
        result = op("|", result, more)
    return result


def skip_unless(cmd: int, target: int) -> Json:
    return call("_jump_if_zero", op("b2d", None, op("==", e("cmd"), const(cmd))), const(target))


def two_unions() -> Builder:
    """Unions u and w of a (16 bits) and b (32 bits); w is extracted in states 2x."""
    b = Builder()
    b.header("e", E)
    b.header("a", [("x", 16)])
    b.header("b", [("x", 32)])
    b.deparser = ["e"]
    b.unions("pair", [("a", "a"), ("b", "b")], "u", "w")
    b.state("start", [extract("e")], [e("kind")],
            case("0x0a", "a", "0x0f"), case("0x0b", "b", "0x0f"), default_case("then"))  # fmt: skip
    b.state("a", [extract("u.a")], [], default_case("then"))
    b.state("b", [extract("u.b")], [], default_case("then"))
    b.state(
        "then", [], [e("kind")], case("0xa0", "wa", "0xf0"), case("0xb0", "wb", "0xf0"), default_case(None)
    )
    b.state("wa", [extract("w.a")])
    b.state("wb", [extract("w.b")])
    return b


def validity() -> Json:
    """Bits: u.a, u.b, u, w.a, w.b, w."""
    tests = []
    for place, name in enumerate(("u", "w")):
        tests += [bit(valid(f"{name}.a"), 3 * place), bit(valid(f"{name}.b"), 3 * place + 1)]
        tests.append(bit(op("valid_union", None, union(name)), 3 * place + 2))
    return either(*tests)


A, B = b"aA", b"bBBb"
WA, WB = b"wW", b"vVVv"


def test_one_header_is_valid(make_device: MakeDevice) -> None:
    b = two_unions()
    b.run(
        "go",
        [
            skip_unless(1, 3),
            call("add_header", header("u.a")),
            assign(field("u.a", "x"), const(0x4142)),
            skip_unless(2, 6),
            call("add_header", header("u.b")),
            assign(field("u.b", "x"), const(0x61626364)),
            skip_unless(3, 8),
            call("remove_header", header("u.a")),
            skip_unless(4, 11),
            call("add_header", header("u.a")),
            call("add_header", header("u.b")),
            assign(e("r"), validity()),
            forward_to(2),
        ],
    )
    b.run("out", [assign(e("arg"), std("packet_length"))], "egress")
    device = make_device(b.json())
    for kind, cmd, sent, out, bits, longer in (
        (0x00, 0, b"", b"", 0b000000, 0),
        (0x0A, 0, A, A, 0b000101, 0),
        (0x0B, 0, B, B, 0b000110, 0),
        (0xAA, 0, A + WA, A + WA, 0b101101, 0),
        (0xBA, 0, A + WB, A + WB, 0b110101, 0),
        # One that becomes valid takes the other's place. The length counts what was added only.
        (0x0A, 1, A, b"AB", 0b000101, 0),
        (0x0B, 1, B, b"AB", 0b000101, 2),
        (0x0A, 2, A, b"abcd", 0b000110, 4),
        (0x00, 2, b"", b"abcd", 0b000110, 4),
        (0x0A, 3, A, b"", 0b000000, -2),
        # Removing a header that is not the valid one changes nothing.
        (0x0B, 3, B, B, 0b000110, 0),
        (0xA0, 4, WA, b"\0\0\0\0" + WA, 0b101110, 6),
    ):
        device.inject(1, frame(kind, cmd, sent + TAIL))
        length = 7 + len(sent) + len(TAIL) + longer
        assert device.collect(2) == [frame(kind, cmd, out + TAIL, length, bits)], (kind, cmd)


def test_parsing_twice_into_one_union(make_device: MakeDevice) -> None:
    b = two_unions()
    b.states[1]["parser_ops"].append(extract("u.b"))
    b.run("go", [assign(e("r"), validity()), forward_to(2)])
    device = make_device(b.json())
    device.inject(1, frame(0x0A, 0, A + B + TAIL))
    assert device.collect(2) == [frame(0x0A, 0, B + TAIL, 0, 0b000110)]


def test_assignment(make_device: MakeDevice) -> None:
    b = two_unions()
    b.run(
        "go",
        [
            skip_unless(1, 2),
            call("assign_union", union("u"), union("w")),
            skip_unless(2, 4),
            call("assign_header", header("u.b"), header("w.b")),
            skip_unless(3, 6),
            call("assign_union", union("u"), union("u")),
            assign(e("r"), validity()),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    for kind, cmd, sent, out, bits in (
        (0xBA, 1, A + WB, WB + WB, 0b110110),
        (0xAB, 1, B + WA, WA + WA, 0b101101),
        (0xAA, 1, A + WA, WA + WA, 0b101101),
        (0x0B, 1, B, b"", 0),
        (0xB0, 1, WB, WB + WB, 0b110110),
        (0xBA, 2, A + WB, WB + WB, 0b110110),
        # w.b is not valid, so u.b is not, and u.a stays.
        (0xAA, 2, A + WA, A + WA, 0b101101),
        (0xBA, 3, A + WB, A + WB, 0b110101),
    ):
        device.inject(1, frame(kind, cmd, sent + TAIL))
        assert device.collect(2) == [frame(kind, cmd, out + TAIL, 0, bits)], (kind, cmd)


def test_comparison(make_device: MakeDevice) -> None:
    """simple_switch calls headers or unions equal only where they are valid."""
    b = two_unions()
    tests = [
        op("==", union("u"), union("w")),
        op("!=", union("u"), union("w")),
        op("==", header("u.a"), header("w.a")),
        op("!=", header("u.a"), header("w.a")),
        op("==", header("u.b"), header("w.b")),
    ]
    b.run("go", [assign(e("r"), either(*(bit(t, i) for i, t in enumerate(tests)))), forward_to(2)])
    device = make_device(b.json())
    for kind, sent, bits in (
        (0x00, b"", 0b1010),
        (0x0A, A, 0b1010),
        (0xAA, A + A, 0b0101),
        (0xAA, A + WA, 0b1010),
        (0xBB, B + B, 0b11001),
        (0xBB, B + WB, 0b1010),
        (0xBA, b"\0\0\0\0\0\0", 0b1010),
    ):
        device.inject(1, frame(kind, 0, sent + TAIL))
        assert device.collect(2) == [frame(kind, 0, sent + TAIL, 0, bits)], kind


# --- stacks of unions


STACK = {"type": "header_union_stack", "value": "s"}


def element(index: Json) -> Json:
    return op("dereference_union_stack", STACK, index)


def member(index: Json, which: int) -> Json:
    return {
        "type": "expression",
        "value": {"op": "access_union_header", "left": element(index), "right": which},
    }


def member_field(index: Json, which: int, place: int) -> Json:
    value = {"op": "access_field", "left": member(index, which), "right": place}
    return {"type": "expression", "value": value}


def stack_program() -> Builder:
    """A stack of 3 unions of a (tag 1, x) and b (tag 2, a varbit of x bytes), extracted up to a tag 0."""
    b = Builder()
    b.header("e", E)
    b.header("a", [("tag", 8), ("x", 16)])
    b.header("b", [("tag", 8), ("x", 8), ("data", "*")], max_length=2 + 16)
    b.deparser = ["e"]
    members = [("a", "a"), ("b", "b")]
    b.unions("either", members, "s[0]", "s[1]", "s[2]", stack="s")
    b.unions("spare", members, "t[0]", "t[1]", "t[2]", stack="t")
    # Both stacks are of one type.
    b.extra["header_union_types"].pop()
    for item in (*b.extra["header_unions"][3:], b.extra["header_union_stacks"][1]):
        item["union_type"] = "either"
    look = {"type": "lookahead", "value": [0, 8]}
    branches = [case("0x01", "one"), case("0x02", "two"), default_case(None)]
    b.state("start", [extract("e")], [look], *branches)
    into = {"op": "extract", "parameters": [{"type": "union_stack", "value": ["s", "a"]}]}
    b.state("one", [into], [look], *branches)
    b.state("two", [{"op": "set", "parameters": [e("arg"), {"type": "lookahead", "value": [8, 8]}]}])
    into_b = extract_varbit("s", op("<<", e("arg"), const(3)))
    into_b["parameters"][0] = {"type": "union_stack", "value": ["s", "b"]}
    b.states[-1]["parser_ops"].append(into_b)
    b.states[-1].update(
        transition_key=[{"type": "union_stack_field", "value": ["s", "b", "x"]}, look],
        transitions=[
            # An empty one ends the stack.
            {"type": "hexstr", "value": "0x0000", "mask": "0xff00", "next_state": None},
            {"type": "hexstr", "value": "0x0001", "mask": "0x00ff", "next_state": "one"},
            {"type": "hexstr", "value": "0x0002", "mask": "0x00ff", "next_state": "two"},
            default_case(None),
        ],
    )
    return b


def one(x: bytes) -> bytes:
    return b"\1" + x


def two(data: bytes) -> bytes:
    return bytes([2, len(data)]) + data


def test_stacks_are_extracted_and_sent(make_device: MakeDevice) -> None:
    b = stack_program()
    last = op("&", op("last_stack_index", None, STACK), const(0xF))
    b.run(
        "go",
        [
            assign(
                e("r"),
                either(
                    bit(op("valid_union", None, union("s[0]")), 0),
                    bit(op("valid_union", None, element(const(1))), 1),
                    bit(valid("s[2].b"), 2),
                    op("<<", op("size_stack", None, STACK), const(4)),
                    op("<<", last, const(8)),
                    op("<<", std("parser_error"), const(16)),
                ),
            ),
            assign(e("arg"), const(0)),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    overflow = ERRORS.index("StackOutOfBounds") << 16
    for parts, found in (
        ([], 0xF00),
        ([one(b"Aa")], 0x011),
        ([two(b"12345")], 0x011),
        ([one(b"Aa"), two(b"")], 0x123),
        ([two(b"x"), one(b"Aa"), two(b"yz")], 0x237),
        ([one(b"12"), one(b"34"), one(b"56")], 0x233),
        ([one(b"12"), one(b"34"), one(b"56"), one(b"78")], 0x233 | overflow),
    ):
        rest = b"".join(parts) + b"\0" + TAIL
        device.inject(1, frame(9, 0, rest))
        assert device.collect(2) == [frame(9, 0, rest, 0, found)], parts


def test_elements_by_a_variable_index(make_device: MakeDevice) -> None:
    """JSON_format.md has `access_union_header`; simple_switch 1.15 crashes on it."""
    b = stack_program()
    index = e("kind")
    b.run(
        "go",
        [
            assign(e("arg"), const(0)),
            skip_unless(1, 3),
            assign(e("r"), member_field(index, 0, 1)),
            skip_unless(2, 5),
            assign(member_field(index, 0, 1), const(0x5858)),
            skip_unless(3, 7),
            assign(e("r"), bit(op("valid_union", None, element(index)), 4)),
            skip_unless(4, 9),
            call("remove_header", member(index, 1)),
            skip_unless(5, 11),
            call("add_header", member(index, 0)),
            skip_unless(6, 13),
            call("assign_union", element(index), element(const(0))),
            skip_unless(7, 15),
            assign(e("r"), bit(op("==", element(index), element(const(0))), 5)),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    parts = [one(b"Aa"), two(b"two"), one(b"Aa")]
    for index_value, cmd, out, r in (
        (0, 1, parts, 0x4161),
        (2, 2, [one(b"Aa"), two(b"two"), one(b"XX")], 0),
        (1, 3, parts, 0x10),
        (1, 4, [one(b"Aa"), one(b"Aa")], 0),
        (1, 5, [one(b"Aa"), bytes(3), one(b"Aa")], 0),
        (1, 6, [one(b"Aa")] * 3, 0),
        (2, 7, parts, 0x20),
        (1, 7, parts, 0),
    ):
        device.inject(1, frame(index_value, cmd, b"".join(parts) + b"\0" + TAIL))
        assert device.collect(2) == [frame(index_value, cmd, b"".join(out) + b"\0" + TAIL, 0, r)], cmd


def test_stacks_are_shifted_and_assigned(make_device: MakeDevice) -> None:
    """simple_switch exchanges the unions when it shifts a stack, and none becomes invalid by that."""
    b = stack_program()
    b.run(
        "go",
        [
            assign(e("arg"), const(0)),
            skip_unless(1, 3),
            call("push", STACK, const(1)),
            skip_unless(2, 5),
            call("pop", STACK, const(1)),
            skip_unless(3, 7),
            call("pop", STACK, const(2)),
            skip_unless(4, 9),
            call("assign_union_stack", {"type": "header_union_stack", "value": "t"}, STACK),
            skip_unless(5, 11),
            call("push", STACK, const(7)),
            skip_unless(6, 13),
            call("push", STACK, const(2)),
            assign(e("r"), op("size_stack", None, STACK)),
            forward_to(2),
        ],
    )
    device = make_device(b.json())
    x, y, z = one(b"Aa"), two(b"two"), two(b"third")
    for cmd, parts, out, size in (
        (1, [x, y], [x, y], 3),
        (1, [x, y, z], [z, x, y], 3),
        (2, [x, y], [y, x], 1),
        (2, [x, y, z], [y, z, x], 2),
        (3, [x, y, z], [z, y, x], 1),
        (4, [x, y], [x, y, x, y], 2),
        (4, [], [], 0),
        (5, [x, y], [x, y], 3),
        (6, [x, y, z], [z, y, x], 3),
    ):
        device.inject(1, frame(9, cmd, b"".join(parts) + b"\0" + TAIL))
        assert device.collect(2) == [frame(9, cmd, b"".join(out) + b"\0" + TAIL, 0, size)], (cmd, len(parts))


def test_clones_and_recirculation_keep_validity(make_device: MakeDevice) -> None:
    b = two_unions()
    b.extra["field_lists"] = [{"id": 1, "name": "none", "elements": []}]
    b.run("go", [call("clone_ingress_pkt_to_egress", const(1), const(1)), forward_to(2)])
    b.run(
        "out",
        [
            assign(e("r"), validity()),
            skip_unless(1, 5),
            call("add_header", header("u.b")),
            assign(e("cmd"), const(0)),
            assign(e("kind"), const(0x0B)),
            call("_jump_if_zero", op("b2d", None, op("==", e("arg"), const(1))), const(8)),
            assign(e("arg"), const(0)),
            call("recirculate", const(1)),
        ],
        "egress",
    )
    device = make_device(b.json())
    device.clone_session_set(1, [(3, 0)])
    device.inject(1, frame(0x0A, 1, A + TAIL))
    after = frame(0x0B, 0, b"\0\0\0\0" + TAIL, 0, 0b000101)
    assert device.collect(2) == [after]
    assert device.collect(3) == [after]
    device.inject(1, frame(0x0A, 1, A + TAIL, 1))
    again = frame(0x0B, 0, b"\0\0\0\0" + TAIL, 0, 0b000110)
    assert device.collect(2)[-1] == again


BAD: list[tuple[Callable[[Json], object], str]] = [
    (lambda p: p["header_union_types"][0]["headers"].append(["c", "nope"]), "nope"),
    (lambda p: p["header_union_types"][0]["headers"].append(["a", "a_t"]), "'a' is already taken"),
    (lambda p: p["header_union_types"][0].update(headers=[]), "one header at least"),
    (lambda p: p["header_union_types"][0].update(extra=1), "header_union_types[0] 'either'"),
    (lambda p: p["header_unions"][0].update(union_type="zz"), "header_unions[0] 's[0]'.union_type"),
    (lambda p: p["header_unions"][0]["header_ids"].reverse(), "header_unions[0] 's[0]'.header_ids[0]"),
    (lambda p: p["header_unions"][0]["header_ids"].pop(), "expected 2 elements"),
    (
        lambda p: p["header_unions"][1].update(header_ids=p["header_unions"][0]["header_ids"]),
        "in a union already",
    ),
    (lambda p: p["header_unions"][1].update(id=0), "header_unions[1] 's[1]'.id"),
    (lambda p: p["header_union_stacks"][0].update(header_union_ids=[77]), "no header union with id 77"),
    (lambda p: p["header_union_stacks"][0].update(header_union_ids=[]), "one element at least"),
    (lambda p: p["header_union_stacks"][0].update(union_type="zz"), "header_union_stacks[0] 's'.union_type"),
    (
        lambda p: p["parsers"][0]["parse_states"][1]["parser_ops"][0]["parameters"][0].update(
            value=["s", "c"]
        ),
        "no member 'c'",
    ),
    (
        lambda p: p["parsers"][0]["parse_states"][1]["parser_ops"][0]["parameters"][0].update(
            value=["z", "a"]
        ),
        "stack of header unions 'z'",
    ),
    (
        lambda p: p["parsers"][0]["parse_states"][2]["transition_key"][0].update(value=["s", "b", "zz"]),
        "no field 'zz'",
    ),
    (
        lambda p: p["actions"][0]["primitives"].append(call("assign_union", union("s[0]"), STACK)),
        "header union",
    ),
    (lambda p: p["actions"][0]["primitives"].append(call("assign_union", union("zz"), STACK)), "'zz'"),
    (
        lambda p: p["actions"][0]["primitives"].append(call("assign_union_stack", union("s[0]"), STACK)),
        "stack of header unions",
    ),
    (
        lambda p: p["actions"][0]["primitives"].append(
            assign(e("r"), bit(op("==", union("s[0]"), header("e")), 0))
        ),
        "can't be compared",
    ),
    (
        lambda p: p["actions"][0]["primitives"].append(
            assign(e("r"), bit(op("valid", None, union("s[0]")), 0))
        ),
        "'valid' needs a header",
    ),
    (
        lambda p: p["actions"][0]["primitives"].append(assign(e("r"), member_field(const(0), 2, 0))),
        "'access_field' needs a header",
    ),
]


@pytest.mark.parametrize(("damage", "named"), BAD)
def test_bad_jsons_are_refused(damage: Callable[[Json], object], named: str) -> None:
    b = stack_program()
    b.run("go", [forward_to(2)])
    good = b.build()
    generate(load(json.dumps(good)))
    damage(good)
    with pytest.raises(JsonError) as error:
        generate(load(json.dumps(good)))
    assert named in str(error.value)
