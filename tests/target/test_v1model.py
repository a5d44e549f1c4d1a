# SPDX-License-Identifier: Apache-2.0
"""What happens to a packet around the controls: replication, clones, resubmission, truncation, metadata."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable

import pytest

from target.api import DeviceError
from target.engine import Device
from tests.target.programs import (
    Builder,
    Json,
    assign,
    call,
    case,
    const,
    default_case,
    extract,
    field,
    forward_to,
    op,
    std,
)

# Header x: a command for the program, and fields that it fills in.
X = [("kind", 8), ("a", 16), ("b", 32), ("c", 32), ("d", 64)]
SIZE = sum(w for _, w in X) // 8

NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRC, REPLICATION, RESUBMIT = 0, 1, 2, 4, 5, 6


def frame(kind: int = 0, a: int = 0, b: int = 0, c: int = 0, d: int = 0, tail: bytes = b"tail") -> bytes:
    return struct.pack(">BHIIQ", kind, a, b, c, d) + tail


def parse(data: bytes) -> tuple[int, int, int, int, int]:
    kind, a, b, c, d = struct.unpack(">BHIIQ", data[:SIZE])
    return kind, a, b, c, d


def x(name: str) -> Json:
    return field("x", name)


def base() -> Builder:
    b = Builder()
    b.header("x", X)
    b.header("meta", [("keep", 32), ("lose", 32)], metadata=True)
    b.extra["field_lists"] = [
        {"id": 1, "name": "none", "elements": []},
        {"id": 2, "name": "keep", "elements": [{"type": "field", "value": ["meta", "keep"]}]},
    ]
    return b


def test_unicast_drop_and_unknown_ports(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [assign(std("egress_spec"), x("a"))])
    device = make_device(b.json())
    device.inject(1, frame(a=3))
    assert len(device.collect(3)) == 1
    device.inject(1, frame(a=511))
    assert device.stats()["ingress_drops"] == 1
    device.inject(1, frame(a=77))
    assert device.stats()["unknown_port"] == 1
    assert device.port_counters(1).rx_packets == 3


def test_mark_to_drop_clears_the_group(make_device: Callable[..., Device]) -> None:
    b = base()
    drop = call("mark_to_drop", {"type": "header", "value": "standard_metadata"})
    b.run("go", [assign(std("mcast_grp"), const(5)), drop])
    device = make_device(b.json())
    device.mcast_group_set(5, [(2, 1)])
    device.inject(1, frame())
    assert device.collect(2) == []
    assert device.stats()["ingress_drops"] == 1


def test_multicast(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [assign(std("mcast_grp"), x("a")), assign(x("d"), const(99))])
    b.run(
        "out",
        [
            assign(x("b"), std("egress_rid")),
            assign(x("c"), std("instance_type")),
            assign(x("a"), std("egress_port")),
        ],
        "egress",
    )
    device = make_device(b.json())
    device.mcast_group_set(7, [(2, 10), (3, 20), (3, 21), (300, 1)])
    device.inject(1, frame(a=7))
    assert [parse(f) for f in device.collect(2)] == [(0, 2, 10, REPLICATION, 99)]
    assert [parse(f) for f in device.collect(3)] == [(0, 3, 20, REPLICATION, 99), (0, 3, 21, REPLICATION, 99)]
    assert device.stats()["unknown_port"] == 1
    device.mcast_group_set(7, [])
    device.inject(1, frame(a=7))
    assert device.collect(2) == []
    device.mcast_group_delete(7)
    with pytest.raises(DeviceError) as error:
        device.mcast_group_delete(7)
    assert error.value.code == "NOT_FOUND"
    with pytest.raises(DeviceError):
        device.mcast_group_set(0, [(1, 1)])


def test_ingress_clone_has_the_frame_as_received(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run(
        "go",
        [
            assign(std("priority"), const(1)),
            assign(field("meta", "keep"), const(0xAAAA)),
            assign(field("meta", "lose"), const(0xBBBB)),
            assign(x("d"), const(1234)),
            call("clone_ingress_pkt_to_egress", const(3), const(2)),
            forward_to(2),
        ],
    )
    b.run(
        "out",
        [
            assign(x("c"), std("instance_type")),
            assign(x("b"), op("+", field("meta", "keep"), op("<<", field("meta", "lose"), const(16)))),
            assign(x("a"), std("ingress_port")),
        ],
        "egress",
    )
    device = make_device(b.json(), priority_queues=2)
    device.clone_session_set(3, [(4, 0)])
    device.inject(1, frame(d=5))
    assert [parse(f) for f in device.collect(2)] == [(0, 1, 0xBBBBAAAA, NORMAL, 1234)]
    # Metadata is gone but for the list; simple_switch clears the ingress port as well.
    assert [parse(f) for f in device.collect(4)] == [(0, 0, 0xAAAA, INGRESS_CLONE, 5)]
    device.clone_session_set(3, [(4, 0), (3, 0)], packet_length=SIZE + 2)
    device.inject(1, frame(d=5))
    assert [len(device.collect(p)[0]) for p in (2, 3, 4)] == [SIZE + 4, SIZE + 2, SIZE + 2]
    device.clone_session_delete(3)
    device.inject(1, frame())
    assert device.collect(4) == []


def test_egress_clone_has_the_frame_as_sent(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(2)])
    b.action(
        "first",
        [],
        [assign(x("d"), const(4321)), call("clone_egress_pkt_to_egress", const(9), const(1))],
    )
    b.action("clone", [], [assign(x("c"), std("instance_type"))])
    entry = {
        "match_key": [{"match_type": "exact", "key": "0x00000000"}],
        "action_entry": {"action_id": 1, "action_data": []},
        "priority": 1,
    }
    b.table("t", [("exact", "standard_metadata", "instance_type")], ["first", "clone"], default="clone",
            pipeline="egress", entries=[entry])  # fmt: skip
    device = make_device(b.json())
    device.clone_session_set(9, [(3, 0)])
    device.inject(1, frame())
    assert [parse(f)[3:] for f in device.collect(2)] == [(0, 4321)]
    assert [parse(f)[3:] for f in device.collect(3)] == [(EGRESS_CLONE, 4321)]


def loop_program(primitive: str, pipeline: str) -> str:
    """Resubmit or recirculate until `a` or metadata says 3."""
    b = base()
    b.run("init", [forward_to(2), assign(x("b"), op("+", x("b"), const(1)))])
    step = [
        assign(field("meta", "keep"), op("+", field("meta", "keep"), const(1))),
        assign(x("c"), field("meta", "keep")),
        call("_jump_if_zero", op("b2d", None, op("<", field("meta", "keep"), const(3))), const(4)),
        call(primitive, const(2)),
    ]
    b.run("step", step, pipeline)
    b.run("note", [assign(x("a"), std("instance_type"))], "ingress")
    return b.json()


def test_resubmit_starts_from_the_received_frame(make_device: Callable[..., Device]) -> None:
    device = make_device(loop_program("resubmit", "ingress"))
    device.inject(1, frame(b=10))
    # b was raised once only: each pass starts from the frame as it came.
    assert [parse(f) for f in device.collect(2)] == [(0, RESUBMIT, 11, 3, 0)]


def test_recirculate_starts_from_the_deparsed_frame(make_device: Callable[..., Device]) -> None:
    device = make_device(loop_program("recirculate", "egress"))
    device.inject(1, frame(b=10))
    assert [parse(f) for f in device.collect(2)] == [(0, RECIRC, 13, 3, 0)]


def test_an_endless_loop_ends(make_device: Callable[..., Device]) -> None:
    for primitive, pipeline in (("resubmit", "ingress"), ("recirculate", "egress")):
        b = base()
        b.run("go", [forward_to(2)])
        b.run("again", [call(primitive, const(1))], pipeline)
        device = make_device(b.json())
        device.inject(1, frame())
        assert device.stats()["pass_drops"] == 1


def test_truncate_and_packet_length(make_device: Callable[..., Device]) -> None:
    b = base()
    b.header("y", [("extra", 16)])
    b.state("start", [extract("x")])
    b.run(
        "go",
        [
            forward_to(2),
            assign(x("b"), std("packet_length")),
            call("add_header", {"type": "header", "value": "y"}),
            assign(field("y", "extra"), const(0xABCD)),
            call("truncate", x("a")),
        ],
    )
    b.run("out", [assign(x("c"), std("packet_length"))], "egress")
    device = make_device(b.json())
    device.inject(1, frame(a=SIZE + 3, tail=b"0123456789"))
    (out,) = device.collect(2)
    assert parse(out) == (0, SIZE + 3, SIZE + 10, SIZE + 12, 0)
    assert out[SIZE:] == b"\xab\xcd0"
    device.inject(1, frame(a=2000, tail=b"0123456789"))
    (out,) = device.collect(2)
    assert out[SIZE:] == b"\xab\xcd0123456789"
    device.inject(1, frame(a=3))
    (out,) = device.collect(2)
    assert out == b"\0\0\3"


def test_exit_skips_the_rest_of_a_pipeline(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("one", [forward_to(2), assign(x("a"), const(1)), call("exit")])
    b.run("two", [assign(x("b"), const(2))])
    b.run("out", [assign(x("c"), const(3))], "egress")
    device = make_device(b.json())
    device.inject(1, frame())
    assert [parse(f) for f in device.collect(2)] == [(0, 1, 0, 3, 0)]


def test_headers_move(make_device: Callable[..., Device]) -> None:
    """Removing, adding and swapping headers of one type."""
    b = Builder()
    b.header("x", [("kind", 8), ("v", 24)])
    b.instance("y", "x")
    b.instance("z", "x")
    b.state("start", [extract("x"), extract("y")])

    def header(name: str) -> Json:
        return {"type": "header", "value": name}

    b.run(
        "go",
        [
            forward_to(2),
            call("assign_header", header("z"), header("x")),
            call("assign_header", header("x"), header("y")),
            call("remove_header", header("y")),
            assign(field("z", "kind"), op("+", field("z", "kind"), const(1))),
        ],
    )
    device = make_device(b.json())
    device.inject(1, b"\x01aaa\x02bbbrest")
    assert device.collect(2) == [b"\x02bbb\x02aaarest"]


def test_parser_errors(make_device: Callable[..., Device]) -> None:
    b = Builder()
    b.header("x", [("kind", 8), ("code", 32)])
    b.header("y", [("v", 64)])
    key = [field("x", "kind")]
    b.state("start", [extract("x")], key, case("0x01", "more"), case("0x02", "check"),
            case("0x40", "more", "0xf0"), default_case(None))  # fmt: skip
    b.state("more", [extract("y")])
    b.state("check", [{"op": "verify", "parameters": [op("==", field("x", "code"), const(7)), const(3)]}])
    b.run("go", [forward_to(2), assign(field("x", "code"), std("parser_error"))])
    device = make_device(b.json())
    cases = [
        (b"\x00\0\0\0\0", 0),
        (b"\x01\0\0\0\0" + bytes(8), 0),
        (b"\x01\0\0\0\0" + bytes(7), 1),
        (b"\x45\0\0\0\0" + bytes(2), 1),
        (b"\x02\0\0\0\7", 0),
        (b"\x02\0\0\0\6", 3),
    ]
    for data, code in cases:
        device.inject(1, data)
        (out,) = device.collect(2)
        assert out == data[:1] + code.to_bytes(4, "big") + data[5:]
    device.inject(1, b"\x01")
    assert device.stats()["parser_errors"] == 4


def test_lookahead_stacks_and_advance(make_device: Callable[..., Device]) -> None:
    """Labels until the last-of-stack bit, then skip two bytes that nobody emits."""
    b = Builder()
    b.header("l0", [("last", 1), ("label", 15)])
    b.instance("l1", "l0")
    b.instance("l2", "l0")
    b.header("y", [("depth", 8), ("peeked", 8)])
    ids = {h["name"]: h["id"] for h in b.headers}
    b.extra["header_stacks"] = [
        {
            "name": "l",
            "id": 0,
            "header_type": "l0_t",
            "size": 3,
            "header_ids": [ids[f"l{i}"] for i in range(3)],
        }
    ]
    peek = {"type": "lookahead", "value": [0, 1]}
    b.state("start", [extract("l", stack=True)], [{"type": "stack_field", "value": ["l", "last"]}],
            case("0x00", "start"), default_case("end"))  # fmt: skip
    b.state("end", [{"op": "advance", "parameters": [const(16)]},
                    {"op": "set", "parameters": [std("priority"), peek]}])  # fmt: skip
    add = call("add_header", {"type": "header", "value": "y"})
    depth = op("size_stack", None, {"type": "header_stack", "value": "l"})
    peeked = assign(field("y", "peeked"), std("priority"))
    zero = assign(std("priority"), const(0))
    b.run("go", [forward_to(2), add, assign(field("y", "depth"), depth), peeked, zero])
    device = make_device(b.json())
    device.inject(1, b"\x00\x01\x80\x02SS\xffrest")
    assert device.collect(2) == [b"\x00\x01\x80\x02\x02\x01\xffrest"]
    # Four labels do not fit: StackOutOfBounds, the fourth stays payload.
    device.inject(1, b"\x00\x01\x00\x02\x00\x03\x80\x04rest")
    assert device.collect(2) == [b"\x00\x01\x00\x02\x00\x03\x03\x00\x80\x04rest"]


def test_push_and_pop(make_device: Callable[..., Device]) -> None:
    b = Builder()
    b.header("k", [("op", 8)])
    b.header("l0", [("v", 8)])
    b.instance("l1", "l0")
    b.instance("l2", "l0")
    ids = {h["name"]: h["id"] for h in b.headers}
    b.extra["header_stacks"] = [
        {
            "name": "l",
            "id": 0,
            "header_type": "l0_t",
            "size": 3,
            "header_ids": [ids[f"l{i}"] for i in range(3)],
        }
    ]
    stack = {"type": "header_stack", "value": "l"}
    b.state("start", [extract("k"), extract("l", True), extract("l", True)])
    b.action("push", [], [forward_to(2), call("push", stack, const(1)),
                          call("add_header", {"type": "header", "value": "l0"}),
                          assign(field("l0", "v"), const(0xEE))])  # fmt: skip
    b.action("pop", [], [forward_to(2), call("pop", stack, const(1))])
    entry = {
        "match_key": [{"match_type": "exact", "key": "0x01"}],
        "action_entry": {"action_id": 0, "action_data": []},
        "priority": 1,
    }
    b.table("t", [("exact", "k", "op")], ["push", "pop"], default="pop", entries=[entry])
    device = make_device(b.json())
    device.inject(1, b"\x01abrest")
    assert device.collect(2) == [b"\x01\xeeabrest"]
    device.inject(1, b"\x00abrest")
    assert device.collect(2) == [b"\x00brest"]


def test_registers_counters_and_bad_indices(make_device: Callable[..., Device]) -> None:
    b = base()
    widths = {"r8": 5, "r64": 64, "r128": 100, "r2048": 2048}
    b.extra["register_arrays"] = [
        {"name": n, "id": i, "size": 4, "bitwidth": w} for i, (n, w) in enumerate(widths.items())
    ]
    b.extra["counter_arrays"] = [{"name": "c", "id": 0, "is_direct": False, "size": 3}]
    steps = [forward_to(2), call("count", {"type": "counter_array", "value": "c"}, x("a"))]
    b.header("wide", [("w", 2048)], metadata=True)
    for name in widths:
        array = {"type": "register_array", "value": name}
        value = field("wide", "w") if name == "r2048" else x("d")
        steps += [
            call("register_read", value, array, x("a")),
            assign(value, op("+", value, const(3))),
            call("register_write", array, x("a"), value),
        ]
    b.run("go", steps)
    device = make_device(b.json())
    for name, width in widths.items():
        assert (device.register_size(name), device.register_width(name)) == (4, width)
        device.register_write(name, 1, (1 << width) - 2)
        assert device.register_read(name, 1) == (1 << width) - 2
        with pytest.raises(DeviceError):
            device.register_write(name, 1, 1 << width)
        with pytest.raises(DeviceError):
            device.register_read(name, 4)
    device.inject(1, frame(a=1))
    assert [device.register_read(n, 1) for n in widths] == [1, 1, 1, 1]
    assert device.register_read_all("r64") == [0, 1, 0, 0]
    device.register_write_all("r64", 17)
    assert device.register_read_all("r64") == [17] * 4
    assert device.counter_read("c", 1) == (1, SIZE + 4)
    device.counter_write("c", 1, 5, 6)
    assert device.counter_read("c", 1) == (5, 6)
    before = device.stats()["index_errors"]
    device.inject(1, frame(a=4))
    assert len(device.collect(2)) == 2
    assert device.stats()["index_errors"] == before + 9


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def csum16(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def xor16(data: bytes) -> int:
    result = 0
    for i in range(0, len(data), 2):
        result ^= int.from_bytes((data[i : i + 2] + b"\0")[:2], "big")
    return result


ALGORITHMS: dict[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc16": crc16,
    "csum16": csum16,
    "xor16": xor16,
    "identity": lambda data: int.from_bytes(data[:8], "big"),
}


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_hashes(algo: str, make_device: Callable[..., Device]) -> None:
    b = base()
    b.header("nope", [("v", 16)])
    b.state("start", [extract("x")])
    inputs = [
        {"type": "field", "value": ["x", "b"]},
        {"type": "field", "value": ["nope", "v"]},  # never valid: left out
        {"type": "hexstr", "value": "0xf", "bitwidth": 4},
        {"type": "field", "value": ["x", "c"]},
        {"type": "hexstr", "value": "0x5", "bitwidth": 4},
        {"type": "field", "value": ["x", "a"]},
    ]
    b.extra["calculations"] = [{"name": "h", "id": 0, "algo": algo, "input": inputs}]
    calc = {"type": "calculation", "value": "h"}
    b.run(
        "go",
        [
            forward_to(2),
            call("modify_field_with_hash_based_offset", x("d"), const(0), calc, const(1 << 63)),
            call("modify_field_with_hash_based_offset", x("kind"), const(100), calc, const(10)),
        ],
    )
    device = make_device(b.json())
    for a, bb, c in ((0, 0, 0), (1, 2, 3), (0xFFFF, 0xDEADBEEF, 0x01020304)):
        device.inject(1, frame(a=a, b=bb, c=c))
        joined = bb << 56 | 0xF << 52 | c << 20 | 5 << 16 | a
        value = ALGORITHMS[algo](joined.to_bytes(11, "big"))
        kind, *_, d = parse(device.collect(2)[0])
        assert d == value % (1 << 63)
        assert kind == 100 + value % 10


def ipv4_program(verify: bool) -> str:
    b = Builder()
    names = ["vihl", "tos", "len", "id", "frag", "ttl", "proto", "sum", "src", "dst"]
    fields = list(zip(names, [8, 8, 16, 16, 16, 8, 8, 16, 32, 32], strict=True))
    b.header("ip", fields)
    inputs = [{"type": "field", "value": ["ip", n]} for n, _ in fields if n != "sum"]
    b.extra["calculations"] = [{"name": "c", "id": 0, "algo": "csum16", "input": inputs}]
    b.extra["checksums"] = [
        {
            "name": "ck",
            "id": 0,
            "target": ["ip", "sum"],
            "type": "generic",
            "calculation": "c",
            "verify": verify,
            "update": not verify,
            "if_cond": op("valid", None, {"type": "header", "value": "ip"}),
        }
    ]
    b.run("go", [forward_to(2), assign(field("ip", "tos"), std("checksum_error"))])
    return b.json()


def test_checksum_verify_and_update(make_device: Callable[..., Device]) -> None:
    header = bytearray(struct.pack(">BBHHHBBHII", 0x45, 0, 84, 1, 0, 64, 17, 0, 0x0A000001, 0x0A000002))
    good = bytearray(header)
    good[10:12] = csum16(bytes(header)).to_bytes(2, "big")
    device = make_device(ipv4_program(True))
    device.inject(1, bytes(good))
    assert device.collect(2)[0][1] == 0
    device.inject(1, bytes(header))
    assert device.collect(2)[0][1] == 1
    device = make_device(ipv4_program(False))
    device.inject(1, bytes(header))
    assert device.collect(2) == [bytes(good)]


def test_random_is_uniform_enough_and_reproducible(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(2), call("modify_field_rng_uniform", x("a"), const(10), const(13))])

    def draws(seed: int) -> list[int]:
        device = make_device(b.json(), seed=seed)
        for _ in range(400):
            device.inject(1, frame())
        return [parse(f)[1] for f in device.collect(2)]

    first = draws(5)
    assert set(first) == {10, 11, 12, 13}
    assert all(first.count(v) > 60 for v in set(first))
    assert draws(5) == first
    assert draws(6) != first


def test_timestamps_are_microseconds(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(2), assign(x("d"), std("ingress_global_timestamp"))])
    device = make_device(b.json())
    device.engine.run_until(1_234_567_890)
    device.inject(1, frame())
    assert parse(device.collect(2)[0])[4] == 1_234_567


def test_loops_in_actions(make_device: Callable[..., Device]) -> None:
    """Backward jumps: a bounded loop runs, an endless one is cut short and counted."""
    b = base()
    body = [
        forward_to(2),
        call("_jump_if_zero", op("b2d", None, op(">", x("a"), const(0))), const(5)),
        assign(x("a"), op("-", x("a"), const(1))),
        assign(x("b"), op("+", x("b"), const(2))),
        call("_jump", const(1)),
    ]
    b.run("go", body)
    device = make_device(b.json())
    device.inject(1, frame(a=1000))
    assert parse(device.collect(2)[0])[1:3] == (0, 2000)
    b = base()
    b.run("go", [forward_to(2), call("_jump", const(0))])
    device = make_device(b.json())
    device.inject(1, frame())
    assert len(device.collect(2)) == 1
    assert device.stats()["loop_limits"] == 1


def test_cpu_port(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [assign(std("egress_spec"), x("a")), assign(x("b"), std("ingress_port"))])
    device = make_device(b.json(), cpu_port=510)
    got: list[bytes] = []
    device.set_packet_in(got.append)
    device.inject(2, frame(a=510))
    until = time.monotonic() + 10
    while not got and time.monotonic() < until:
        time.sleep(0.01)
    assert [parse(f)[:3] for f in got] == [(0, 510, 2)]
    device.packet_out(frame(a=3))
    assert [parse(f)[2] for f in device.collect(3)] == [510]
    assert device.port_counters(510).tx_packets == 1
    with pytest.raises(DeviceError, match="CPU port"):
        make_device(b.json()).packet_out(frame())


def test_packet_in_queue_is_bounded(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(510)])
    device = make_device(b.json(), cpu_port=510)
    for _ in range(5000):
        device.inject(1, frame())
    assert device.packet_in_drops() == 5000 - 4096


def test_a_closed_engine_refuses(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(2)])
    device = make_device(b.json())
    device.engine.close()
    device.engine.close()
    calls: list[Callable[[], object]] = [
        lambda: device.inject(1, frame()),
        lambda: device.collect(1),
        lambda: device.add_port(9),
        lambda: device.load_pipeline(b.json()),
        lambda: device.table_entries("tbl_go"),
        lambda: device.stats(),
        lambda: device.engine.run_until(5),
        lambda: device.engine.start(),
    ]
    for refused in calls:
        with pytest.raises(DeviceError) as error:
            refused()
        assert error.value.code == "FAILED_PRECONDITION"


def test_memory_is_flat(make_device: Callable[..., Device]) -> None:
    """Nothing is held once all has been collected, whatever way the packets took."""
    b = base()
    b.run(
        "go",
        [
            assign(std("mcast_grp"), op("&", x("a"), const(1))),
            assign(std("egress_spec"), x("b")),
            call("clone_ingress_pkt_to_egress", const(1), const(1)),
        ],
    )
    device = make_device(b.json())
    for _ in range(30):
        device.load_pipeline(b.json())
        device.mcast_group_set(1, [(2, 0), (3, 0), (99, 0)])
        device.clone_session_set(1, [(4, 0), (98, 0)])
        for a in range(2):
            for port in (2, 511, 77):
                device.inject(1, frame(a=a, b=port))
        for port in (2, 3, 4):
            device.collect(port)
        stats = device.stats()
        assert stats["held_packets"] == 0
        assert stats["held_bytes"] < 200_000


def test_large_frames(make_device: Callable[..., Device]) -> None:
    b = base()
    b.run("go", [forward_to(2), assign(std("mcast_grp"), const(1))])
    device = make_device(b.json())
    device.mcast_group_set(1, [(2, 0), (3, 0)])
    for size in (SIZE, 2048, 2049, 9500, 10240):
        data = frame(tail=bytes(size - SIZE))
        device.inject(1, data)
        assert device.collect(2) == device.collect(3) == [data]
    for bad in (b"", bytes(10241)):
        with pytest.raises(DeviceError):
            device.inject(1, bad)
