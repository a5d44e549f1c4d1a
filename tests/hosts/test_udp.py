# SPDX-License-Identifier: Apache-2.0
"""The transport over real sockets: bytes, DSCP and ECN, collectives, opening and closing."""

from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from hosts import wire
from hosts.collectives import AllReduceResult, DirectAllReduce, shard_bounds
from hosts.config import ConfigError, DcqcnConfig, TransportConfig
from hosts.messages import CollectiveError, MessageKey, Phase, TransportMessages
from hosts.transport import (
    Event,
    Failed,
    Received,
    Sent,
    SocketError,
    TrafficClass,
    Transport,
    TransportError,
)
from tests.hosts.harness import Fate
from tests.hosts.relay import Relay, loopback_network

LINE = 1_000_000_000


def config(address: str, **changes: object) -> TransportConfig:
    values: dict[str, object] = {
        "line_rate_bps": LINE,
        "rto_ns": 20_000_000,
        "dcqcn": DcqcnConfig.for_line_rate(LINE, time_scale=100),
        "window_bytes": 64 * 1024,
    }
    return TransportConfig(address=address, **(values | changes))  # type: ignore[arg-type]


def collect(transport: Transport, count: int, timeout_s: float = 30) -> list[Event]:
    found: list[Event] = []
    while len(found) < count:
        events = transport.wait(timeout_s)
        assert events, f"only {len(found)} of {count} events: {transport.stats()} {transport.driver_stats()}"
        found += events
    return found


def random_fate(seed: int, *, lost: float, trimmed: float, forgiven: float) -> Any:
    draw = random.Random(seed)

    def fate(host: int, packet: wire.Data) -> Fate:
        return Fate(
            delays_ns=() if draw.random() < lost else (0,),
            trimmed=draw.random() < trimmed,
            forgive=draw.random() < forgiven,
            marked=draw.random() < 0.1,
        )

    return fate


@pytest.mark.parametrize("lost", [0.0, 0.02])
def test_messages_cross_with_the_right_bytes(lost: float) -> None:
    lengths = [1, 511, 512, 513, 100_000, 300_001]
    with (
        Relay(2, random_fate(3, lost=lost, trimmed=0.1, forgiven=0.3)) as relay,
        Transport(config(relay.host_address(0))) as sender,
        Transport(config(relay.host_address(1))) as receiver,
    ):
        payloads = [random.Random(n).randbytes(n) for n in lengths]
        buffers = [bytearray(n) for n in lengths]
        qps = [receiver.alloc_receive_qp(step_slot=i % 8) for i in range(len(lengths))]
        for qp, buffer in zip(qps, buffers, strict=True):
            receiver.post_receive(qp=qp, buffer=buffer)
        for i, (qp, payload) in enumerate(zip(qps, payloads, strict=True)):
            sender.post_send(
                destination=relay.nic_address(1),
                dst_qp=qp,
                data=payload,
                traffic_class=TrafficClass.GRADIENT,
                cookie=i,
            )
        received = {event.qp: event for event in collect(receiver, len(lengths))}
        sent = collect(sender, len(lengths))
        for qp, payload, buffer in zip(qps, payloads, buffers, strict=True):
            event = received[qp]
            assert isinstance(event, Received)
            expected = bytearray(payload)
            for piece in event.forgiven:
                expected[piece.start : piece.end] = bytes(piece.length_bytes)
            assert buffer == expected
        assert sorted(e.cookie for e in sent) == list(range(len(lengths)))
        assert all(isinstance(e, Sent) and e.stats.completed_ns > e.stats.posted_ns for e in sent)
        stats = sender.stats()
        assert stats.sent_messages == len(lengths)
        assert stats.malformed == stats.unknown_qp == stats.bad_feedback == 0
        assert receiver.stats().double_settlements == 0
        assert sender.driver_stats().send_errors == 0
        assert not relay.errors


def test_every_packet_carries_its_class_and_ect0() -> None:
    with (
        Relay(2, lambda host, packet: Fate()) as relay,
        Transport(config(relay.host_address(0), gradient_dscp=11, data_dscp=22)) as sender,
        Transport(config(relay.host_address(1))) as receiver,
    ):
        qps = {}
        for traffic_class in TrafficClass:
            qp = qps[traffic_class] = receiver.alloc_receive_qp()
            receiver.post_receive(qp=qp, length_bytes=50_000)
            sender.post_send(
                destination=relay.nic_address(1), dst_qp=qp, length_bytes=50_000, traffic_class=traffic_class
            )
        collect(sender, 2)
        for traffic_class, dscp in ((TrafficClass.GRADIENT, 11), (TrafficClass.DATA, 22)):
            tos = {seen.tos for seen in relay.seen if seen.packet.bth.dest_qp == qps[traffic_class]}
            assert tos == {dscp << 2 | wire.ECN_ECT0}


