# SPDX-License-Identifier: Apache-2.0
"""What STF files may say, and what is said of those that may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stf import language as stf
from tests.stf.language import Command, Masked, Number, Pattern, Place, Prefix, Rate, Span, StfError
from tests.stf.reader import read_file, read_text

HERE = Place("t.stf", 1)


def one(line: str) -> Command:
    (command,) = read_text(line, "t.stf")
    return command


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("packet 0 0102 aAfF", stf.Packet(HERE, 0, b"\x01\x02\xaa\xff")),
        ("  PACKET 12 00  # and more", stf.Packet(HERE, 12, b"\x00")),
        ("expect 3", stf.Expect(HERE, 3, None)),
        ("expect 3 01 *A ** $", stf.Expect(HERE, 3, Pattern("01*a**", True))),
        ("expect 3 012", stf.Expect(HERE, 3, Pattern("012", False))),
        ("expect 3 $", stf.Expect(HERE, 3, Pattern("", True))),
        ("no_packet", stf.NoPacket(HERE)),
        ("wait", stf.Wait(HERE)),
        ("remove all", stf.RemoveAll(HERE)),
        (
            "add c.t 10 h.a:0x1* b.$valid$:1 extra$0.h:0b1*1 c.act(x:1, y:0x10) = first",
            stf.Add(
                HERE,
                "c.t",
                10,
                (
                    ("h.a", Number(0x10, 0xF0, "0x1*")),
                    ("b.$valid$", Number(1, None, "1")),
                    ("extra[0].h", Number(5, 5, "0b1*1")),
                ),
                stf.ActionCall("c.act", (("x", 1), ("y", 16))),
                "first",
            ),
        ),
        (
            'add "a table" k:0x0a00/16 l:5&&&0xf m:1->9 go()',
            stf.Add(
                HERE,
                "a table",
                None,
                (("k", Prefix(0x0A00, 16)), ("l", Masked(5, 15)), ("m", Span(1, 9))),
                stf.ActionCall("go", ()),
                None,
            ),
        ),
        ("setdefault t go(v:7)", stf.SetDefault(HERE, "t", stf.ActionCall("go", (("v", 7),)))),
        ("check_counter c(3)", stf.CheckCounter(HERE, "c", 3, "packets", "==", 0)),
        ("check_counter c($e) bytes <= 10", stf.CheckCounter(HERE, "c", "e", "bytes", "<=", 10)),
        ("check_counter c(1) packets < 10", stf.CheckCounter(HERE, "c", 1, "packets", "<", 10)),
        ("check_register r(1) >= 0x10", stf.CheckRegister(HERE, "r", 1, ">=", 16)),
        ("counter_write c 1 2 3", stf.CounterWrite(HERE, "c", 1, 2, 3)),
        ("register_read a.r 5", stf.RegisterRead(HERE, "a.r", 5)),
        ("register_write a.r 5 100", stf.RegisterWrite(HERE, "a.r", 5, 100)),
        ("register_reset r", stf.RegisterReset(HERE, "r")),
        (
            "meter_set_rates m 2 0.000005:4 1:5",
            stf.MeterSet(HERE, "m", 2, (Rate("0.000005", 4), Rate("1", 5))),
        ),
        ("meter_array_set_rates m 0.5:4", stf.MeterSetAll(HERE, "m", (Rate("0.5", 4),))),
        ("meter_get_rates m 2", stf.MeterGet(HERE, "m", 2)),
        ("mirroring_add 5 4", stf.MirrorToPort(HERE, 5, 4)),
        ("mirroring_add_mc 5 4", stf.MirrorToGroup(HERE, 5, 4)),
        ("mirroring_delete 5", stf.MirrorDelete(HERE, 5)),
        ("mirroring_get 5", stf.MirrorGet(HERE, 5)),
        ("mc_mgrp_create 1113", stf.GroupCreate(HERE, 1113)),
        ("mc_node_create 257 6 8", stf.NodeCreate(HERE, 257, (6, 8))),
        ("mc_node_update 0 6", stf.NodeUpdate(HERE, 0, (6,))),
        ("mc_node_associate 1113 0", stf.NodeAssociate(HERE, 1113, 0)),
    ],
)
def test_commands(line: str, command: Command) -> None:
    assert one(line) == command


def test_comments_and_empty_lines_count_as_lines() -> None:
    found = read_text("# a comment\n\n  wait # and one here\nexpect 1\n", "t.stf")
    assert found == [stf.Wait(Place("t.stf", 3)), stf.Expect(Place("t.stf", 4), 1, None)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pocket 0 00", "there is no command 'pocket'"),
        ("0 00", "expected a command, got '0 00'"),
        ("packet 0", "a packet needs data"),
        ("packet 0 012", "3 digits of packet data: expected an even number"),
        ("packet 0 0g", "'g' is no packet data"),
        ("packet 0 00**", "'*' is no packet data"),
        ("packet x 00", "expected a port number, got 'x 00'"),
        ("packet 0x1 00", "expected a port number"),
        ("expect", "expected a port number, got the end of the line"),
        ("expect 0 01$02", "nothing may follow"),
        ("expect 0 01 $ $", "nothing may follow"),
        ("add", "expected a table, got the end of the line"),
        ("add t k:1", "expected a key field or the action, got the end of the line"),
        ("add t k: act()", "expected a value, got 'act()'"),
        ("add t k:1 act", "expected '(', got the end of the line"),
        ("add t k:1 act(x)", "expected ':', got ')'"),
        ("add t k:1 act(x:1 y:2)", "expected ',', got 'y:2)'"),
        ("add t k:1 act(x:0x1*)", "'0x1*', which is not one number"),
        ("add t k:1 act() = ", "expected a label"),
        ("add t k:1 act() more", "expected the end of the line, got 'more'"),
        ("add t 0x1* k:1 act()", "'0x1*', which is not one number"),
        ("add t k:9->1 act()", "the range 9->1 is empty"),
        ("remove t", "only 'remove all' is known"),
        ("check_counter c", "expected '(', got the end of the line"),
        ("check_counter c(1) octets == 1", "expected 'packets' or 'bytes', got 'octets'"),
        ("check_counter c(1) packets = 1", "expected one of ==, !=, <, <=, >, >=, got '= 1'"),
        ("check_register r(1)", "expected one of =="),
        ("mirroring_add 5", "expected a port, got the end of the line"),
        ("meter_set_rates m 0", "expected a rate, got the end of the line"),
        ("wait 5", "expected the end of the line, got '5'"),
    ],
)
def test_errors_name_file_line_and_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(StfError) as caught:
        read_text(f"# first\n{line}\n", "dir/t.stf")
    text = str(caught.value)
    assert text.startswith("dir/t.stf:2: ")
    assert message in text
    assert "\n" not in text


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StfError, match="can't be read"):
        read_file(tmp_path / "none.stf")
    (tmp_path / "binary.stf").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StfError, match="can't be read"):
        read_file(tmp_path / "binary.stf")


@pytest.mark.parametrize(
    ("digits", "exact", "packet", "difference"),
    [
        ("0102", False, b"\x01\x02", None),
        ("0102", False, b"\x01\x02\x03", None),
        ("0102", True, b"\x01\x02", None),
        ("0102", True, b"\x01\x02\x03", "3 bytes, expected exactly 2"),
        ("0102", False, b"\x01", "1 bytes, expected 2"),
        ("01*2", False, b"\x01\xf2", None),
        ("01*2", False, b"\x01\xf3", "byte 1 differs"),
        ("012", False, b"\x01\x2f", None),
        ("", True, b"", None),
        ("", True, b"\x00", "expected exactly 0"),
    ],
)
def test_patterns(digits: str, exact: bool, packet: bytes, difference: str | None) -> None:
    found = Pattern(digits, exact).mismatch(packet)
    if difference is None:
        assert found is None
    else:
        assert found is not None
        assert difference in found
