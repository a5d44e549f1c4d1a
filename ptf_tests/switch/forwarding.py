# SPDX-License-Identifier: Apache-2.0
"""L3 forwarding: whatever is routed crosses, with the TTL one lower and the rest as it was."""

from __future__ import annotations

from ptf import testutils
from ptf.testutils import simple_arp_packet, simple_icmp_packet, simple_tcp_packet, simple_udp_packet

from ptf_tests.common.switch_test import SwitchTest, host_ip
from tests.support import wire

SRC, DST = "10.0.0.1", "10.0.0.2"


class RoceDataIsForwarded(SwitchTest):
    """A RoCE packet leaves at its route's port: TTL one down, checksum right, MACs and all else unchanged."""

    def runTest(self) -> None:
        packet = self.data(to=2)
        self.send(1, packet)
        testutils.verify_packet(self, self.forwarded(packet), 2)
        testutils.verify_no_other_packets(self)
        self.expect_counters(index=2, forwarded=1, marked=0, trimmed=0, dropped=0)


class PlainTrafficCrosses(SwitchTest):
    """ICMP, TCP and UDP that is not RoCE cross with the TTL one lower."""

    def runTest(self) -> None:
        for make in (simple_icmp_packet, simple_tcp_packet, simple_udp_packet):
            sent = make(ip_src=SRC, ip_dst=DST, ip_ttl=64)
            self.send(1, sent)
            testutils.verify_packet(self, make(ip_src=SRC, ip_dst=DST, ip_ttl=63), 2)
            testutils.verify_no_other_packets(self)


class ArpCrosses(SwitchTest):
    """ARP is routed by its target address, request and reply, and leaves unchanged."""

    def runTest(self) -> None:
        request = simple_arp_packet(arp_op=1, ip_snd=SRC, ip_tgt=DST, eth_dst="ff:ff:ff:ff:ff:ff")
        self.exchange(1, request, p2=(request,))
        reply = simple_arp_packet(arp_op=2, ip_snd=DST, ip_tgt=SRC, eth_dst="02:00:00:00:00:01")
        self.exchange(2, reply, p1=(reply,))


class OptionsAndFragmentsCross(SwitchTest):
    """IPv4 options and later fragments are plain traffic; a RoCE port number in them means nothing."""

    def runTest(self) -> None:
        from scapy.layers.inet import IP, UDP, IPOption
        from scapy.layers.l2 import Ether

        for fields in ({"options": [IPOption(b"\x94\x04\x00\x00")]}, {"frag": 100}, {"flags": "MF"}):
            before = (
                Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
                / IP(src=SRC, dst=DST, ttl=9, tos=wire.DSCP_GRADIENT << 2, **fields)
                / UDP(sport=0xC000, dport=wire.UDP_PORT_ROCE, chksum=0)
                / bytes(80)
            )
            after = before.copy()
            after[IP].ttl = 8
            self.exchange(1, before, p2=(after,))


class LongestPrefixWins(SwitchTest):
    """A host route beats its network's."""

    def runTest(self) -> None:
        self.route(0x0A010000, 16, 3)
        self.route(0x0A010200, 24, 4)
        for address, port in ((0x0A010101, 3), (0x0A010201, 4)):
            packet = self.data(dst_ip=address)
            self.send(1, packet)
            testutils.verify_packet(self, self.forwarded(packet), port)
            testutils.verify_no_other_packets(self)


class NoRouteIsCounted(SwitchTest):
    """Without a route a packet is dropped and counted, IPv4 and ARP alike."""

    def runTest(self) -> None:
        self.send(1, self.data(dst_ip=0x0B000001))
        self.send(1, simple_arp_packet(ip_snd=SRC, ip_tgt="11.0.0.1"))
        self.expect_nothing_else()
        self.expect_counters(no_route=2, ttl_expired=0, malformed=0)


class TtlExpires(SwitchTest):
    """TTL 0 and 1 are dropped and counted, 2 leaves as 1."""

    def runTest(self) -> None:
        for ttl in (0, 1):
            self.send(1, self.data(to=2, ttl=ttl))
        packet = self.data(to=2, ttl=2)
        self.exchange(1, packet, p2=(packet.but(ttl=1),))
        self.expect_counters(ttl_expired=2, no_route=0, malformed=0)


class JumboFramesCross(SwitchTest):
    """A frame with the largest payload that fits a 9,000-byte MTU crosses."""

    def runTest(self) -> None:
        packet = self.data(to=2, payload=17 * wire.BLOCK)
        self.exchange(1, packet, p2=(self.forwarded(packet),))


class EveryPortForwards(SwitchTest):
    """Any port to any other, and back to where it came from."""

    def runTest(self) -> None:
        for source in (1, 2, 3, 4):
            for to in (1, 2, 3, 4):
                packet = self.data(to=to, src_ip=host_ip(source), psn=source)
                self.send(source, packet)
                self.expect(to, self.forwarded(packet))
        self.expect_nothing_else()