def test_silence_fails_the_message_and_says_so() -> None:
    with (
        Relay(1, lambda host, packet: Fate(delays_ns=())) as relay,
        Transport(config(relay.host_address(0), rto_ns=2_000_000, rto_limit=3)) as sender,
    ):
        sender.post_send(destination=relay.nic_address(0), dst_qp=5, length_bytes=10_000)
        (event,) = collect(sender, 1)
        assert isinstance(event, Failed)
        assert event.stats.rtos == 3


def test_all_reduce_over_sockets_step_after_step() -> None:
    """Four ranks, a thread each; queue pairs handed over directly; forgiven ranges as reported."""
    ranks, elements, steps = 4, 20_000, 3
    values = [
        np.random.default_rng(rank).integers(-99, 99, elements).astype(np.float32) for rank in range(ranks)
    ]
    barrier = threading.Barrier(ranks)
    offers: dict[int, dict[int, dict[MessageKey, int]]] = {}
    problems: list[Exception] = []
    outcomes: dict[tuple[int, int], AllReduceResult] = {}

    with Relay(ranks, random_fate(9, lost=0, trimmed=0.05, forgiven=0.5)) as relay:
        addresses = {rank: relay.nic_address(rank) for rank in range(ranks)}

        def one_rank(rank: int) -> None:
            with Transport(config(relay.host_address(rank))) as transport:
                messages = TransportMessages(transport, rank, addresses)
                for step in range(steps):
                    collective = DirectAllReduce(
                        messages, list(range(ranks)), rank, step, values=values[rank], width=2
                    )
                    collective.expect()
                    offers[rank] = {peer: messages.offers(peer) for peer in range(ranks)}
                    barrier.wait()
                    for peer in range(ranks):
                        if peer != rank:
                            messages.learn(offers[peer][rank])
                    barrier.wait()
                    messages.retire(step - 1)
                    collective.start()
                    messages.run([collective], 60)
                    outcomes[rank, step] = collective.result()
                barrier.wait()
                assert transport.stats().double_settlements == 0

        def guarded(rank: int) -> None:
            try:
                one_rank(rank)
            except Exception as error:
                problems.append(error)
                barrier.abort()

        threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not problems
    assert len(outcomes) == ranks * steps
    total = np.sum(values, axis=0)
    bounds = shard_bounds(elements, ranks)
    for step in range(steps):
        lacking = {}
        for rank in range(ranks):
            result = outcomes[rank, step]
            for phase in Phase:
                mask = np.zeros(elements, bool)
                for (name, peer), pieces in result.missing.items():
                    start = bounds[rank if phase is Phase.REDUCE_SCATTER else peer][0]
                    for piece in pieces if name is phase else ():
                        mask[start + piece.start // 4 : start + piece.end // 4] = True
                lacking[phase, rank] = mask
        incomplete = np.any([lacking[Phase.REDUCE_SCATTER, rank] for rank in range(ranks)], axis=0)
        assert incomplete.any()
        for rank in range(ranks):
            exact = ~(incomplete | lacking[Phase.ALL_GATHER, rank])
            reduced = outcomes[rank, step].reduced
            assert reduced is not None
            np.testing.assert_array_equal(reduced[exact], total[exact])
            assert (reduced[lacking[Phase.ALL_GATHER, rank]] == 0).all()


def test_missing_peer_is_named_when_the_time_is_over() -> None:
    with (
        Relay(2, lambda host, packet: Fate()) as relay,
        Transport(config(relay.host_address(0))) as transport,
    ):
        messages = TransportMessages(transport, 0, {1: relay.nic_address(1)})
        collective = DirectAllReduce(messages, [0, 1], 0, 4, shard_bytes=[1000, 1000])
        collective.expect()
        messages.learn({MessageKey(4, 0, 1, 0): 77})
        collective.start()
        with pytest.raises(CollectiveError, match=r"waiting for step 4: reduce_scatter from ranks \[1\]"):
            messages.run([collective], 0.3)


def test_closing_in_the_middle_of_a_message_ends_the_thread() -> None:
    with Relay(1, lambda host, packet: Fate()) as relay:
        before = threading.active_count()
        transport = Transport(config(relay.host_address(0)))
        transport.post_send(destination=relay.nic_address(0), dst_qp=5, length_bytes=1 << 30)
        transport.wait(0.05)
        transport.close()
        transport.close()
        assert threading.active_count() == before
        for call in (transport.stats, transport.driver_stats, transport.events, transport.event_fd):
            with pytest.raises(TransportError, match="closed"):
                call()


def test_event_descriptor_is_readable_exactly_while_events_wait() -> None:
    with (
        Relay(2, lambda host, packet: Fate()) as relay,
        Transport(config(relay.host_address(0))) as sender,
        Transport(config(relay.host_address(1))) as receiver,
    ):
        fd = sender.event_fd()
        for _ in range(3):
            assert select.select([fd], [], [], 0)[0] == []
            qp = receiver.alloc_receive_qp()
            receiver.post_receive(qp=qp, length_bytes=1000)
            sender.post_send(destination=relay.nic_address(1), dst_qp=qp, length_bytes=1000)
            assert select.select([fd], [], [], 30)[0] == [fd]
            assert len(sender.events()) == 1


def test_address_of_another_machine_is_refused_by_name() -> None:
    with pytest.raises(SocketError, match=r"cannot open UDP 203\.0\.113\.1:4791.*no interface here"):
        Transport(config("203.0.113.1"))


def test_second_transport_on_an_address_is_refused_by_name() -> None:
    address = loopback_network()(7)
    with (
        Transport(config(address)),
        pytest.raises(SocketError, match="another transport runs here"),
    ):
        Transport(config(address))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("address", "10.0.0"),
        ("line_rate_bps", 0),
        ("payload_bytes", 1000),
        ("payload_bytes", 32768),
        ("window_basis", "bytes"),
        ("span_bytes", 100),
        ("rto_ns", 0),
        ("gradient_dscp", 64),
        ("data_dscp", 8),
        ("ttl", 0),
        ("window_bytes", 1.5),
        ("port_paced", 2),
        ("gap_repair_ns", -1),
        ("window_repairs", True),
        ("blocked_stops_timer", True),
    ],
)
def test_wrong_configuration_names_the_field(field: str, value: object) -> None:
    values = {"address": "10.0.0.1", "line_rate_bps": LINE, "dcqcn": None, field: value}
    with pytest.raises(ConfigError, match=f"^{field} = {value!r}: must be ") as caught:
        TransportConfig(**values)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"), [("gain", 2), ("min_bps", 0), ("alpha_period_ns", 0), ("first_signal_factor", 0)]
)
def test_wrong_dcqcn_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^dcqcn.{field} = "):
        DcqcnConfig(**{field: value})  # type: ignore[arg-type]


