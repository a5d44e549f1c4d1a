# SPDX-License-Identifier: Apache-2.0
"""One device of an engine: pipeline, tables, replication, packet I/O and ports by name and number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from target import build, native
from target.api import DeviceError, FieldMatch, Notice, PortCounters, TableEntry
from target.parse_reach import parse_reach
from target.pipeline import Pipeline, check, compile_pipeline
from target.resources import Resources

if TYPE_CHECKING:
    from target.engine import Engine

FRAME_LIMIT = 65536
"""Bytes of a buffer that holds any frame."""


class Device(Resources):
    """One device. Implements `target.api.DeviceApi`, and adds ports and the in-memory port's frames."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        device_id: int,
        cpu_port: int | None,
        drop_port: int,
        priority_queues: int,
        seed: int,
        buffer_bytes: int,
    ) -> None:
        self.engine = engine
        self._ffi, self._lib = engine.ffi, engine.lib
        self._name, self._device_id, self._cpu_port = name, device_id, cpu_port
        self.drop_port = drop_port
        self.priority_queues = priority_queues
        if not 1 <= priority_queues <= native.MAX_QUEUES:
            raise DeviceError(
                "INVALID_ARGUMENT", f"priority queues: 1..{native.MAX_QUEUES}, got {priority_queues}"
            )
        config = self._ffi.new("struct sw_device_config *")
        config.cpu_port = native.NO_PORT if cpu_port is None else cpu_port
        config.drop_port, config.queues = drop_port, priority_queues
        config.seed, config.buffer_bytes = seed, buffer_bytes
        self._open: Any = self._lib.sw_device_create(engine._handle, config)
        if self._open == self._ffi.NULL:
            raise DeviceError(
                "INVALID_ARGUMENT", f"device {name!r} can't be made: check its ports and queues"
            )
        self._ports: dict[int, str] = {}
        self._pipeline: Pipeline | None = None
        self._control = threading.RLock()
        self._handler: Callable[[bytes], None] | None = None
        self._notice_handler: Callable[[Notice], None] | None = None
        self._mcast: dict[int, list[tuple[int, int]]] = {}
        self._clones: dict[int, tuple[list[tuple[int, int]], int]] = {}
        engine.devices.append(self)
        engine._by_handle[int(self._ffi.cast("uintptr_t", self._handle))] = self

    @property
    def _handle(self) -> Any:
        if self._open is None:
            raise DeviceError("FAILED_PRECONDITION", f"device {self._name!r} belongs to a closed engine")
        return self._open

    def _forget(self) -> None:
        """The engine frees the device."""
        with self._control:
            self._open = None
            self._pipeline = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def device_id(self) -> int:
        return self._device_id

    @property
    def cpu_port(self) -> int | None:
        return self._cpu_port

    # --- pipeline

    def load_pipeline(self, bmv2_json: str) -> None:
        pipeline = self._prepare(bmv2_json)
        with self._control:
            check(self.engine, self._lib.sw_pipeline_commit(pipeline.handle), "commit")
            self._pipeline = pipeline
            self._mcast.clear()
            self._clones.clear()

    def verify_pipeline(self, bmv2_json: str) -> None:
        pipeline = self._prepare(bmv2_json)
        self._lib.sw_pipeline_close(pipeline.handle)

    def _prepare(self, bmv2_json: str) -> Pipeline:
        try:
            program, generated, path = compile_pipeline(bmv2_json)
        except build.BuildError as error:
            raise DeviceError("FAILED_PRECONDITION", str(error)) from None
        handle = self._ffi.new("sw_pipeline **")
        status = self._lib.sw_pipeline_open(self._handle, str(path).encode(), handle)
        if status == native.SYSTEM:
            raise DeviceError("FAILED_PRECONDITION", self.engine.error())
        check(self.engine, status, "loading the compiled pipeline")
        try:
            reach = parse_reach(program)
            if reach is not None:
                check(self.engine, self._lib.sw_pipeline_set_reach(handle[0], reach), "parser's reach")
            return Pipeline(self.engine, handle[0], program, generated)
        except BaseException:
            self._lib.sw_pipeline_close(handle[0])
            raise

    def has_pipeline(self) -> bool:
        return self._pipeline is not None

    def _need(self) -> Pipeline:
        if self._pipeline is None:
            raise DeviceError("FAILED_PRECONDITION", f"device {self._name!r} has no pipeline")
        return self._pipeline

    # --- tables

    def tables(self) -> Sequence[str]:
        with self._control:
            return list(self._need().program.tables)

    def table_insert(self, table: str, entry: TableEntry) -> None:
        with self._control:
            self._need().table(table).insert(entry)

    def table_modify(self, table: str, entry: TableEntry) -> None:
        with self._control:
            self._need().table(table).modify(entry)

    def table_delete(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> None:
        with self._control:
            self._need().table(table).delete(key, priority)

    def table_entries(self, table: str) -> list[TableEntry]:
        with self._control:
            return self._need().table(table).entries()

    def table_entry(self, table: str, key: tuple[FieldMatch, ...], priority: int = 0) -> TableEntry:
        with self._control:
            return self._need().table(table).entry(key, priority)

    def table_default(self, table: str) -> tuple[str, tuple[int, ...]] | None:
        with self._control:
            return self._need().table(table).default()

    def table_set_default(self, table: str, action: str | None, args: tuple[int, ...] = ()) -> None:
        with self._control:
            self._need().table(table).set_default(action, args)

    # --- counters and registers

    def direct_counter_read(
        self, table: str, key: tuple[FieldMatch, ...], priority: int = 0
    ) -> tuple[int, int]:
        with self._control:
            return self._need().table(table).counter_read(key, priority)

    def direct_counter_write(
        self, table: str, key: tuple[FieldMatch, ...], priority: int, packets: int, octets: int
    ) -> None:
        with self._control:
            self._need().table(table).counter_write(key, priority, packets, octets)

    def counter_size(self, counter: str) -> int:
        with self._control:
            return self._need().counter(counter).size

    def counter_read(self, counter: str, index: int) -> tuple[int, int]:
        with self._control:
            return self._need().counter_read(counter, index)

    def counter_write(self, counter: str, index: int, packets: int, octets: int) -> None:
        with self._control:
            self._need().counter_write(counter, index, packets, octets)

    def register_size(self, register: str) -> int:
        with self._control:
            return self._need().register(register).size

    def register_width(self, register: str) -> int:
        with self._control:
            return self._need().register(register).width

    def register_read(self, register: str, index: int) -> int:
        with self._control:
            return self._need().register_read(register, index, 1)[0]

    def register_read_all(self, register: str) -> list[int]:
        with self._control:
            pipeline = self._need()
            return pipeline.register_read(register, 0, pipeline.register(register).size)

    def register_write(self, register: str, index: int, value: int) -> None:
        with self._control:
            self._need().register_write(register, index, value)

    def register_write_all(self, register: str, value: int) -> None:
        with self._control:
            self._need().register_fill(register, value)

    # --- packet replication

    def _replicas(self, replicas: Sequence[tuple[int, int]]) -> tuple[Any, Any, int]:
        for port, rid in replicas:
            if not 0 <= port < 65536 or not 0 <= rid < 65536:
                raise DeviceError("INVALID_ARGUMENT", f"replica ({port}, {rid}): port and id are 0..65535")
        ports = self._ffi.new("uint32_t[]", [port for port, _ in replicas] or [0])
        rids = self._ffi.new("uint32_t[]", [rid for _, rid in replicas] or [0])
        return ports, rids, len(replicas)

    def mcast_group_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        if not 1 <= group <= 65535:
            raise DeviceError("INVALID_ARGUMENT", f"multicast group {group}: expected 1..65535")
        with self._control:
            ports, rids, count = self._replicas(replicas)
            check(
                self.engine,
                self._lib.sw_mcast_set(self._handle, group, ports, rids, count),
                "multicast group",
            )
            self._mcast[group] = list(replicas)

    def mcast_group_delete(self, group: int) -> None:
        with self._control:
            if self._mcast.pop(group, None) is None:
                raise DeviceError("NOT_FOUND", f"there is no multicast group {group}")
            check(self.engine, self._lib.sw_mcast_delete(self._handle, group), "multicast group")

    def mcast_groups(self) -> dict[int, list[tuple[int, int]]]:
        with self._control:
            return {group: list(replicas) for group, replicas in self._mcast.items()}

    def clone_session_set(
        self, session: int, replicas: Sequence[tuple[int, int]], packet_length: int = 0
    ) -> None:
        if not 0 <= session <= 32767:
            raise DeviceError("INVALID_ARGUMENT", f"clone session {session}: expected 0..32767")
        if not 0 <= packet_length < 2**32:
            raise DeviceError("INVALID_ARGUMENT", f"packet length {packet_length}: expected 0..2^32-1")
        with self._control:
            ports, rids, count = self._replicas(replicas)
            status = self._lib.sw_clone_set(self._handle, session, ports, rids, count, packet_length)
            check(self.engine, status, "clone session")
            self._clones[session] = (list(replicas), packet_length)

    def clone_session_delete(self, session: int) -> None:
        with self._control:
            if self._clones.pop(session, None) is None:
                raise DeviceError("NOT_FOUND", f"there is no clone session {session}")
            check(self.engine, self._lib.sw_clone_delete(self._handle, session), "clone session")

    def clone_sessions(self) -> dict[int, tuple[list[tuple[int, int]], int]]:
        with self._control:
            return {s: (list(replicas), length) for s, (replicas, length) in self._clones.items()}

    # --- packet I/O

    def packet_out(self, packet: bytes) -> None:
        if self._cpu_port is None:
            raise DeviceError("FAILED_PRECONDITION", f"device {self._name!r} has no CPU port")
        self._need()
        check(self.engine, self._lib.sw_packet_out(self._handle, packet, len(packet)), "packet out")

    def set_packet_in(self, handler: Callable[[bytes], None] | None) -> None:
        self._handler = handler
        if handler is not None:
            self.engine._start_reader()

    def _deliver(self, packet: bytes) -> None:
        handler = self._handler
        if handler is not None:
            handler(packet)

    def set_notices(self, handler: Callable[[Notice], None] | None) -> None:
        self._notice_handler = handler
        if handler is not None:
            self.engine._start_notices()

    def _notified(self) -> tuple[Pipeline, Callable[[Notice], None]] | None:
        handler, pipeline = self._notice_handler, self._pipeline
        return None if handler is None or pipeline is None else (pipeline, handler)

    def packet_in_drops(self) -> int:
        return self.stats()["packet_in_drops"]

    # --- ports

    def add_port(
        self,
        port: int,
        interface: str | None = None,
        *,
        rate_bps: int = 0,
        queue_bytes: int | Sequence[int] = 0,
        delay_ns: int = 0,
        frame_adjust: int = 0,
        min_frame: int = 0,
        share_ppm: Sequence[int] = (),
    ) -> None:
        """A port on a network interface, or an in-memory one (`inject`, `collect`).

        rate_bps: bits per second that the port's queues share; 0: no limit, no queue.
        queue_bytes: capacity of each priority's queue, or of all; 0: 1 MiB.
        delay_ns: from the end of a frame to its delivery.
        frame_adjust, min_frame: a frame of n bytes takes as long as max(n + frame_adjust, min_frame) bytes.
        share_ppm: by priority, the part of the rate that a queue gets at least while others with a share
        wait; 0: strict. See `struct sw_port_config`.
        """
        name = interface.encode() if interface is not None else self._ffi.NULL
        config = self._port_config(rate_bps, queue_bytes, delay_ns, frame_adjust, min_frame, share_ppm)
        with self._control:
            status = self._lib.sw_port_add(self._handle, port, name, config)
        if status == native.EXISTS:
            raise DeviceError("ALREADY_EXISTS", f"device {self._name!r} has a port {port} already")
        if status == native.INVALID:
            raise DeviceError("INVALID_ARGUMENT", f"port {port} on {interface!r} is not possible")
        if status in (native.SYSTEM, native.NOT_FOUND):
            raise DeviceError("NOT_FOUND", f"port {port}: {self.engine.error()}")
        check(self.engine, status, f"port {port}")
        self._ports[port] = interface or ""

    def configure_port(
        self,
        port: int,
        *,
        rate_bps: int = 0,
        queue_bytes: int | Sequence[int] = 0,
        delay_ns: int = 0,
        frame_adjust: int = 0,
        min_frame: int = 0,
        share_ppm: Sequence[int] = (),
    ) -> None:
        """Replace a port's rate, capacities and delay; the parameters are those of `add_port`."""
        config = self._port_config(rate_bps, queue_bytes, delay_ns, frame_adjust, min_frame, share_ppm)
        self._port_check(self._lib.sw_port_configure(self._handle, port, config), port)

    def remove_port(self, port: int) -> None:
        self._port_check(self._lib.sw_port_remove(self._handle, port), port)
        self._ports.pop(port, None)

    def _port_check(self, status: int, port: int) -> None:
        if status == native.NOT_FOUND:
            raise DeviceError("NOT_FOUND", f"device {self._name!r} has no port {port}")
        check(self.engine, status, f"port {port}")

    def _port_config(
        self,
        rate_bps: int,
        queue_bytes: int | Sequence[int],
        delay_ns: int,
        frame_adjust: int,
        min_frame: int,
        share_ppm: Sequence[int],
    ) -> Any:
        capacities = (
            [queue_bytes] * self.priority_queues if isinstance(queue_bytes, int) else list(queue_bytes)
        )
        if len(capacities) > self.priority_queues:
            raise DeviceError(
                "INVALID_ARGUMENT", f"{len(capacities)} queue capacities for {self.priority_queues} queues"
            )
        for value, what in [
            (rate_bps, "rate"),
            (delay_ns, "delay"),
            *((c, "queue capacity") for c in capacities),
        ]:
            if not 0 <= value < 2**63:
                raise DeviceError("INVALID_ARGUMENT", f"{what} {value}: expected 0..2^63-1")
        if abs(frame_adjust) > 65536 or not 0 <= min_frame <= 65536:
            raise DeviceError(
                "INVALID_ARGUMENT", f"frame_adjust {frame_adjust}, min_frame {min_frame}: too large"
            )
        if len(share_ppm) > self.priority_queues or any(s < 0 for s in share_ppm) or sum(share_ppm) > 10**6:
            raise DeviceError(
                "INVALID_ARGUMENT",
                f"shares {list(share_ppm)}: expected up to {self.priority_queues}, at most 1000000 in sum",
            )
        config = self._ffi.new("struct sw_port_config *")
        config.rate_bps, config.delay_ns, config.frame_adjust = rate_bps, delay_ns, frame_adjust
        config.min_frame = min_frame
        for i, share in enumerate(share_ppm):
            config.share_ppm[i] = share
        for i, value in enumerate(capacities):
            config.queue_bytes[i] = value
        return config

    def capture(self, port: int, directory: str, name: str | None = None) -> None:
        """Write the port's frames to <directory>/<name>_in.pcap and _out.pcap; `name`: the interface's."""
        label = name or self._ports.get(port) or f"{self._name}-{port}"
        status = self._lib.sw_port_capture(self._handle, port, directory.encode(), label.encode())
        if status == native.SYSTEM:
            raise DeviceError("FAILED_PRECONDITION", f"capture: {self.engine.error()}")
        self._port_check(status, port)

    def flush_capture(self, port: int) -> None:
        self._port_check(self._lib.sw_port_flush_capture(self._handle, port), port)

    def ports(self) -> Mapping[int, str]:
        return dict(self._ports)

    def port_counters(self, port: int) -> PortCounters:
        s = self._ffi.new("struct sw_port_stats *")
        self._port_check(self._lib.sw_port_stats(self._handle, port, s), port)
        n = self.priority_queues
        return PortCounters(
            s.rx_packets,
            s.rx_bytes,
            s.tx_packets,
            s.tx_bytes,
            s.rx_drops,
            s.tx_errors,
            tuple(s.queue_drops[0:n]),
            tuple(s.queue_drop_bytes[0:n]),
            tuple(s.depth_packets[0:n]),
            tuple(s.depth_bytes[0:n]),
            tuple(s.peak_packets[0:n]),
            tuple(s.peak_bytes[0:n]),
            tuple(s.sent_packets[0:n]),
            s.lost_packets,
            s.lost_bytes,
        )

    def take_peaks(self, port: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(packets, bytes): the largest depths since the last call, by priority. They start over."""
        packets, octets = (self._ffi.new(f"uint64_t[{native.MAX_QUEUES}]") for _ in range(2))
        self._port_check(self._lib.sw_port_take_peaks(self._handle, port, packets, octets), port)
        n = self.priority_queues
        return tuple(packets[0:n]), tuple(octets[0:n])

    def port_up(self, port: int) -> bool:
        """Whether the port's interface is there and working; of an in-memory port, whether its link is up."""
        s = self._ffi.new("struct sw_port_stats *")
        self._port_check(self._lib.sw_port_stats(self._handle, port, s), port)
        return bool(s.up)

    def stats(self) -> dict[str, int]:
        """What the device dropped and why; see `struct sw_device_stats`."""
        s = self._ffi.new("struct sw_device_stats *")
        self._lib.sw_device_stats(self._handle, s)
        return {name: int(getattr(s, name)) for name, _ in self._ffi.typeof("struct sw_device_stats").fields}

    def inject(self, port: int, packet: bytes, wire_bytes: int | None = None) -> None:
        """A frame arrives at a port now. `wire_bytes`: its true length, if `packet` is only its beginning;
        the rest reads as zeros."""
        length = len(packet) if wire_bytes is None else wire_bytes
        if not 0 <= length < 2**32:
            raise DeviceError("INVALID_ARGUMENT", f"a frame of {length} bytes is not possible")
        data = self._ffi.from_buffer("uint8_t[]", packet)
        frame = self._ffi.new("struct sw_frame *", (data, len(packet), length))
        status = self._lib.sw_port_inject_frame(self._handle, port, frame)
        if status == native.INVALID:
            raise DeviceError(
                "INVALID_ARGUMENT", f"a frame of {length} bytes, {len(packet)} of them given, is not possible"
            )
        if status == native.STATE:
            raise DeviceError("FAILED_PRECONDITION", f"device {self._name!r} has no pipeline")
        if status == native.FULL:
            raise DeviceError("RESOURCE_EXHAUSTED", "no packet buffer")
        self._port_check(status, port)

    def collect(self, port: int) -> list[bytes]:
        """The frames that left an in-memory port since the last call."""
        return [frame for _, frame in self.collect_timed(port)]

    def collect_timed(self, port: int) -> list[tuple[int, bytes]]:
        """(time of delivery in ns, frame)."""
        frame = self._ffi.new(f"uint8_t[{FRAME_LIMIT}]")
        when = self._ffi.new("uint64_t *")
        result: list[tuple[int, bytes]] = []
        while True:
            length = self._lib.sw_port_collect(self._handle, port, frame, FRAME_LIMIT, when)
            if length == 0:
                return result
            self._port_check(min(length, 0), port)
            result.append((int(when[0]), bytes(self._ffi.buffer(frame, length))))

    # --- links, endpoints, observers, faults: in-memory ports

    def connect(self, port: int, peer: Device, peer_port: int) -> None:
        """Join a port to another one of the same engine. Rate and delay are those of the sending port."""
        status = self._lib.sw_port_connect(self._handle, port, peer._handle, peer_port)
        where = f"port {port} of {self._name!r} and port {peer_port} of {peer._name!r}"
        if status == native.NOT_FOUND:
            raise DeviceError("NOT_FOUND", f"{where}: one of them is not there")
        if status == native.EXISTS:
            raise DeviceError("ALREADY_EXISTS", f"{where}: one of them is in use")
        if status == native.INVALID:
            raise DeviceError("INVALID_ARGUMENT", f"{where}: give two in-memory ports of one engine")
        check(self.engine, status, where)

    def attach(self, port: int, endpoint: Any, gate: int | None = None) -> None:
        """Put an endpoint on a port: `endpoint` is a `struct sw_endpoint *` or its address; None takes it
        away. Its functions and context must outlive the engine, or be taken away before.

        gate: the port that must be idle before the endpoint is polled; None: no condition.
        """
        if isinstance(endpoint, int):
            endpoint = self._ffi.cast("struct sw_endpoint *", endpoint)
        pointer = self._ffi.NULL if endpoint is None else endpoint
        status = self._lib.sw_port_attach(
            self._handle, port, pointer, native.NO_PORT if gate is None else gate
        )
        if status == native.NOT_FOUND:
            raise DeviceError("NOT_FOUND", f"device {self._name!r} has no port {port}, or no gate {gate}")
        if status == native.EXISTS:
            raise DeviceError("ALREADY_EXISTS", f"port {port} or gate {gate} of {self._name!r} is in use")
        if status == native.INVALID:
            raise DeviceError(
                "INVALID_ARGUMENT",
                f"port {port}: expected an in-memory port, and all functions of an endpoint",
            )
        check(self.engine, status, f"port {port}")

    def kick(self, port: int) -> None:
        """The next wake-up of a port's endpoint may have changed."""
        status = self._lib.sw_port_kick(self._handle, port)
        if status == native.NOT_FOUND:
            raise DeviceError("NOT_FOUND", f"there is no endpoint on port {port} of device {self._name!r}")
        check(self.engine, status, f"port {port}")

    def observe(self, port: int, observer: Any) -> None:
        """Show every frame of a port to a `struct sw_observer *` (or its address); None: to nobody."""
        if isinstance(observer, int):
            observer = self._ffi.cast("struct sw_observer *", observer)
        pointer = self._ffi.NULL if observer is None else observer
        self._port_check(self._lib.sw_port_observe(self._handle, port, pointer), port)

    def set_link(self, port: int, up: bool) -> None:
        """Take a link down, with all that is on it, or up again; both directions."""
        self._fault(self._lib.sw_port_set_link(self._handle, port, int(up)), port)

    def set_loss(self, port: int, ppm: int, seed: int = 0) -> None:
        """Lose frames sent by a port at random: `ppm` parts in a million."""
        if not 0 <= ppm <= 10**6 or not 0 <= seed < 2**64:
            raise DeviceError("INVALID_ARGUMENT", f"loss of {ppm} ppm, seed {seed}: out of range")
        self._fault(self._lib.sw_port_set_loss(self._handle, port, ppm, seed), port)

    def _fault(self, status: int, port: int) -> None:
        if status == native.INVALID:
            raise DeviceError("INVALID_ARGUMENT", f"port {port}: faults are for in-memory ports")
        self._port_check(status, port)

    def benchmark(self, port: int, frames: Sequence[bytes], count: int) -> int:
        """Nanoseconds for `count` frames through the pipeline alone, round robin over `frames`."""
        lengths = self._ffi.new("uint32_t[]", [len(f) for f in frames])
        ns = int(
            self._lib.sw_device_benchmark(self._handle, port, b"".join(frames), lengths, len(frames), count)
        )
        check(self.engine, min(ns, 0), "benchmark")
        return ns
