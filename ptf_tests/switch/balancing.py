# SPDX-License-Identifier: Apache-2.0
"""Equal-cost paths: flows are hashed, sprayed classes are spread by packet; every choice is predictable."""

from __future__ import annotations

from ptf.testutils import simple_arp_packet, simple_icmp_packet, simple_tcp_packet, simple_udp_packet

from ptf_tests.common.switch_test import SEED, SPRAYED, SwitchTest
from tests.model import draws
from tests.support import wire
from tests.support.wire import Roce

GROUP, PORTS = 7, (2, 3, 4)
FAR = 0x0A020000
SRC, DST = "10.0.0.1", "10.2.0.9"
SRC_IP, DST_IP = 0x0A000001, 0x0A020009


class BalancingTest(SwitchTest):
    """10.2.0.0/16 is behind three equal paths."""

    def configure(self) -> None:
        super().configure()
        self.control.insert(
            "ipv4_routes", {"dst_addr": (FAR, 16)}, "balance", group=GROUP, members=len(PORTS)
        )
        for member, port in enumerate(PORTS):
            self.control.insert("group_members", {"group": GROUP, "member": member}, "forward", port=port)

    def predicted(self, packet: Roce, spray: bool, seed: int = SEED) -> int:
        """The port that docs/dataplane.md, "Draws", gives."""
        return PORTS[
            draws.member(
                seed,
                len(PORTS),
                packet.src_ip,
                packet.dst_ip,
                src_port=packet.udp_src,
                psn=packet.psn if spray else 0,
            )
        ]

    def check(self, packets: list[Roce], spray: bool, seed: int = SEED) -> set[int]:
        """Each leaves at the predicted port; returns the ports used."""
        used = set()
        for packet in packets:
            port = self.predicted(packet, spray, seed)
            self.send(1, packet)
            self.expect(port, self.forwarded(packet))
            used.add(port)
        self.expect_nothing_else()
        return used


class FlowsAreHashed(BalancingTest):
    """A flow keeps its path whatever its PSN; flows spread over all paths."""

    def runTest(self) -> None:
        flows = [self.data(dst_ip=FAR | host, udp_src=0xC000 + host) for host in range(24)]
        used = self.check([flow.but(psn=psn) for flow in flows for psn in (0, 1, 77)], spray=False)
        self.assertEqual(used, set(PORTS))


class SprayedPacketsSpread(BalancingTest):
    """The packets of one sprayed flow spread over all paths, by PSN."""

    def runTest(self) -> None:
        packet = self.data(dst_ip=DST_IP, dscp=SPRAYED)
        used = self.check([packet.but(psn=psn) for psn in range(24)], spray=True)
        self.assertEqual(used, set(PORTS))


class FeedbackIsNeverSprayed(BalancingTest):
    """Feedback of one flow keeps to one path, so that reports arrive in order."""

    def runTest(self) -> None:
        report = Roce(
            wire.ACKNOWLEDGE,
            5,
            dscp=wire.DSCP_CONTROL,
            ecn=wire.NOT_ECT,
            dst_ip=DST_IP,
            feedback=wire.Feedback(wire.ACK, 0, 0, 512),
        )
        used = self.check([report.but(psn=psn) for psn in range(16)], spray=False)
        self.assertEqual(len(used), 1)


class SeedChangesThePlacement(BalancingTest):
    """Another seed places flows elsewhere: no polarisation from tier to tier."""

    def runTest(self) -> None:
        other = SEED ^ 0xFFFF
        self.control.set_default("switch_config", "configure", seed=other)
        flows = [self.data(dst_ip=FAR | host, udp_src=0xC000 + host) for host in range(24)]
        self.check(flows, spray=False, seed=other)
        self.assertNotEqual(
            [self.predicted(flow, False) for flow in flows],
            [self.predicted(flow, False, other) for flow in flows],
        )


class PlainTrafficIsHashed(BalancingTest):
    """TCP and UDP by their ports, ICMP and ARP by addresses alone."""

    def runTest(self) -> None:
        def port(protocol: int, sport: int = 0, dport: int = 0) -> int:
            member = draws.member(SEED, len(PORTS), SRC_IP, DST_IP, protocol, sport, dport)
            return PORTS[member]

        for sport in (1000, 1001, 1002, 1003):
            for protocol, make, names in (
                (6, simple_tcp_packet, ("tcp_sport", "tcp_dport")),
                (17, simple_udp_packet, ("udp_sport", "udp_dport")),
            ):
                fields = dict(zip(names, (sport, 80), strict=True))
                self.send(1, make(ip_src=SRC, ip_dst=DST, ip_ttl=64, **fields))
                self.expect(port(protocol, sport, 80), make(ip_src=SRC, ip_dst=DST, ip_ttl=63, **fields))
        self.send(1, simple_icmp_packet(ip_src=SRC, ip_dst=DST, ip_ttl=64))
        self.expect(port(1), simple_icmp_packet(ip_src=SRC, ip_dst=DST, ip_ttl=63))
        request = simple_arp_packet(ip_snd=SRC, ip_tgt=DST)
        self.send(1, request)
        self.expect(port(0), request)
        self.expect_nothing_else()


class MissingMemberIsNoRoute(BalancingTest):
    """A group without the chosen member drops the packet and counts it."""

    def runTest(self) -> None:
        packet = self.data(dst_ip=DST_IP)
        member = PORTS.index(self.predicted(packet, False))
        self.control.delete("group_members", {"group": GROUP, "member": member})
        self.send(1, packet)
        self.expect_nothing_else()
        self.expect_counters(no_route=1)