CAPTURE = """
import socket, sys
from hosts import wire
from hosts.transport import Transport, TransportConfig, TrafficClass
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("lo", 0))
tap.settimeout(20)
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(("127.0.0.2", 4791))
config = TransportConfig(address="127.0.0.1", line_rate_bps=10**9, dcqcn=None, gradient_dscp=11)
with Transport(config) as transport:
    transport.post_send(
        destination="127.0.0.2", dst_qp=5, data=b"x" * 700, traffic_class=TrafficClass.GRADIENT)
    while True:
        frame = tap.recv(2048)
        if frame[12:14] == b"\\x08\\x00" and frame[23] == 17:
            break
ip, udp = frame[14:34], frame[34:42]
assert wire.ipv4_checksum(ip) == 0
assert ip[1] == 11 << 2 | 2, ip[1]
assert ip[6] & 0x40, "may be fragmented"
assert udp[2:4] == (4791).to_bytes(2, "big")
assert udp[6:8] == b"\\0\\0", "it has a UDP checksum"
data = wire.decode_data(frame[42:])
assert (data.length_bytes, data.payload, data.bth.solicited) == (700, b"x" * 700, True)
"""


@pytest.mark.root
def test_frames_on_the_wire_have_no_udp_checksum_and_are_never_fragmented() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: captures packets in a network namespace of its own")
    script = 'ip link set lo up && exec "$0" -c "$1"'
    command = ["unshare", "--net", "sh", "-c", script, sys.executable, CAPTURE]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


def thread_policies() -> list[int]:
    return [os.sched_getscheduler(int(task)) for task in os.listdir("/proc/self/task")]


@pytest.mark.root
def test_real_time_priority_is_the_threads_alone() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: sets a real-time priority")
    address = loopback_network()(7)
    assert thread_policies().count(os.SCHED_FIFO) == 0
    with Transport(config(address), realtime=5):
        assert thread_policies().count(os.SCHED_FIFO) == 1
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
    with Transport(config(address)):
        assert thread_policies().count(os.SCHED_FIFO) == 0


def test_real_time_priority_without_privilege_says_what_to_do() -> None:
    code = f"""
import os, resource
from hosts.native import load
from hosts.transport import SocketError, Transport, TransportConfig
load()
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)
try:
    Transport(TransportConfig("{loopback_network()(7)}", 10**9, dcqcn=None), realtime=5)
except SocketError as error:
    os.write(1, str(error).encode())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "realtime = 5 needs root or CAP_SYS_NICE; use 0" in result.stdout, result.stderr


def test_icmp_errors_do_not_stop_the_transport() -> None:
    """A peer whose socket is not open yet: the kernel reports it on ours, and the timeout repairs it."""
    network = loopback_network()
    with Transport(config(network(1), rto_ns=5_000_000)) as sender:
        sender.post_send(destination=network(2), dst_qp=5, length_bytes=5_000)
        sender.wait(0.05)
        late = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        late.bind((network(2), wire.UDP_PORT_ROCE))
        late.settimeout(20)
        with late:
            packet = wire.decode_data(late.recv(65536))
            bth = wire.Bth(wire.OPCODE_ACKNOWLEDGE, packet.source_qp, packet.bth.psn)
            late.sendto(wire.Feedback(bth, False, 5_120, 0, 1024).encode(), (network(1), wire.UDP_PORT_ROCE))
            (event,) = collect(sender, 1)
            assert isinstance(event, Sent)
