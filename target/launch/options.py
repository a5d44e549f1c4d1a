# SPDX-License-Identifier: Apache-2.0
"""The options of the target's command line: those of simple_switch_grpc with its defaults, and its own."""

from __future__ import annotations

import argparse
import logging
from importlib import metadata
from pathlib import Path
from typing import Final, NoReturn

from target.launch.settings import DEFAULT_DROP_PORT, DEFAULT_QUEUE_BYTES, SettingsError

DEFAULT_ADDRESS: Final = "127.0.0.1:9559"
LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
_DESCRIPTION: Final = """\
A switch for BMv2 JSON with a P4Runtime v1 server. It takes the options of simple_switch_grpc, so it can be
started in its place; the program is compiled to native code when it is loaded."""

_EPILOG: Final = """\
examples:
  python -m target --no-p4 -i 1@s1-eth1 -i 2@s1-eth2 --device-id 1 -- --cpu-port 255
  python -m target program.json -i 0@veth0 -i 1@veth2
  python -m target --no-p4 -i 1@veth0 --port-rate 1=10M --port-queue 1=64K/8K/8K -- --priority-queues 3
  python -m target --fabric fabric.json --threads 2 --ready-file ready

Options of simple_switch_grpc's target follow '--' there; here they may stand on either side of it.
Numbers may end in K, M or G: powers of 1000 for rates, of 1024 for bytes.

fabric file: a JSON array of devices, all in this process:
  [{"name": "s1", "device_id": 1, "grpc_addr": "127.0.0.1:9559", "cpu_port": 255, "drop_port": 511,
    "priority_queues": 3,
    "ports": [{"port": 1, "interface": "s1-eth1", "rate_bps": 100000000, "queue_bytes": [65536, 8192, 8192],
               "delay_ns": 0, "share_ppm": [750000, 250000, 0]}]}]
  name, device_id, grpc_addr, and of a port number and interface are required. rate_bps 0 is no limit.
  queue_bytes has a capacity for each priority, or is one number. Devices with one grpc_addr share a server.
  share_ppm: of each priority, the millionths of the rate that it gets while others wait; 0 is strict.

exit status: 0 after SIGINT or SIGTERM, 2 for bad input or what can't be started, with one line saying why."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}; see --help")


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="target",
        usage="python -m target [options] [program.json] [-- target options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", nargs="?", type=Path, help="BMv2 JSON to start with; or use --no-p4")
    _general_options(parser.add_argument_group("general options, as simple_switch_grpc"))
    _target_options(parser.add_argument_group("target options, as simple_switch_grpc after '--'"))
    _own_options(parser.add_argument_group("options beyond simple_switch_grpc"))
    return parser


def _general_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-i",
        "--interface",
        action="append",
        default=[],
        type=_port_at_interface,
        metavar="N@IFACE",
        help="attach network interface IFACE as port N; may be repeated",
    )
    group.add_argument("--no-p4", action="store_true", help="start without a program; P4Runtime loads one")
    group.add_argument(
        "--device-id", type=_number, default=0, metavar="N", help="P4Runtime device id (default 0)"
    )
    group.add_argument(
        "--pcap",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="DIR",
        help="write a capture file for each interface into DIR (default: the current directory)",
    )
    group.add_argument("--log-console", action="store_true", help="log to stdout")
    group.add_argument("--log-file", type=Path, metavar="FILE", help="log to FILE.txt")
    group.add_argument(
        "-L",
        "--log-level",
        choices=tuple(LEVELS),
        default="info",
        metavar="LEVEL",
        help="trace, debug, info, warn, error or off (default info; packets are never logged one by one)",
    )
    group.add_argument("--log-flush", action="store_true", help="accepted: every line is flushed always")
    group.add_argument(
        "--log-file-max-size", type=_bytes, default=5 << 20, metavar="N", help="bytes of a log file (5M)"
    )
    group.add_argument(
        "--log-file-max-files", type=_number, default=3, metavar="N", help="log files kept besides (3)"
    )
    group.add_argument(
        "-v", "--version", action="version", version=f"target {_version()}", help="print the version and exit"
    )
    group.add_argument("--json-version", action="store_true", help="print the BMv2 JSON version known")
    for name in ("--thrift-port", "--notifications-addr", "--nanolog", "--max-port-count"):
        group.add_argument(
            name,
            metavar="X",
            help="accepted without effect: there is neither Thrift nor nanomsg, and no limit of ports",
        )


def _target_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--grpc-server-addr",
        metavar="ADDR",
        help=f"P4Runtime address, host:port or unix:PATH (default {DEFAULT_ADDRESS}; simple_switch_grpc "
        "listens on all addresses, this target only where asked to)",
    )
    group.add_argument("--grpc-server-ssl", action="store_true", help="TLS on the P4Runtime address")
    group.add_argument("--grpc-server-cacert", type=Path, metavar="PEM", help="authority of the clients")
    group.add_argument("--grpc-server-cert", type=Path, metavar="PEM", help="the server's certificate")
    group.add_argument("--grpc-server-key", type=Path, metavar="PEM", help="the server's private key")
    group.add_argument(
        "--grpc-server-with-client-auth",
        action="store_true",
        help="let in only clients with a certificate of --grpc-server-cacert",
    )
    group.add_argument("--cpu-port", type=_number, metavar="N", help="port of packet I/O (default: none)")
    group.add_argument(
        "--drop-port",
        type=_number,
        default=DEFAULT_DROP_PORT,
        metavar="N",
        help=f"egress_spec of a dropped packet (default {DEFAULT_DROP_PORT})",
    )
    group.add_argument(
        "--priority-queues", type=_number, default=1, metavar="N", help="queues per port (default 1)"
    )
    group.add_argument("--disable-swap", action="store_true", help="accepted without effect")
    for name in ("--max-mc-groups", "--max-l1-entries", "--max-l2-entries"):
        group.add_argument(name, type=_number, metavar="N", help="accepted without effect: there is no limit")


def _own_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--p4info", type=Path, metavar="FILE", help="P4Info of the program (text or binary)")
    group.add_argument(
        "--port-rate",
        action="append",
        default=[],
        type=_port_rate,
        metavar="N=BPS",
        help="limit port N to BPS bits per second on the wire; may be repeated",
    )
    group.add_argument(
        "--port-queue",
        action="append",
        default=[],
        type=_port_queue,
        metavar="N=BYTES[/BYTES...]",
        help="capacity of port N's queues: one for all priorities, or one for each from priority 0 up "
        f"(default {DEFAULT_QUEUE_BYTES})",
    )
    group.add_argument(
        "--port-share",
        action="append",
        default=[],
        type=_port_share,
        metavar="N=PPM[/PPM...]",
        help="of each priority at port N, from 0 up: the millionths of the rate that its queue gets at least "
        "while others with a share wait; 0: strict (default)",
    )
    group.add_argument(
        "--port-delay",
        action="append",
        default=[],
        type=_port_delay,
        metavar="N=NS",
        help="delay of the link at port N: every packet leaves NS nanoseconds later",
    )
    group.add_argument(
        "--fabric", type=Path, metavar="FILE", help="run all devices of a fabric file (below) in this process"
    )
    group.add_argument(
        "--threads", type=_positive, default=1, metavar="N", help="packet loops for the devices (default 1)"
    )
    group.add_argument(
        "--compile",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="compile a BMv2 JSON before the devices are ready, which makes its first push quick; may be "
        "repeated",
    )
    group.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write FILE when every device is ready; removed at exit",
    )


# --- values


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _positive(text: str) -> int:
    value = _number(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 is too few")
    return value


def _scaled(text: str, base: int) -> int:
    power = {"K": 1, "M": 2, "G": 3}.get(text[-1:].upper(), 0)
    factor: int = base**power
    return _number(text[:-1] if power else text) * factor


def _bytes(text: str) -> int:
    value = _scaled(text, 1024)
    if value == 0:
        raise argparse.ArgumentTypeError("0 bytes are too few")
    return value


def _port_at_interface(text: str) -> tuple[int, str]:
    port, _, interface = text.partition("@")
    if not interface:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT@INTERFACE")
    return _number(port), interface


def _port_value(text: str) -> tuple[int, str]:
    port, _, value = text.partition("=")
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT=VALUE")
    return _number(port), value


def _port_rate(text: str) -> tuple[int, int]:
    port, value = _port_value(text)
    return port, _scaled(value, 1000)


def _port_queue(text: str) -> tuple[int, tuple[int, ...]]:
    port, value = _port_value(text)
    return port, tuple(_bytes(part) for part in value.split("/"))


def _port_share(text: str) -> tuple[int, tuple[int, ...]]:
    port, value = _port_value(text)
    return port, tuple(_number(part) for part in value.split("/"))


def _port_delay(text: str) -> tuple[int, int]:
    port, value = _port_value(text)
    return port, _number(value)


def _version() -> str:
    try:
        return metadata.version("forgive")
    except metadata.PackageNotFoundError:
        return "(not installed)"
