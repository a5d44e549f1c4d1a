# SPDX-License-Identifier: Apache-2.0
"""Random batches of frames through switch.p4 and through its model: every frame, its order, every counter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tests.model.runs import runs
from tests.model.switch import FEEDBACK, TRIMMED, IngressLimit, SwitchModel, Threshold, TrafficClass
from tests.support import wire
from tests.support.dut import Dut
from tests.support.wire import Roce

SEED = 0xFACE
PORTS = (1, 2, 3, 4, 5)
DRAIN_S = 3600.0
SPRAYED = 26
PLAIN = 0

CLASSES = {
    wire.DSCP_GRADIENT: TrafficClass(True, wire.DSCP_GRADIENT_TRIMMED),
    wire.DSCP_DATA: TrafficClass(True, wire.DSCP_DATA_TRIMMED),
    SPRAYED: TrafficClass(True, wire.DSCP_GRADIENT_TRIMMED, spray=True),
    wire.DSCP_GRADIENT_TRIMMED: TrafficClass(priority=TRIMMED),
    wire.DSCP_DATA_TRIMMED: TrafficClass(priority=TRIMMED),
    wire.DSCP_CONTROL: TrafficClass(priority=FEEDBACK),
}
GROUP = (2, 3, 4)
FAR = 0x0A020000
ROUTES: dict[int, int | tuple[int, ...]] = {
    **{0x0A000000 | port: port for port in PORTS},
    **{FAR | host: GROUP for host in range(8)},
}
UNKNOWN = 0x0B000001

PER_PORT = ("forwarded", "marked", "trimmed", "dropped")
SINGLE = ("no_route", "ttl_expired", "malformed")


@dataclass(frozen=True)
class Scene:
    """Limits and thresholds, and batches of (ingress port, frame)."""

    queue_limits: dict[int, int]
    ingress_limits: dict[int, IngressLimit]
    thresholds: dict[int, Threshold]
    batches: list[list[tuple[int, bytes]]]


BYTES = st.integers(0, 6000)


@cache
def arp(source: int, target: int) -> bytes:
    ethernet = bytes.fromhex("ffffffffffff020000000001") + b"\x08\x06"
    return (
        ethernet
        + bytes.fromhex("00010800060400010200000000aa")
        + (source.to_bytes(4) + bytes(6) + target.to_bytes(4) + bytes(18))
    )


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from((*("data",) * 12, "feedback", "arp", "broken")))
    to = draw(st.sampled_from((0x0A000005, UNKNOWN, *ROUTES, *(0x0A000005,) * 24)))
    if kind == "arp":
        return arp(0x0A000001, to)
    packet = wire.data(
        0x010203,
        0,
        draw(st.sampled_from((1, 100, 954, 1024, 4096))),
        end=True,
        psn=draw(st.integers(0, 1000)),
        dscp=draw(st.sampled_from((*CLASSES, wire.DSCP_GRADIENT, PLAIN, SPRAYED))),
        ecn=draw(st.sampled_from((wire.ECT0, wire.ECT0, wire.ECT1, wire.NOT_ECT, wire.CE))),
        ttl=draw(st.sampled_from((*(64,) * 12, 2, 1, 0))),
        src_ip=0x0A000001,
        dst_ip=to,
        udp_src=draw(st.integers(0xC000, 0xC010)),
        identification=draw(st.integers(0, 100)),
    )
    if kind == "feedback":
        return Roce(
            wire.ACKNOWLEDGE,
            5,
            dscp=draw(st.sampled_from((wire.DSCP_CONTROL, wire.DSCP_GRADIENT))),
            psn=packet.psn,
            dst_ip=to,
            feedback=wire.Feedback(wire.ACK, 0, 0, 512),
        ).encode()
    if kind == "broken":
        return draw(
            st.sampled_from(
                (
                    packet.encode(ip_len=19),
                    packet.encode(ip_len=len(packet)),
                    packet.encode()[:30],
                    packet.but(udp_dst=4790).encode(),
                    packet.encode()[:12] + b"\x86\xdd" + packet.encode()[14:],
                )
            )
        )
    return packet.encode()


def scenes() -> st.SearchStrategy[Scene]:
    ports = st.sampled_from(PORTS)
    return st.builds(
        Scene,
        queue_limits=st.dictionaries(st.sampled_from((2, 5, 5, 5)), BYTES, min_size=1, max_size=2),
        ingress_limits=st.dictionaries(
            st.sampled_from((1, 2)),
            st.builds(IngressLimit, reserve=BYTES, shared=BYTES, alpha_shift=st.integers(0, 4)),
            max_size=2,
        ),
        thresholds=st.dictionaries(
            st.sampled_from((3, 5, 5, 5)),
            st.builds(
                lambda kmin, more, pmax: Threshold(kmin, kmin + more, pmax),
                BYTES,
                BYTES,
                st.sampled_from((0, 1 << 31, 0xFFFFFFFF)),
            ),
            min_size=1,
            max_size=2,
        ),
        batches=st.lists(
            st.lists(st.tuples(ports, frames()), min_size=4, max_size=24), min_size=1, max_size=3
        ),
    )


def install(dut: Dut, scene: Scene) -> None:
    control = dut.control
    control.reset()
    control.set_default("switch_config", "configure", seed=SEED)
    for dscp, kind in CLASSES.items():
        control.insert(
            "traffic_class",
            {"dscp": dscp},
            "classify",
            trimmable=int(kind.trimmable),
            trimmed_dscp=kind.trimmed_dscp,
            priority=kind.priority,
            spray=int(kind.spray),
        )
    for address, route in ROUTES.items():
        if isinstance(route, int):
            control.insert("ipv4_routes", {"dst_addr": (address, 32)}, "forward", port=route)
    control.insert("ipv4_routes", {"dst_addr": (FAR, 16)}, "balance", group=1, members=len(GROUP))
    for member, port in enumerate(GROUP):
        control.insert("group_members", {"group": 1, "member": member}, "forward", port=port)
    for port, limit in scene.queue_limits.items():
        control.insert("queue_limits", {"egress_port": port}, "limit_queue", **{"bytes": limit})
    for port, dynamic in scene.ingress_limits.items():
        control.insert("ingress_limits", {"ingress_port": port}, "limit_ingress", **vars(dynamic))
    for port, threshold in scene.thresholds.items():
        control.insert("ecn_thresholds", {"egress_port": port}, "mark_between", **vars(threshold))


@given(scene=scenes())
@runs(120)
def test_switch(switch_dut: Dut, scene: Scene) -> None:
    """Every port is slow: the first frame of a batch leaves at once, the others queue behind it."""
    install(switch_dut, scene)
    model = SwitchModel(SEED, CLASSES, ROUTES, scene.queue_limits, scene.ingress_limits, scene.thresholds)
    for batch in scene.batches:
        predicted = model.batch(batch)
        for port, frame in batch:
            switch_dut.send(port, frame)
        for port in PORTS:
            got = []
            while (left := switch_dut.poll(port, DRAIN_S)) is not None:
                got.append(left[1])
            assert got == predicted.get(port, []), f"port {port}"
    assert not +model.queued and not +model.admitted
    counters = {(name, port): switch_dut.control.counter(name, port) for name in PER_PORT for port in PORTS}
    counters |= {(name, 0): switch_dut.control.counter(name) for name in SINGLE}
    assert counters == {key: model.counters[key] for key in counters}
