# SPDX-License-Identifier: Apache-2.0
"""The command line of the target: `python -m target`, with the options and defaults of simple_switch_grpc."""

from __future__ import annotations

import argparse
import logging
import logging.handlers
import os
import signal
import ssl
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from target.launch.options import DEFAULT_ADDRESS, LEVELS, make_parser
from target.launch.settings import (
    DeviceSettings,
    PortSettings,
    SettingsError,
    check_devices,
    check_interfaces,
)

EXIT_BAD_INPUT: Final = 2
JSON_VERSION: Final = "2.24"

if TYPE_CHECKING:
    from target.p4runtime import TlsConfig

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the target until it is told to stop; the exit status."""
    try:
        options = make_parser().parse_args(_without_separator(sys.argv[1:] if argv is None else argv))
        if options.json_version:
            sys.stdout.write(f"{JSON_VERSION}\n")
            return 0
        _start_logging(options)
        return _run(options)
    except SettingsError as error:
        sys.stdout.flush()
        sys.stderr.write(f"target: error: {error}\n")
        return EXIT_BAD_INPUT


def _without_separator(argv: Sequence[str]) -> list[str]:
    """The arguments without the first '--', which divides two groups of options and means nothing else."""
    arguments = list(argv)
    if "--" in arguments:
        arguments.remove("--")
    if "--" in arguments:
        raise SettingsError("'--' is given twice; see --help")
    return arguments


def _run(options: argparse.Namespace) -> int:
    devices = _devices(options)
    check_interfaces(devices)
    program = None
    if options.program and options.no_p4:
        logging.getLogger("target").warning("%s is ignored because of --no-p4", options.program)
    elif options.program:
        program = _read(options.program, "program")
    p4info = _read_p4info(options.p4info) if options.p4info else None
    if p4info is not None and program is None:
        raise SettingsError("--p4info belongs to a program; give the JSON as well, and no --no-p4")

    # gRPC's own lines on stderr say less than ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Only now: --help and bad input need neither gRPC nor a compiler.
    from target.launch.engine import compile_program, native_engine
    from target.launch.run import Launch, run

    launch = Launch(
        devices=tuple(devices),
        threads=options.threads,
        program=program,
        p4info=p4info,
        tls=_tls(options),
        ready_file=options.ready_file,
    )
    engine = native_engine(options.pcap)
    for path in options.compile:
        try:
            compile_program(_read(path, "program"))
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def announce(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        logging.getLogger("target").info("%s", line)

    run(launch, engine, stop, announce)
    return 0


# --- from options to settings


def _devices(options: argparse.Namespace) -> list[DeviceSettings]:
    if options.fabric is not None:
        _refuse_with_fabric(options)
        from target.launch.fabric import load_fabric

        return load_fabric(options.fabric)
    if options.program is None and not options.no_p4:
        raise SettingsError("give a BMv2 JSON to start with, or --no-p4, or --fabric; see --help")
    rates = _by_port(options.port_rate, "--port-rate", options)
    queues = _by_port(options.port_queue, "--port-queue", options)
    delays = _by_port(options.port_delay, "--port-delay", options)
    shares = _by_port(options.port_share, "--port-share", options)
    count = options.priority_queues
    ports = tuple(
        PortSettings(
            port=port,
            interface=interface,
            rate_bps=rates.get(port, 0),
            queue_bytes=_capacities(queues.get(port, ()), count),
            delay_ns=delays.get(port, 0),
            share_ppm=shares.get(port, ()),
        )
        for port, interface in options.interface
    )
    device = DeviceSettings(
        name=f"device{options.device_id}",
        device_id=options.device_id,
        grpc_addr=DEFAULT_ADDRESS if options.grpc_server_addr is None else options.grpc_server_addr,
        cpu_port=options.cpu_port,
        drop_port=options.drop_port,
        priority_queues=count,
        ports=ports,
    )
    check_devices([device])
    return [device]


def _refuse_with_fabric(options: argparse.Namespace) -> None:
    given = {
        "a program": options.program,
        "--interface": options.interface,
        "--grpc-server-addr": options.grpc_server_addr,
        "--cpu-port": options.cpu_port,
        "--port-rate": options.port_rate,
        "--port-queue": options.port_queue,
        "--port-share": options.port_share,
        "--port-delay": options.port_delay,
        "--p4info": options.p4info,
    }
    for name, value in given.items():
        if value:
            raise SettingsError(f"{name} can't be given with --fabric; put it into the fabric file")


def _by_port(items: list[tuple[int, T]], option: str, options: argparse.Namespace) -> dict[int, T]:
    known = {port for port, _ in options.interface}
    result: dict[int, T] = {}
    for port, value in items:
        if port not in known:
            raise SettingsError(f"{option} {port}: there is no port {port}; attach it with -i {port}@IFACE")
        if port in result:
            raise SettingsError(f"{option} is given twice for port {port}")
        result[port] = value
    return result


def _capacities(given: tuple[int, ...], count: int) -> tuple[int, ...]:
    return given * count if len(given) == 1 else given


# --- files


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the {what} is not UTF-8 text") from None
    except OSError as error:
        raise SettingsError(f"{path}: can't read the {what}: {error.strerror}") from None


def _read_bytes(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: can't read the {what}: {error.strerror}") from None


def _read_p4info(path: Path) -> bytes:
    """A P4Info file as the serialized message, whether it is text or binary."""
    data = _read_bytes(path, "P4Info")
    from finsy.proto import p4i
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    message = p4i.P4Info()
    try:
        text_format.Parse(data.decode("utf-8"), message)
    except (UnicodeDecodeError, text_format.ParseError) as error:
        try:
            message.ParseFromString(data)
        except DecodeError:
            raise SettingsError(f"{path}: not a P4Info: {error}".splitlines()[0]) from None
    return message.SerializeToString()


def _tls(options: argparse.Namespace) -> TlsConfig | None:
    from target.p4runtime import TlsConfig

    files = (options.grpc_server_cacert, options.grpc_server_cert, options.grpc_server_key)
    if not options.grpc_server_ssl:
        if any(files) or options.grpc_server_with_client_auth:
            raise SettingsError("certificates are given without --grpc-server-ssl; add it")
        return None
    for name, value in (("cert", options.grpc_server_cert), ("key", options.grpc_server_key)):
        if value is None:
            raise SettingsError(f"--grpc-server-ssl needs --grpc-server-{name}")
    if options.grpc_server_with_client_auth and options.grpc_server_cacert is None:
        raise SettingsError("--grpc-server-with-client-auth needs --grpc-server-cacert")
    certificate, key, authority = (
        options.grpc_server_cert,
        options.grpc_server_key,
        options.grpc_server_cacert,
    )
    tls = TlsConfig(
        certificate=_read_bytes(certificate, "certificate"),
        key=_read_bytes(key, "key"),
        client_ca=None if authority is None else _read_bytes(authority, "certificate"),
        require_client=options.grpc_server_with_client_auth,
    )
    # gRPC would only say that it can't listen.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, ValueError):
        raise SettingsError(f"{certificate} and {key} are no PEM certificate and its private key") from None
    if authority is not None:
        try:
            context.load_verify_locations(authority)
        except (ssl.SSLError, ValueError):
            raise SettingsError(f"{authority} has no PEM certificate") from None
    return tls


def _start_logging(options: argparse.Namespace) -> None:
    if options.log_console and options.log_file:
        raise SettingsError("--log-console and --log-file exclude each other")
    handler: logging.Handler
    level = LEVELS[options.log_level]
    if options.log_file is not None:
        path = options.log_file.with_name(options.log_file.name + ".txt")
        try:
            handler = logging.handlers.RotatingFileHandler(
                path, maxBytes=options.log_file_max_size, backupCount=options.log_file_max_files
            )
        except OSError as error:
            raise SettingsError(f"{path}: can't write the log: {error.strerror}") from None
    elif options.log_console:
        handler = logging.StreamHandler(sys.stdout)
    else:
        handler = logging.StreamHandler(sys.stderr)
        level = max(level, logging.WARNING)
    layout = "[%(asctime)s.%(msecs)03d] [%(levelname)s] %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(layout, "%H:%M:%S"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    for name in ("thrift_port", "notifications_addr", "nanolog", "max_port_count"):
        if getattr(options, name) is not None:
            option = name.replace("_", "-")
            logging.getLogger("target").warning("--%s has no effect on this target", option)
