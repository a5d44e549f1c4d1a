# SPDX-License-Identifier: Apache-2.0
"""A whole fabric in one process: switches, NICs, links and hosts on one simulated clock.

Devices, names, ids and ports are the topology's, as in Mininet; the programs come over P4Runtime, as ever.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from controller import loops
from hosts.config import ConfigError, TransportConfig
from hosts.endpoint import Stats
from hosts.profile import transport_config
from profiles import Configuration
from target.api import DeviceError
from target.device import Device
from target.engine import Engine
from target.p4runtime import BindError, Endpoint, ServerThread
from topologies import NIC_HOST_PORT, NIC_WIRE_PORT, Host, Link, Topology
from topologies.model import Port
from topologies.targets import DeviceSettings, PortSettings, settings
from virtual import native
from virtual.clock import Clock, Event
from virtual.errors import VirtualError
from virtual.observers import Observers

EVENTS = 256
"""Taken from the native side at once."""

MAXIMUM_SOCKET_PATH = 100
PPM = 1_000_000

_EVENT = struct.Struct("=5Q12I")
"""attach_event_t"""


class VirtualFabric:
    """Running from the start, at time 0 and without programs; a context that closes itself.

    directory: for the P4Runtime socket and captures. seed: of losses on links. transport: fields of
    `hosts.config.TransportConfig` that are set otherwise than by the configuration. Raises VirtualError,
    hosts.build.BuildError.
    """

    def __init__(
        self,
        topology: Topology,
        configuration: Configuration,
        *,
        directory: Path,
        seed: int = 0,
        transport: Mapping[str, Any] | None = None,
    ) -> None:
        self.topology = topology
        self.configuration = configuration
        self.directory = directory
        self.seed = seed
        self.host_names = [host.name for host in topology.hosts]
        self._numbers = {name: i for i, name in enumerate(self.host_names)}
        self._socket_directory: tempfile.TemporaryDirectory[str] | None = None
        self._server: ServerThread | None = None
        self._devices: dict[str, Device] = {}
        self.in_flight: Callable[[], bool] = lambda: False
        """Whether messages are on their way; set by whoever sends them."""
        self.on_restart: list[Callable[[str], None]] = []
        """Told, in this order, of the host whose NIC has restarted. Messages start over in an exchange's
        turn: who must know of the restart before that goes before it.
        """
        self._distances: dict[int, dict[str, int]] = {}
        self.native = native.load()
        self._observers = Observers(self.native, self._port_of)
        self.attach: Any = None
        self.engine = Engine()
        self.clock = Clock(self)
        try:
            self._build(transport or {})
            self._serve()
        except BaseException:
            self.close()
            raise

    # --- life

    def _build(self, transport: Mapping[str, Any]) -> None:
        address = f"unix:{self._socket_path()}"
        self.devices: tuple[DeviceSettings, ...] = tuple(
            replace(device, grpc_address=address)
            for device in settings(self.topology, self.configuration, simulated=True)
        )
        """Every device with its id and P4Runtime address, for a controller."""
        try:
            for row in self.devices:
                device = self._devices[row.name] = self.engine.add_device(
                    row.name, row.device_id, cpu_port=row.cpu_port, priority_queues=row.priority_queues
                )
                for port in row.ports:
                    self._add_port(device, port)
            for link in self.topology.links:
                if link.a.node in self._devices:
                    self._connect(link)
        except DeviceError as error:
            raise VirtualError(f"the fabric can't be built: {error}") from None
        self._attach_hosts(transport)

    def _add_port(self, device: Device, port: PortSettings) -> None:
        trimmed = port.trimmed_share_percent * PPM // 100
        # Data and trimmed headers share what strict feedback leaves.
        shares = (PPM - trimmed, trimmed) if trimmed else ()
        device.add_port(
            port.port,
            rate_bps=port.rate_bps,
            queue_bytes=port.queue_bytes,
            delay_ns=port.delay_ns,
            frame_adjust=self.configuration.wire.weight_adjust,
            min_frame=self.configuration.wire.weight_minimum,
            share_ppm=shares,
        )

    def _connect(self, link: Link) -> None:
        self._devices[link.a.node].connect(link.a.number, self._devices[link.b.node], link.b.number)

    def _attach_hosts(self, transport: Mapping[str, Any]) -> None:
        ffi, lib = self.native
        out = ffi.new("attach_t **")
        self._check(lib.attach_create(self._pointer("sw_engine *", self.engine), len(self._numbers), out))
        self.attach = out[0]
        for number, host in enumerate(self.topology.hosts):
            config = ffi.new("transport_config_t *")
            self._transport(host, transport).fill(config)
            nic = self._pointer("sw_device *", self._devices[host.nic])
            self._check(lib.attach_host(self.attach, number, config, nic, NIC_HOST_PORT, NIC_WIRE_PORT))
        self._events = ffi.new("attach_event_t[]", EVENTS)

    def _transport(self, host: Host, changes: Mapping[str, Any]) -> TransportConfig:
        # The NIC fetches packets when its line is free: nothing else paces the host as a whole, and a flow
        # that waits for its turn does not catch up.
        fields = {"port_paced": True, "catch_up_ns": 0, "mac": int(host.mac.replace(":", ""), 16)}
        try:
            return transport_config(self.configuration, str(host.ip), **fields | dict(changes))
        except (ConfigError, TypeError) as error:
            raise VirtualError(f"transport of {host.name}: {error}") from None

    def tell_received(self, wanted: bool) -> None:
        """Whether the end of a receive is told when it happens, or with the sender's alone."""
        self.native[1].attach_tell_received(self.attach, wanted)

    def _check(self, status: int) -> None:
        if status < 0:
            raise VirtualError(f"the hosts can't be attached: status {status} (virtual/core/attach.h)")

    def _port_of(self, interface: str) -> tuple[Any, int]:
        """(native device, port) of "nic1-eth2"."""
        node, _, number = interface.rpartition("-eth")
        if node not in self._devices or not number.isdigit():
            raise VirtualError(f"no interface {interface} of a device; name one as nic1-eth2")
        return self._pointer("sw_device *", self._devices[node]), int(number)

    def _pointer(self, kind: str, owner: Engine | Device) -> Any:
        """A handle of the engine's library, for ours."""
        return self.native[0].cast(kind, int(self.engine.ffi.cast("uintptr_t", owner._handle)))

    def _socket_path(self) -> Path:
        """In the run's directory, or a short one where that is too long for a socket."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory.resolve() / "p4runtime.sock"
        if len(str(path)) > MAXIMUM_SOCKET_PATH:
            self._socket_directory = tempfile.TemporaryDirectory(prefix="fabric-")
            path = Path(self._socket_directory.name) / "p4runtime.sock"
        path.unlink(missing_ok=True)
        return path

    def _serve(self) -> None:
        # One address for all: the device id tells them apart.
        endpoint = Endpoint(self.devices[0].grpc_address, tuple(self._devices.values()))
        self._loop = loops.borrow("p4runtime")
        self._server = ServerThread([endpoint], self._loop)
        try:
            self._server.start()
        except BindError as error:
            raise VirtualError(f"P4Runtime: {error}; give another directory") from None

    def close(self) -> None:
        """Stop everything. Safe to call twice. Controllers must have left."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            loops.give_back(self._loop)
        self._observers.end()
        self.engine.close()
        attach, self.attach = self.attach, None
        if attach is not None:
            self.native[1].attach_destroy(attach)
        if self._socket_directory is not None:
            self._socket_directory.cleanup()
            self._socket_directory = None

    def __enter__(self) -> VirtualFabric:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what the clock drives

    def run(self, until_ns: int) -> Sequence[Event]:
        """Move the engine; the clock calls this."""
        ffi, lib = self.native
        count = lib.attach_run(self.attach, until_ns, self._events, EVENTS)
        if count == 0:
            return ()
        if count < 0:
            raise VirtualError(f"the engine can't go to {until_ns} ns: {self.engine.error() or 'it refuses'}")
        return list(_EVENT.iter_unpack(ffi.buffer(self._events, count * _EVENT.size)))

    def next_event(self) -> int | None:
        """Nothing happens before this time; None: no frame is on its way, no host will send or time out."""
        return self.engine.next_event_ns

    # --- parts

    def device(self, name: str) -> Device:
        """A switch or NIC, for what P4Runtime does not show: queue depths, captures, registers."""
        if name not in self._devices:
            raise VirtualError(f"no device {name}; devices are {', '.join(self._devices)}")
        return self._devices[name]

    def number(self, host: str) -> int:
        """Of a host, in the topology's order, from 0."""
        if host not in self._numbers:
            raise VirtualError(f"no host {host}; hosts are {self.host_names[0]} to {self.host_names[-1]}")
        return self._numbers[host]

    def stats(self, host: str) -> Stats:
        """Of the host's transport, since the start."""
        ffi, lib = self.native
        native_stats = ffi.new("transport_stats_t *")
        lib.transport_get_stats(lib.attach_transport(self.attach, self.number(host)), native_stats)
        return Stats(**{name: int(getattr(native_stats, name)) for name in Stats.__dataclass_fields__})

    def path(self, sender: int, receiver: int) -> tuple[int, int]:
        """(access, fabric) links on a shortest path between two hosts."""
        distance = self._distances.get(receiver)
        if distance is None:
            nic = self.topology.hosts[receiver].nic
            distance = self._distances[receiver] = _distances(self.topology, nic)
        links = distance[self.topology.hosts[sender].nic]
        return min(links, 2), max(links - 2, 0)

    # --- observers and captures

    def observe(self, interface: str, function: int, context: int) -> None:
        """Show every frame that crosses a device's port ("nic1-eth2") to `function`, the one of a
        `struct sw_observer`, as it enters or leaves the device. Both are addresses of native code. A port may
        have several observers; `ignore` ends it.
        """
        self._observers.add(interface, function, context)

    def ignore(self, interface: str, context: int) -> None:
        """End what `observe` began with this context."""
        self._observers.remove(interface, context)

    def capture(self, interface: str, directory: Path, snap_bytes: int = 65535) -> Path:
        """Write every frame that crosses a device's port, either way, to <interface>.pcap from now on, at
        most `snap_bytes` of each. Whole after `end_captures`.
        """
        return self._observers.capture(interface, directory, snap_bytes)

    def end_captures(self) -> None:
        """Close the files. Raises VirtualError if one of them is not whole."""
        self._observers.end_captures()

    # --- links

    def link(self, name: str) -> Link:
        """By its two ends ("leaf1-spine2") or by an interface ("leaf1-eth9")."""
        first, _, second = name.partition("-")
        for link in self.topology.links:
            ends = (link.a.node, link.b.node)
            if ends in ((first, second), (second, first)) or name in (link.a.interface, link.b.interface):
                return link
        raise VirtualError(f"no link {name}; name its ends, as in {_example(self.topology)}")

    def set_link(self, name: str, up: bool) -> None:
        """Take a link down, with what is on it, or up, both directions."""
        for end in self.ends(name):
            self._devices[end.node].set_link(end.number, up)

    def set_loss(self, name: str, ppm: int) -> None:
        """Lose each frame of a link with this probability, in either direction, by draws of the seed."""
        for end in self.ends(name):
            # A stream of its own for each port.
            seed = self.seed << 32 | self.topology.device(end.node).device_id << 16 | end.number
            self._devices[end.node].set_loss(end.number, ppm, seed)

    def ends(self, name: str) -> tuple[Port, Port]:
        """Of a link between devices."""
        link = self.link(name)
        for end in (link.a, link.b):
            if end.node not in self._devices:
                raise VirtualError(f"link {name}: a host and its NIC are one machine; name a link of the NIC")
        return link.a, link.b


def _example(topology: Topology) -> str:
    link = topology.links[-1]
    return f"{link.a.node}-{link.b.node}"


def _distances(topology: Topology, start: str) -> dict[str, int]:
    """Links from every device to one."""
    distance, front = {start: 0}, [start]
    for node in front:
        for link in topology.links_of(node):
            other = link.other(node).node
            if other not in distance and not topology.is_host(other):
                distance[other] = distance[node] + 1
                front.append(other)
    return distance
